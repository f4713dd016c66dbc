//! Impossible input.

use std::fmt;

/// An impossible parameter. Displays as one line that names it and the possible values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadInput(pub String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

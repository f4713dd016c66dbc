//! What the commands print.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// Prints a line. That nobody reads on, as behind `| head`, is no reason to end: files are still to
/// be written.
pub fn say(line: impl Display) {
    let _ = writeln!(stdout(), "{line}");
}

/// The same on stderr, for what is no result.
pub fn tell(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}

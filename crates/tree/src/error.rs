//! Errors of inserts.

use std::fmt;

use timberline_tier::OutOfMemory;

/// The longest key in bytes.
pub const MAX_KEY: usize = 65_535;
/// The longest value in bytes.
pub const MAX_VALUE: usize = 65_536;

/// The slow tier is full; the map is unchanged. (New nodes fall from fast to slow memory, never the
/// other way.)
pub type Full = OutOfMemory;

/// Why a record was not inserted; the map is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertError {
    /// The insert needs memory, and none is left.
    Full(Full),
    /// The key has this many bytes, more than [`MAX_KEY`].
    KeyTooLong(usize),
    /// The value has this many bytes, more than [`MAX_VALUE`].
    ValueTooLong(usize),
}

impl From<Full> for InsertError {
    fn from(full: Full) -> Self {
        InsertError::Full(full)
    }
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InsertError::Full(full) => full.fmt(f),
            InsertError::KeyTooLong(len) => {
                write!(f, "the key has {len} bytes; at most {MAX_KEY} are possible")
            }
            InsertError::ValueTooLong(len) => {
                write!(
                    f,
                    "the value has {len} bytes; at most {MAX_VALUE} are possible"
                )
            }
        }
    }
}

impl std::error::Error for InsertError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_names_its_limit() {
        let key = InsertError::KeyTooLong(70_000).to_string();
        assert!(key.contains("70000") && key.contains("65535"), "{key}");
        let value = InsertError::ValueTooLong(65_537).to_string();
        assert!(
            value.contains("65537") && value.contains("65536"),
            "{value}"
        );
    }
}

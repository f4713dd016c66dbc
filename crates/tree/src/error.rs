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

/// Why a bulk load ended early. All records before are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BulkError {
    /// The record at this position (from 0) has no greater key than the one before.
    Unsorted(usize),
    /// No memory for the record at this position.
    Full(usize, OutOfMemory),
    /// The key at this position has so many bytes, which is more than [`MAX_KEY`](crate::MAX_KEY).
    KeyTooLong(usize, usize),
    /// The value at this position has so many bytes, which is more than
    /// [`MAX_VALUE`](crate::MAX_VALUE).
    ValueTooLong(usize, usize),
}

impl BulkError {
    /// Why the record at a position was not taken in.
    pub(crate) fn at(position: usize, error: InsertError) -> BulkError {
        match error {
            InsertError::Full(full) => BulkError::Full(position, full),
            InsertError::KeyTooLong(len) => BulkError::KeyTooLong(position, len),
            InsertError::ValueTooLong(len) => BulkError::ValueTooLong(position, len),
        }
    }
}

impl fmt::Display for BulkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BulkError::Unsorted(at) => {
                write!(
                    f,
                    "record {at} is out of order: keys must ascend, each once"
                )
            }
            BulkError::Full(at, full) => write!(f, "no room for record {at}: {full}"),
            BulkError::KeyTooLong(at, len) => {
                write!(f, "record {at}: {}", InsertError::KeyTooLong(*len))
            }
            BulkError::ValueTooLong(at, len) => {
                write!(f, "record {at}: {}", InsertError::ValueTooLong(*len))
            }
        }
    }
}

impl std::error::Error for BulkError {}

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

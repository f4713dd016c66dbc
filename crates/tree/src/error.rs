//! Errors of maps, and the trees' refusals that become such errors.

use std::fmt;

use timberline_tier::{ArenasError, Limit, OutOfMemory, TierId};

/// The longest key in bytes.
pub const MAX_KEY: usize = 65_535;
/// The longest value in bytes.
pub const MAX_VALUE: usize = 65_536;

/// Why a map could not be made, or a record not be inserted. Its message is one line. An insert
/// that fails leaves the map as it was.
///
/// ```
/// use timberline::{Art, Error};
///
/// let map = Art::<[u8], u64>::new();
/// let error = map.insert(&[0; 70_000], 1).unwrap_err();
/// assert_eq!(error, Error::KeyTooLong(70_000));
/// assert_eq!(error.to_string(), "the key has 70000 bytes; at most 65535 are possible");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Memory is needed and none is left: a tier's limit is reached, or the machine has no more. It
    /// is the slowest tier's that is full: new nodes fall from fast to slow memory, never the other
    /// way.
    OutOfMemory(OutOfMemory),
    /// The key has this many bytes, more than [`MAX_KEY`].
    KeyTooLong(usize),
    /// The value has this many bytes, more than [`MAX_VALUE`].
    ValueTooLong(usize),
    /// The record has no greater key than the one before.
    Unsorted,
    /// A bulk load or `insert_many` ended early, for this reason. All records before are in.
    Record {
        /// The record's position in the input, from 0.
        position: usize,
        /// Why it was not inserted.
        error: Box<Error>,
    },
    /// This many bytes of fast memory beyond its new limit are still in use.
    InUse(usize),
    /// Such a map can't be made here, for the reason in this line.
    Configuration(String),
}

impl Error {
    /// The error of many inserts, whose record at this position was not inserted.
    #[cold]
    pub fn at(self, position: usize) -> Error {
        let error = Box::new(self);
        Error::Record { position, error }
    }
}

/// Why a tree did not insert a record: what [`Store::error`](crate::store::Store::error) makes an
/// [`Error`] of. In one word and without a drop, for the paths of inserts pay for either.
#[derive(Clone, Copy, Debug)]
pub enum Refused {
    /// This tier ran out of this.
    OutOfMemory(TierId, Limit),
    /// As [`Error::KeyTooLong`], up to 4 GiB.
    KeyTooLong(u32),
    /// As [`Error::ValueTooLong`], up to 4 GiB.
    ValueTooLong(u32),
}

impl From<OutOfMemory> for Refused {
    fn from(error: OutOfMemory) -> Self {
        Refused::OutOfMemory(error.tier, error.of)
    }
}

impl Refused {
    pub fn key_of(bytes: usize) -> Refused {
        Refused::KeyTooLong(bytes.try_into().unwrap_or(u32::MAX))
    }

    pub fn value_of(bytes: usize) -> Refused {
        Refused::ValueTooLong(bytes.try_into().unwrap_or(u32::MAX))
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Self {
        Error::OutOfMemory(error)
    }
}

impl From<ArenasError> for Error {
    fn from(error: ArenasError) -> Self {
        Error::Configuration(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Only the slowest tier is ever full: the first is a map's only one.
            Error::OutOfMemory(error) => f.write_str(&error.line(match error.tier.is_fast() {
                true => "the map's memory",
                false => "slow memory",
            })),
            Error::KeyTooLong(len) => {
                write!(f, "the key has {len} bytes; at most {MAX_KEY} are possible")
            }
            Error::ValueTooLong(len) => write!(
                f,
                "the value has {len} bytes; at most {MAX_VALUE} are possible"
            ),
            Error::Unsorted => f.write_str("out of order: keys must ascend, each once"),
            Error::Record { position, error } => write!(f, "record {position}: {error}"),
            Error::InUse(bytes) => write!(
                f,
                "{bytes} bytes of fast memory beyond its limit are in use by readers that have \
                 not ended"
            ),
            Error::Configuration(line) => f.write_str(line),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_memory_is_called_what_the_builder_calls_it() {
        let full = |tier, of| {
            let limit = 65_536;
            Error::from(OutOfMemory { tier, of, limit }).to_string()
        };
        let slow = "slow memory is full: its limit is 65536 bytes";
        assert_eq!(full(TierId::SLOW, Limit::Budget), slow);
        let only = "the map's memory is full: it has 65536 bytes of addresses";
        assert_eq!(full(TierId::FAST, Limit::Addresses), only);
    }

    #[test]
    fn each_names_its_limit() {
        let key = Error::KeyTooLong(70_000).to_string();
        assert!(key.contains("70000") && key.contains("65535"), "{key}");
        let value = Error::ValueTooLong(65_537).at(7).to_string();
        for part in ["record 7", "65537", "65536"] {
            assert!(value.contains(part), "{value}");
        }
    }

    /// Inserts return it, so it is not to grow.
    #[test]
    fn an_error_takes_three_words() {
        assert_eq!(size_of::<Error>(), 3 * size_of::<usize>());
    }
}

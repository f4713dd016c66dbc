//! What can go wrong where records lie.

use std::fmt;

use timberline_remote::Error as PoolError;
use timberline_store::Error as StoreError;

use crate::memory::NoRoom;

/// Why records could not be read or changed. Its message is one line.
#[derive(Clone, Debug)]
pub enum Error {
    /// The store's.
    Store(StoreError),
    /// The memory servers', in a cluster.
    Pool(PoolError),
    /// Clients take all the memory that they may.
    NoRoom,
}

impl Error {
    /// Whether the disk has damaged what was to be read.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::Store(StoreError::Corrupt(..) | StoreError::Incomplete(..))
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Store(error) => error.fmt(f),
            Error::Pool(error) => error.fmt(f),
            Error::NoRoom => f.write_str("clients take all the memory that they may"),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store(error)
    }
}

impl From<PoolError> for Error {
    fn from(error: PoolError) -> Error {
        Error::Pool(error)
    }
}

impl From<NoRoom> for Error {
    fn from(_: NoRoom) -> Error {
        Error::NoRoom
    }
}

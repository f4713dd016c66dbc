//! Errors that a command replies with.

use std::borrow::Cow;

use timberline_store::Error as StoreError;

use crate::keyspace::{Error, Failed};
use crate::memory::NoRoom;

/// An error to reply with: Redis' words where Redis has it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// These words, an error code first.
    Said(Cow<'static, str>),
    /// The store's, or the memory servers'.
    Store(Error),
}

impl Failure {
    const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

    pub const NO_ROOM: Failure =
        Failure::fixed("OOM command not allowed when used memory > 'maxmemory'.");
    pub const TOO_LONG_STRING: Failure = Failure::fixed(Self::TOO_LONG);
    pub const SYNTAX: Failure = Failure::fixed("ERR syntax error");
    pub const NOT_INTEGER: Failure = Failure::fixed("ERR value is not an integer or out of range");
    pub const NOT_FLOAT: Failure = Failure::fixed("ERR value is not a valid float");
    pub const NO_SUCH_KEY: Failure = Failure::fixed("ERR no such key");
    pub const WRONG_TYPE: Failure =
        Failure::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");

    pub const fn fixed(words: &'static str) -> Failure {
        Failure::Said(Cow::Borrowed(words))
    }

    pub fn said(words: String) -> Failure {
        Failure::Said(Cow::Owned(words))
    }

    pub fn text(&self) -> Cow<'static, str> {
        match self {
            Failure::Said(words) => words.clone(),
            Failure::Store(Error::Pool(error)) => super::cluster::text(error).into(),
            Failure::Store(Error::Store(StoreError::ValueTooLong(..))) => Self::TOO_LONG.into(),
            Failure::Store(Error::NoRoom) => Self::NO_ROOM.text(),
            // The log names the file.
            Failure::Store(Error::Store(error)) => format!("ERR {}", error.reason()).into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

impl From<timberline_store::Error> for Failure {
    fn from(error: timberline_store::Error) -> Failure {
        Failure::Store(error.into())
    }
}

impl From<timberline_remote::Error> for Failure {
    fn from(error: timberline_remote::Error) -> Failure {
        Failure::Store(error.into())
    }
}

impl From<NoRoom> for Failure {
    fn from(_: NoRoom) -> Failure {
        Failure::NO_ROOM
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Failure {
        match failed {
            Failed::WrongType => Failure::WRONG_TYPE,
            Failed::Store(error) => Failure::Store(error),
        }
    }
}

//! What can go wrong.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a store could not be opened, or an operation not be done. Its message is one line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The disk failed, at this file.
    Disk(PathBuf, Arc<io::Error>),
    /// The disk is full, or the store has as many segments as it may. Reads and deletes go on, and
    /// cleaning makes space.
    Full,
    /// Memory is used up. The operation was not done.
    OutOfMemory,
    /// The key has this many bytes, more than this many: [`MAX_KEY`](crate::MAX_KEY), or
    /// [`MAX_EXPIRING_KEY`](crate::MAX_EXPIRING_KEY).
    KeyTooLong(usize, usize),
    /// The value has this many bytes, more than this many fit into a segment of this store.
    ValueTooLong(usize, usize),
    /// All records of the batch together have this many bytes, those whose values can be put in
    /// pieces counted as 24 bytes and their key; more than this many fit into a segment of this
    /// store.
    BatchTooLong(usize, usize),
    /// A record's bytes on the disk are not those that were written: its file, and where in it.
    Corrupt(PathBuf, u64),
    /// Pieces of a value were lost before the store was opened: the file with the record that names
    /// them, and where in it.
    Incomplete(PathBuf, u64),
    /// The file is none of this store's, or of another version of it; the reason in one line.
    Format(PathBuf, String),
    /// A write or a sync failed before, for this reason. Nobody knows what is on the disk since, so
    /// that the store takes no more writes until it is opened again. Reads go on.
    ReadOnly(Arc<io::Error>),
    /// Another process, or another part of this one, has the store in this folder open.
    InUse(PathBuf),
    /// An option has a value that it can't have; the reason in one line.
    Configuration(String),
    /// The snapshot was given up: it held more memory or space on the disk than the options let it,
    /// or memory was used up.
    SnapshotGivenUp,
    /// The system gives no thread.
    Thread(Arc<io::Error>),
    /// The store was closed.
    Closed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path() {
            Some(path) => write!(f, "{}: {}", path.display(), self.reason()),
            None => self.reason().fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The file or folder that it is about.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Disk(path, _)
            | Error::Corrupt(path, _)
            | Error::Incomplete(path, _)
            | Error::Format(path, _)
            | Error::InUse(path) => Some(path),
            _ => None,
        }
    }

    /// The message without that path, for clients who are not to learn where files are.
    pub fn reason(&self) -> impl fmt::Display + '_ {
        Reason(self)
    }

    pub(crate) fn thread(error: io::Error) -> Error {
        Error::Thread(Arc::new(error))
    }

    /// A disk's error at a file.
    pub(crate) fn disk(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full,
            _ => Error::Disk(path.into(), Arc::new(error)),
        }
    }
}

struct Reason<'a>(&'a Error);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Error::Disk(_, error) => error.fmt(f),
            Error::Full => f.write_str("the store is full: delete records, or give it more space"),
            Error::OutOfMemory => f.write_str("there is no memory left"),
            Error::KeyTooLong(len, most) => {
                write!(f, "a key of {len} bytes: the longest are {most}")
            }
            Error::ValueTooLong(len, most) => {
                write!(f, "a value of {len} bytes: this store's longest are {most}")
            }
            Error::BatchTooLong(len, most) => {
                write!(f, "a batch of {len} bytes: this store's longest are {most}")
            }
            Error::Corrupt(_, offset) => write!(f, "the record at byte {offset} is damaged"),
            Error::Incomplete(_, offset) => {
                write!(
                    f,
                    "pieces of the value are lost whose record is at byte {offset}"
                )
            }
            Error::Format(_, reason) => f.write_str(reason),
            Error::ReadOnly(error) => {
                write!(
                    f,
                    "the store takes no more writes since one failed: {error}"
                )
            }
            Error::InUse(_) => f.write_str("the store is open elsewhere; close it first"),
            Error::SnapshotGivenUp => f.write_str(
                "the snapshot was given up: more has changed since than this store keeps for it",
            ),
            Error::Thread(error) => write!(f, "the system gives no thread: {error}"),
            Error::Configuration(reason) => f.write_str(reason),
            Error::Closed => f.write_str("the store is closed"),
        }
    }
}

//! What opening a store tells.

use std::fmt;
use std::path::{Path, PathBuf};

/// What was found when a store was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Keys that have a value.
    pub keys: usize,
    /// Segments that were there, empty ones too.
    pub segments: usize,
    /// Those of which no record was read: a checkpoint knows them all.
    pub unread: usize,
    /// Checkpoints that could not be used: file, reason in one line. What they know was read from
    /// an older one, or from the segments.
    pub checkpoints: Vec<(PathBuf, String)>,
    /// Segments whose headers are damaged. It costs nothing: their records were read.
    pub headers: Vec<PathBuf>,
    /// Damaged places of which it is known that they were on the disk, as far as they are not more
    /// than 100.
    pub damaged: Vec<Dropped>,
    /// Bytes of all damaged places.
    pub damaged_bytes: u64,
    /// Segments that had more records when a checkpoint was written.
    pub shortened: Vec<Shortened>,
    /// Ends of segments that were dropped because they were never complete: file, byte.
    pub incomplete: Vec<(PathBuf, u64)>,
    /// Keys of whose values pieces are lost. To read one fails; it can be deleted or put again.
    pub lost: Vec<Vec<u8>>,
}

/// A damaged place in a segment, found when a store was opened. The records there are lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The segment's file.
    pub path: PathBuf,
    /// Where the place begins, in bytes.
    pub offset: u64,
    /// The keys of the records, as far as they can still be read (they may be damaged, too) and no
    /// newer record of them was found. Each has the value that it had before, or none; or, if its
    /// delete is lost, is back. Otherwise none.
    pub keys: Vec<Vec<u8>>,
}

/// A segment that had more records when a checkpoint was written. Those are lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shortened {
    /// The file ends at a byte, and had records up to another one. The checkpoint is of no use any
    /// more, so a key of a lost record has the value before, or none; one that was deleted may be
    /// back.
    CutOff(PathBuf, u64, u64),
    /// There is no such file, where so many keys had their values. They are gone.
    Missing(PathBuf, u64),
}

impl Shortened {
    /// The segment's file, whether it is there or not.
    pub fn path(&self) -> &Path {
        let (Shortened::CutOff(path, ..) | Shortened::Missing(path, _)) = self;
        path
    }
}

impl fmt::Display for Shortened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path().display();
        match self {
            Shortened::CutOff(_, at, end) => {
                write!(
                    f,
                    "{path} is cut off at byte {at}: it had records up to byte {end}"
                )
            }
            Shortened::Missing(_, keys) => {
                write!(f, "{path} is missing: {keys} keys had their values there")
            }
        }
    }
}

impl Report {
    /// What is lost or was passed over, a line each. `shown` is what of a key is shown.
    pub fn losses<'a>(
        &'a self,
        shown: impl Fn(&'a [u8]) -> &'a [u8] + Copy + 'a,
    ) -> impl Iterator<Item = String> + 'a {
        let checkpoints = self.checkpoints.iter();
        let passed_over =
            checkpoints.map(|(path, reason)| format!("passed over {}: {reason}", path.display()));
        let headers = self.headers.iter().map(|path| {
            let path = path.display();
            format!("passed over the header of {path}, which is damaged: nothing is lost by it")
        });
        let damaged = self.damaged.iter().map(move |it| {
            let (at, path) = (it.offset, it.path.display());
            let keys = it.keys.iter().map(|key| shown(key).escape_ascii());
            let keys: Vec<_> = keys.map(|key| format!("\"{key}\"")).collect();
            let of = match keys.is_empty() {
                true => String::new(),
                false => format!("; it was the last change of {}", keys.join(", ")),
            };
            format!("lost: the record at byte {at} of {path} is damaged{of}")
        });
        let lost = self.lost.iter().map(move |key| {
            let key = shown(key).escape_ascii();
            format!("lost: the value of \"{key}\", of which pieces are gone")
        });
        let shortened = self.shortened.iter().map(|it| format!("lost: {it}"));
        let lost = lost.chain(shortened);
        let incomplete = self.incomplete.iter().map(|(path, at)| {
            let path = path.display();
            format!("dropped: the end of {path} from byte {at} on was never complete")
        });
        let passed_over = passed_over.chain(headers);
        passed_over.chain(damaged).chain(lost).chain(incomplete)
    }
}

//! What opening a store tells.

use std::path::PathBuf;

/// What was found when a store was opened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Keys that have a value.
    pub keys: usize,
    /// Segments with records.
    pub segments: usize,
    /// Those of which no record was read: a checkpoint knows them all.
    pub unread: usize,
    /// Checkpoints that could not be used: file, reason in one line. What they know was read from
    /// an older one, or from the segments.
    pub checkpoints: Vec<(PathBuf, String)>,
    /// Damaged places in segments that were sealed: file, byte, as far as they are not more than
    /// 100. Records there are lost.
    pub damaged: Vec<(PathBuf, u64)>,
    /// Bytes of all damaged places.
    pub damaged_bytes: u64,
    /// Ends of segments that were dropped because they were never complete: file, byte.
    pub incomplete: Vec<(PathBuf, u64)>,
    /// Keys of whose values pieces are lost. To read one fails; it can be deleted or put again.
    pub lost: Vec<Vec<u8>>,
}

impl Report {
    /// What is lost or was passed over, a line each. `shown` is what of a key is shown.
    pub fn losses<'a>(
        &'a self,
        shown: impl Fn(&'a [u8]) -> &'a [u8] + 'a,
    ) -> impl Iterator<Item = String> + 'a {
        let checkpoints = self.checkpoints.iter();
        let passed_over =
            checkpoints.map(|(path, reason)| format!("passed over {}: {reason}", path.display()));
        let damaged = self.damaged.iter().map(|(path, at)| {
            let path = path.display();
            format!("lost: the record at byte {at} of {path} is damaged")
        });
        let lost = self.lost.iter().map(move |key| {
            let key = shown(key).escape_ascii();
            format!("lost: the value of \"{key}\", of which pieces are gone")
        });
        let incomplete = self.incomplete.iter().map(|(path, at)| {
            let path = path.display();
            format!("dropped: the end of {path} from byte {at} on was never complete")
        });
        passed_over.chain(damaged).chain(lost).chain(incomplete)
    }
}

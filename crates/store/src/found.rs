//! The segments that a folder has when a store is opened.
//!
//! A file in which nothing was written is what a crash leaves of a segment that was being made; it
//! is removed. One with records but without a whole header is a segment all the same (`header.rs`).
//! Others are refused: they are none of the store's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use timberline_io::{BLOCK, Buffer, Disk, File, Mode, SECTOR};

use crate::header::{Header, Unread};
use crate::location::SegmentId;
use crate::read::{read, read_file};
use crate::records::{CHUNK, Records};
use crate::segment::{self, START, Segment};
use crate::{Error, Options};

const NO_SEGMENT: &str = "this is no segment of a store";

/// The segments of a folder, and the number of their store.
pub(crate) struct Found {
    pub store: u64,
    pub segments: BTreeMap<SegmentId, Arc<Segment>>,
    /// Those whose headers are damaged.
    pub damaged: Vec<PathBuf>,
}

impl Found {
    /// Opens all segments in a folder, and removes files that were never finished.
    pub async fn open(disk: &Disk, files: &[PathBuf], options: &Options) -> Result<Found, Error> {
        let mut opened = BTreeMap::new();
        for path in files.iter().filter(|it| segment::is_segment(it)) {
            if let Some((segment, is_whole)) = open_segment(disk, path, options).await? {
                opened.insert(segment.id(), (segment, is_whole));
            }
        }
        let mut whole = opened.values().filter(|it| it.1);
        let store = match (whole.next(), opened.values().next()) {
            (Some(whole), _) => whole.0.header.store,
            (None, None) => new_store(),
            (None, Some(damaged)) => {
                let reason = "no segment has a whole header, so nobody knows which store it is";
                return Err(Error::Format(damaged.0.path.clone(), reason.into()));
            }
        };
        let (mut segments, mut damaged) = (BTreeMap::new(), Vec::new());
        for (id, (mut segment, is_whole)) in opened {
            if !is_whole {
                segment.header.store = store;
                damaged.push(segment.path.clone());
            }
            if segment.header.store != store {
                let reason = "it belongs to another store than the files before it".into();
                return Err(Error::Format(segment.path, reason));
            }
            segments.insert(id, Arc::new(segment));
        }
        Ok(Found {
            store,
            segments,
            damaged,
        })
    }
}

/// Opens a segment, and says whether its header is whole: otherwise it does not tell its store.
/// `None` if the file was never finished; it is removed.
async fn open_segment(
    disk: &Disk,
    path: &Path,
    options: &Options,
) -> Result<Option<(Segment, bool)>, Error> {
    let wrong = |reason: String| Error::Format(path.into(), reason);
    let mode = Mode {
        direct: options.direct,
        ..Mode::create()
    };
    let file = disk.open_file(path, mode).map_err(Error::disk(path))?;
    let bytes = file.len().map_err(Error::disk(path))?;
    if bytes < START {
        return match is_begun(path, &file).await? {
            true => segment::discard(disk, path, &file).map(|()| None),
            false => Err(wrong(NO_SEGMENT.into())),
        };
    }
    let sectors = bytes / SECTOR as u64;
    // A process that was killed may have left bytes that only the page cache has.
    file.sync().await.map_err(Error::disk(path))?;
    let named = segment::number_of(path);
    let header = match read_header(path, &file).await? {
        Ok(header) if named == Some(header.id) => Some(header),
        Ok(header) => return Err(wrong(format!("it is segment {:06x}", header.id.0))),
        Err(Unread::Version(reason)) => return Err(wrong(reason)),
        Err(Unread::Damaged) => None,
    };
    let no_segment = || wrong(NO_SEGMENT.into());
    let unknown = Header {
        id: named.ok_or_else(no_segment)?,
        store: 0,
        sequence: 0,
    };
    let bytes = sectors * SECTOR as u64;
    let segment = Segment::found(header.unwrap_or(unknown), path.into(), file, bytes);
    if header.is_none() {
        // What is behind it tells whether there was one.
        if is_blank(&segment).await? {
            return segment.discard(disk).map(|()| None);
        }
        if Records::new(&segment, START).next().await?.is_none() {
            return Err(no_segment());
        }
    }
    Ok(Some((segment, header.is_some())))
}

async fn read_header(path: &Path, file: &File) -> Result<Result<Header, Unread>, Error> {
    let buffer = Buffer::zeroed(BLOCK).map_err(|_| Error::OutOfMemory)?;
    let read = read_file(file, buffer, 0..START).await;
    Ok(Header::decode(&read.map_err(Error::disk(path))?.0))
}

/// Whether a file that is shorter than a header's block is what a crash leaves of one.
async fn is_begun(path: &Path, file: &File) -> Result<bool, Error> {
    let buffer = Buffer::zeroed(BLOCK).map_err(|_| Error::OutOfMemory)?;
    let (block, read) = file.read(buffer, 0..BLOCK, 0).await;
    read.map_err(Error::disk(path))?;
    Ok(Header::decode(&block).is_ok() || block.iter().all(|&byte| byte == 0))
}

/// Whether nothing was ever written to a segment whose header is damaged: nothing behind the
/// header, as the header comes first; where no record fits, no header either.
async fn is_blank(segment: &Segment) -> Result<bool, Error> {
    let end = segment.written();
    let first = if end > START { START } else { 0 };
    for start in (first..end).step_by(CHUNK as usize) {
        let bytes = read(segment, start..(start + CHUNK).min(end)).await?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A number that hardly another store has: the keys of `RandomState` come from the system.
fn new_store() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

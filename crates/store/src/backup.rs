//! Backups: copies of a store that works on, and stores made from them.
//!
//! A backup is a folder with the segments of a store as they were at one moment; opened, it is that
//! store. The moment comes after a sync of both heads, so it is a state after some operation, with
//! all that was acknowledged before the backup began. Cleaning goes on: files that it removes stay
//! open here, and their numbers are not used again.

use std::path::Path;

use timberline_io::{BLOCK, Buffer, Disk, File, Mode};

use crate::segment::{is_segment, path};
use crate::{Error, Store};

/// What was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Segments.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// A file in a folder whose copy is not whole.
const UNFINISHED: &str = "unfinished";
/// Bytes that are copied at once.
const STEP: u64 = 1 << 20;

impl Store {
    /// Copies the store into a folder, which is made unless it is there, and has to be empty. Reads
    /// and writes go on meanwhile. The copy has all that was acknowledged before the call, and of
    /// later writes the first so many.
    ///
    /// # Errors
    /// The folder is not empty, the disk fails or is full, or the store is closed. Then what was
    /// copied is no store, and [`open`](Self::open) says so.
    pub async fn backup(&self, to: &Path) -> Result<Copied, Error> {
        let log = &self.inner.log;
        let wanted = {
            let mut state = log.lock();
            state.check()?;
            state.want_sync()
        };
        self.inner.synced(wanted).await?;
        let segments: Vec<_> = {
            let mut state = log.lock();
            let heads: Vec<_> = state.heads().map(|it| it.segment.id()).collect();
            // Of heads what is written at this moment; of others all.
            let end = |it: &crate::segment::Segment| match heads.contains(&it.id()) {
                true => it.written(),
                false => u64::MAX,
            };
            let segments = log.segments().into_iter();
            segments.map(|it| (end(&it), it)).collect()
        };
        let copy = Copy::begin(&self.inner.disk, to).await?;
        let mut copied = Copied::default();
        for (end, segment) in segments {
            let name = path(to, segment.id());
            let file = (&segment.file, &*segment.path);
            copied.bytes += copy.file(file, end, &name).await?;
            copied.segments += 1;
        }
        copy.end().await?;
        Ok(copied)
    }

    /// Makes a store in a folder from a backup in another. The folder is made unless it is there,
    /// and has to be empty. What is copied is not checked: [`check`](Self::check) does that.
    ///
    /// # Errors
    /// There is no backup, or one that was not completed; the folder is not empty; the disk fails
    /// or is full.
    pub async fn restore(disk: &Disk, backup: &Path, to: &Path) -> Result<Copied, Error> {
        let files = disk.list(backup).map_err(Error::disk(backup))?;
        refuse_unfinished(&files)?;
        if !files.iter().any(|it| is_segment(it)) {
            return Err(Error::Format(backup.into(), "there is no backup".into()));
        }
        let copy = Copy::begin(disk, to).await?;
        let mut copied = Copied::default();
        for from in files.iter().filter(|it| is_segment(it)) {
            let file = disk.open_file(from, Mode::read().direct());
            let file = file.map_err(Error::disk(from))?;
            let name = to.join(from.file_name().expect("a segment has a name"));
            copied.bytes += copy.file((&file, from), u64::MAX, &name).await?;
            copied.segments += 1;
        }
        copy.end().await?;
        Ok(copied)
    }
}

/// Says that a folder's copy is not whole, if that is so.
pub(crate) fn refuse_unfinished(files: &[std::path::PathBuf]) -> Result<(), Error> {
    let unfinished = files.iter().find(|it| it.ends_with(UNFINISHED));
    unfinished.map_or(Ok(()), |path| {
        let folder = path.parent().unwrap_or(path);
        let reason = "this copy of a store was never completed: remove it".into();
        Err(Error::Format(folder.into(), reason))
    })
}

/// A copy of a store under way. Its folder has a file that says so until it ends.
struct Copy<'a> {
    disk: &'a Disk,
    to: &'a Path,
}

impl Copy<'_> {
    async fn begin<'a>(disk: &'a Disk, to: &'a Path) -> Result<Copy<'a>, Error> {
        disk.create_folder(to).map_err(Error::disk(to))?;
        if !disk.list(to).map_err(Error::disk(to))?.is_empty() {
            let reason = "the folder is not empty; a copy of a store gets one of its own".into();
            return Err(Error::Format(to.into(), reason));
        }
        let marker = to.join(UNFINISHED);
        let made = disk.open_file(&marker, Mode::create());
        made.map_err(Error::disk(&marker))?;
        let synced = disk.sync_folder(to).await;
        synced.map_err(Error::disk(to))?;
        Ok(Copy { disk, to })
    }

    /// Copies a file up to `end`, at most, and returns how many bytes that are: whole blocks, the
    /// last of which ends in zeros.
    async fn file(
        &self,
        (from, from_path): (&File, &Path),
        end: u64,
        name: &Path,
    ) -> Result<u64, Error> {
        let whole = from.len().map_err(Error::disk(from_path))?;
        let end = end.min(whole);
        let to = self.disk.open_file(name, Mode::create().direct());
        let to = to.map_err(Error::disk(name))?;
        let mut at = 0;
        while at < end {
            let wanted = STEP.min(end - at);
            let bytes = wanted.next_multiple_of(BLOCK as u64).min(whole - at) as usize;
            let buffer = Buffer::zeroed(bytes).map_err(|_| Error::OutOfMemory)?;
            let (mut buffer, read) = from.read_exact(buffer, 0..bytes, at).await;
            read.map_err(Error::disk(from_path))?;
            // Records behind the end are of a later moment.
            buffer[wanted as usize..bytes].fill(0);
            let (_, written) = to.write_all(buffer, 0..bytes, at).await;
            written.map_err(Error::disk(name))?;
            at += bytes as u64;
        }
        to.sync().await.map_err(Error::disk(name))?;
        Ok(at)
    }

    async fn end(self) -> Result<(), Error> {
        let disk = self.disk;
        let sync = async || {
            disk.sync_folder(self.to)
                .await
                .map_err(Error::disk(self.to))
        };
        sync().await?;
        let marker = self.to.join(UNFINISHED);
        let removed = disk.remove(&marker).await;
        removed.map_err(Error::disk(&marker))?;
        sync().await
    }
}

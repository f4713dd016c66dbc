//! Backups: copies of a store that works on, and stores made from them.
//!
//! A backup is a folder with the segments of a store as they were at one moment; opened, it is that
//! store. The moment comes after a sync of both heads, so it is a state after some operation, with
//! all that was acknowledged before the backup began. Cleaning goes on: files that it removes stay
//! open here, and their numbers are not used again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use timberline_io::{BLOCK, Buffer, Disk, File, Lock, Mode, SECTOR};

use crate::segment::{is_segment, number_of, path};
use crate::{Error, Store, recovery};

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
    /// copied is removed; where the disk fails at that, too, it is no store, and
    /// [`open`](Self::open) says so.
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
        let mut copy = Copy::begin(&self.inner.disk, to).await?;
        let done = async {
            for (end, segment) in segments {
                let name = path(to, segment.id());
                let file = (&segment.file, &*segment.path);
                copy.file(file, end, name).await?;
            }
            Ok(())
        };
        let done = done.await;
        copy.end(done).await
    }

    /// Makes a store in a folder from a backup in another. The folder is made unless it is there,
    /// and has to be empty. Of what is copied, only names and lengths of files are looked at:
    /// [`check`](Self::check) reads the records.
    ///
    /// # Errors
    /// There is no backup, or one that was not completed or is open as a store; a file of it was
    /// cut; the folder is not empty; the disk fails or is full. Then what was copied is removed,
    /// as by [`backup`](Self::backup).
    pub async fn restore(disk: &Disk, backup: &Path, to: &Path) -> Result<Copied, Error> {
        // So that a folder without a backup stays as it is.
        segments_of(disk, backup)?;
        let _lock = lock(disk, backup)?;
        // Whoever had it open before has changed it.
        let segments = segments_of(disk, backup)?;
        for from in &segments {
            refuse_cut(disk, from)?;
        }
        let mut copy = Copy::begin(disk, to).await?;
        let done = async {
            for from in &segments {
                let file = disk.open_file(from, Mode::read().direct());
                let file = file.map_err(Error::disk(from))?;
                let name = to.join(from.file_name().expect("a segment has a name"));
                copy.file((&file, from), u64::MAX, name).await?;
            }
            Ok(())
        };
        let done = done.await;
        copy.end(done).await
    }
}

/// The segments of a backup.
fn segments_of(disk: &Disk, backup: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = disk.list(backup).map_err(Error::disk(backup))?;
    refuse_unfinished(&files)?;
    files.retain(|it| is_segment(it));
    match files.is_empty() {
        true => Err(Error::Format(backup.into(), "there is no backup".into())),
        false => Ok(files),
    }
}

/// Keeps those out who would change the files of a backup while they are copied. Where nothing can
/// be written, nobody has it open.
fn lock(disk: &Disk, backup: &Path) -> Result<Option<Lock>, Error> {
    match recovery::lock(disk, backup) {
        Err(Error::Disk(path, error)) => match error.kind() {
            ErrorKind::ReadOnlyFilesystem => Ok(None),
            // Of another user, who has not opened it since it was made.
            ErrorKind::PermissionDenied if !path.exists() => Ok(None),
            _ => Err(Error::Disk(path, error)),
        },
        locked => locked.map(Some),
    }
}

/// Refuses a file that is no whole segment, as far as its name and length tell.
fn refuse_cut(disk: &Disk, path: &Path) -> Result<(), Error> {
    let wrong = |reason| Err(Error::Format(path.into(), reason));
    if number_of(path).is_none() {
        return wrong("this is no segment of a store".into());
    }
    let file = disk.open_file(path, Mode::read());
    let bytes = file.and_then(|it| it.len()).map_err(Error::disk(path))?;
    match bytes.is_multiple_of(SECTOR as u64) {
        true => Ok(()),
        false => wrong(format!(
            "it has {bytes} bytes, and a segment whole blocks of {SECTOR}: it was cut; take \
             another backup"
        )),
    }
}

/// Says that a folder's copy is not whole, if that is so.
pub(crate) fn refuse_unfinished(files: &[PathBuf]) -> Result<(), Error> {
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
    /// Files that were made.
    made: Vec<PathBuf>,
    bytes: u64,
}

impl Copy<'_> {
    async fn begin<'a>(disk: &'a Disk, to: &'a Path) -> Result<Copy<'a>, Error> {
        disk.create_folder(to).map_err(Error::disk(to))?;
        let files = disk.list(to).map_err(Error::disk(to))?;
        refuse_unfinished(&files)?;
        if !files.is_empty() {
            let reason = "the folder is not empty; a copy of a store gets one of its own".into();
            return Err(Error::Format(to.into(), reason));
        }
        let marker = to.join(UNFINISHED);
        let made = disk.open_file(&marker, Mode::create());
        made.map_err(Error::disk(&marker))?;
        let synced = disk.sync_folder(to).await;
        synced.map_err(Error::disk(to))?;
        Ok(Copy {
            disk,
            to,
            made: Vec::new(),
            bytes: 0,
        })
    }

    /// Copies a file up to `end`, at most: whole blocks, the last of which ends in zeros.
    async fn file(
        &mut self,
        (from, from_path): (&File, &Path),
        end: u64,
        name: PathBuf,
    ) -> Result<(), Error> {
        // The store reads whole sectors of a file that was cut, too.
        let whole = from.len().map_err(Error::disk(from_path))? / SECTOR as u64 * SECTOR as u64;
        let end = end.min(whole);
        let to = self.disk.open_file(&name, Mode::create().direct());
        let to = to.map_err(Error::disk(&name))?;
        self.made.push(name);
        let name = self.made.last().expect("it was made");
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
        self.bytes += at;
        Ok(())
    }

    /// All files are copied, or one failed. Then none stays.
    async fn end(self, done: Result<(), Error>) -> Result<Copied, Error> {
        if let Err(error) = done {
            // Where that fails, too, the mark stays.
            let _ = self.remove().await;
            return Err(error);
        }
        self.unmark().await?;
        Ok(Copied {
            segments: self.made.len(),
            bytes: self.bytes,
        })
    }

    /// Removes the files, and then the mark.
    async fn remove(&self) -> Result<(), Error> {
        for name in &self.made {
            self.disk.remove(name).await.map_err(Error::disk(name))?;
        }
        self.unmark().await
    }

    /// Removes the mark once all that was done before is on the disk.
    async fn unmark(&self) -> Result<(), Error> {
        let (disk, to) = (self.disk, self.to);
        disk.sync_folder(to).await.map_err(Error::disk(to))?;
        let marker = to.join(UNFINISHED);
        let removed = disk.remove(&marker).await;
        removed.map_err(Error::disk(&marker))?;
        disk.sync_folder(to).await.map_err(Error::disk(to))
    }
}

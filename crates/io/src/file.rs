//! Files, and reads and writes as futures.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::Buffer;
use crate::pending::Pending;
use crate::queue::{Action, Queue, Request};
use crate::simulation::{FileId, Simulation};

/// What a system says where a disk can't read or write.
pub(crate) const EIO: i32 = 5;

/// What it says where a disk can't read what is there: that bytes are lost (`ENODATA`), or wrong
/// (`EILSEQ`).
#[cfg(target_os = "linux")]
const UNREADABLE: [i32; 3] = [EIO, 61, 84];
#[cfg(not(target_os = "linux"))]
const UNREADABLE: [i32; 1] = [EIO];

/// Whether a read failed because the disk can't read what is there: other places of the file may be
/// readable.
pub fn is_unreadable(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code.is_some_and(|code| UNREADABLE.contains(&code))
}

/// How to open a file: for reading, and with the options that are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mode {
    /// For writing too.
    pub write: bool,
    /// Makes it if it is not there. Wants [`write`](Self::write).
    pub create: bool,
    /// Past the page cache, if the file system can: then offsets, lengths and buffers are multiples
    /// of the disk's logical blocks (512 or 4,096 bytes).
    pub direct: bool,
}

impl Mode {
    /// For reading only.
    pub fn read() -> Mode {
        Mode::default()
    }

    /// For reading and writing, made if it is not there.
    pub fn create() -> Mode {
        Mode {
            write: true,
            create: true,
            direct: false,
        }
    }

    /// The same, past the page cache.
    pub fn direct(self) -> Mode {
        Mode {
            direct: true,
            ..self
        }
    }
}

/// An open file of a disk.
pub(crate) struct Handle {
    pub place: Place,
    queue: Arc<Queue>,
    direct: bool,
}

/// Where a file is.
pub(crate) enum Place {
    Real {
        file: Arc<std::fs::File>,
        /// Its number in the ring's table of files, plus one; 0 if it is not in the table.
        registered: AtomicU32,
    },
    Simulated(Simulation, FileId),
}

impl Handle {
    /// Carries a request out on this thread.
    pub fn perform(&self, action: Action, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        match (&self.place, action) {
            (Place::Real { file, .. }, Action::Read) => file.read_at(bytes, offset),
            (Place::Real { file, .. }, Action::Write) => file.write_at(bytes, offset),
            (Place::Real { file, .. }, Action::Sync) => file.sync_data().map(|()| 0),
            (Place::Simulated(disk, id), action) => disk.perform(*id, action, bytes, offset),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let Place::Real { file, registered } = &mut self.place else {
            return;
        };
        let file = Arc::clone(file);
        match registered.get_mut().checked_sub(1) {
            Some(number) => self.queue.release(number, file),
            None => self.queue.close_aside(file),
        }
    }
}

/// A file. Clones are the same open file, which closes with the last of them and of its futures.
#[derive(Clone)]
pub struct File(Arc<Handle>);

impl File {
    pub(crate) fn new(place: Place, queue: &Arc<Queue>, direct: bool) -> File {
        let queue = Arc::clone(queue);
        File(Arc::new(Handle {
            place,
            queue,
            direct,
        }))
    }

    /// Whether it really is past the page cache.
    pub fn is_direct(&self) -> bool {
        self.0.direct
    }

    /// Its length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        match &self.0.place {
            Place::Real { file, .. } => Ok(file.metadata()?.len()),
            Place::Simulated(disk, id) => disk.len(*id),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes it this long. New bytes are zero.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        match &self.0.place {
            Place::Real { file, .. } => file.set_len(len),
            Place::Simulated(disk, id) => disk.set_len(*id, len),
        }
    }

    /// Makes it this long at least, with space on the disk for all of it: writes up to there will
    /// not find the disk full. Fails with [`io::ErrorKind::StorageFull`] where there is none.
    pub fn allocate(&self, len: u64) -> io::Result<()> {
        match &self.0.place {
            Place::Real { file, .. } => real::allocate(file, len),
            Place::Simulated(disk, id) => disk.allocate(*id, len),
        }
    }

    /// Reads into a part of the buffer; 0 bytes at the end of the file. May read less than asked.
    pub async fn read(
        &self,
        buffer: Buffer,
        range: Range<usize>,
        offset: u64,
    ) -> (Buffer, io::Result<usize>) {
        self.request(Action::Read, buffer, range, offset).await
    }

    /// Fills a part of the buffer. Fails with [`io::ErrorKind::UnexpectedEof`] where the file ends
    /// before.
    pub async fn read_exact(
        &self,
        buffer: Buffer,
        range: Range<usize>,
        offset: u64,
    ) -> (Buffer, io::Result<()>) {
        self.whole(Action::Read, buffer, range, offset).await
    }

    /// Writes a part of the buffer. It is on the disk only after a [`sync`](Self::sync).
    pub async fn write_all(
        &self,
        buffer: Buffer,
        range: Range<usize>,
        offset: u64,
    ) -> (Buffer, io::Result<()>) {
        self.whole(Action::Write, buffer, range, offset).await
    }

    /// Waits until all that was written before is on the disk (`fdatasync`). After a failure the
    /// content of the disk is unknown, even if a second call succeeds: write everything again,
    /// elsewhere.
    pub async fn sync(&self) -> io::Result<()> {
        self.request(Action::Sync, Buffer::default(), 0..0, 0)
            .await
            .1
            .map(|_| ())
    }

    /// [`read_exact`](Self::read_exact) on this thread, without the driver: the shortest way for a
    /// single read.
    pub fn read_exact_now(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.0.perform(Action::Read, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => (bytes, offset) = (&mut bytes[read..], offset + read as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Repeats a request for the rest, since devices may transfer less than requested.
    async fn whole(
        &self,
        action: Action,
        mut buffer: Buffer,
        mut range: Range<usize>,
        mut offset: u64,
    ) -> (Buffer, io::Result<()>) {
        while !range.is_empty() {
            let result;
            (buffer, result) = self.request(action, buffer, range.clone(), offset).await;
            match result {
                Ok(0) if action == Action::Read => {
                    return (buffer, Err(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(0) => return (buffer, Err(io::ErrorKind::WriteZero.into())),
                Ok(moved) => {
                    range.start += moved;
                    offset += moved as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (buffer, Err(error)),
            }
        }
        (buffer, Ok(()))
    }

    fn request(&self, action: Action, buffer: Buffer, range: Range<usize>, offset: u64) -> Pending {
        assert!(
            range.start <= range.end && range.end <= buffer.len(),
            "{range:?} of {buffer:?}"
        );
        let (file, queue) = (Arc::clone(&self.0), self.0.queue.of_this_thread());
        let ticket = queue.push(Request {
            file,
            action,
            buffer,
            range,
            offset,
        });
        Pending::new(&queue, ticket)
    }
}

/// Files of this machine.
pub(crate) mod real {
    use super::*;
    use std::fs::OpenOptions;

    /// Opens a file; and says whether past the page cache.
    pub fn open(path: &Path, mode: Mode) -> io::Result<(std::fs::File, bool)> {
        let mut options = OpenOptions::new();
        options.read(true).write(mode.write).create(mode.create);
        if mode.direct
            && let Some(file) = open_direct(options.clone(), path)?
        {
            return Ok((file, true));
        }
        Ok((options.open(path)?, false))
    }

    /// `None` where the file system cannot.
    #[cfg(target_os = "linux")]
    fn open_direct(mut options: OpenOptions, path: &Path) -> io::Result<Option<std::fs::File>> {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            result => result.map(Some),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open_direct(_: OpenOptions, _: &Path) -> io::Result<Option<std::fs::File>> {
        Ok(None)
    }

    #[cfg(target_os = "linux")]
    pub fn allocate(file: &std::fs::File, len: u64) -> io::Result<()> {
        if len <= file.metadata()?.len() {
            return Ok(());
        }
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
            Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(len),
            result => Ok(result?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn allocate(file: &std::fs::File, len: u64) -> io::Result<()> {
        let now = file.metadata()?.len();
        if len <= now {
            Ok(())
        } else {
            file.set_len(len)
        }
    }
}

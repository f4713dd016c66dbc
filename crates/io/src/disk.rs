//! A disk: the folders and files that a driver serves.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

#[cfg(target_os = "linux")]
use crate::TaskDriver;
use crate::aside::result_of;
use crate::file::{Place, real};
use crate::queue::{Counts, Queue};
use crate::{Driver, File, Mode, Simulation};

/// Threads at most where io_uring is not available.
const MOST_THREADS: usize = 64;

/// How requests are carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// By io_uring.
    Uring,
    /// By a pool of threads.
    Threads,
    /// In memory, by [`Simulation`].
    Simulated,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Uring => "io_uring",
            Kind::Threads => "threads",
            Kind::Simulated => "simulated",
        })
    }
}

/// A disk. Clones are the same disk.
///
/// Reads and writes of files are futures that complete when the disk's [`Driver`] runs. Folders and
/// names are looked up and changed at once, on the calling thread, but for what may take
/// milliseconds: that is a future too.
#[derive(Clone)]
pub struct Disk {
    pub(crate) queue: Arc<Queue>,
    kind: Kind,
    reason: Option<Arc<str>>,
    simulation: Option<Simulation>,
}

impl Disk {
    /// What was asked of it so far. A transfer that was done in parts counts more than once.
    pub fn counts(&self) -> Counts {
        self.queue.counts()
    }

    /// This machine's file systems, by io_uring if it is allowed, otherwise by threads. `depth` is
    /// the most requests that are under way at a time (1 to 4,096); more of them wait.
    pub fn open(depth: usize) -> (Disk, Driver) {
        match Disk::uring(depth) {
            Ok(disk) => disk,
            Err(error) => {
                let (mut disk, driver) = Disk::threads(depth.min(MOST_THREADS));
                disk.reason = Some(format!("io_uring is not available: {error}").into());
                (disk, driver)
            }
        }
    }

    /// This machine's file systems in this way, or as [`open`](Self::open) where it is `None`.
    /// Fails where the kernel has no io_uring or forbids it, and for a simulated disk.
    pub fn open_by(kind: Option<Kind>, depth: usize) -> io::Result<(Disk, Driver)> {
        match kind {
            None => Ok(Disk::open(depth)),
            Some(Kind::Uring) => Disk::uring(depth),
            Some(Kind::Threads) => Ok(Disk::threads(depth.min(MOST_THREADS))),
            Some(Kind::Simulated) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// This machine's file systems, by io_uring. Fails where the kernel has none or forbids it.
    pub fn uring(depth: usize) -> io::Result<(Disk, Driver)> {
        let disk = Disk::new(Kind::Uring, None);
        let driver = Driver::uring(&disk.queue, depth, true)?;
        Ok((disk, driver))
    }

    /// This machine's file systems, by this many threads (at least one).
    pub fn threads(threads: usize) -> (Disk, Driver) {
        let disk = Disk::new(Kind::Threads, None);
        let driver = Driver::threads(&disk.queue, threads.max(1));
        (disk, driver)
    }

    /// A simulated disk.
    pub fn simulated(simulation: &Simulation) -> (Disk, Driver) {
        let disk = Disk::new(Kind::Simulated, Some(simulation.clone()));
        let driver = Driver::simulated(&disk.queue, simulation.clone());
        (disk, driver)
    }

    /// A driver for another thread, which carries requests out as the first one does, `depth` of
    /// them at a time. Those that are made on its thread while it runs a future need no other
    /// thread, and those of others do not wait for it.
    ///
    /// # Errors
    /// The system gives no other ring.
    pub fn another_driver(&self, depth: usize) -> io::Result<Driver> {
        let queue = Arc::new(self.queue.beside());
        match (self.kind, &self.simulation) {
            (Kind::Uring, _) => Driver::uring(&queue, depth, false),
            (Kind::Simulated, Some(disk)) => Ok(Driver::simulated(&queue, disk.clone())),
            _ => Ok(Driver::threads(&queue, depth.clamp(1, MOST_THREADS))),
        }
    }

    /// A driver that is a task of this thread's event loop, with `depth` requests under way at a
    /// time; `None` where threads carry requests out, which need no driving, and for a simulated
    /// disk.
    ///
    /// # Errors
    /// The system gives no other ring.
    #[cfg(target_os = "linux")]
    pub fn task_driver(&self, depth: usize) -> io::Result<Option<TaskDriver>> {
        let queue = Arc::new(self.queue.beside());
        let is_ring = self.kind == Kind::Uring;
        let driver = is_ring.then(|| TaskDriver::new(queue, depth));
        driver.transpose()
    }

    fn new(kind: Kind, simulation: Option<Simulation>) -> Disk {
        Disk {
            queue: Arc::default(),
            kind,
            reason: None,
            simulation,
        }
    }

    /// How it carries requests out.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Why [`open`](Self::open) did not take the better kind, in one line.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Opens a file.
    pub fn open_file(&self, path: &Path, mode: Mode) -> io::Result<File> {
        let (place, direct) = match &self.simulation {
            Some(disk) => (
                Place::Simulated(disk.clone(), disk.open(path, mode)?),
                mode.direct,
            ),
            None => {
                let (file, direct) = real::open(path, mode)?;
                (
                    Place::Real {
                        file: Arc::new(file),
                        registered: AtomicU32::new(0),
                    },
                    direct,
                )
            }
        };
        Ok(File::new(place, &self.queue, direct))
    }

    /// Makes a folder and those above it, unless they are there.
    pub fn create_folder(&self, path: &Path) -> io::Result<()> {
        match &self.simulation {
            Some(disk) => disk.create_folder(path),
            None => std::fs::create_dir_all(path),
        }
    }

    /// Takes a lock that no other process, and nobody else in this one, has meanwhile. It is that
    /// of a file, which is made if it is not there, and ends with what is returned, or with the
    /// process. A simulated disk has one user.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where somebody has it.
    pub fn lock(&self, path: &Path) -> io::Result<Lock> {
        if self.simulation.is_some() {
            return Ok(Lock { file: None });
        }
        let mut options = std::fs::OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.try_lock()?;
        Ok(Lock { file: Some(file) })
    }

    /// The files and folders in a folder, by name.
    pub fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        if let Some(disk) = &self.simulation {
            return disk.list(folder);
        }
        let entries = std::fs::read_dir(folder)?;
        let mut paths = entries
            .map(|it| Ok(it?.path()))
            .collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    /// Removes a file. Its name is gone for good after [`sync_folder`](Self::sync_folder).
    pub async fn remove(&self, path: &Path) -> io::Result<()> {
        let (disk, path) = (self.clone(), path.to_owned());
        self.aside(move || disk.remove_now(&path)).await
    }

    /// The same, on this thread.
    pub fn remove_now(&self, path: &Path) -> io::Result<()> {
        match &self.simulation {
            Some(disk) => disk.remove(path),
            None => std::fs::remove_file(path),
        }
    }

    /// Gives a file another name, in place of the file that has that name now. A crash leaves one
    /// of the two names, and the new one for good after [`sync_folder`](Self::sync_folder).
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match &self.simulation {
            Some(disk) => disk.rename(from, to),
            None => std::fs::rename(from, to),
        }
    }

    /// Waits until all names of a folder are on the disk as they are now.
    pub async fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let (disk, folder) = (self.clone(), folder.to_owned());
        self.aside(move || disk.sync_folder_now(&folder)).await
    }

    /// The same, on this thread.
    pub fn sync_folder_now(&self, folder: &Path) -> io::Result<()> {
        match &self.simulation {
            Some(disk) => disk.sync_folder(folder),
            None => std::fs::File::open(folder)?.sync_all(),
        }
    }

    /// Makes a call by a thread of its own. A simulated disk takes no time for it.
    async fn aside(
        &self,
        call: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        match self.simulation {
            Some(_) => call(),
            None => result_of(&self.queue, call).await,
        }
    }
}

/// A file that this holds locked, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: Option<std::fs::File>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // Closing is not enough: a process that another thread is just starting has the open
            // file, too, and with it the lock, until it runs its program.
            let _ = file.unlock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_somebody_has_the_file() {
        let path = std::env::temp_dir().join(format!("timberline-lock-{}", std::process::id()));
        let (disk, _driver) = Disk::threads(1);
        let lock = disk.lock(&path).unwrap();
        let refused = disk.lock(&path).err().map(|error| error.kind());
        assert_eq!(refused, Some(io::ErrorKind::WouldBlock));
        // As a process that is just starting has it.
        let inherited = lock.file.as_ref().unwrap().try_clone().unwrap();
        drop(lock);
        drop(disk.lock(&path).unwrap());
        drop(inherited);
        std::fs::remove_file(path).unwrap();
    }
}

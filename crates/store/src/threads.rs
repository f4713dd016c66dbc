//! A store's own threads: one drives its disk, one maintains it and carries out what that asks for.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use timberline_io::{Disk, Driver, Spawned, wait_for};

use crate::{Durability, Error, Options, Report, Store};

/// How often it is looked for what has expired, unless commits have an interval.
const EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Threads {
    store: Store,
    maintenance: Mutex<Option<JoinHandle<Result<(), Error>>>>,
    /// Ends last: maintenance needs it.
    _driver: Spawned,
}

impl Store {
    /// Requests to the disk that are under way at a time, where [`open`](Self::open) chooses; for
    /// other drivers a good choice, too.
    pub const DEPTH: usize = 256;
    /// The same of what [`maintain`](Self::maintain) asks for, where it has a driver of its own:
    /// reads of two segments that are cleaned, writes to two others, a checkpoint.
    pub const MAINTENANCE_DEPTH: usize = 8;

    /// Opens the store in a folder, or makes one there. Loads its checkpoint, and reads the records
    /// that came behind it, or all where there is none; the report says what was found. A folder is
    /// open once at a time, among all processes; a file named `lock` there sees to it.
    ///
    /// The store has two threads of its own, for the disk and for maintenance. They end when the
    /// last clone is dropped, or a scan that outlives it, which waits until all writes are on the
    /// disk; [`stop`](Self::stop) does so too, and says whether they are.
    ///
    /// # Errors
    /// [`Error::InUse`] where it is open; an option or a file that can't be; a disk that fails; a
    /// system that gives no threads.
    pub fn open(folder: impl AsRef<Path>, options: Options) -> Result<(Store, Report), Error> {
        Store::open_threaded(Disk::open(Store::DEPTH), folder, options)
    }

    /// The same on this disk, which one of the threads drives.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_threaded(
        (disk, driver): (Disk, Driver),
        folder: impl AsRef<Path>,
        options: Options,
    ) -> Result<(Store, Report), Error> {
        let durability = options.durability;
        let driver = driver.spawn().map_err(Error::thread)?;
        let (store, report) = wait_for(Store::open_on(&disk, folder.as_ref(), options))?;
        let maintained = store.clone();
        // So that what it waits for does not go through another thread.
        let driver_of_it = disk.another_driver(Store::MAINTENANCE_DEPTH);
        let mut driver_of_it = driver_of_it.map_err(Error::thread)?;
        let maintain = move || {
            let (every, commits) = match durability {
                Durability::Interval(every) => (every, true),
                Durability::None | Durability::Each => (EVERY, false),
            };
            driver_of_it.block_on_beside(maintained.maintain(), every, || {
                if commits {
                    maintained.begin_commit();
                }
                maintained.begin_expiry();
            })
        };
        let maintenance = std::thread::Builder::new()
            .name("timberline-maintenance".into())
            .spawn(maintain)
            .map_err(Error::thread)?;
        let threads = Threads {
            store: store.clone(),
            maintenance: Mutex::new(Some(maintenance)),
            _driver: driver,
        };
        let store = Store {
            threads: Some(Arc::new(threads)),
            ..store
        };
        Ok((store, report))
    }

    /// Has no more writes begin, and waits until all are on the disk. Reads go on. A store that the
    /// caller maintains is only [closed](Self::close).
    ///
    /// # Errors
    /// Why not all writes are on the disk.
    pub fn stop(&self) -> Result<(), Error> {
        self.close();
        self.threads.as_ref().map_or(Ok(()), |it| it.join())
    }
}

impl Threads {
    /// Waits until maintenance has ended, which the first caller learns the result of.
    fn join(&self) -> Result<(), Error> {
        let mut thread = self.maintenance.lock().unwrap_or_else(|it| it.into_inner());
        match thread.take().map(JoinHandle::join) {
            Some(Ok(maintained)) => maintained,
            // The panic was printed, and the store knows of it.
            Some(Err(_)) | None => self.store.failure().map_or(Ok(()), Err),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.store.close();
        // Whoever wants to know calls `stop`.
        let thread = self
            .maintenance
            .get_mut()
            .unwrap_or_else(|it| it.into_inner());
        let _ = thread.take().map(JoinHandle::join);
    }
}

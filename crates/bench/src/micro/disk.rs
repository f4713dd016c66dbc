//! The I/O of an operation: a read of a file, or a timer.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use timberline_io::{Buffer, Disk, Driver, File, Kind, Mode};

use super::READ_BYTES;

/// What an I/O is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// A read of some bytes at a random place of a new file of this size in a folder, past the page
    /// cache where that is possible. The file is removed at the end.
    File {
        /// Where the file is made.
        folder: PathBuf,
        /// Its size.
        bytes: u64,
        /// Bytes of a read: a multiple of 4 KiB.
        read_bytes: usize,
    },
    /// A device that takes this long for any number of I/O at once.
    Timer(Duration),
}

/// What an outcome calls [`Io::Timer`].
pub const KIND_OF_TIMER: &str = "timer";

/// What serves the I/O of all tasks.
pub enum Device {
    File(Box<OnDisk>),
    Timer {
        takes: Duration,
        /// When each ends, and whose it is. All take equally long.
        due: VecDeque<(Instant, u32)>,
    },
}

/// Reads of a file.
pub struct OnDisk {
    path: PathBuf,
    file: File,
    disk: Disk,
    driver: Driver,
    reads: Vec<Option<Read>>,
    wakers: Vec<Waker>,
    buffers: Vec<Buffer>,
    /// Tasks whose read may be over.
    woken: Arc<Mutex<Vec<u32>>>,
    read_bytes: usize,
    /// Places to read from.
    pages: u64,
}

type Read = Pin<Box<dyn Future<Output = (Buffer, io::Result<()>)>>>;

/// Wakes one task.
struct Wakes {
    task: u32,
    woken: Arc<Mutex<Vec<u32>>>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut woken = self.woken.lock().unwrap_or_else(|error| error.into_inner());
        woken.push(self.task);
    }
}

/// Reads that a ring holds at once.
const DEPTH: usize = 256;
/// Bytes that are written at once while the file is made.
const PIECE: usize = 1 << 20;

impl Device {
    pub fn open(io: &Io) -> io::Result<Device> {
        match io {
            Io::Timer(takes) => Ok(Device::Timer {
                takes: *takes,
                due: VecDeque::new(),
            }),
            Io::File {
                folder,
                bytes,
                read_bytes,
            } => {
                let made = OnDisk::make(folder, *bytes, *read_bytes)?;
                Ok(Device::File(Box::new(made)))
            }
        }
    }

    /// One phrase about it.
    pub fn kind(&self) -> String {
        match self {
            Device::Timer { .. } => KIND_OF_TIMER.to_owned(),
            Device::File(on_disk) => on_disk.kind(),
        }
    }

    /// Turns of tasks between two looks at it: a ring is looked at by a call, a timer's front is
    /// always at hand, so that completions spread as they come.
    pub fn turns_between_looks(&self) -> usize {
        match self {
            Device::File(_) => 16,
            Device::Timer { .. } => 2,
        }
    }

    /// Whether [`collect`](Self::collect) sleeps while it waits.
    pub fn sleeps(&self) -> bool {
        matches!(self, Device::File(_))
    }

    /// Begins an I/O of a task. `place` says where, by any number.
    pub fn begin(&mut self, task: u32, place: u64, done: &mut Vec<u32>) -> io::Result<()> {
        match self {
            Device::Timer { takes, due } => {
                due.push_back((Instant::now() + *takes, task));
                Ok(())
            }
            Device::File(on_disk) => on_disk.begin(task, place, done),
        }
    }

    /// Adds the tasks whose I/O is over to `done`. With `wait`, there is one at least.
    pub fn collect(&mut self, wait: bool, done: &mut Vec<u32>) -> io::Result<()> {
        match self {
            Device::Timer { due, .. } => {
                if let Some((first, _)) = due.front() {
                    let mut now = Instant::now();
                    while wait && now < *first {
                        std::hint::spin_loop();
                        now = Instant::now();
                    }
                    while let Some((_, task)) = due.pop_front_if(|(end, _)| *end <= now) {
                        done.push(task);
                    }
                }
                Ok(())
            }
            Device::File(on_disk) => on_disk.collect(wait, done),
        }
    }
}

impl OnDisk {
    fn make(folder: &Path, bytes: u64, read_bytes: usize) -> io::Result<OnDisk> {
        let bytes = bytes.max(read_bytes as u64);
        let path = folder.join(format!("timberline-micro-{}", std::process::id()));
        let named = |error: io::Error| named(&path, error);
        let (disk, mut driver) = Disk::open(DEPTH);
        let file = disk
            .open_file(&path, Mode::create().direct())
            .map_err(named)?;
        let on_disk = |file, driver| OnDisk {
            path: path.clone(),
            file,
            disk,
            driver,
            reads: Vec::new(),
            wakers: Vec::new(),
            buffers: Vec::new(),
            woken: Arc::default(),
            read_bytes,
            pages: bytes / read_bytes as u64,
        };
        // Written, not only allocated: a disk need not read what was never written.
        let written = fill(&file, &mut driver, bytes);
        let on_disk = on_disk(file, driver);
        written.map_err(named)?;
        Ok(on_disk)
    }

    fn kind(&self) -> String {
        let engine = match self.disk.kind() {
            Kind::Uring => "io_uring",
            Kind::Threads => "threads",
            Kind::Simulated => "simulated",
        };
        let cache = match self.file.is_direct() {
            true => "past the page cache",
            false => "through the page cache",
        };
        format!("file ({engine}, {cache})")
    }

    fn begin(&mut self, task: u32, place: u64, done: &mut Vec<u32>) -> io::Result<()> {
        let slot = task as usize;
        while self.reads.len() <= slot {
            let waker = Waker::from(Arc::new(Wakes {
                task: self.reads.len() as u32,
                woken: Arc::clone(&self.woken),
            }));
            self.wakers.push(waker);
            self.reads.push(None);
        }
        let buffer = match self.buffers.pop() {
            Some(buffer) => buffer,
            None => Buffer::zeroed(self.read_bytes).map_err(io::Error::other)?,
        };
        let (file, bytes) = (self.file.clone(), self.read_bytes);
        let offset = place % self.pages * bytes as u64;
        self.reads[slot] = Some(Box::pin(async move {
            file.read_exact(buffer, 0..bytes, offset).await
        }));
        self.poll(task, done)
    }

    fn poll(&mut self, task: u32, done: &mut Vec<u32>) -> io::Result<()> {
        let slot = task as usize;
        let mut context = Context::from_waker(&self.wakers[slot]);
        let Some(read) = &mut self.reads[slot] else {
            return Ok(());
        };
        if let Poll::Ready((buffer, read)) = read.as_mut().poll(&mut context) {
            self.reads[slot] = None;
            self.buffers.push(buffer);
            read.map_err(|error| named(&self.path, error))?;
            done.push(task);
        }
        Ok(())
    }

    fn collect(&mut self, wait: bool, done: &mut Vec<u32>) -> io::Result<()> {
        loop {
            self.driver.turn(wait && done.is_empty());
            let woken = {
                let mut woken = self.woken.lock().unwrap_or_else(|error| error.into_inner());
                std::mem::take(&mut *woken)
            };
            for task in woken {
                self.poll(task, done)?;
            }
            if !wait || !done.is_empty() {
                return Ok(());
            }
        }
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        // Where that fails, a file of a known name stays behind in the folder that the user chose.
        let _ = self.disk.remove_now(&self.path);
    }
}

fn fill(file: &File, driver: &mut Driver, bytes: u64) -> io::Result<()> {
    let mut buffer = Buffer::zeroed(PIECE).map_err(io::Error::other)?;
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = (at % 251) as u8;
    }
    let mut offset = 0;
    while offset < bytes {
        let length = (bytes - offset)
            .min(PIECE as u64)
            .next_multiple_of(READ_BYTES as u64);
        let write = file.write_all(buffer, 0..length as usize, offset);
        let (returned, written) = driver.block_on(write);
        written?;
        buffer = returned;
        offset += length;
    }
    driver.block_on(file.sync())
}

fn named(path: &Path, error: impl Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

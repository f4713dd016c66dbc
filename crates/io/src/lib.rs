//! Asynchronous file I/O, with a simulated disk for tests.
//!
//! A [`Disk`] opens [`File`]s, whose reads and writes are futures. Its [`Driver`] carries them out,
//! in one of three ways:
//!
//! - [`Kind::Uring`]: io_uring, from Linux 5.11 on. The driver's thread submits whole batches with
//!   one system call.
//! - [`Kind::Threads`]: a pool of threads, where io_uring is forbidden (in most containers) or does
//!   not exist.
//! - [`Kind::Simulated`]: a disk in memory that is deterministic for a seed and has all the faults
//!   of real ones ([`Simulation`]).
//!
//! [`Disk::open`] takes the first that the machine allows, and says why it is not the one before.
//!
//! A thread that has a [driver of its own](Disk::another_driver) waits for no other thread; one
//! with an event loop may have it [as a task](Disk::task_driver).
//!
//! A future owns its [`Buffer`] and gives it back when it is done. If it is dropped before, the
//! buffer stays alive until the device has finished with it.
//!
//! ```
//! use timberline_io::{Buffer, Disk, Mode};
//!
//! let folder = std::env::temp_dir().join(format!("timberline-io-{}", std::process::id()));
//! let (disk, mut driver) = Disk::open(32);
//! disk.create_folder(&folder)?;
//! let file = disk.open_file(&folder.join("records"), Mode::create())?;
//! let buffer = Buffer::zeroed(4096)?;
//! let (buffer, written) = driver.block_on(file.write_all(buffer, 0..4096, 0));
//! written?;
//! driver.block_on(file.sync())?;
//! let (_, read) = driver.block_on(file.read_exact(buffer, 0..512, 1024));
//! read?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod aside;
mod buffer;
mod disk;
mod driver;
mod file;
mod pending;
mod pool;
mod queue;
mod simulated;
mod simulation;
#[cfg(target_os = "linux")]
mod task_driver;
#[cfg(target_os = "linux")]
mod uring;
mod wait;

pub use buffer::{BLOCK, Buffer};
pub use disk::{Disk, Kind, Lock};
pub use driver::{Driver, Spawned, Unparker};
pub use file::{File, Mode, is_unreadable};
pub use queue::Counts;
pub use simulation::{Faults, SECTOR, Simulation};
#[cfg(target_os = "linux")]
pub use task_driver::TaskDriver;
pub use wait::{wait_for, yield_now};

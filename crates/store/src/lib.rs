//! A store of records on disk, with an ordered index in memory (`docs/design/store.md`).
//!
//! Records are appended to segments, files of a fixed size; the index says where each key's record
//! lies. A read is a walk through the index and one read of the disk. A write is appended in memory
//! and to the index at once; flushes bring it to its file, and a commit makes it durable
//! ([`Durability`]). Cleaning moves records out of segments of which most is obsolete.
//!
//! [`Store::open`] starts a store with threads of its own. Its operations are futures for any
//! executor, and [`Store::blocking`] has them for threads that wait:
//!
//! ```
//! use timberline_store::{Durability, Options, Store};
//!
//! # let folder = std::env::temp_dir().join(format!("timberline-doc-{}", std::process::id()));
//! let options = Options {
//!     durability: Durability::Each, // a write that returned is on the disk
//!     ..Options::default()
//! };
//! # let again = options.clone();
//! let (store, report) = Store::open(&folder, options)?;
//! assert_eq!(report.keys, 0);
//! store.blocking().put(b"user:1", b"Ada")?;
//! assert_eq!(store.blocking().get(b"user:1")?.as_deref(), Some(&b"Ada"[..]));
//! store.stop()?;
//! # drop(store);
//! # let (store, report) = Store::open(&folder, again)?;
//! # assert_eq!(report.keys, 1);
//! # assert_eq!(store.blocking().get(b"user:1")?.as_deref(), Some(&b"Ada"[..]));
//! # store.stop()?;
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), timberline_store::Error>(())
//! ```
//!
//! [`Store::open_on`] is for programs that drive the disk themselves, and for simulated disks:
//!
//! ```
//! use timberline_io::{Disk, Simulation};
//! use timberline_store::{Options, Store};
//!
//! let (disk, mut driver) = Disk::simulated(&Simulation::new(1));
//! driver.block_on(async {
//!     let (store, _) = Store::open_on(&disk, "store".as_ref(), Options::default()).await?;
//!     let work = async {
//!         store.put(b"key", b"value").await?;
//!         assert_eq!(store.get(b"key").await?.as_deref(), Some(&b"value"[..]));
//!         store.close();
//!         Ok::<(), timberline_store::Error>(())
//!     };
//!     let (done, maintained) = timberline_store::join(work, store.maintain()).await;
//!     done.and(maintained)
//! })?;
//! # Ok::<(), timberline_store::Error>(())
//! ```

mod backup;
mod batch;
mod blocking;
mod cache;
mod check;
mod checkpoint;
mod cleaning;
mod commit;
mod cores;
mod deadlines;
mod error;
mod expiry;
mod fetched;
mod first_bytes;
mod flush;
mod found;
mod head;
mod header;
mod index;
mod join;
#[cfg(test)]
mod late_index;
mod location;
mod log;
mod memory;
mod most_keys;
mod now;
mod options;
mod pieces;
mod read;
mod reads;
mod record;
mod records;
mod recovery;
mod replay;
mod report;
mod scan;
mod segment;
mod sequences;
mod snapshot;
mod spread;
mod store;
mod threads;
mod window;
mod write;

pub use backup::Copied;
pub use batch::Batch;
pub use blocking::{Blocking, BlockingReader, BlockingSnapshot, BlockingWriter, Records};
pub use cache::{CacheMemory, Caching};
pub use check::{Check, Damage, Incomplete};
pub use deadlines::MAX_EXPIRING_KEY;
pub use error::Error;
pub use expiry::{Clock, Expiry};
pub use fetched::Fetched;
pub use index::{IndexMap, IndexMemory};
pub use join::join;
pub use now::{Change, KeyPlace, Places};
pub use options::{Durability, Options};
pub use pieces::{MAX_VALUE, Stored, ValueReader, ValueWriter};
pub use record::MAX_KEY;
pub use report::{Dropped, Report, Shortened};
pub use scan::{KeyValue, Scan};
pub use snapshot::Snapshot;
pub use spread::spread;
pub use store::{Stats, Store};

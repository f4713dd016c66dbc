//! The B+tree over memory servers: for what outgrows one machine (`docs/design/remote.md`).
//!
//! Memory servers have much memory; compute servers have little, and one tree is over all of them.
//! Each compute server has a [partition](Options::partition) of the keys, keeps the nodes on the
//! way to its hot records in a cache, and reads and writes the others with one-sided operations of
//! a [`Fabric`](fabric::Fabric).
//!
//! ```
//! use std::sync::Arc;
//! use timberline_remote::fabric::InProcess;
//! use timberline_remote::{Layout, Options, RemoteTree, load};
//!
//! # timberline_io::wait_for(async {
//! let pool = Arc::new(InProcess::new(4, 16 << 20)?); // four memory servers of 16 MiB
//! load(pool.clone(), Layout::default(), (0..10_000).map(|key| (key, key * key))).await?;
//!
//! let options = Options { cache_bytes: 256 << 10, ..Options::default() };
//! let tree = RemoteTree::open(pool, options).await?;
//! assert_eq!(tree.get(7).await?, Some(49));
//! tree.insert(1 << 40, 5).await?;
//! println!("{:?}", tree.counts());
//! # Ok::<(), timberline_remote::Error>(())
//! # }).unwrap();
//! ```

mod address;
mod balance;
mod cache;
mod child;
mod error;
pub mod fabric;
mod image;
mod key_ranges;
mod member;
pub mod pool;
pub mod records;
mod tree;

pub use address::{Address, ComputeId, ServerId};
pub use balance::Balancing;
pub use cache::LeafAdmission;
pub use error::{Error, Result};
pub use member::{Etcd, Member};
pub use tree::{Check, Direct, Turns};
pub use tree::{
    LOAD_FILL, Layout, NODE_BYTES, NODE_ENTRIES, Options, RemoteTree, Scan, load, load_if_empty,
};

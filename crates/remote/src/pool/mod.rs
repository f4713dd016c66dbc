//! The memory servers' side, and what they agree with compute servers on.

pub(crate) mod contacts;
pub(crate) mod directory;
mod find;
mod free_space;
mod lock;
mod memory_server;
mod patience;
mod permits;
pub(crate) mod reports;
mod session;
mod superblock;

pub use contacts::Origin;
pub use directory::{MAX_MEMBERS, MAX_PARTITIONS};
pub(crate) use free_space::NODES;
pub(crate) use lock::{PoolLock, Writes};
pub use memory_server::{CHUNK, FINDERS, MemoryServer};
pub(crate) use patience::Patience;
pub use session::Session;
pub(crate) use superblock::{SUPERBLOCK, Superblock};

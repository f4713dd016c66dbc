//! The memory servers' side, and what they agree with compute servers on.

mod memory_server;
mod superblock;

pub use memory_server::{CHUNK, MemoryServer};
pub(crate) use superblock::{SUPERBLOCK, Superblock};

//! The B+tree: fixed-size nodes, optimistic lock coupling, fence keys; no parent pointers, no sibling links.
//!
//! | file | noun |
//! |---|---|
//! | `node/` | a node's layout, search in it, and guessing where in a leaf to search |
//! | `descent.rs` | the way from the root to a leaf |
//! | `tree.rs` | the parts, and operations that make no node |
//! | `grow.rs`, `shrink.rs` | structure modifications |
//! | `migrate.rs`, `leaves.rs` | moving nodes between tiers, and finding some to move |
//! | `scan.rs`, `many.rs`, `bulk.rs` | many records at once |
//! | `payload.rs`, `blocks.rs` | what leaves lead to, where payloads are more than words |
//! | `copies.rs` | copies of hot records, apart from their leaves |
//! | `stats.rs` | what it consists of |
//! | `map.rs` | the map, [`BTree`] |

mod blocks;
mod bulk;
mod compact;
mod copies;
mod descent;
mod ends;
pub(crate) mod grow;
mod leaves;
mod many;
mod map;
mod migrate;
pub(crate) mod node;
pub(crate) mod payload;
mod scan;
mod shrink;
mod stats;
pub(crate) mod tree;

pub use bulk::BulkError;
pub use map::BTree;
pub use scan::Range;
pub use stats::{LevelFill, Stats};

/// Body words of a node of 256 bytes.
pub const NODE_256: usize = 28;
/// Body words of a node of 512 bytes.
pub const NODE_512: usize = 60;
/// Body words of a node of 1 KiB.
pub const NODE_1K: usize = 124;
/// Body words of a node of 2 KiB.
pub const NODE_2K: usize = 252;
/// Body words of a node of 4 KiB.
pub const NODE_4K: usize = 508;

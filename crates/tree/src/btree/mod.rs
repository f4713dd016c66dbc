//! The B+tree: fixed-size nodes, optimistic lock coupling, fence keys; no parent pointers, no sibling links.
//!
//! | file | noun |
//! |---|---|
//! | `node/` | a node's layout, search in it, and guessing where in a leaf to search |
//! | `descent.rs` | the way from the root to a leaf |
//! | `tree.rs` | the parts, and operations that make no node |
//! | `grow.rs`, `shrink.rs` | structure modifications |
//! | `migrate.rs` | moving nodes between tiers |
//! | `scan.rs`, `many.rs`, `bulk.rs` | many records at once |
//! | `stats.rs` | what it consists of |
//! | `map.rs` | the typed face, [`BTree`] |

mod bulk;
mod descent;
mod grow;
mod many;
mod map;
mod migrate;
mod node;
mod scan;
mod shrink;
mod stats;
mod tree;

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

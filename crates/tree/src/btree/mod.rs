//! The B+tree: fixed-size nodes, optimistic lock coupling, fence keys; no parent pointers, no
//! sibling links.
//!
//! | file | noun |
//! |---|---|
//! | `map.rs`, `choice.rs` | the map, [`BTree`], and its tree: this one, or that of byte strings |
//! | `tree.rs`, `find.rs` | the tree's parts, and finding a node by its name, with its parent |
//! | `descent.rs`, `read.rs` | the way from the root to a leaf, and searches in nodes |
//! | `get.rs`, `insert.rs`, `update.rs`, `remove.rs`, `pop.rs` | operations on a record |
//! | `spot.rs` | records of byte strings that were found together, and are changed one by one |
//! | `many.rs`, `scan.rs`, `range.rs`, `load.rs` | operations on many |
//! | `split.rs`, `merge.rs` | structure modifications |
//! | `compact.rs` | room in a full tree, by merging half-empty leaves |
//! | `boundary.rs`, `migrate.rs`, `leaves.rs` | moving nodes between tiers, and finding them |
//! | `renew.rs` | moving nodes within a tier, which is compacted |
//! | `payload.rs`, `blocks.rs` | what leaves lead to, where payloads are more than words |
//! | `copies.rs` | copies of hot records, apart from their leaves |
//! | `stats.rs` | nodes by level and tier |
//! | `node/` | a node's layout, links, search, and guessing where in a leaf to search |

mod blocks;
mod boundary;
mod choice;
mod compact;
mod copies;
mod descent;
pub(crate) mod find;
mod get;
mod insert;
mod leaves;
mod load;
mod many;
mod map;
mod merge;
mod migrate;
pub(crate) mod node;
pub(crate) mod payload;
mod pop;
mod range;
mod read;
mod remove;
mod renew;
mod scan;
mod split;
mod spot;
mod stats;
pub(crate) mod tree;
mod update;

pub use map::BTree;
pub use node::page;
pub use node::{Hit, Lanes, Search, Work};
pub use range::Range;
pub use spot::Spot;

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

//! The B+tree of byte strings: pages of sorted slots, optimistic lock coupling, fence keys; no
//! parent pointers, no sibling links.
//!
//! Nodes are all of one size. A leaf has its records' keys and the words of their values, so that a
//! scan reads few lines, one behind the other (`node/`). Structure modifications, names of nodes
//! and moves between tiers are those of the [B+tree of words](crate::btree), which has the
//! protocol.
//!
//! Invariants, while unlocked: those of `node/mod.rs`, and
//!
//! - values' blocks lie in the tier of their leaf or a slower one, and move with it, as do those of
//!   long keys, but that a merge of nodes in two tiers leaves these where they are. Each is owned
//!   by the one word that refers to it.
//!
//! | file | noun |
//! |---|---|
//! | `map.rs` | what the maps need of the tree |
//! | `tree.rs`, `find.rs` | the tree's parts, and finding a node by its name, with its parent |
//! | `descent.rs`, `get.rs` | the way from the root to a leaf; looking up values |
//! | `spot.rs` | records that were found together, and are changed one by one |
//! | `put.rs`, `remove.rs`, `pop.rs` | changes of a record |
//! | `scan.rs`, `load.rs` | many records in order |
//! | `split.rs`, `merge.rs` | structure modifications |
//! | `beside.rs` | blocks of keys and values, which go along |
//! | `boundary.rs`, `migrate.rs`, `leaves.rs` | moving nodes between tiers, and finding them |
//! | `renew.rs` | moving them within a tier, which is compacted |
//! | `stats.rs` | nodes by level and tier |
//! | `node/` | a page's layout, search and changes; links between pages |

mod beside;
mod boundary;
mod descent;
mod find;
mod get;
mod leaves;
mod load;
mod map;
mod merge;
mod migrate;
mod node;
mod pop;
mod put;
mod remove;
mod renew;
mod scan;
mod split;
mod spot;
mod stats;
mod tree;

pub use spot::Spot;
pub use tree::Tree;

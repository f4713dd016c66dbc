//! Masstree: a trie of B+trees, for keys that are strings of bytes (Mao, Kohler, Morris: "Cache
//! Craftiness for Fast Multicore Key-Value Storage", EuroSys 2012; across tiers: SIDLE §5–6).
//!
//! Each layer of the trie is a [B+tree](crate::btree) of words, cut from the keys seven bytes at a
//! time (`slice.rs`); what keys have in common is stored once, and a comparison is one of words.
//! All layers are one forest: `btree` splits, merges, moves and searches their nodes, and a layer's
//! root hangs below the entry of a leaf (a *border node*) of the layer above as an inner node's
//! child hangs below it.
//!
//! Invariants, while unlocked:
//!
//! - A layer's root is guarded by the version of the border node above: to replace it, or to remove
//!   the layer, that node is locked.
//! - A layer has an entry at all times, but for the moment until the thread that removed the last
//!   one removes the layer.
//! - A skip is a multiple of seven bytes, and never empty. All keys below have it next.
//! - Blocks (`btree/node/block.rs`), and strings that are values, lie in the tier of the border
//!   node they belong to, or a slower one, and move with it. Names of layers lie in the slowest
//!   tier: only placements read them.
//!
//! | file | noun |
//! |---|---|
//! | `map.rs` | the map, [`Masstree`] |
//! | `slice.rs`, `layers.rs` | keys as words, and what the B+tree's core needs to know of that |
//! | `descent.rs` | the way from the topmost root to a key |
//! | `get.rs`, `insert.rs`, `update.rs`, `remove.rs`, `pop.rs` | operations on a record |
//! | `scan.rs` | many records in order |
//! | `new_layer.rs` | a layer below an entry that a second key shares |

mod descent;
mod get;
mod insert;
mod layers;
mod map;
mod new_layer;
mod pop;
mod remove;
mod scan;
mod slice;
mod update;

pub use map::Masstree;

/// An iterator over a range of a [`Masstree`]. See [`Map::range`](crate::Map::range).
pub type Range<K, V, M, const WORDS: usize> =
    crate::range::Records<K, V, Tree<M, WORDS, <V as crate::Value>::Representation>>;

/// Body words of a node of 256 bytes: layers are many and small.
pub const NODE: usize = crate::btree::NODE_256;

/// The forest of a map whose values are kept so.
pub(crate) type Tree<M, const WORDS: usize, H> =
    crate::btree::tree::Tree<M, WORDS, layers::Slices<H>>;

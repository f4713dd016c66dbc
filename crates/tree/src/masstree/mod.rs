//! Masstree: a trie of B+trees, for keys that are strings of bytes (Mao, Kohler, Morris: "Cache Craftiness for Fast Multicore Key-Value
//! Storage", EuroSys 2012; across tiers: SIDLE §5–6).
//!
//! Each layer of the trie is a [B+tree](crate::btree) of words, cut from the keys seven bytes at a time (`slice.rs`); what keys have in common
//! is stored once, and a comparison is one of words. All layers are one forest: `btree` splits, merges, moves and searches their nodes,
//! and a layer's root hangs below the entry of a leaf (a *border node*) of the layer above as an inner node's child hangs below it.
//!
//! Invariants, while unlocked:
//!
//! - A layer's root is guarded by the version of the border node above: to replace it, or to remove the layer, that node is locked.
//! - A layer has an entry at all times, but for the moment until whoever removed the last one removes the layer.
//! - A skip is a multiple of seven bytes, and never empty. All keys below have it next.
//! - Blocks (`btree/node/block.rs`), and strings that are values, lie in the tier of the border node they belong to, or a slower one, and
//!   move with it. Names of layers lie in the slowest tier: only placements read them.
//!
//! | file | noun |
//! |---|---|
//! | `slice.rs` | keys as words, and what border nodes lead to |
//! | `layers.rs` | what the core of the B+tree needs to know of that |
//! | `descent.rs`, `read.rs` | the way to a key, and lookups |
//! | `write.rs`, `deepen.rs` | operations on one record, and new layers |
//! | `walk.rs` | many records in order |
//! | `map.rs` | the map, [`Masstree`] |

mod deepen;
mod descent;
mod ends;
mod layers;
mod map;
mod read;
mod slice;
mod walk;
mod write;

pub use map::Masstree;

/// An iterator over a range of a [`Masstree`]. See [`Map::range`](crate::Map::range).
pub type Range<K, V, M, const WORDS: usize> =
    crate::range::Records<K, V, Tree<M, WORDS, <V as crate::Value>::Kept>>;

/// Body words of a node of 256 bytes: layers are many and small.
pub const NODE: usize = crate::btree::NODE_256;

/// The forest of a map whose values are kept so.
pub(crate) type Tree<M, const WORDS: usize, H> =
    crate::btree::tree::Tree<M, WORDS, layers::Slices<H>>;

//! Masstree: a trie of B+trees, for keys that are strings of bytes (Mao, Kohler, Morris: "Cache
//! Craftiness for Fast Multicore Key-Value Storage", EuroSys 2012; across tiers: SIDLE §5–6).
//!
//! Each layer of the trie is a [B+tree](crate::btree) of words, cut from the keys seven bytes at a
//! time (`slice.rs`). A shared prefix is stored once, and a comparison compares words. All layers
//! are one forest: `btree` splits, merges, moves and searches their nodes. The root of a layer is a
//! child of an entry in a leaf (a *border node*) of the layer above, as a node is a child of an
//! inner node.
//!
//! Invariants, while unlocked:
//!
//! - A layer's root is guarded by the version of the border node above: to replace it, or to remove
//!   the layer, that node is locked.
//! - A layer has an entry, except until the thread that removed the last one has removed the layer.
//! - A skip is a multiple of seven bytes, and never empty. All keys of its layer continue with it.
//! - Blocks (`btree/node/block.rs`) and byte-string values lie in the tier of their border node, or
//!   a slower one, and move with it. Names of layers lie in the slowest tier: only placements read
//!   them, and maps whose placement doesn't have none.
//!
//! | file | contents |
//! |---|---|
//! | `map.rs` | the map, [`Masstree`] |
//! | `slice.rs`, `layers.rs` | keys as words, and the payload that the B+tree's core requires |
//! | `descent.rs` | the path from the topmost root to a key |
//! | `get.rs`, `insert.rs`, `update.rs`, `remove.rs`, `pop.rs` | operations on a record |
//! | `scan.rs`, `enter.rs` | many records in order; how that goes from border node to border node |
//! | `ahead.rs` | what that has the CPU fetch ahead |
//! | `new_layer.rs` | a layer below an entry that a second key shares |

mod ahead;
mod descent;
mod enter;
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

/// The forest of a map whose values are represented by `H`.
pub(crate) type Tree<M, const WORDS: usize, H> =
    crate::btree::tree::Tree<M, WORDS, layers::Slices<H>>;

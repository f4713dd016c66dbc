//! The adaptive radix tree: byte-string keys, inner nodes of four sizes, leaves of three,
//! optimistic lock coupling.
//!
//! After Leis, Kemper, Neumann: "The Adaptive Radix Tree", ICDE 2013, and Leis, Scheibner, Kemper,
//! Neumann: "The ART of Practical Synchronization", DaMoN 2016; placed across tiers as S-ART is
//! (SIDLE §5), by leaf heat and a single boundary. `docs/design/art.md` has the layouts and what
//! was measured.
//!
//! A leaf whose value is a string leads to a block ([`Bytes`](crate::Bytes)), which moves with it.
//!
//! | file | noun |
//! |---|---|
//! | `map.rs` | the map, [`Art`] |
//! | `tree.rs` | the tree's parts |
//! | `find.rs`, `descent.rs` | the way from the root to a record: in one go, or one node a step |
//! | `get.rs`, `insert.rs`, `update.rs`, `remove.rs`, `pop.rs` | operations on a record |
//! | `many.rs` | lookups of many keys |
//! | `load.rs` | sorted input: subtrees that are linked as a whole |
//! | `spot.rs` | records that were found together, and are changed one by one |
//! | `share.rs`, `fresh.rs` | records that come to share a node; memory for nodes |
//! | `walk.rs`, `only.rs`, `way.rs`, `scan.rs` | many records in order |
//! | `migrate.rs`, `compact.rs`, `placed.rs` | moving nodes between tiers, and within one |
//! | `stats.rs` | nodes by level and tier |
//! | `node/` | nodes, their layouts, search in them, and the links between them |

mod compact;
mod descent;
mod find;
mod fresh;
mod get;
mod insert;
mod load;
mod many;
mod map;
mod migrate;
mod node;
mod only;
mod placed;
mod pop;
mod remove;
mod scan;
mod share;
mod spot;
mod stats;
mod tree;
mod update;
mod walk;
mod way;

pub use map::Art;
pub use node::{Far, Near, Reach};
pub use spot::Spot;

/// An iterator over a range of an [`Art`]. See [`Map::range`](crate::Map::range).
pub type Range<K, V, M, R> = crate::range::Records<K, V, tree::Tree<M, R>>;

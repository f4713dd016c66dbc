//! The adaptive radix tree: byte-string keys, inner nodes of four sizes, leaves of three, optimistic lock coupling.
//!
//! After Leis, Kemper, Neumann: "The Adaptive Radix Tree", ICDE 2013, and Leis, Scheibner, Kemper, Neumann: "The ART of Practical
//! Synchronization", DaMoN 2016; placed across tiers as S-ART is (SIDLE §5), by leaf heat and a single
//! boundary. `docs/design/art.md` has the layouts and what was measured.
//!
//! A leaf whose value is a string leads to a block ([`Bytes`](crate::Bytes)), which moves with it.
//!
//! | file | noun |
//! |---|---|
//! | `node/` | nodes, their layouts, and search in them |
//! | `tree.rs`, `descent.rs`, `change.rs` | its parts, the descent, and operations that make no node |
//! | `fresh.rs` | nodes that come and go |
//! | `grow.rs`, `share.rs`, `shrink.rs` | structure modifications |
//! | `migrate.rs`, `placed.rs` | moving nodes between tiers |
//! | `way.rs`, `walk.rs`, `scan.rs` | many records in order |
//! | `stats.rs` | what it consists of |
//! | `map.rs` | the map, [`Art`] |

mod change;
mod descent;
mod ends;
mod fresh;
mod grow;
mod map;
mod migrate;
mod node;
mod placed;
mod scan;
mod share;
mod shrink;
mod stats;
mod tree;
mod walk;
mod way;

pub use map::{Art, ArtError};
pub use node::{Far, Near, Reach};

/// An iterator over a range of an [`Art`]. See [`Map::range`](crate::Map::range).
pub type Range<K, V, M, R> = crate::range::Records<K, V, tree::Tree<M, R>>;

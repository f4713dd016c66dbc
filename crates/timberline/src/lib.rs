//! Concurrent ordered maps that live across memory tiers.
//!
//! Depend on this crate; it re-exports all that a user of the library needs. `new` makes a map in
//! plain memory:
//!
//! ```
//! let map = timberline::BTree::<u64, u64>::new();
//! map.insert(&300, 90_000)?;
//! # assert_eq!(map.get(&300), Some(90_000));
//! # Ok::<(), timberline::Error>(())
//! ```
//!
//! [`builder`](BTree::builder) makes one in fast and slow memory, with the `timberline` placement
//! and its worker. It is the same type:
//!
//! ```
//! use timberline::BTree;
//!
//! // 4 MiB of fast memory, 64 MiB of slow. `discover()` takes this machine's tiers.
//! let builder = BTree::builder().fast_memory(4 << 20).slow_memory(64 << 20);
//! let map: BTree<u64, u64> = builder.build()?;
//! for key in 0..100_000 {
//!     map.insert(&key, key * key)?;
//! }
//! assert_eq!(map.get(&300), Some(90_000));
//! assert_eq!(map.range(10..12).collect::<Vec<_>>(), [(10, 100), (11, 121)]);
//! assert_eq!(map.compare_exchange(&300, Some(90_000), Some(0))?, Ok(Some(90_000)));
//! assert_eq!(map.remove(&300), Some(0));
//! assert!(map.committed().0 <= 4 << 20);
//! # Ok::<(), timberline::Error>(())
//! ```
//!
//! | map | keys | choose it for |
//! |---|---|---|
//! | [`BTree`] | up to eight bytes | range scans, the least memory |
//! | [`Art`] | byte strings, integers | the fastest lookups; placement by record |
//! | [`Masstree`] | byte strings | keys that share long prefixes, in little memory |
//!
//! All three are one handle, [`Map`], which has the methods. Threads share a map by reference or by
//! clones of the handle.
//!
//! | module | contains |
//! |---|---|
//! | [`tree`] | the maps |
//! | [`placement`] | policies that decide which tier a node is in: `timberline`, or your own |
//! | [`tier`] | memory tiers, arenas, budgets, the emulator |
//! | [`sync`] | the optimistic lock, and epochs |

pub use timberline_placement as placement;
pub use timberline_sync as sync;
pub use timberline_tier as tier;
pub use timberline_tree as tree;

pub use timberline_placement::TimberlineConfig;
pub use timberline_tier::TierId;
pub use timberline_tree::{
    Art, AsyncRange, BTree, Builder, Bytes, Composite, Error, Form, Kept, Key, KeyRange, LevelFill,
    Limit, MAX_KEY, MAX_VALUE, Map, Masstree, OutOfMemory, Parts, Range, Stats, Value, Word,
    WordKey,
};

/// Compiles and runs the README's example.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
pub struct Readme;

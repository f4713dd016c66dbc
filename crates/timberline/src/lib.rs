//! Concurrent ordered maps that live across memory tiers.
//!
//! Depend on this crate; it re-exports all that a user of the library needs. [`Tiered::new`] makes
//! a map over fast and slow memory, with the `timberline` placement and its worker:
//!
//! ```
//! use timberline::{BTree, Tiered, TieredConfig};
//!
//! // 4 MiB of fast memory, 64 MiB of slow. `TieredConfig::discover()` takes this machine's tiers.
//! let map: Tiered<BTree<u64, u64>> = Tiered::new(&TieredConfig::new(4 << 20, 64 << 20))?;
//! for key in 0..100_000 {
//!     map.insert(key, key * key)?;
//! }
//! assert_eq!(map.get(300), Some(90_000));
//! assert_eq!(map.range(10..12).collect::<Vec<_>>(), [(10, 100), (11, 121)]);
//! assert_eq!(map.compare_and_set(300, 90_000, 0)?, Ok(()));
//! assert_eq!(map.remove(300), Some(0));
//! let stats = map.stats();
//! assert!(stats.fast_bytes <= 4 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | map | keys | choose it for |
//! |---|---|---|
//! | [`BTree`] | up to eight bytes | range scans, the least memory |
//! | [`Art`] | byte strings, integers | the fastest lookups; placement by record |
//! | [`Masstree`] | byte strings | keys that share long prefixes, in little memory |
//!
//! | module | contains |
//! |---|---|
//! | [`tree`] | the maps |
//! | [`placement`] | policies that decide which tier a node is in: `timberline`, or your own |
//! | [`tier`] | memory tiers, arenas, budgets, the emulator |
//! | [`sync`] | the optimistic lock, and epochs |

mod tiered;

pub use timberline_placement as placement;
pub use timberline_sync as sync;
pub use timberline_tier as tier;
pub use timberline_tree as tree;

pub use tiered::{BadConfig, Map, Tiered, TieredConfig};
pub use timberline_tier::TierId;
pub use timberline_tree::{
    Art, BTree, BulkError, ByteKey, Bytes, Form, Full, InsertError, Kept, Key, LevelFill,
    MAX_VALUE, Masstree, Range, Stats, Value, Word,
};

/// Compiles and runs the README's example.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
pub struct Readme;

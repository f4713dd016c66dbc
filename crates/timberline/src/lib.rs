//! Concurrent ordered maps that live across memory tiers.
//!
//! This is the crate to depend on; it re-exports what a user of the library needs. [`Tiered::new`] makes a
//! B+tree over fast and slow memory with the `timberline` placement and its worker:
//!
//! ```
//! use timberline::{Tiered, TieredConfig};
//!
//! // 4 MiB of fast memory, the rest slow. `TieredConfig::discover()` finds this machine's tiers.
//! let map: Tiered<u64, u64> = Tiered::new(&TieredConfig::new(4 << 20, 64 << 20))?;
//! for key in 0..100_000 {
//!     map.insert(key, key * key)?;
//! }
//! assert_eq!(map.get(300), Some(90_000));
//! assert_eq!(map.range(10..12).collect::<Vec<_>>(), [(10, 100), (11, 121)]);
//! assert_eq!(map.compare_and_set(300, 90_000, 0), Ok(()));
//! assert_eq!(map.remove(300), Some(0));
//! let stats = map.stats();
//! assert!(stats.fast_bytes <= 4 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | room | holds |
//! |---|---|
//! | [`tree`] | the maps |
//! | [`placement`] | which node is in which tier: `timberline`, `sidle`, static ones, your own |
//! | [`tier`] | memory tiers, arenas, budgets, the emulator |
//! | [`sync`] | the optimistic lock and epochs |

mod tiered;

pub use timberline_placement as placement;
pub use timberline_sync as sync;
pub use timberline_tier as tier;
pub use timberline_tree as tree;

pub use tiered::{BadConfig, Tiered, TieredConfig};
pub use timberline_tier::TierId;
pub use timberline_tree::{BTree, BulkError, Full, Key, LevelFill, Range, Stats, Value};

/// The README's example, compiled and run.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
pub struct Readme;

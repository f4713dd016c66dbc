//! Fast, ordered, concurrent maps: a B+tree, an ART, and a Masstree. They are in plain memory, or
//! in fast and slow memory, between which they move their nodes by themselves.
//!
//! Depend on this crate; it re-exports all that a user of the library needs. `new` makes a map in
//! plain memory, which grows as needed:
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
//! // 4 MiB of fast memory, 64 MiB of slow. On a machine that has both kinds, name their NUMA nodes
//! // too (`fast_nodes`, `slow_nodes`), or let `discover()` take all of that from the machine; one
//! // with three kinds of memory gives three tiers.
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
//! | [`BTree`] | any [`Key`] | range scans, the least memory |
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
//!
//! | feature | contains |
//! |---|---|
//! | `derive` | `#[derive(Key)]`: structs and enums as keys |
//! | `serde` | maps as serde's maps |
//! | `postcard` | `Postcard<T>`: values of every type that serde knows; includes `serde` |
//!
//! None is on by default. The crate needs a 64-bit Unix; memory tiers need Linux.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub use timberline_placement as placement;
pub use timberline_sync as sync;
pub use timberline_tier as tier;
pub use timberline_tree as tree;

pub use timberline_placement::TimberlineConfig;
pub use timberline_tier::TierId;
pub use timberline_tree::{
    Art, AsyncRange, BTree, Builder, Bytes, Composite, Counted, Entry, Error, Key, KeyRange,
    LevelFill, Limit, MAX_KEY, MAX_VALUE, Map, Masstree, OutOfMemory, Parts, Placing, Range,
    Records, Replaced, Representation, Stats, Stored, Value, Word,
};

#[cfg(feature = "postcard")]
#[cfg_attr(docsrs, doc(cfg(feature = "postcard")))]
pub use timberline_tree::{Postcard, PostcardRef};

/// ```
/// use timberline::{Art, BTree, Key};
///
/// #[derive(Clone, PartialEq, Debug, Key)]
/// struct Visit {
///     host: String,
///     second: u64,
/// }
///
/// let visits: Art<Visit, u64> = Art::new();
/// let visit = |host: &str, second| Visit { host: host.into(), second };
/// visits.insert(&visit("b.test", 3), 30)?;
/// visits.insert(&visit("a.test", 10), 20)?;
/// visits.insert(&visit("a.test", 9), 10)?;
/// assert_eq!(visits.values().collect::<Vec<_>>(), [10, 20, 30]);
/// let of_b = visits.range(visit("b.test", 0)..=visit("b.test", u64::MAX));
/// assert_eq!(of_b.collect::<Vec<_>>(), [(visit("b.test", 3), 30)]);
///
/// // Up to eight bytes: a `BTree` keeps it as a word.
/// #[derive(Clone, Copy, Key)]
/// struct Seat {
///     row: u16,
///     number: u16,
/// }
/// let seats: BTree<Seat, u64> = BTree::new();
/// seats.insert(&Seat { row: 7, number: 12 }, 1)?;
/// # Ok::<(), timberline::Error>(())
/// ```
///
/// A field that is no key does not compile, and the message names its type:
///
/// ```compile_fail,E0277
/// #[derive(timberline::Key)]
/// struct Reading {
///     celsius: f64, // error: `f64` is no key of a map
/// }
/// ```
///
/// Nor do variants with values that don't ascend, which `#[derive(Ord)]` would sort otherwise:
///
/// ```compile_fail,E0080
/// #[derive(timberline::Key)]
/// enum Level {
///     High = 2,
///     Low = 1,
/// }
/// ```
#[cfg(feature = "derive")]
#[cfg_attr(docsrs, doc(cfg(feature = "derive")))]
pub use timberline_derive::Key;

/// Compiles and runs the README's example.
#[doc = include_str!("../README.md")]
#[cfg(doctest)]
pub struct Readme;

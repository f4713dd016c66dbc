//! Concurrent ordered maps whose nodes live across memory tiers.
//!
//! A map asks its [placement](timberline_placement::Placement) where a new node goes, reports
//! accesses to leaves, and moves a node when told. It knows no policy.

mod abort;
pub mod art;
pub mod btree;
mod cache;
mod clear;
mod error;
mod goal;
mod key;
mod map;
pub mod masstree;
mod node;
mod range;
#[cfg(feature = "seeded-bugs")]
pub mod seeded;
#[cfg(not(feature = "seeded-bugs"))]
mod seeded;
mod stats;
mod store;
mod strings;
pub mod traverse;
mod value;

pub use art::Art;
pub use btree::{BTree, Range};
pub use error::{Error, MAX_KEY, MAX_VALUE};
pub use key::{Composite, Key, KeyRange, Parts};
pub use map::{Builder, Entry, Held, Map, Placing, after_all_with};
pub use masstree::Masstree;
pub use range::{AsyncRange, Records};
pub use stats::{LevelFill, Stats};
pub use timberline_tier::{Limit, OutOfMemory};
pub use value::{Bytes, Counted, Replaced, Representation, Stored, Value, Word};
#[cfg(feature = "postcard")]
pub use value::{Postcard, PostcardRef};

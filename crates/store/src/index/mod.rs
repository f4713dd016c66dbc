//! The index: a map from keys to words that say where their records lie, of one of two kinds and in
//! memory of any kind. A B+tree has keys of eight bytes apart, as words.
//!
//! The store is not generic over either, so that all of it is compiled once. A call through the
//! trait costs some nanoseconds; what a lookup reads costs hundreds.

mod merged;
mod pair;

use std::fmt;
use std::ops::Bound;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use smallvec::SmallVec;
use timberline_tier::Memory;
use timberline_tree::btree::NODE_1K;
use timberline_tree::{Art, BTree, Held, art, btree};

use crate::Error;

/// The most keys that are searched for together where there are many.
pub(crate) const GROUP: usize = 16;

/// A lookup that yields wherever it would wait for memory.
pub(crate) type Lookup<'a> = Pin<Box<dyn Future<Output = Option<u64>> + Send + 'a>>;

/// Keys with their words, in order.
pub(crate) type Entries = Box<dyn DoubleEndedIterator<Item = (Vec<u8>, u64)> + Send>;

/// Where a key is in the index.
#[derive(Clone, Copy, Debug)]
pub enum Spot<'h> {
    Art(art::Spot<'h>),
    BTree(btree::Spot<'h, NODE_1K>),
}

/// A key's word, and where in the index it is, unless memory is emulated or the key is a word in a
/// map of words; or that there is none.
pub(crate) type Found<'h> = Option<(u64, Option<Spot<'h>>)>;

/// The index's map, in whatever memory it is.
///
/// Public for the bound of [`IndexMemory::of`] alone: nobody else can name it.
pub trait Index: Send + Sync {
    fn get(&self, key: &[u8]) -> Option<u64>;

    /// The same. Where memory is slow, other operations go on meanwhile.
    fn get_async<'a>(&'a self, key: &'a [u8]) -> Lookup<'a>;

    /// The words of many keys. Their paths are read at the same time.
    fn get_many(&self, keys: &[&[u8]], words: &mut [Option<u64>]);

    /// Keeps what [`find_many`](Self::find_many) finds.
    fn hold(&self) -> Held<'_>;

    /// As [`get_many`](Self::get_many), with the places in the index. `held` is what
    /// [`hold`](Self::hold) returned.
    fn find_many<'h>(&'h self, held: &'h Held<'_>, keys: &[&[u8]], found: &mut [Found<'h>]);

    /// The word of a key that was found there; `None` if it is not there any more.
    fn get_at(&self, spot: Spot<'_>, key: &[u8]) -> Option<u64>;

    /// Replaces the word of a key that was found there. The previous one; `None` if it is not there
    /// any more.
    fn update_at(&self, spot: Spot<'_>, key: &[u8], word: u64) -> Option<u64>;

    /// Inserts or replaces. The previous word; fails only if there was none.
    fn insert(&self, key: &[u8], word: u64) -> Result<Option<u64>, Error>;

    /// Inserts keys that ascend. Where none are, that is many times faster than one by one.
    fn load(&self, sorted: &mut dyn Iterator<Item = (&[u8], u64)>) -> Result<(), Error>;

    /// Replaces the word of a key that has one. The previous one.
    fn update(&self, key: &[u8], word: u64) -> Option<u64>;

    fn remove(&self, key: &[u8]) -> Option<u64>;

    /// Removes a key if it has this word.
    fn remove_if(&self, key: &[u8], word: u64);

    fn range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Entries;

    /// Those that begin so.
    fn prefix(&self, prefix: &[u8]) -> Entries;

    fn len(&self) -> usize;

    /// Bytes of memory, of all tiers.
    fn bytes(&self) -> u64;

    /// Whether a part of it may be in memory so slow that a lookup is to let others go on.
    fn is_tiered(&self) -> bool;
}

impl dyn Index {
    /// As [`get`](Self::get), of a key that was found there if it was.
    pub fn word_found(&self, spot: Option<Spot<'_>>, key: &[u8]) -> Option<u64> {
        match spot {
            Some(spot) => self.get_at(spot, key),
            None => self.get(key),
        }
    }

    /// As [`update`](Self::update), of a key that was found there if it was.
    pub fn update_found(&self, spot: Option<Spot<'_>>, key: &[u8], word: u64) -> Option<u64> {
        let updated = spot.and_then(|spot| self.update_at(spot, key, word));
        updated.or_else(|| self.update(key, word))
    }

    pub fn iter(&self) -> Entries {
        self.range(Bound::Unbounded, Bound::Unbounded)
    }
}

/// What maps of both kinds do with the same methods.
macro_rules! index {
    ($map:ident) => {
        impl<M: Memory> Index for $map<[u8], u64, M> {
            fn get(&self, key: &[u8]) -> Option<u64> {
                $map::get(self, key)
            }

            fn get_async<'a>(&'a self, key: &'a [u8]) -> Lookup<'a> {
                Box::pin($map::get_async(self, key))
            }

            fn get_many(&self, keys: &[&[u8]], words: &mut [Option<u64>]) {
                $map::get_many(self, keys, words);
            }

            fn hold(&self) -> Held<'_> {
                $map::hold(self)
            }

            fn find_many<'h>(
                &'h self,
                held: &'h Held<'_>,
                keys: &[&[u8]],
                found: &mut [Found<'h>],
            ) {
                let mut places = SmallVec::<[_; 16]>::from_elem(None, keys.len());
                $map::find_many(self, held, keys, &mut places);
                for (found, place) in found.iter_mut().zip(places) {
                    *found = place.map(|(word, spot)| (word, spot.map(Spot::$map)));
                }
            }

            fn get_at(&self, spot: Spot<'_>, key: &[u8]) -> Option<u64> {
                match spot {
                    Spot::$map(spot) => $map::get_at(self, spot, key),
                    _ => None,
                }
            }

            fn update_at(&self, spot: Spot<'_>, key: &[u8], word: u64) -> Option<u64> {
                match spot {
                    Spot::$map(spot) => $map::update_at(self, spot, key, word),
                    _ => None,
                }
            }

            fn insert(&self, key: &[u8], word: u64) -> Result<Option<u64>, Error> {
                $map::insert(self, key, word).map_err(|error| Error::map("the index", error))
            }

            fn load(&self, sorted: &mut dyn Iterator<Item = (&[u8], u64)>) -> Result<(), Error> {
                let loaded = $map::bulk_load(self, sorted);
                loaded.map_err(|error| Error::map("the index", error))?;
                Ok(())
            }

            fn update(&self, key: &[u8], word: u64) -> Option<u64> {
                $map::update(self, key, word)
            }

            fn remove(&self, key: &[u8]) -> Option<u64> {
                $map::remove(self, key)
            }

            fn remove_if(&self, key: &[u8], word: u64) {
                $map::remove_if(self, key, |present| present == word);
            }

            fn range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> Entries {
                Box::new($map::range(self, (low, high)))
            }

            fn prefix(&self, prefix: &[u8]) -> Entries {
                Box::new($map::prefix(self, prefix))
            }

            fn len(&self) -> usize {
                $map::len(self)
            }

            fn bytes(&self) -> u64 {
                let (fast, slow) = self.committed();
                (fast + slow) as u64
            }

            fn is_tiered(&self) -> bool {
                $map::is_tiered(self)
            }
        }
    };
}

index!(Art);
index!(BTree);

/// Which map the index is. Its records on the disk are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IndexMap {
    /// A radix tree: lookups and changes take fewer instructions and, in slow memory, a third of
    /// the lines. So it is the one for an index in tiers.
    Art,
    /// A B+tree: it takes 0.3 to 0.8 of the memory, by the keys, and a store opens faster after a
    /// clean stop. What it leaves is the cache's. In plain memory, keys of eight bytes have one of
    /// their own, in which they are words: lookups of these take a third of the time.
    #[default]
    BTree,
}

impl IndexMap {
    /// All of them.
    pub const ALL: [IndexMap; 2] = [IndexMap::Art, IndexMap::BTree];

    /// What it is called in options.
    pub fn name(self) -> &'static str {
        match self {
            IndexMap::Art => "art",
            IndexMap::BTree => "btree",
        }
    }
}

impl fmt::Display for IndexMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for IndexMap {
    type Err = Error;

    /// Parses its [`name`](Self::name).
    fn from_str(text: &str) -> Result<IndexMap, Error> {
        let found = IndexMap::ALL.into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| {
            let names = IndexMap::ALL.map(IndexMap::name).join(" or ");
            Error::Configuration(format!(
                "there is no map `{text}` for an index: give {names}"
            ))
        })
    }
}

/// A store's index: which map, and in which memory. Plain memory unless an [`of`](Self::of) says
/// otherwise.
///
/// In tiers, the index's hot paths are in fast memory, by the map's own placement; and while a get
/// waits for slow memory, the executor goes on with other operations. So memory of some
/// microseconds costs little where many are in flight (Bando et al., SIGMOD 2025).
///
/// ```
/// use timberline_store::{IndexMemory, Options};
/// use timberline_tree::Art;
///
/// // The index's hot paths in 64 MiB of DRAM, the others on NUMA node 2: a CXL expander.
/// let index = IndexMemory::of(|| {
///     let builder = Art::builder().fast_memory(64 << 20).fast_nodes([0]);
///     builder.slow_memory(4 << 30).slow_nodes([2]).build()
/// });
/// let options = Options { index, ..Options::default() };
/// ```
#[derive(Clone)]
pub struct IndexMemory(Arc<Make>);

type Make = dyn Fn() -> Result<Box<dyn Index>, Error> + Send + Sync;

impl IndexMemory {
    /// A map that `make` makes, empty, whenever the store needs another one: an [`Art`] or a
    /// [`BTree`] from byte strings to words; or a pair of two `BTree`s, `(BTree<u64, u64>,
    /// BTree<[u8], u64>)`, of which the first has the keys of eight bytes, as numbers with the
    /// first byte on top, and the second all others. It is called when the store is opened, once
    /// more for each checkpoint that can't be used.
    pub fn of<I: Index + 'static>(
        make: impl Fn() -> Result<I, timberline_tree::Error> + Send + Sync + 'static,
    ) -> IndexMemory {
        IndexMemory(Arc::new(move || {
            let map = make().map_err(|error| Error::map("the index's memory", error))?;
            Ok(Box::new(map))
        }))
    }

    /// This map in plain memory.
    pub fn plain(map: IndexMap) -> IndexMemory {
        match map {
            IndexMap::Art => IndexMemory::of(|| Art::<[u8], u64>::builder().build()),
            IndexMap::BTree => IndexMemory::of(|| {
                let words = BTree::<u64, u64>::builder().build()?;
                Ok((words, BTree::<[u8], u64>::builder().build()?))
            }),
        }
    }

    /// An empty index.
    pub(crate) fn make(&self) -> Result<Box<dyn Index>, Error> {
        (self.0)()
    }
}

impl Default for IndexMemory {
    /// The default map in plain memory.
    fn default() -> IndexMemory {
        IndexMemory::plain(IndexMap::default())
    }
}

impl fmt::Debug for IndexMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndexMemory")
    }
}

impl Error {
    /// Why the map of this could not do something.
    pub(crate) fn map(of: &str, error: timberline_tree::Error) -> Error {
        match error {
            timberline_tree::Error::Configuration(reason) => {
                Error::Configuration(format!("{of}: {reason}"))
            }
            _ => Error::OutOfMemory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_named() {
        for map in IndexMap::ALL {
            assert_eq!(map.to_string().parse::<IndexMap>().ok(), Some(map));
        }
        let unknown = "hash".parse::<IndexMap>().unwrap_err().to_string();
        assert_eq!(
            unknown,
            "there is no map `hash` for an index: give art or btree"
        );
    }

    /// The store relies on all of it.
    #[test]
    fn each_map_is_an_index() {
        for map in IndexMap::ALL {
            let index = IndexMemory::plain(map).make().expect("there is memory");
            assert_eq!(index.insert(b"pea", 1).expect("there is memory"), None);
            assert_eq!(index.insert(b"pear", 2).expect("there is memory"), None);
            assert_eq!(index.insert(b"pea", 3).expect("there is memory"), Some(1));
            assert_eq!(
                (index.update(b"pear", 4), index.update(b"plum", 5)),
                (Some(2), None)
            );
            let keys: [&[u8]; 3] = [b"pear", b"plum", b"pea"];
            let mut words = [None; 3];
            index.get_many(&keys, &mut words);
            assert_eq!(words, [Some(4), None, Some(3)]);
            let held = index.hold();
            let mut found = [None; 3];
            index.find_many(&held, &keys, &mut found);
            assert_eq!(found.map(|it| it.map(|it| it.0)), words);
            for (key, found) in keys.into_iter().zip(found) {
                let Some((word, spot)) = found else {
                    continue;
                };
                let spot = spot.expect("its memory is fast");
                assert_eq!(index.get_at(spot, key), Some(word));
                assert_eq!(index.get_at(spot, b"plum"), None);
                assert_eq!(index.update_at(spot, key, word), Some(word));
            }
            drop(held);
            index.remove_if(b"pea", 1);
            assert_eq!((index.get(b"pea"), index.len()), (Some(3), 2));
            index.remove_if(b"pea", 3);
            assert_eq!(index.prefix(b"pea").count(), 1);
            assert_eq!(index.iter().next_back(), Some((b"pear".to_vec(), 4)));
            assert_eq!((index.remove(b"pear"), index.len()), (Some(4), 0));
        }
    }
}

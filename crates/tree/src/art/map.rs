//! The map over a radix tree, [`Art`].

use std::sync::Arc;

use timberline_placement::{HeatIn, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, Native};

use super::node::{Near, Reach};
use super::tree::Tree;
use crate::error::Refused;
use crate::map::{Batch, ByteTree, Make, Map, Stores};
use crate::range::Way;
use crate::store::Store;
use crate::value::{Change, Loan, Represent};
use crate::{Error, Key, Stats, Value};

/// A concurrent ordered map from byte strings: an adaptive radix tree. In plain memory
/// ([`new`](Map::new)), or in tiers between which its nodes move by themselves
/// ([`builder`](Map::builder)).
///
/// Keys are whatever is a [`Key`], up to [`MAX_KEY`](crate::MAX_KEY) bytes. One key may be the
/// beginning of another. A point operation costs a node visit for each byte in which keys part, and
/// takes no lock to read. Scans are linearizable record by record. Its methods are those of
/// [`Map`].
///
/// Placement is by record; words with keys of eight bytes may share a node with two others, or with
/// their neighbours. Links between nodes are 32 bits wide ([`Near`]), which is enough for 16 GiB;
/// [`Far`](super::Far) is for larger arenas.
///
/// ```
/// use timberline::Art;
///
/// let map: Art<str, u64> = Art::new();
/// for (rank, word) in ["tree", "trees", "timber", "line"].iter().enumerate() {
///     assert_eq!(map.insert(word, rank as u64)?, None);
/// }
/// assert_eq!(map.get("timber"), Some(2));
/// let words: Vec<String> = map.prefix("tre").map(|(word, _)| word).collect();
/// assert_eq!(words, ["tree", "trees"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Art<K, V, M = Native, R = Near> = Map<Tree<M, R>, K, V>;

impl<K: Key + ?Sized, V: Value, M: Memory, R: Reach> Make<K, V> for Tree<M, R> {
    type Memory = M;
    const HEAT: HeatIn = HeatIn::Leaf { leaf_bytes: 40 };
    const REACH: usize = R::SPAN;

    fn make(memory: M, placement: Arc<dyn Placement>, domain: Domain) -> Result<Self, Error> {
        let (bytes, reach) = (memory.arenas().range().len(), R::SPAN);
        if bytes > reach {
            return Err(Error::Configuration(format!(
                "memory of {bytes} bytes is beyond this map's links, which reach {reach}: \
                 take Far instead of Near"
            )));
        }
        let new = Tree::new::<V::Representation>;
        Ok(new(memory, placement, domain, K::LEN))
    }
}

impl<M: Memory, R: Reach, H: Represent> Stores<H> for Tree<M, R> {}

impl<M: Memory, R: Reach> ByteTree for Tree<M, R> {
    const NAME: &'static str = "Art";

    #[inline(always)]
    fn store(&self) -> &Store<M> {
        &self.store
    }

    #[inline(always)]
    fn get<T>(&self, key: impl AsRef<[u8]>, out: impl FnOnce(Loan<'_>) -> T) -> Option<T> {
        self.get(key, out)
    }

    fn get_each<H: Represent, B: AsRef<[u8]>>(
        &self,
        keys: impl Iterator<Item = B>,
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        self.get_each::<H, B>(keys, depth, found);
    }

    async fn get_async<H: Represent, T>(
        &self,
        key: &[u8],
        out: impl FnOnce(Loan<'_>) -> T,
    ) -> Option<T> {
        self.get_async::<H, T>(key, out).await
    }

    #[inline(always)]
    fn upsert<T>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> T,
    ) -> Result<Option<T>, Refused> {
        self.upsert(key, change, out)
    }

    #[inline(always)]
    fn modify<T>(
        &self,
        key: impl AsRef<[u8]>,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> T,
    ) -> Result<Option<T>, Refused> {
        self.modify(key, change, out)
    }

    #[inline(always)]
    fn remove<T>(
        &self,
        key: &[u8],
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> T,
    ) -> Option<T> {
        self.remove(key, only, out)
    }

    fn pop<T>(&self, way: Way, out: impl FnOnce(&[u8], Loan<'_>) -> T) -> Option<T> {
        self.pop(way, out)
    }

    fn clear(&self) {
        self.clear();
    }

    const GROWS: bool = true;

    fn grow(&self, batch: &Batch, from: usize) -> usize {
        self.grow(batch, from)
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}

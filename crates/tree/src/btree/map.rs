//! The map, [`BTree`].

use std::borrow::Borrow;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use timberline_placement::{HeatIn, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, Native};

use super::NODE_1K;
use super::choice::{Choice, Chosen};
use super::payload::Payload;
use super::range::Range;
use super::scan::Span;
use super::tree::Tree;
use crate::error::Refused;
use crate::key::{from_word, to_word};
use crate::map::{ByteTree, Core, Make, Map, Shared, sorted};
use crate::range::Way;
use crate::stats::Stats;
use crate::store::Store;
use crate::value::{Change, Loan, Represent};
use crate::{Error, Key, Records, Value};

/// A concurrent ordered map: a B+tree. In plain memory ([`new`](Map::new)), or in tiers between
/// which its nodes move by themselves ([`builder`](Map::builder)).
///
/// Keys are whatever is a [`Key`]. Those of a fixed length of up to eight bytes (integers, `char`,
/// small tuples and arrays) are words in nodes of `32 + 8 × WORDS` bytes, a power of two
/// ([`NODE_256`](super::NODE_256) … [`NODE_4K`](super::NODE_4K)). All others, such as strings of up
/// to [`MAX_KEY`](crate::MAX_KEY) bytes, are byte strings in nodes twice as long; records lie
/// side by side, which makes scans fast. Point operations cost O(log n) node visits, and take no
/// lock to read. Its methods are those of [`Map`].
///
/// ```
/// use timberline::BTree;
///
/// let map: BTree<u64, i32> = BTree::new();
/// assert_eq!(map.insert(&3, -3)?, None);
/// assert_eq!(map.insert(&5, -5)?, None);
/// assert_eq!(map.get(&3), Some(-3));
/// assert_eq!(map.range(..=4).collect::<Vec<_>>(), [(3, -3)]);
///
/// let pages: BTree<str, u64> = [("https://a.org/", 1), ("https://b.org/", 2)].into();
/// assert_eq!(pages.get("https://b.org/"), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type BTree<K, V, M = Native, const WORDS: usize = NODE_1K> =
    Map<Choice<K, M, WORDS, <V as Value>::Representation>, K, V>;

/// Maps of one tree of nodes of words, or of many: [`Masstree`](crate::Masstree).
impl<M: Memory, const WORDS: usize, P: Payload, K: ?Sized, V> Map<Tree<M, WORDS, P>, K, V> {
    /// Bytes of a node.
    pub const NODE_BYTES: usize = Tree::<M, WORDS, P>::BYTES;
}

impl<K: Key + ?Sized, V, M: Memory, const WORDS: usize, H: Represent>
    Map<Choice<K, M, WORDS, H>, K, V>
{
    /// Bytes of a node.
    pub const NODE_BYTES: usize = Choice::<K, M, WORDS, H>::BYTES;
}

impl<M: Memory, const WORDS: usize, H: Represent, K: Key + ?Sized, V> Make<K, V>
    for Choice<K, M, WORDS, H>
{
    type Memory = M;
    const HEAT: HeatIn = match Self::OF_WORDS {
        true => HeatIn::Table {
            node_bytes: Self::BYTES,
        },
        false => HeatIn::Leaf {
            leaf_bytes: Self::BYTES,
        },
    };

    fn make(memory: M, placement: Arc<dyn Placement>, domain: Domain) -> Result<Self, Error> {
        Ok(Choice::new(memory, placement, domain)?)
    }
}

impl<K: Key + ?Sized, V: Value, M: Memory, const WORDS: usize> Core<K, V>
    for Choice<K, M, WORDS, V::Representation>
{
    const NAME: &'static str = "BTree";
    type Memory = M;
    type Range = Range<K, V, M, WORDS>;

    fn ascends(first: &K::Borrowed, second: &K::Borrowed) -> bool {
        match Self::OF_WORDS {
            true => to_word(first) < to_word(second),
            false => first.to_bytes().as_ref() < second.to_bytes().as_ref(),
        }
    }

    #[inline(always)]
    fn store(&self) -> &Store<M> {
        match self.chosen() {
            Chosen::Words(tree) => &tree.store,
            Chosen::Strings(tree) => &tree.store,
        }
    }

    #[inline(always)]
    fn get<R>(&self, key: &K::Borrowed, out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        match self.chosen() {
            Chosen::Words(tree) => tree.get(to_word(key), out),
            Chosen::Strings(tree) => ByteTree::get(tree, key.to_bytes(), out),
        }
    }

    fn get_each<Q: Borrow<K::Borrowed>>(
        &self,
        keys: &[Q],
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        match self.chosen() {
            Chosen::Words(tree) => {
                let words = keys.iter().map(|key| to_word(key.borrow()));
                tree.get_each(words, depth, found);
            }
            Chosen::Strings(tree) => Core::<K, V>::get_each(tree, keys, depth, found),
        }
    }

    /// Nothing for words: an insert waits for many lines of one leaf at once, so one at a time is
    /// as fast.
    fn approach_each<Q: Borrow<K::Borrowed>>(&self, keys: &[Q]) {
        if let Chosen::Strings(tree) = self.chosen() {
            Core::<K, V>::approach_each(tree, keys);
        }
    }

    async fn get_async<'k, R>(
        &'k self,
        key: &'k K::Borrowed,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        match self.chosen() {
            Chosen::Words(tree) => tree.get_async(to_word(key), out).await,
            Chosen::Strings(tree) => Core::<K, V>::get_async(tree, key, out).await,
        }
    }

    #[inline(always)]
    fn upsert<R>(
        &self,
        key: &K::Borrowed,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        match self.chosen() {
            Chosen::Words(tree) => tree.upsert(to_word(key), change, out),
            Chosen::Strings(tree) => Core::<K, V>::upsert(tree, key, change, out),
        }
    }

    #[inline(always)]
    fn modify<R>(
        &self,
        key: &K::Borrowed,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        match self.chosen() {
            Chosen::Words(tree) => tree.modify(to_word(key), change, out),
            Chosen::Strings(tree) => Core::<K, V>::modify(tree, key, change, out),
        }
    }

    #[inline(always)]
    fn remove<R>(
        &self,
        key: &K::Borrowed,
        only: Option<u64>,
        out: impl FnOnce(Loan<'_>) -> R,
    ) -> Option<R> {
        match self.chosen() {
            Chosen::Words(tree) => tree.remove(to_word(key), only, out),
            Chosen::Strings(tree) => Core::<K, V>::remove(tree, key, only, out),
        }
    }

    fn pop<R>(&self, way: Way, out: impl FnOnce(K::Owned, Loan<'_>) -> R) -> Option<R> {
        match self.chosen() {
            Chosen::Words(tree) => tree.pop(way, |key, value| out(from_word::<K>(key), value)),
            Chosen::Strings(tree) => Core::<K, V>::pop(tree, way, out),
        }
    }

    fn clear(&self) {
        match self.chosen() {
            Chosen::Words(tree) => tree.clear(),
            Chosen::Strings(tree) => ByteTree::clear(tree),
        }
    }

    fn range(
        tree: &Shared<Self>,
        low: Bound<&K::Borrowed>,
        high: Bound<&K::Borrowed>,
    ) -> Range<K, V, M, WORDS> {
        if Self::OF_WORDS {
            let span = Span::of(low.map(to_word), high.map(to_word));
            return Range::words(tree.clone(), span);
        }
        let bytes = |key: &K::Borrowed| key.to_bytes().as_ref().to_vec();
        let records = Records::new(tree.clone(), low.map(bytes), high.map(bytes));
        Range::strings(records)
    }

    fn scan(
        &self,
        from: &K::Borrowed,
        limit: usize,
        mut visit: impl FnMut(K::Owned, Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        match self.chosen() {
            Chosen::Words(tree) => {
                let typed = |key, value: Loan<'_>| visit(from_word::<K>(key), value);
                tree.scan(to_word(from), limit, typed)
            }
            Chosen::Strings(tree) => Core::<K, V>::scan(tree, from, limit, visit),
        }
    }

    fn load<Q: Borrow<K::Borrowed>>(
        map: &Map<Self, K, V>,
        sorted: impl Iterator<Item = (Q, V)>,
    ) -> Result<usize, Error> {
        match map.tree.chosen() {
            _ if V::Representation::DISPOSE.is_some() => map.insert_sorted(sorted),
            Chosen::Strings(tree) => sorted::load(map, tree, sorted),
            Chosen::Words(tree) => tree.load(sorted.map(|(key, value)| {
                let word = V::Representation::word(V::to_stored(value.lend()));
                (to_word(key.borrow()), word.expect("no string"))
            })),
        }
    }

    fn stats(&self) -> Stats {
        match self.chosen() {
            Chosen::Words(tree) => tree.stats(),
            Chosen::Strings(tree) => ByteTree::stats(tree),
        }
    }
}

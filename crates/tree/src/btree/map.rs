//! The map of words, [`BTree`].

use std::borrow::Borrow;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use timberline_placement::{HeatIn, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, Native};

use super::NODE_1K;
use super::payload::{Payload, Values};
use super::scan::{Range, Span};
use super::tree::Tree;
use crate::error::Refused;
use crate::map::{Core, Make, Map, Shared};
use crate::range::Way;
use crate::stats::Stats;
use crate::store::Store;
use crate::value::{Change, Loan, Represent};
use crate::{Error, Value, WordKey};

/// A concurrent ordered map: a B+tree. In plain memory ([`new`](Map::new)), or in tiers between
/// which its nodes move by themselves ([`builder`](Map::builder)).
///
/// Keys are whatever is a [`WordKey`]: integers, `char`, small tuples and arrays. Nodes have
/// `32 + 8 × WORDS` bytes, a power of two ([`NODE_256`](super::NODE_256) …
/// [`NODE_4K`](super::NODE_4K)). Point operations cost O(log n) node visits, and take no lock to
/// read. Its methods are those of [`Map`].
///
/// ```
/// use timberline::BTree;
///
/// let map: BTree<u64, i32> = BTree::new();
/// assert_eq!(map.insert(&3, -3)?, None);
/// assert_eq!(map.insert(&5, -5)?, None);
/// assert_eq!(map.get(&3), Some(-3));
/// assert_eq!(map.range(..=4).collect::<Vec<_>>(), [(3, -3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type BTree<K, V, M = Native, const WORDS: usize = NODE_1K> =
    Map<Tree<M, WORDS, Values<<V as Value>::Representation>>, K, V>;

/// Maps of nodes of words: [`BTree`] and [`Masstree`](crate::Masstree).
impl<M: Memory, const WORDS: usize, P: Payload, K: ?Sized, V> Map<Tree<M, WORDS, P>, K, V> {
    /// Bytes of a node.
    pub const NODE_BYTES: usize = Tree::<M, WORDS, P>::BYTES;
}

impl<M: Memory, const WORDS: usize, H: Represent, K, V> Make<K, V> for Tree<M, WORDS, Values<H>> {
    type Memory = M;
    const HEAT: HeatIn = HeatIn::Table {
        node_bytes: Self::BYTES,
    };

    fn make(memory: M, placement: Arc<dyn Placement>, domain: Domain) -> Result<Self, Error> {
        Ok(Tree::new(memory, placement, domain)?)
    }
}

impl<K: WordKey, V: Value, M: Memory, const WORDS: usize> Core<K, V>
    for Tree<M, WORDS, Values<V::Representation>>
{
    const NAME: &'static str = "BTree";
    type Memory = M;
    type Range = Range<K, V, M, WORDS>;

    fn ascends(first: &K, second: &K) -> bool {
        first.to_word() < second.to_word()
    }

    #[inline(always)]
    fn store(&self) -> &Store<M> {
        &self.store
    }

    #[inline(always)]
    fn get<R>(&self, key: &K, out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        self.get(key.to_word(), out)
    }

    fn get_each<Q: Borrow<K>>(
        &self,
        keys: &[Q],
        depth: usize,
        found: impl FnMut(usize, Option<Loan<'_>>),
    ) {
        let words = keys.iter().map(|key| key.borrow().to_word());
        self.get_each(words, depth, found);
    }

    /// Nothing: an insert waits for many lines of one leaf at once, so one at a time is as fast.
    fn approach_each<Q: Borrow<K>>(&self, _: &[Q]) {}

    async fn get_async<'k, R>(&'k self, key: &'k K, out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        self.get_async(key.to_word(), out).await
    }

    #[inline(always)]
    fn upsert<R>(
        &self,
        key: &K,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        self.upsert(key.to_word(), change, out)
    }

    #[inline(always)]
    fn modify<R>(
        &self,
        key: &K,
        change: impl Change,
        out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        self.modify(key.to_word(), change, out)
    }

    #[inline(always)]
    fn remove<R>(&self, key: &K, only: Option<u64>, out: impl FnOnce(Loan<'_>) -> R) -> Option<R> {
        self.remove(key.to_word(), only, out)
    }

    fn pop<R>(&self, way: Way, out: impl FnOnce(K, Loan<'_>) -> R) -> Option<R> {
        self.pop(way, |key, value| out(K::from_word(key), value))
    }

    fn clear(&self) {
        self.clear();
    }

    fn range(tree: &Shared<Self>, low: Bound<&K>, high: Bound<&K>) -> Range<K, V, M, WORDS> {
        Range::new(tree.clone(), Span::of(low, high))
    }

    fn scan(
        &self,
        from: &K,
        limit: usize,
        mut visit: impl FnMut(K, Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        let typed = |key, value: Loan<'_>| visit(K::from_word(key), value);
        self.scan(from.to_word(), limit, typed)
    }

    fn load<Q: Borrow<K>>(
        map: &Map<Self, K, V>,
        sorted: impl Iterator<Item = (Q, V)>,
    ) -> Result<usize, Error> {
        if V::Representation::DISPOSE.is_some() {
            return map.insert_sorted(sorted);
        }
        map.tree.load(sorted.map(|(key, value)| {
            let word = V::Representation::word(V::to_stored(value.lend()));
            (key.borrow().to_word(), word.expect("no string"))
        }))
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}

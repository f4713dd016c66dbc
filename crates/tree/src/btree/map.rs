//! The typed face of the tree.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_tier::{Memory, Native};

use super::scan::{Range, Span};
use super::tree::Tree;
use super::{BulkError, NODE_1K, Stats};
use crate::traverse::DEPTH;
use crate::{Full, Key, Value};

/// A concurrent ordered map whose nodes live across memory tiers and move by themselves.
///
/// All operations take `&self` and may run on any number of threads; point operations are linearizable,
/// scans are so leaf by leaf. A clone is another handle to the same map. Nodes have `32 + 8 × WORDS`
/// bytes, a power of two ([`NODE_256`](super::NODE_256) … [`NODE_4K`](super::NODE_4K)).
///
/// Point operations cost O(log n) node visits, and take no lock to read.
///
/// ```
/// use std::sync::Arc;
/// use timberline_placement::AllFast;
/// use timberline_tier::{Arenas, ArenasConfig, Native};
/// use timberline_tree::BTree;
///
/// let arenas = Arenas::new(&ArenasConfig::one_tier(16 << 20))?;
/// let map: BTree<u64, i32> = BTree::new(Native(arenas), Arc::new(AllFast))?;
/// assert_eq!(map.insert(3, -3)?, None);
/// assert_eq!(map.insert(5, -5)?, None);
/// assert_eq!(map.get(3), Some(-3));
/// assert_eq!(map.range(..=4).collect::<Vec<_>>(), [(3, -3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BTree<K, V, M: Memory = Native, const WORDS: usize = NODE_1K> {
    tree: Arc<Tree<M, WORDS>>,
    typed: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value, M: Memory, const WORDS: usize> BTree<K, V, M, WORDS> {
    /// Bytes of a node.
    pub const NODE_BYTES: usize = Tree::<M, WORDS>::BYTES;

    /// An empty map in `memory`, its nodes placed by `placement`.
    ///
    /// # Errors
    /// No memory for the first node.
    pub fn new(memory: M, placement: Arc<dyn Placement>) -> Result<Self, Full> {
        Ok(BTree {
            tree: Arc::new(Tree::new(memory, placement)?),
            typed: PhantomData,
        })
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: K) -> Option<V> {
        self.tree.get(key.to_word()).map(V::from_word)
    }

    /// Whether there is a record of `key`.
    pub fn contains_key(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    /// The value of `key`, as a future that yields wherever it would wait for memory; an executor that polls about 16 of
    /// them in turn hides much of slow memory's latency. Nothing is allocated.
    ///
    /// From its first poll to its last the future holds the epoch back (no node is freed meanwhile), so poll it to its
    /// end soon, and let an executor run dry now and then. It is not `Send`: the hold is the thread's.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// # use std::sync::Arc;
    /// # use timberline_placement::AllFast;
    /// # use timberline_tier::{Arenas, ArenasConfig, Native};
    /// # let arenas = Arenas::new(&ArenasConfig::one_tier(16 << 20))?;
    /// # let map: timberline_tree::BTree<u64, u64> = timberline_tree::BTree::new(Native(arenas), Arc::new(AllFast))?;
    /// map.insert(3, 33)?;
    /// let (mut three, mut four) = (pin!(map.get_async(3)), pin!(map.get_async(4)));
    /// let mut context = Context::from_waker(Waker::noop());
    /// let (mut found, mut missed) = (Poll::Pending, Poll::Pending);
    /// while found.is_pending() || missed.is_pending() {
    ///     if found.is_pending() {
    ///         found = three.as_mut().poll(&mut context);
    ///     }
    ///     if missed.is_pending() {
    ///         missed = four.as_mut().poll(&mut context);
    ///     }
    /// }
    /// assert_eq!((found, missed), (Poll::Ready(Some(33)), Poll::Ready(None)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn get_async(&self, key: K) -> Option<V> {
        self.tree.get_async(key.to_word()).await.map(V::from_word)
    }

    /// The values of many keys, in their order: `values[i]` becomes that of `keys[i]`. [`DEPTH`] lookups are under way
    /// at a time, which hides much of slow memory's latency. Each is linearizable on its own.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many(&self, keys: &[K], values: &mut [Option<V>]) {
        self.get_many_deep(keys, values, DEPTH);
    }

    /// As [`get_many`](Self::get_many), with `depth` lookups at a time, made to lie within 1 and
    /// [`MAX_DEPTH`](crate::traverse::MAX_DEPTH). Memory of high latency that takes many prefetches wants more.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many_deep(&self, keys: &[K], values: &mut [Option<V>], depth: usize) {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        let words = keys.iter().map(|key| key.to_word());
        self.tree.get_each(words, depth, |index, found| {
            values[index] = found.map(V::from_word);
        });
    }

    /// Inserts a record, or replaces the value of a present one. Returns the value before.
    ///
    /// # Errors
    /// The map would need a node, and its memory is used up.
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Full> {
        let before = self.tree.insert(key.to_word(), value.to_word())?;
        Ok(before.map(V::from_word))
    }

    /// Replaces the value of a present record; needs no memory. Returns the value before, `None` where
    /// there is no such record.
    pub fn update(&self, key: K, value: V) -> Option<V> {
        self.tree
            .modify(key.to_word(), |_| Some(value.to_word()))
            .map(V::from_word)
    }

    /// Replaces the value of a present record by `change` of it, atomically; `change` returning `None` leaves the record alone.
    /// Returns the value before, `None` where there is no such record. The leaf is locked meanwhile, so `change` should be brief
    /// and must not use the map.
    pub fn modify(&self, key: K, mut change: impl FnMut(V) -> Option<V>) -> Option<V> {
        let change = |word| change(V::from_word(word)).map(V::to_word);
        self.tree.modify(key.to_word(), change).map(V::from_word)
    }

    /// Inserts or replaces a record by `value` of what is there, atomically. Returns the value that is there afterwards. `value` is
    /// called once, with the record's leaf locked: it should be brief and must not use the map.
    ///
    /// # Errors
    /// As for [`BTree::insert`].
    pub fn upsert_with(&self, key: K, mut value: impl FnMut(Option<V>) -> V) -> Result<V, Full> {
        let mut after = None;
        self.tree.upsert(key.to_word(), |now| {
            *after.insert(value(now.map(V::from_word)).to_word())
        })?;
        Ok(V::from_word(after.expect("the record is there")))
    }

    /// Replaces the value of a present record if it is `expected`.
    ///
    /// # Errors
    /// It is another one (`Some`), or there is no such record (`None`).
    pub fn compare_and_set(&self, key: K, expected: V, new: V) -> Result<(), Option<V>> {
        let (expected, new) = (expected.to_word(), new.to_word());
        let before = self
            .tree
            .modify(key.to_word(), |now| (now == expected).then_some(new));
        if before == Some(expected) {
            Ok(())
        } else {
            Err(before.map(V::from_word))
        }
    }

    /// Removes a record. Returns its value.
    pub fn remove(&self, key: K) -> Option<V> {
        self.tree.remove(key.to_word()).map(V::from_word)
    }

    /// The record with the least key.
    pub fn first(&self) -> Option<(K, V)> {
        self.iter().next()
    }

    /// The record with the greatest key.
    pub fn last(&self) -> Option<(K, V)> {
        self.iter().next_back()
    }

    /// Removes the record with the least key, as of some moment of the call. Returns it.
    pub fn pop_first(&self) -> Option<(K, V)> {
        self.pop(Self::first)
    }

    /// Removes the record with the greatest key, as of some moment of the call. Returns it.
    pub fn pop_last(&self) -> Option<(K, V)> {
        self.pop(Self::last)
    }

    fn pop(&self, end: impl Fn(&Self) -> Option<(K, V)>) -> Option<(K, V)> {
        loop {
            let (key, _) = end(self)?;
            // Another thread may have been faster.
            if let Some(value) = self.remove(key) {
                return Some((key, value));
            }
        }
    }

    /// Removes all records that are there when it passes them.
    pub fn clear(&self) {
        for (key, _) in self.range(..) {
            self.remove(key);
        }
    }

    /// The records with keys in `bounds`, in order, from either end. The iterator holds no lock; a
    /// record that is there throughout is yielded exactly once.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> Range<K, V, M, WORDS> {
        Range::new(self.tree.clone(), Span::of(bounds))
    }

    /// All records, in order.
    pub fn iter(&self) -> Range<K, V, M, WORDS> {
        self.range(..)
    }

    /// Calls `visit` with up to `limit` records from `from` on, in order, until it breaks. Returns how many it was
    /// called with. Faster than [`BTree::range`] for short scans, but `visit` should be brief: no
    /// memory is reclaimed meanwhile.
    pub fn scan(
        &self,
        from: K,
        limit: usize,
        mut visit: impl FnMut(K, V) -> ControlFlow<()>,
    ) -> usize {
        let typed = |key, value| visit(K::from_word(key), V::from_word(value));
        self.tree.scan(from.to_word(), limit, typed)
    }

    /// Inserts records that ascend by key: one descent a leaf, and full leaves where they are appended. Returns how
    /// many there were.
    ///
    /// # Errors
    /// The input is not sorted, or memory is used up; all records before are in.
    pub fn bulk_load(&self, sorted: impl IntoIterator<Item = (K, V)>) -> Result<usize, BulkError> {
        self.tree.load(
            sorted
                .into_iter()
                .map(|(key, value)| (key.to_word(), value.to_word())),
        )
    }

    /// How many records there are. Adds up per-thread counts; exact when nobody writes.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nodes by level and tier, bytes by tier, moves so far. Visits the inner nodes.
    pub fn stats(&self) -> Stats {
        self.tree.stats()
    }

    /// How many nodes went to faster and to slower memory so far.
    pub fn moves(&self) -> (u64, u64) {
        self.tree.moves()
    }

    /// The memory that the nodes live in.
    pub fn memory(&self) -> &M {
        self.tree.memory()
    }

    /// The tree as a placement's workers see it.
    pub fn placed(&self) -> Arc<dyn Placed> {
        self.tree.clone()
    }
}

impl<K, V, M: Memory, const WORDS: usize> Clone for BTree<K, V, M, WORDS> {
    fn clone(&self) -> Self {
        BTree {
            tree: self.tree.clone(),
            typed: PhantomData,
        }
    }
}

impl<K: Key, V: Value, M: Memory, const WORDS: usize> fmt::Debug for BTree<K, V, M, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BTree")
            .field("records", &self.len())
            .field("levels", &self.tree.levels())
            .field("node_bytes", &Tree::<M, WORDS>::BYTES)
            .finish_non_exhaustive()
    }
}

impl<K: Key, V: Value, M: Memory, const WORDS: usize> IntoIterator for &BTree<K, V, M, WORDS> {
    type Item = (K, V);
    type IntoIter = Range<K, V, M, WORDS>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

//! The typed face of the tree.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;

use timberline_placement::{Placed, Placement, Walk};
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, Native};

use super::payload::Values;
use super::scan::{Range, Span};
use super::tree::Tree;
use super::{BulkError, NODE_1K, Stats};
use crate::range::Way;
use crate::traverse::DEPTH;
use crate::value::{Keep, lent, owned};
use crate::{Full, InsertError, Key, Value};

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
pub struct BTree<K, V: Value, M: Memory = Native, const WORDS: usize = NODE_1K> {
    tree: Arc<Tree<M, WORDS, Values<V::Kept>>>,
    typed: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Value, M: Memory, const WORDS: usize> BTree<K, V, M, WORDS> {
    /// Bytes of a node.
    pub const NODE_BYTES: usize = Tree::<M, WORDS, Values<V::Kept>>::BYTES;

    /// An empty map in `memory`, its nodes placed by `placement`.
    ///
    /// # Errors
    /// No memory for the first node.
    pub fn new(memory: M, placement: Arc<dyn Placement>) -> Result<Self, Full> {
        Self::in_domain(Domain::new(), memory, placement)
    }

    /// The same, in an epoch domain that maps share: see [`domain`](Self::domain).
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn in_domain(
        domain: Domain,
        memory: M,
        placement: Arc<dyn Placement>,
    ) -> Result<Self, Full> {
        Ok(BTree {
            tree: Arc::new(Tree::new(memory, placement, domain)?),
            typed: PhantomData,
        })
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: K) -> Option<V> {
        self.get_with(key, V::own)
    }

    /// What `read` makes of the value of `key`, which is lent to it: no copy is made of a string. No memory is reclaimed meanwhile, so `read`
    /// should be brief.
    #[inline]
    pub fn get_with<R>(&self, key: K, read: impl FnOnce(V::Ref<'_>) -> R) -> Option<R> {
        let read = |value| read(lent::<V>(self.memory(), value));
        self.tree.get(key.to_word(), read)
    }

    /// Whether there is a record of `key`.
    pub fn contains_key(&self, key: K) -> bool {
        self.tree.get(key.to_word(), |_| ()).is_some()
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
        let own = |value| owned(self.memory(), value);
        self.tree.get_async(key.to_word(), own).await
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
            values[index] = found.map(|value| owned(self.memory(), value));
        });
    }

    /// Inserts a record, or replaces the value of a present one. Returns the value before.
    ///
    /// # Errors
    /// The value is too long, or memory for it, or for a node, is used up; the map is as it was.
    pub fn insert(&self, key: K, value: V::Ref<'_>) -> Result<Option<V>, InsertError> {
        let value = V::to_kept(value);
        V::Kept::check(value)?;
        let change = V::Kept::setting(&self.tree.store, value, |_| true);
        let own = |before| owned(self.memory(), before);
        self.tree.upsert(key.to_word(), change, own)
    }

    /// Replaces the value of a present record. Returns the value before, `None` where there is no such record.
    ///
    /// # Errors
    /// The value is too long, or there is no memory for it. Words need none: there is no error then.
    pub fn update(&self, key: K, value: V::Ref<'_>) -> Result<Option<V>, InsertError> {
        let value = V::to_kept(value);
        V::Kept::check(value)?;
        let change = V::Kept::setting(&self.tree.store, value, |_| true);
        let own = |before| owned(self.memory(), before);
        self.tree.modify(key.to_word(), change, own)
    }

    /// Replaces the value of a present record by `change` of it, atomically; `change` returning `None` leaves the record alone.
    /// Returns the value before, `None` where there is no such record. `change` should be brief and must not use the map. Words are
    /// changed with their leaf locked, so it is called once; for a string it is called without a lock, and again if another
    /// thread was faster to replace it.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn modify(
        &self,
        key: K,
        change: impl FnMut(V::Ref<'_>) -> Option<V>,
    ) -> Result<Option<V>, InsertError> {
        let (mut change, mut after) = (change, None);
        let make = |now: Option<V::Ref<'_>>| now.and_then(&mut change);
        let change = V::Kept::making(&self.tree.store, &mut after, make);
        let own = |before| owned(self.memory(), before);
        self.tree.modify(key.to_word(), change, own)
    }

    /// Inserts or replaces a record by `value` of what is there, atomically. Returns the value that is there afterwards. `value` is
    /// called as `change` of [`modify`](Self::modify) is.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert_with(
        &self,
        key: K,
        mut value: impl FnMut(Option<V::Ref<'_>>) -> V,
    ) -> Result<V, InsertError> {
        let mut after = None;
        let make = |now: Option<V::Ref<'_>>| Some(value(now));
        let change = V::Kept::making(&self.tree.store, &mut after, make);
        self.tree.upsert(key.to_word(), change, |_| ())?;
        Ok(after.expect("the record is there"))
    }

    /// Replaces the value of a present record if it is `expected`. If it is another one, that is in the inner `Err`; `None` if there is no such
    /// record.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn compare_and_set(
        &self,
        key: K,
        expected: V::Ref<'_>,
        new: V::Ref<'_>,
    ) -> Result<Result<(), Option<V>>, InsertError> {
        let (expected, new) = (V::to_kept(expected), V::to_kept(new));
        V::Kept::check(new)?;
        let is_expected = Cell::new(false);
        let change = V::Kept::setting(&self.tree.store, new, |now| {
            is_expected.set(now.is_some_and(|now| V::Kept::same(now, expected)));
            is_expected.get()
        });
        let other = |before| (!is_expected.get()).then(|| owned(self.memory(), before));
        Ok(match self.tree.modify(key.to_word(), change, other)? {
            Some(None) => Ok(()),
            before => Err(before.flatten()),
        })
    }

    /// Removes a record. Returns its value.
    pub fn remove(&self, key: K) -> Option<V> {
        let own = |value| owned(self.memory(), value);
        self.tree.remove(key.to_word(), own)
    }

    /// The record with the least key.
    pub fn first(&self) -> Option<(K, V)> {
        self.iter().next()
    }

    /// The record with the greatest key.
    pub fn last(&self) -> Option<(K, V)> {
        self.iter().next_back()
    }

    /// Removes the record with the least key, and returns it. The two are one step: no other thread
    /// puts a lesser one there in between.
    pub fn pop_first(&self) -> Option<(K, V)> {
        self.pop(Way::Forward)
    }

    /// Removes the record with the greatest key, and returns it, at one moment.
    pub fn pop_last(&self) -> Option<(K, V)> {
        self.pop(Way::Backward)
    }

    fn pop(&self, way: Way) -> Option<(K, V)> {
        let own = |key, value| (K::from_word(key), owned(self.memory(), value));
        self.tree.pop(way, own)
    }

    /// Removes all records that are there throughout, and gives back the memory of copies. Ends, also beside others that insert: of the
    /// records that they insert meanwhile, some may stay.
    pub fn clear(&self) {
        self.tree.clear();
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
        mut visit: impl FnMut(K, V::Ref<'_>) -> ControlFlow<()>,
    ) -> usize {
        let memory = self.memory();
        let typed = |key, value| visit(K::from_word(key), lent::<V>(memory, value));
        self.tree.scan(from.to_word(), limit, typed)
    }

    /// Inserts records that ascend by key: one descent a leaf (strings: one a record), and full leaves where they are appended. Returns
    /// how many there were.
    ///
    /// # Errors
    /// The input is not sorted, a value is too long, or memory is used up; all records before are in.
    pub fn bulk_load(&self, sorted: impl IntoIterator<Item = (K, V)>) -> Result<usize, BulkError> {
        let sorted = sorted.into_iter();
        if V::Kept::IN_BLOCKS {
            return self.insert_sorted(sorted);
        }
        self.tree.load(sorted.map(|(key, value)| {
            let word = V::Kept::word(V::to_kept(value.lend()));
            (key.to_word(), word.expect("no string"))
        }))
    }

    fn insert_sorted(&self, sorted: impl Iterator<Item = (K, V)>) -> Result<usize, BulkError> {
        let (mut loaded, mut last) = (0, None);
        for (key, value) in sorted {
            if last.is_some_and(|last| key.to_word() <= last) {
                return Err(BulkError::Unsorted(loaded));
            }
            self.insert(key, value.lend())
                .map_err(|error| BulkError::at(loaded, error))?;
            (loaded, last) = (loaded + 1, Some(key.to_word()));
        }
        Ok(loaded)
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

    /// The epoch domain of the map: memory of what is removed or moved comes back once all threads that were
    /// [pinned](Domain::pin) in it then have unpinned. Operations pin by themselves. Each map has its own, unless it was made
    /// [in one](Self::in_domain) that it shares with others.
    pub fn domain(&self) -> &Domain {
        self.tree.store.domain()
    }

    /// The tree as a placement's workers see it.
    pub fn placed(&self) -> Arc<dyn Placed> {
        self.tree.clone()
    }
}

impl<K, V: Value, M: Memory, const WORDS: usize> Clone for BTree<K, V, M, WORDS> {
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
            .field("node_bytes", &Self::NODE_BYTES)
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

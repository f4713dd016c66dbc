//! The typed face of the trie.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;

use timberline_placement::{Placed, Placement, Walk};
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, Native};

use super::range::Range;
use super::{NODE, Tree};
use crate::range::{Ordered, Way};
use crate::traverse::DEPTH;
use crate::value::{Keep, lent, owned};
use crate::{BulkError, ByteKey, Full, InsertError, MAX_KEY, Stats, Value};

/// A concurrent ordered map from strings of bytes, whose nodes live across memory tiers and move by themselves: for keys that begin alike.
///
/// All operations take `&self` and may run on any number of threads; point operations are linearizable,
/// scans are so node by node. A clone is another handle to the same map. Nodes have `32 + 8 × WORDS`
/// bytes, a power of two from 128 to 4,096.
///
/// Point operations take a step of seven bytes into the key in O(log n) node visits, where keys differ there; what all keys with the same
/// beginning have next is one comparison. They take no lock to read.
///
/// ```
/// use std::sync::Arc;
/// use timberline_placement::AllFast;
/// use timberline_tier::{Arenas, ArenasConfig, Native};
/// use timberline_tree::Masstree;
///
/// let arenas = Arenas::new(&ArenasConfig::one_tier(16 << 20))?;
/// let map: Masstree<str, u64> = Masstree::new(Native(arenas), Arc::new(AllFast))?;
/// assert_eq!(map.insert("https://example.org/", 1)?, None);
/// assert_eq!(map.insert("https://example.org/a/page", 2)?, None);
/// assert_eq!(map.get("https://example.org/a/page"), Some(2));
/// let all: Vec<(String, u64)> = map.prefix("https://example.org/a").collect();
/// assert_eq!(all, [("https://example.org/a/page".into(), 2)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Masstree<K: ?Sized, V: Value, M: Memory = Native, const WORDS: usize = NODE> {
    tree: Arc<Tree<M, WORDS, V::Kept>>,
    typed: PhantomData<fn(Box<K>) -> V>,
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, const WORDS: usize> Masstree<K, V, M, WORDS> {
    /// Bytes of a node.
    pub const NODE_BYTES: usize = Tree::<M, WORDS, V::Kept>::BYTES;

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
        Ok(Masstree {
            tree: Arc::new(Tree::new(memory, placement, domain)?),
            typed: PhantomData,
        })
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        self.get_with(key, V::own)
    }

    /// What `read` makes of the value of `key`, which is lent to it: no copy is made of a string. No memory is reclaimed meanwhile, so `read`
    /// should be brief.
    #[inline]
    pub fn get_with<R>(&self, key: &K, read: impl FnOnce(V::Ref<'_>) -> R) -> Option<R> {
        let read = |value| read(lent::<V>(self.memory(), value));
        self.tree.get(key.to_bytes().as_ref(), read)
    }

    /// Whether there is a record of `key`.
    pub fn contains_key(&self, key: &K) -> bool {
        self.tree.get(key.to_bytes().as_ref(), |_| ()).is_some()
    }

    /// The value of `key`, as a future that yields wherever it would wait for memory; an executor that polls about 16 of
    /// them in turn hides much of slow memory's latency. Nothing is allocated.
    ///
    /// From its first poll to its last the future holds the epoch back (no node is freed meanwhile), so poll it to its
    /// end soon, and let an executor run dry now and then. It is not `Send`: the hold is the thread's.
    pub async fn get_async(&self, key: &K) -> Option<V> {
        let key = key.to_bytes();
        let own = |value| owned(self.memory(), value);
        self.tree.get_async(key.as_ref(), own).await
    }

    /// The values of many keys, in their order: `values[i]` becomes that of `keys[i]`. [`DEPTH`] lookups are under way
    /// at a time, which hides much of slow memory's latency. Each is linearizable on its own.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many<Q: Borrow<K>>(&self, keys: &[Q], values: &mut [Option<V>]) {
        self.get_many_deep(keys, values, DEPTH);
    }

    /// As [`get_many`](Self::get_many), with `depth` lookups at a time, made to lie within 1 and
    /// [`MAX_DEPTH`](crate::traverse::MAX_DEPTH). Memory of high latency that takes many prefetches wants more.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many_deep<Q: Borrow<K>>(&self, keys: &[Q], values: &mut [Option<V>], depth: usize) {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        // Keys as bytes may lie on the stack, where they have to stay as long as lookups are under way.
        const GROUP: usize = 256;
        for (keys, values) in keys.chunks(GROUP).zip(values.chunks_mut(GROUP)) {
            let bytes: Vec<K::Bytes<'_>> = keys.iter().map(|key| key.borrow().to_bytes()).collect();
            let bytes = bytes.iter().map(|bytes| bytes.as_ref());
            self.tree.get_each(bytes, depth, |index, found| {
                values[index] = found.map(|value| owned(self.memory(), value));
            });
        }
    }

    /// Inserts a record, or replaces the value of a present one. Returns the value before.
    ///
    /// # Errors
    /// The key or the value is too long, or memory is used up; the map is as it was.
    pub fn insert(&self, key: &K, value: V::Ref<'_>) -> Result<Option<V>, InsertError> {
        let value = V::to_kept(value);
        V::Kept::check(value)?;
        let key = key.to_bytes();
        let change = V::Kept::setting(&self.tree.store, value, |_| true);
        let own = |before| owned(self.memory(), before);
        self.tree.put(check(key.as_ref())?, change, own)
    }

    /// Replaces the value of a present record. Returns the value before, `None` where there is no such record.
    ///
    /// # Errors
    /// The value is too long, or there is no memory for it. Words need none: there is no error then.
    pub fn update(&self, key: &K, value: V::Ref<'_>) -> Result<Option<V>, InsertError> {
        let value = V::to_kept(value);
        V::Kept::check(value)?;
        let change = V::Kept::setting(&self.tree.store, value, |_| true);
        let own = |before| owned(self.memory(), before);
        self.tree.modify(key.to_bytes().as_ref(), change, own)
    }

    /// Replaces the value of a present record if it is `expected`. If it is another one, that is in the inner `Err`; `None` if there is no such
    /// record.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    pub fn compare_and_set(
        &self,
        key: &K,
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
        let key = key.to_bytes();
        Ok(match self.tree.modify(key.as_ref(), change, other)? {
            Some(None) => Ok(()),
            before => Err(before.flatten()),
        })
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
        key: &K,
        change: impl FnMut(V::Ref<'_>) -> Option<V>,
    ) -> Result<Option<V>, InsertError> {
        let (mut change, mut after) = (change, None);
        let make = |now: Option<V::Ref<'_>>| now.and_then(&mut change);
        let change = V::Kept::making(&self.tree.store, &mut after, make);
        let own = |before| owned(self.memory(), before);
        self.tree.modify(key.to_bytes().as_ref(), change, own)
    }

    /// Inserts or replaces a record by `value` of what is there, atomically. Returns the value that is there afterwards. `value` is
    /// called as `change` of [`modify`](Self::modify) is.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert_with(
        &self,
        key: &K,
        mut value: impl FnMut(Option<V::Ref<'_>>) -> V,
    ) -> Result<V, InsertError> {
        let (key, mut after) = (key.to_bytes(), None);
        let make = |now: Option<V::Ref<'_>>| Some(value(now));
        let change = V::Kept::making(&self.tree.store, &mut after, make);
        self.tree.put(check(key.as_ref())?, change, |_| ())?;
        Ok(after.expect("the record is there"))
    }

    /// Removes a record. Returns its value.
    pub fn remove(&self, key: &K) -> Option<V> {
        let own = |value| owned(self.memory(), value);
        self.tree.remove(key.to_bytes().as_ref(), own)
    }

    /// The record with the least key.
    pub fn first(&self) -> Option<(K::Owned, V)> {
        self.end(Way::Forward)
    }

    /// The record with the greatest key.
    pub fn last(&self) -> Option<(K::Owned, V)> {
        self.end(Way::Backward)
    }

    /// Removes the record with the least key, and returns it. The two are one step: no other thread
    /// puts a lesser one there in between.
    pub fn pop_first(&self) -> Option<(K::Owned, V)> {
        self.pop(Way::Forward)
    }

    /// Removes the record with the greatest key, and returns it, at one moment.
    pub fn pop_last(&self) -> Option<(K::Owned, V)> {
        self.pop(Way::Backward)
    }

    fn end(&self, way: Way) -> Option<(K::Owned, V)> {
        let mut end = None;
        self.tree.walk(way, Bound::Unbounded, 1, |key, value| {
            end = Some((K::from_bytes(key), owned(self.memory(), value)));
            ControlFlow::Break(())
        });
        end
    }

    fn pop(&self, way: Way) -> Option<(K::Owned, V)> {
        let own = |key: &[u8], value| (K::from_bytes(key), owned(self.memory(), value));
        self.tree.pop(way, own)
    }

    /// Removes all records that are there throughout. Ends, also beside others that insert: of the records that they insert meanwhile,
    /// some may stay.
    pub fn clear(&self) {
        self.tree.clear();
    }

    /// The records with keys in `bounds`, in order, from either end. The iterator holds no lock; a
    /// record that is there throughout is yielded exactly once.
    pub fn range<'k>(&self, bounds: impl RangeBounds<&'k K>) -> Range<K, V, M, WORDS>
    where
        K: 'k,
    {
        let bytes = |key: &&K| key.to_bytes().as_ref().to_vec();
        let (low, high) = (bounds.start_bound(), bounds.end_bound());
        Range::new(self.tree.clone(), low.map(bytes), high.map(bytes))
    }

    /// All records, in order.
    pub fn iter(&self) -> Range<K, V, M, WORDS> {
        Range::new(self.tree.clone(), Bound::Unbounded, Bound::Unbounded)
    }

    /// The records whose keys begin with the bytes of `prefix`, in order, from either end.
    pub fn prefix(&self, prefix: &K) -> Range<K, V, M, WORDS> {
        let prefix = prefix.to_bytes();
        let low = prefix.as_ref().to_vec();
        // Behind all that begins so comes the next string of this length, unless all bytes are the greatest.
        let mut next = low.clone();
        while next.last() == Some(&u8::MAX) {
            next.pop();
        }
        let high = match next.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(next)
            }
            None => Bound::Unbounded,
        };
        Range::new(self.tree.clone(), Bound::Included(low), high)
    }

    /// Calls `visit` with up to `limit` records from `from` on, in order, until it breaks. Returns how many it was
    /// called with. Faster than [`Masstree::range`] for short scans, but `visit` should be brief: no
    /// memory is reclaimed meanwhile.
    pub fn scan(
        &self,
        from: &K,
        limit: usize,
        mut visit: impl FnMut(K::Owned, V::Ref<'_>) -> ControlFlow<()>,
    ) -> usize {
        self.scan_bytes(from, limit, |key, value| visit(K::from_bytes(key), value))
    }

    /// As [`Masstree::scan`], with the keys lent as bytes instead of given: no allocation a record.
    pub fn scan_bytes(
        &self,
        from: &K,
        limit: usize,
        mut visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> usize {
        let from = from.to_bytes();
        let from = Bound::Included(from.as_ref());
        self.tree.walk(Way::Forward, from, limit, |key, value| {
            visit(key, lent::<V>(self.memory(), value))
        })
    }

    /// Inserts records that ascend by key. Returns how many there were. A run of inserts: it leaves full border nodes behind, and
    /// the path to the next record is in the cache.
    ///
    /// # Errors
    /// The input is not sorted, a key is too long, or memory is used up; all records before are in.
    pub fn bulk_load<Q: Borrow<K>>(
        &self,
        sorted: impl IntoIterator<Item = (Q, V)>,
    ) -> Result<usize, BulkError> {
        let (mut loaded, mut last) = (0, Vec::new());
        for (key, value) in sorted {
            let key = key.borrow();
            let bytes = key.to_bytes();
            if loaded > 0 && bytes.as_ref() <= &last[..] {
                return Err(BulkError::Unsorted(loaded));
            }
            self.insert(key, value.lend())
                .map_err(|error| BulkError::at(loaded, error))?;
            last.clear();
            last.extend_from_slice(bytes.as_ref());
            loaded += 1;
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

    /// Nodes by level and tier, bytes by tier, moves so far. Visits all nodes.
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

    /// The trie as a placement's workers see it: border nodes are its leaves.
    pub fn placed(&self) -> Arc<dyn Placed> {
        self.tree.clone()
    }
}

impl<K: ?Sized, V: Value, M: Memory, const WORDS: usize> Clone for Masstree<K, V, M, WORDS> {
    fn clone(&self) -> Self {
        Masstree {
            tree: self.tree.clone(),
            typed: PhantomData,
        }
    }
}

impl<K: ?Sized, V: Value, M: Memory, const WORDS: usize> fmt::Debug for Masstree<K, V, M, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masstree")
            .field("records", &self.tree.len())
            .field("levels", &self.tree.levels())
            .field("node_bytes", &Tree::<M, WORDS, V::Kept>::BYTES)
            .finish_non_exhaustive()
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, const WORDS: usize> IntoIterator
    for &Masstree<K, V, M, WORDS>
{
    type Item = (K::Owned, V);
    type IntoIter = Range<K, V, M, WORDS>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Whether a key is short enough.
fn check(key: &[u8]) -> Result<&[u8], InsertError> {
    match key.len() {
        ..=MAX_KEY => Ok(key),
        len => Err(InsertError::KeyTooLong(len)),
    }
}

//! The typed face of the trie.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_tier::{Memory, Native};

use super::range::Range;
use super::walk::Way;
use super::{NODE, Tree};
use crate::traverse::DEPTH;
use crate::value::WordValue as Value;
use crate::{BulkError, ByteKey, Full, InsertError, MAX_KEY, Stats};

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
pub struct Masstree<K: ?Sized, V, M: Memory = Native, const WORDS: usize = NODE> {
    tree: Arc<Tree<M, WORDS>>,
    typed: PhantomData<fn(Box<K>) -> V>,
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, const WORDS: usize> Masstree<K, V, M, WORDS> {
    /// Bytes of a node.
    pub const NODE_BYTES: usize = Tree::<M, WORDS>::BYTES;

    /// An empty map in `memory`, its nodes placed by `placement`.
    ///
    /// # Errors
    /// No memory for the first node.
    pub fn new(memory: M, placement: Arc<dyn Placement>) -> Result<Self, Full> {
        Ok(Masstree {
            tree: Arc::new(Tree::new(memory, placement)?),
            typed: PhantomData,
        })
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &K) -> Option<V> {
        self.tree.get(key.to_bytes().as_ref()).map(V::from_word)
    }

    /// Whether there is a record of `key`.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The value of `key`, as a future that yields wherever it would wait for memory; an executor that polls about 16 of
    /// them in turn hides much of slow memory's latency. Nothing is allocated.
    ///
    /// From its first poll to its last the future holds the epoch back (no node is freed meanwhile), so poll it to its
    /// end soon, and let an executor run dry now and then. It is not `Send`: the hold is the thread's.
    pub async fn get_async(&self, key: &K) -> Option<V> {
        let key = key.to_bytes();
        self.tree.get_async(key.as_ref()).await.map(V::from_word)
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
                values[index] = found.map(V::from_word);
            });
        }
    }

    /// Inserts a record, or replaces the value of a present one. Returns the value before.
    ///
    /// # Errors
    /// The key is too long, or memory is used up; the map is as it was.
    pub fn insert(&self, key: &K, value: V) -> Result<Option<V>, InsertError> {
        let value = value.to_word();
        self.put(key, |_| value)
    }

    /// Replaces the value of a present record; needs no memory. Returns the value before, `None` where
    /// there is no such record.
    pub fn update(&self, key: &K, value: V) -> Option<V> {
        self.modify(key, |_| Some(value))
    }

    /// Replaces the value of a present record if it is `expected`.
    ///
    /// # Errors
    /// It is another one (`Some`), or there is no such record (`None`).
    pub fn compare_and_set(&self, key: &K, expected: V, new: V) -> Result<(), Option<V>> {
        let (expected, new) = (expected.to_word(), new.to_word());
        let change = |now| (now == expected).then_some(new);
        let before = self.tree.modify(key.to_bytes().as_ref(), change);
        if before == Some(expected) {
            Ok(())
        } else {
            Err(before.map(V::from_word))
        }
    }

    /// Replaces the value of a present record by `change` of it, atomically; `change` returning `None` leaves the record alone.
    /// Returns the value before, `None` where there is no such record. The record is locked meanwhile, so `change` should be brief
    /// and must not use the map.
    pub fn modify(&self, key: &K, mut change: impl FnMut(V) -> Option<V>) -> Option<V> {
        let change = |word| change(V::from_word(word)).map(V::to_word);
        let before = self.tree.modify(key.to_bytes().as_ref(), change);
        before.map(V::from_word)
    }

    /// Inserts or replaces a record by `value` of what is there, atomically. Returns the value that is there afterwards. `value` is
    /// called once, while the record is locked, so it should be brief and must not use the map.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert_with(
        &self,
        key: &K,
        mut value: impl FnMut(Option<V>) -> V,
    ) -> Result<V, InsertError> {
        let mut after = None;
        self.put(key, |before| {
            let new = value(before.map(V::from_word));
            after = Some(new);
            new.to_word()
        })?;
        Ok(after.expect("called once"))
    }

    fn put(
        &self,
        key: &K,
        value: impl FnMut(Option<u64>) -> u64,
    ) -> Result<Option<V>, InsertError> {
        let key = key.to_bytes();
        let key = key.as_ref();
        if key.len() > MAX_KEY {
            return Err(InsertError::KeyTooLong(key.len()));
        }
        let before = self.tree.put(key, value)?;
        Ok(before.map(V::from_word))
    }

    /// Removes a record. Returns its value.
    pub fn remove(&self, key: &K) -> Option<V> {
        self.tree.remove(key.to_bytes().as_ref()).map(V::from_word)
    }

    /// The record with the least key.
    pub fn first(&self) -> Option<(K::Owned, V)> {
        self.end(Way::Forward)
    }

    /// The record with the greatest key.
    pub fn last(&self) -> Option<(K::Owned, V)> {
        self.end(Way::Backward)
    }

    /// Removes the record with the least key, as of some moment of the call. Returns it.
    pub fn pop_first(&self) -> Option<(K::Owned, V)> {
        self.pop(Way::Forward)
    }

    /// Removes the record with the greatest key, as of some moment of the call. Returns it.
    pub fn pop_last(&self) -> Option<(K::Owned, V)> {
        self.pop(Way::Backward)
    }

    fn end(&self, way: Way) -> Option<(K::Owned, V)> {
        let mut end = None;
        self.tree.walk(way, Bound::Unbounded, 1, |key, value| {
            end = Some((K::from_bytes(key), V::from_word(value)));
            ControlFlow::Break(())
        });
        end
    }

    fn pop(&self, way: Way) -> Option<(K::Owned, V)> {
        loop {
            let mut end = None;
            self.tree.walk(way, Bound::Unbounded, 1, |key, _| {
                end = Some(key.to_vec());
                ControlFlow::Break(())
            });
            let key = end?;
            if let Some(value) = self.tree.remove(&key) {
                return Some((K::from_bytes(&key), V::from_word(value)));
            }
        }
    }

    /// Removes all records that are there when it passes them.
    pub fn clear(&self) {
        const GROUP: usize = 64;
        let (mut keys, mut last) = (Vec::new(), None);
        loop {
            let from = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            self.tree.walk(Way::Forward, from, GROUP, |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            });
            for key in &keys {
                self.tree.remove(key);
            }
            last = keys.pop();
            keys.clear();
            if last.is_none() {
                return;
            }
        }
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
        mut visit: impl FnMut(K::Owned, V) -> ControlFlow<()>,
    ) -> usize {
        self.scan_bytes(from, limit, |key, value| visit(K::from_bytes(key), value))
    }

    /// As [`Masstree::scan`], with the keys lent as bytes instead of given: no allocation a record.
    pub fn scan_bytes(
        &self,
        from: &K,
        limit: usize,
        mut visit: impl FnMut(&[u8], V) -> ControlFlow<()>,
    ) -> usize {
        let from = from.to_bytes();
        let from = Bound::Included(from.as_ref());
        self.tree.walk(Way::Forward, from, limit, |key, value| {
            visit(key, V::from_word(value))
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
            self.insert(key, value).map_err(|error| match error {
                InsertError::Full(full) => BulkError::Full(loaded, full),
                InsertError::KeyTooLong(len) | InsertError::ValueTooLong(len) => {
                    BulkError::KeyTooLong(loaded, len)
                }
            })?;
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

    /// The trie as a placement's workers see it: border nodes are its leaves.
    pub fn placed(&self) -> Arc<dyn Placed> {
        self.tree.clone()
    }
}

impl<K: ?Sized, V, M: Memory, const WORDS: usize> Clone for Masstree<K, V, M, WORDS> {
    fn clone(&self) -> Self {
        Masstree {
            tree: self.tree.clone(),
            typed: PhantomData,
        }
    }
}

impl<K: ?Sized, V, M: Memory, const WORDS: usize> fmt::Debug for Masstree<K, V, M, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masstree")
            .field("records", &self.tree.len())
            .field("levels", &self.tree.levels())
            .field("node_bytes", &Tree::<M, WORDS>::BYTES)
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

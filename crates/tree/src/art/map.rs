//! The typed face of the tree.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, Native};

use super::node::{Near, Reach};
use super::range::Range;
use super::tree::Tree;
use super::way::Start;
use crate::range::Way;
use crate::traverse::DEPTH;
use crate::value::{Keep, lent, owned};
use crate::{BulkError, ByteKey, InsertError, MAX_KEY, Stats, Value};

/// Why a map could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArtError {
    /// The arenas are this large, and links reach only so far.
    TooFar {
        /// Bytes of all tiers' arenas together.
        bytes: usize,
        /// Bytes that the map's links reach.
        reach: usize,
    },
}

impl fmt::Display for ArtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ArtError::TooFar { bytes, reach } = self;
        write!(
            f,
            "arenas of {bytes} bytes are beyond this map's links, which reach {reach}: take Far instead of Near"
        )
    }
}

impl std::error::Error for ArtError {}

/// A concurrent ordered map from byte strings, whose nodes live across memory tiers and move by themselves: an adaptive radix tree.
///
/// All operations take `&self` and may run on any number of threads; point operations are linearizable, scans are so record by
/// record. A clone is another handle to the same map. A point operation costs a node visit for each byte in which keys part, and
/// takes no lock to read. Placement is by record; words with keys of eight bytes may share a node with two others, or with their neighbours.
///
/// Keys are whatever is a [`ByteKey`], up to [`MAX_KEY`] bytes; one may be the beginning of another. Links between nodes are
/// 32 bits wide ([`Near`]), which is enough for 16 GiB; [`Far`](super::Far) is for larger arenas.
///
/// ```
/// use std::sync::Arc;
/// use timberline_placement::AllFast;
/// use timberline_tier::{Arenas, ArenasConfig, Native};
/// use timberline_tree::Art;
///
/// let arenas = Arenas::new(&ArenasConfig::one_tier(16 << 20))?;
/// let map: Art<str, u64> = Art::new(Native(arenas), Arc::new(AllFast))?;
/// for (rank, word) in ["tree", "trees", "timber", "line"].iter().enumerate() {
///     assert_eq!(map.insert(word, rank as u64)?, None);
/// }
/// assert_eq!(map.get("timber"), Some(2));
/// let words: Vec<String> = map.prefix("tre").map(|(word, _)| word).collect();
/// assert_eq!(words, ["tree", "trees"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Art<K: ?Sized, V: Value, M: Memory = Native, R: Reach = Near> {
    tree: Arc<Tree<M, R>>,
    typed: PhantomData<fn(&K) -> V>,
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> Art<K, V, M, R> {
    /// An empty map in `memory`, its nodes placed by `placement`. Takes no memory yet.
    ///
    /// # Errors
    /// The arenas are larger than links reach.
    pub fn new(memory: M, placement: Arc<dyn Placement>) -> Result<Self, ArtError> {
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
    ) -> Result<Self, ArtError> {
        let bytes = memory.arenas().range().len();
        if bytes > R::SPAN {
            let reach = R::SPAN;
            return Err(ArtError::TooFar { bytes, reach });
        }
        Ok(Art {
            tree: Arc::new(Tree::new(
                memory,
                placement,
                domain,
                V::Kept::IN_BLOCKS,
                K::LEN,
            )),
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
    pub fn get_with<T>(&self, key: &K, read: impl FnOnce(V::Ref<'_>) -> T) -> Option<T> {
        let read = |value| read(lent::<V>(self.memory(), value));
        self.tree.get(key.to_bytes(), read)
    }

    /// The values of many keys, in their order: `values[i]` becomes that of `keys[i]`. [`DEPTH`] lookups overlap,
    /// which hides much of slow memory's latency. Each is linearizable on its own.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many<Q: Borrow<K>>(&self, keys: &[Q], values: &mut [Option<V>]) {
        self.get_many_deep(keys, values, DEPTH);
    }

    /// As [`Art::get_many`], with so many lookups at a time (made to lie within 1 and
    /// [`MAX_DEPTH`](crate::traverse::MAX_DEPTH)).
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many_deep<Q: Borrow<K>>(&self, keys: &[Q], values: &mut [Option<V>], depth: usize) {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        let bytes = keys.iter().map(|key| key.borrow().to_bytes());
        self.tree
            .get_each::<V::Kept, _>(bytes, depth, |index, found| {
                values[index] = found.map(|value| owned(self.memory(), value));
            });
    }

    /// The value of `key`, as a future that yields where it would wait for memory: for an executor that interleaves
    /// many operations on one core. It pins the epoch as long as it lives, so it stays on its thread and should be polled to the end.
    pub async fn get_async(&self, key: &K) -> Option<V> {
        let key = key.to_bytes();
        let own = |value| owned(self.memory(), value);
        self.tree.get_async::<V::Kept, _>(key.as_ref(), own).await
    }

    /// Whether there is a record of `key`.
    pub fn contains_key(&self, key: &K) -> bool {
        self.tree.get(key.to_bytes(), |_| ()).is_some()
    }

    /// Inserts a record, or replaces the value of a present one. Returns the value before.
    ///
    /// # Errors
    /// The key or the value is too long, or memory is used up; the map is as it was.
    #[inline]
    pub fn insert(&self, key: &K, value: V::Ref<'_>) -> Result<Option<V>, InsertError> {
        let value = V::to_kept(value);
        V::Kept::check(value)?;
        let key = key.to_bytes();
        let change = V::Kept::setting(&self.tree.store, value, |_| true);
        let own = |before| owned(self.memory(), before);
        self.tree.upsert(check(key.as_ref())?, change, own)
    }

    /// Replaces the value of a present record. Returns the value before, `None` where there is no such record.
    ///
    /// # Errors
    /// The value is too long, or there is no memory for it. Words need none: there is no error then.
    #[inline]
    pub fn update(&self, key: &K, value: V::Ref<'_>) -> Result<Option<V>, InsertError> {
        let value = V::to_kept(value);
        V::Kept::check(value)?;
        let change = V::Kept::setting(&self.tree.store, value, |_| true);
        let own = |before| owned(self.memory(), before);
        self.tree.modify(key.to_bytes(), change, own)
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
    /// changed with their leaf locked (or the place where it is going to be), so it is called once; for a string it is called without a lock, and again if another
    /// thread was faster to replace it.
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    #[inline]
    pub fn modify(
        &self,
        key: &K,
        change: impl FnMut(V::Ref<'_>) -> Option<V>,
    ) -> Result<Option<V>, InsertError> {
        let (mut change, mut after) = (change, None);
        let make = |now: Option<V::Ref<'_>>| now.and_then(&mut change);
        let change = V::Kept::making(&self.tree.store, &mut after, make);
        let own = |before| owned(self.memory(), before);
        self.tree.modify(key.to_bytes(), change, own)
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
        self.tree.upsert(check(key.as_ref())?, change, |_| ())?;
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
        self.tree.scan(way, Start::Everything, 1, |key, value| {
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
    pub fn range<'k>(&self, bounds: impl RangeBounds<&'k K>) -> Range<K, V, M, R>
    where
        K: 'k,
    {
        let bytes = |key: &&K| key.to_bytes().as_ref().to_vec();
        let (low, high) = (bounds.start_bound(), bounds.end_bound());
        Range::new(self.tree.clone(), low.map(bytes), high.map(bytes))
    }

    /// All records, in order.
    pub fn iter(&self) -> Range<K, V, M, R> {
        Range::new(self.tree.clone(), Bound::Unbounded, Bound::Unbounded)
    }

    /// The records whose keys begin with the bytes of `prefix`, in order, from either end.
    pub fn prefix(&self, prefix: &K) -> Range<K, V, M, R> {
        let prefix = prefix.to_bytes();
        let prefix = prefix.as_ref();
        Range::new(
            self.tree.clone(),
            Bound::Included(prefix.to_vec()),
            behind(prefix),
        )
    }

    /// Calls `visit` with up to `limit` records from `from` on, in order, until it breaks. Returns how many it was
    /// called with. Faster than [`Art::range`] for short scans, but `visit` should be brief: no
    /// memory is reclaimed meanwhile.
    pub fn scan(
        &self,
        from: &K,
        limit: usize,
        mut visit: impl FnMut(K::Owned, V::Ref<'_>) -> ControlFlow<()>,
    ) -> usize {
        self.scan_bytes(from, limit, |key, value| visit(K::from_bytes(key), value))
    }

    /// As [`Art::scan`], with the keys lent as bytes instead of given: no allocation a record.
    pub fn scan_bytes(
        &self,
        from: &K,
        limit: usize,
        mut visit: impl FnMut(&[u8], V::Ref<'_>) -> ControlFlow<()>,
    ) -> usize {
        let from = from.to_bytes();
        let start = Start::at(from.as_ref());
        self.tree.scan(Way::Forward, start, limit, |key, value| {
            visit(key, lent::<V>(self.memory(), value))
        })
    }

    /// Inserts records that ascend by key. Returns how many there were. A run of inserts: paths are short and, for input in order,
    /// in the cache.
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
            let bytes = bytes.as_ref();
            if loaded > 0 && bytes <= &last[..] {
                return Err(BulkError::Unsorted(loaded));
            }
            self.insert(key, value.lend())
                .map_err(|error| BulkError::at(loaded, error))?;
            last.clear();
            last.extend_from_slice(bytes);
            loaded += 1;
        }
        Ok(loaded)
    }

    /// How many records there are. Adds up per-thread counts; exact when nobody writes.
    pub fn len(&self) -> usize {
        self.tree.store.records()
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
        self.tree.store.moves()
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

/// The least key behind all that begin with `prefix`, as a bound.
fn behind(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

impl<K: ?Sized, V: Value, M: Memory, R: Reach> Clone for Art<K, V, M, R> {
    fn clone(&self) -> Self {
        Art {
            tree: self.tree.clone(),
            typed: PhantomData,
        }
    }
}

impl<K: ?Sized, V: Value, M: Memory, R: Reach> fmt::Debug for Art<K, V, M, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Art")
            .field("records", &self.tree.store.records())
            .field("levels", &self.tree.levels())
            .finish_non_exhaustive()
    }
}

impl<K: ByteKey + ?Sized, V: Value, M: Memory, R: Reach> IntoIterator for &Art<K, V, M, R> {
    type Item = (K::Owned, V);
    type IntoIter = Range<K, V, M, R>;

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

//! The handle to a map. It is the same type for all trees.
//!
//! [`Map`] has all public methods and their documentation, once. [`Core`] is what it needs of a
//! tree; [`ByteTree`] is what a tree of byte strings implements to be a [`Core`]. All calls are
//! static.
//!
//! | file | noun |
//! |---|---|
//! | `make.rs`, `builder.rs` | constructors; configuration of maps in this machine's memory |
//! | `shared.rs` | a tree and its workers, shared by handles and iterators |
//! | `core.rs` | the operations that a tree provides |
//! | `bytes.rs` | trees of byte strings, and the methods that only their maps have |
//! | `inspect.rs` | sizes, limits and parts of a map |
//! | `held.rs` | a thread that is pinned as long as it needs places of a map |
//! | `entry.rs` | changes that depend on whether a record is present |
//! | `bulk.rs` | many records: keys, values, insertion, removal |
//! | `sorted.rs` | sorted input, a batch at a time |
//! | `collect.rs` | the standard library's traits of collections |
//! | `serde.rs` | serde's traits |

mod builder;
mod bulk;
mod bytes;
mod collect;
mod core;
mod entry;
mod held;
mod inspect;
mod make;
mod resize;
#[cfg(feature = "serde")]
mod serde;
mod shared;
pub(crate) mod sorted;

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};

pub use self::builder::{Builder, Placing};
pub use self::bytes::{ByteTree, Stores, after_all_with};
pub use self::core::Core;
pub use self::entry::Entry;
pub use self::held::Held;
pub use self::make::Make;
pub use self::shared::Shared;
pub use self::sorted::Batch;
use crate::error::Refused;
use crate::range::Way;
use crate::traverse::DEPTH;
use crate::value::{Loan, Represent, lend, owned};
use crate::{AsyncRange, Error, Key, KeyRange, Replaced, Value};

/// A concurrent ordered map: a shared handle to a tree `T`, with keys and values of two types.
///
/// [`BTree`](crate::BTree), [`Art`](crate::Art) and [`Masstree`](crate::Masstree) are this type
/// with their trees; their documentation lists the key types. `new` makes a map in plain memory,
/// `builder` one in two tiers.
///
/// All operations take `&self` and may run on any number of threads. Point operations are
/// linearizable and take no lock to read. Scans are linearizable leaf by leaf.
///
/// A clone is another handle to the same map. The map is dropped, and its worker stops, when the
/// last handle and the last iterator are gone.
///
/// ```
/// let map = timberline::BTree::<u64, u64>::new();
/// std::thread::scope(|scope| {
///     for part in 0..4 {
///         let map = &map;
///         let insert = move |n| map.insert(&(4 * n + part), n).map(drop);
///         scope.spawn(move || (0..100).try_for_each(insert));
///     }
/// });
/// assert_eq!(map.len(), 400);
/// ```
pub struct Map<T, K: ?Sized, V> {
    pub(crate) tree: Shared<T>,
    typed: PhantomData<fn(&K) -> V>,
}

impl<T, K: ?Sized, V> Map<T, K, V> {
    pub(crate) fn of(tree: Shared<T>) -> Self {
        Map {
            tree,
            typed: PhantomData,
        }
    }

    /// The panic message of the map's worker, if it panicked. The map stays correct and usable, but
    /// no node moves any more.
    pub fn worker_failure(&self) -> Option<String> {
        self.tree.workers()?.panicked()
    }
}

impl<T: Core<K, V>, K: Key + ?Sized, V: Value> Map<T, K, V> {
    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &K::Borrowed) -> Option<V> {
        self.get_with(key, V::own)
    }

    /// Calls `read` with the value of `key`, without copying it. `read` may use the map, which
    /// reclaims no memory until it returns: it should be brief.
    ///
    /// ```
    /// let map: timberline::Art<str, String> = [("a", "some text".to_string())].into();
    /// assert_eq!(map.get_with("a", |text| text.len()), Some(9));
    /// ```
    ///
    /// What `read` is lent stays in the closure:
    ///
    /// ```compile_fail
    /// let map: timberline::Art<str, String> = [("a", "some text".to_string())].into();
    /// let text: Option<&str> = map.get_with("a", |text| text);
    /// ```
    #[inline]
    pub fn get_with<R>(&self, key: &K::Borrowed, read: impl FnOnce(V::Ref<'_>) -> R) -> Option<R> {
        self.tree
            .get(key, |value| lend::<V, _>(self.memory(), value, read))
    }

    /// Whether there is a record of `key`.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = [(7, 49)].into();
    /// assert!(map.contains_key(&7) && !map.contains_key(&8));
    /// ```
    pub fn contains_key(&self, key: &K::Borrowed) -> bool {
        self.tree.get(key, |_| ()).is_some()
    }

    /// The value of `key`, as a future that yields wherever it would wait for memory. An executor
    /// that polls about 16 of them in turn hides much of slow memory's latency. Nothing is
    /// allocated.
    ///
    /// The future can be spawned: it is `Send` if the key and the value are, and may be polled by
    /// one thread after another. From its first poll to its last, this map reclaims no memory
    /// (other maps do): poll it to completion soon, or drop it. A leaked future stops reclamation
    /// for good; [`Stats::live_futures`](crate::Stats::live_futures) counts it.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// # use timberline::BTree;
    /// let map: BTree<u64, u64> = BTree::new();
    /// map.insert(&3, 33)?;
    /// let (mut three, mut four) = (pin!(map.get_async(&3)), pin!(map.get_async(&4)));
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
    pub async fn get_async<'k>(&'k self, key: &'k K::Borrowed) -> Option<V> {
        self.tree.get_async(key, |value| self.own(value)).await
    }

    /// The values of many keys, in their order: `values[i]` becomes the value of `keys[i]`.
    /// [`DEPTH`] lookups overlap, which hides much of slow memory's latency. Each is linearizable
    /// on its own.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = (0..100).map(|key| (key, key * key)).collect();
    /// let mut values = [None; 3];
    /// map.get_many(&[3, 200, 5], &mut values);
    /// assert_eq!(values, [Some(9), None, Some(25)]);
    /// ```
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many<Q: Borrow<K::Borrowed>>(&self, keys: &[Q], values: &mut [Option<V>]) {
        self.get_many_deep(keys, values, DEPTH);
    }

    /// As [`get_many`](Self::get_many), with `depth` overlapping lookups, clamped to 1 …
    /// [`MAX_DEPTH`](crate::traverse::MAX_DEPTH). Memory with a higher latency needs more of them
    /// to hide it.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn get_many_deep<Q: Borrow<K::Borrowed>>(
        &self,
        keys: &[Q],
        values: &mut [Option<V>],
        depth: usize,
    ) {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        self.tree.get_each(keys, depth, |index, found| {
            values[index] = found.map(|value| self.own(value));
        });
    }

    /// Inserts a record, or replaces the value of an existing one. Returns the previous value.
    ///
    /// ```
    /// let map = timberline::BTree::<u64, u64>::new();
    /// assert_eq!(map.insert(&7, 48)?, None);
    /// assert_eq!(map.insert(&7, 49)?, Some(48));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// The key or the value is too long, or memory is used up. The map is then unchanged.
    #[inline]
    pub fn insert(&self, key: &K::Borrowed, value: V::Ref<'_>) -> Result<Option<V>, Error> {
        let value = V::to_stored(value);
        V::Representation::check(value).map_err(|refused| self.error(refused))?;
        let change = V::Representation::setting(self.tree.store(), value, |_| true);
        let before = self.tree.upsert(key, change, |before| self.own(before));
        before.map_err(|refused| self.error(refused))
    }

    /// Replaces the value of an existing record. Returns the previous value, or `None` if there is
    /// no such record.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = [(7, 48)].into();
    /// assert_eq!(map.update(&7, 49), Some(48));
    /// assert_eq!(map.update(&8, 64), None);
    /// assert_eq!(map.len(), 1);
    ///
    /// let names: timberline::BTree<u64, String> = [(7, "seven".into())].into();
    /// assert_eq!(names.update(&7, "VII")?, Some("seven".into()));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// The string is too long, or there is no memory for it. Values that are not strings need no
    /// memory, and the method returns no `Result` for them: see [`Replaced`].
    #[inline]
    pub fn update(&self, key: &K::Borrowed, value: V::Ref<'_>) -> Replaced<V> {
        let value = V::to_stored(value);
        let before = V::Representation::check(value).and_then(|()| {
            let change = V::Representation::setting(self.tree.store(), value, |_| true);
            self.tree.modify(key, change, |before| self.own(before))
        });
        V::Representation::replaced(before, |refused| self.error(refused))
    }

    /// Atomically replaces the value of an existing record by the value that `change` returns for
    /// it. If `change` returns `None`, the record is unchanged. Returns the previous value, or
    /// `None` if there is no such record.
    ///
    /// `change` should be brief and must not use the map: debug builds panic if it does, release
    /// builds may deadlock. For words and `Arc`s it is called once, with the leaf locked. For
    /// strings it is called without a lock, and again if another thread replaced the value
    /// meanwhile.
    ///
    /// ```
    /// let stock: timberline::Art<str, u64> = [("pens", 2)].into();
    /// let take = |name: &str| stock.modify(name, |left| left.checked_sub(2));
    /// assert_eq!((take("pens"), stock.get("pens")), (Some(2), Some(0)));
    /// assert_eq!((take("pens"), stock.get("pens")), (Some(0), Some(0)));
    /// ```
    ///
    /// # Errors
    /// As for [`update`](Self::update).
    #[inline]
    pub fn modify(
        &self,
        key: &K::Borrowed,
        mut change: impl FnMut(V::Ref<'_>) -> Option<V>,
    ) -> Replaced<V> {
        let mut after = None;
        let make = |now: Option<V::Ref<'_>>| now.and_then(&mut change);
        let change = V::Representation::making(self.tree.store(), &mut after, make);
        let before = self.tree.modify(key, change, |before| self.own(before));
        V::Representation::replaced(before, |refused| self.error(refused))
    }

    /// Atomically inserts or replaces a record. `value` gets the current value, if there is one,
    /// and returns the new one, which this returns too. The rules for `change` of
    /// [`modify`](Self::modify) apply to `value`.
    ///
    /// ```
    /// let counts = timberline::Art::<str, u64>::new();
    /// for word in ["to", "be", "to"] {
    ///     counts.upsert_with(word, |count| count.unwrap_or(0) + 1)?;
    /// }
    /// assert_eq!(counts.get("to"), Some(2));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn upsert_with(
        &self,
        key: &K::Borrowed,
        mut value: impl FnMut(Option<V::Ref<'_>>) -> V,
    ) -> Result<V, Error> {
        let mut after = None;
        let make = |now: Option<V::Ref<'_>>| Some(value(now));
        let change = V::Representation::making(self.tree.store(), &mut after, make);
        let put = self.tree.upsert(key, change, |_| ());
        put.map_err(|refused| self.error(refused))?;
        Ok(after.expect("the record is there"))
    }

    /// Removes a record. Returns its value.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = [(7, 49)].into();
    /// assert_eq!((map.remove(&7), map.remove(&7)), (Some(49), None));
    /// ```
    pub fn remove(&self, key: &K::Borrowed) -> Option<V> {
        self.tree.remove(key, None, |value| self.own(value))
    }

    /// The record with the smallest key, in O(log n) node visits.
    ///
    /// ```
    /// let map: timberline::BTree<i32, char> = [(3, 'c'), (-1, 'a')].into();
    /// assert_eq!(map.first_key_value(), Some((-1, 'a')));
    /// assert_eq!(map.last_key_value(), Some((3, 'c')));
    /// ```
    pub fn first_key_value(&self) -> Option<(K::Owned, V)> {
        self.iter().next()
    }

    /// The record with the greatest key.
    pub fn last_key_value(&self) -> Option<(K::Owned, V)> {
        self.iter().next_back()
    }

    /// Removes the record with the smallest key and returns it. This is linearizable: no other
    /// thread can insert a smaller key in between.
    ///
    /// ```
    /// let queue: timberline::BTree<u64, char> = [(3, 'c'), (1, 'a')].into();
    /// assert_eq!(queue.pop_first(), Some((1, 'a')));
    /// assert_eq!(queue.pop_last(), Some((3, 'c')));
    /// assert_eq!(queue.pop_first(), None);
    /// ```
    pub fn pop_first(&self) -> Option<(K::Owned, V)> {
        let own = |key, value: Loan<'_>| (key, self.own(value));
        self.tree.pop(Way::Forward, own)
    }

    /// Removes the record with the greatest key and returns it. This is linearizable.
    pub fn pop_last(&self) -> Option<(K::Owned, V)> {
        let own = |key, value: Loan<'_>| (key, self.own(value));
        self.tree.pop(Way::Backward, own)
    }

    /// Removes all records that are present during the whole call, and frees the copies of hot
    /// records. It ends even while other threads insert; some of the records that they insert
    /// meanwhile may remain. O(n).
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = [(1, 1), (2, 4)].into();
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        self.tree.clear();
    }

    /// The records with keys in `bounds`, in order, from either end. The iterator holds no lock. It
    /// yields each record that is present during the whole iteration exactly once.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = (0..100).map(|key| (key, key * key)).collect();
    /// assert_eq!(map.range(3..5).collect::<Vec<_>>(), [(3, 9), (4, 16)]);
    /// assert_eq!(map.range(..).next_back(), Some((99, 99 * 99)));
    /// ```
    pub fn range(&self, bounds: impl KeyRange<K::Borrowed>) -> T::Range {
        T::range(&self.tree, bounds.low(), bounds.high())
    }

    /// As [`range`](Self::range), for asynchronous code: it yields to the executor wherever it
    /// would wait for memory: before it copies a leaf of a B+tree or a batch of records of another
    /// map.
    /// It holds no guard between these, so it may be suspended for any time.
    ///
    /// ```
    /// # use timberline::BTree;
    /// let map: BTree<u64, u64> = BTree::new();
    /// # for key in 0..100 {
    /// #     map.insert(&key, 1)?;
    /// # }
    /// let total = async {
    ///     let (mut range, mut total) = (map.range_async(10..20), 0);
    ///     while let Some((_, value)) = range.next().await {
    ///         total += value;
    ///     }
    ///     total
    /// };
    /// # let mut total = std::pin::pin!(total);
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # let mut poll = || total.as_mut().poll(&mut context);
    /// # while let std::task::Poll::Pending = poll().map(|sum| assert_eq!(sum, 10)) {}
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range_async(&self, bounds: impl KeyRange<K::Borrowed>) -> AsyncRange<T::Range> {
        AsyncRange(self.range(bounds))
    }

    /// All records, in order.
    ///
    /// ```
    /// let map: timberline::Art<str, u64> = [("b", 2), ("a", 1)].into();
    /// assert_eq!(map.iter().next(), Some(("a".into(), 1)));
    /// ```
    pub fn iter(&self) -> T::Range {
        T::range(&self.tree, Bound::Unbounded, Bound::Unbounded)
    }

    /// Calls `visit` with up to `limit` records from `from` on, in order, until it breaks. Returns
    /// the number of calls. Faster than [`range`](Self::range) for short scans. `visit` may use the
    /// map, which reclaims no memory until the scan ends: it should be brief.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// let map: timberline::BTree<u64, u64> = (0..100).map(|key| (key, key * key)).collect();
    /// let mut sum = 0;
    /// let visited = map.scan(&10, 3, |_, value| {
    ///     sum += value;
    ///     ControlFlow::Continue(())
    /// });
    /// assert_eq!((visited, sum), (3, 100 + 121 + 144));
    /// ```
    pub fn scan(
        &self,
        from: &K::Borrowed,
        limit: usize,
        mut visit: impl FnMut(K::Owned, V::Ref<'_>) -> ControlFlow<()>,
    ) -> usize {
        let memory = self.memory();
        let typed = |key, value: Loan<'_>| lend::<V, _>(memory, value, |value| visit(key, value));
        self.tree.scan(from, limit, typed)
    }

    /// Inserts records in ascending order of keys, and returns their number. A `BTree` whose values
    /// are words inserts them a leaf at a time, and fills leaves completely where it appends; one
    /// of byte strings, wherever many belong between two records. An `Art` whose values are words,
    /// and whose keys are not all of eight bytes, builds subtrees of the records that come where
    /// none is. Other maps insert them one by one; sorted input keeps the path in the CPU's caches.
    ///
    /// ```
    /// let map = timberline::BTree::<u64, u64>::new();
    /// assert_eq!(map.bulk_load((0..1_000).map(|key| (key, key * key)))?, 1_000);
    /// let error = map.bulk_load([(5, 25), (4, 16)]).unwrap_err();
    /// assert_eq!(error.to_string(), "record 1: out of order: keys must ascend, each once");
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// The input is not sorted, a key or a value is too long, or memory is used up. The records
    /// before the one that failed have been inserted.
    pub fn bulk_load<Q: Borrow<K::Borrowed>>(
        &self,
        sorted: impl IntoIterator<Item = (Q, V)>,
    ) -> Result<usize, Error> {
        T::load(self, sorted.into_iter())
    }

    /// The user's error for a refusal of the tree.
    #[cold]
    fn error(&self, refused: Refused) -> Error {
        self.tree.store().error(refused)
    }

    /// A copy of a value that the tree lent. The thread is pinned.
    #[inline(always)]
    fn own(&self, loan: Loan<'_>) -> V {
        owned(self.memory(), loan)
    }
}

impl<T, K: ?Sized, V> Clone for Map<T, K, V> {
    fn clone(&self) -> Self {
        Map {
            tree: self.tree.clone(),
            typed: PhantomData,
        }
    }
}

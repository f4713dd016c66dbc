//! Changes that depend on whether a record is present, each as one atomic step.

use std::cell::Cell;

use super::{Core, Map};
use crate::value::{Loan, Represent, lend};
use crate::{Error, Key, Value};

/// A record's place in a map of type `M`, present or not, made by [`Map::entry`]. It holds no lock,
/// and does nothing before an `or_` method is called, which runs as one atomic step. `F` is what
/// [`and_modify`](Self::and_modify) was given, and left out before.
///
/// The map's own type names it, where a field or a function's result is an entry:
///
/// ```
/// use timberline::{Art, Entry, Error};
///
/// struct Counter<'m>(Entry<'m, Art<str, u64>>);
///
/// fn counter<'m>(visits: &'m Art<str, u64>, page: &'m str) -> Counter<'m> {
///     Counter(visits.entry(page))
/// }
///
/// /// Closures have no names: what was given to `and_modify` is an `impl`.
/// fn counted(counter: Counter<'_>) -> Entry<'_, Art<str, u64>, impl FnMut(&mut u64)> {
///     counter.0.and_modify(|count| *count += 1)
/// }
///
/// let visits = Art::new();
/// for _ in 0..2 {
///     counted(counter(&visits, "/")).or_insert(1)?;
/// }
/// assert_eq!(visits.get("/"), Some(2));
/// # Ok::<(), Error>(())
/// ```
#[must_use = "an entry does nothing before an `or_` method is called"]
pub struct Entry<'m, M: Typed, F = fn(&mut <M as Typed>::Value)> {
    map: &'m M,
    key: &'m <M::Key as Key>::Borrowed,
    modify: Option<F>,
}

/// The types of a map's keys and values.
pub trait Typed {
    type Key: Key + ?Sized;
    type Value: Value;
}

impl<T, K: Key + ?Sized, V: Value> Typed for Map<T, K, V> {
    type Key = K;
    type Value = V;
}

impl<'m, T: Core<K, V>, K: Key + ?Sized, V: Value, F: FnMut(&mut V)> Entry<'m, Map<T, K, V>, F> {
    /// Has a present value changed by `modify`, after the changes that were asked for before.
    /// `modify` is called by the `or_` method, as [`Map::modify`] calls its closure: it should be
    /// brief and must not use the map, or debug builds panic and release builds may deadlock. It is
    /// called again if another thread replaced the value meanwhile.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = [(7, 48)].into();
    /// let entry = map.entry(&7).and_modify(|value| *value += 1);
    /// assert_eq!(entry.or_insert(0)?, 49);
    /// # Ok::<(), timberline::Error>(())
    /// ```
    pub fn and_modify(
        self,
        mut modify: impl FnMut(&mut V),
    ) -> Entry<'m, Map<T, K, V>, impl FnMut(&mut V)> {
        let Entry {
            map,
            key,
            modify: mut first,
        } = self;
        let both = move |value: &mut V| {
            if let Some(first) = &mut first {
                first(value);
            }
            modify(value);
        };
        Entry {
            map,
            key,
            modify: Some(both),
        }
    }

    /// Inserts `value` if there is no record. Returns the value that is then present.
    ///
    /// ```
    /// let map = timberline::BTree::<u64, u64>::new();
    /// assert_eq!((map.entry(&7).or_insert(1)?, map.entry(&7).or_insert(2)?), (1, 1));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::insert`].
    pub fn or_insert(self, value: V) -> Result<V, Error> {
        self.or_insert_with(|| value)
    }

    /// Inserts the default value if there is no record. Returns the value that is then present.
    ///
    /// ```
    /// let map = timberline::Art::<str, String>::new();
    /// assert_eq!(map.entry("a").or_default()?, "");
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::insert`].
    pub fn or_default(self) -> Result<V, Error>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Inserts what `make` returns if there is no record. Returns the value that is then present.
    /// `make` is called once at most. It should be brief and must not use the map: debug builds
    /// panic if it does, release builds may deadlock.
    ///
    /// ```
    /// let lengths = timberline::Art::<str, u64>::new();
    /// assert_eq!(lengths.entry("four").or_insert_with(|| 4)?, 4);
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Map::insert`].
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> Result<V, Error> {
        let Entry {
            map,
            key,
            mut modify,
        } = self;
        if modify.is_none()
            && let Some(present) = map.get(key)
        {
            return Ok(present);
        }
        let (mut make, mut made, mut after) = (Some(make), None, None);
        let value = |now: Option<V::Ref<'_>>| match now {
            Some(now) => modify.as_mut().map(|modify| {
                let mut value = V::own(now);
                modify(&mut value);
                value
            }),
            // Another record may come and go meanwhile, and the value be wanted again.
            None => {
                if let Some(make) = make.take() {
                    made = Some(make());
                }
                made.as_ref().map(|value| V::own(value.lend()))
            }
        };
        let change = V::Representation::making(map.tree.store(), &mut after, value);
        let before = map.tree.upsert(key, change, |before| map.own(before));
        let before = before.map_err(|refused| map.error(refused))?;
        Ok(after.or(before).expect("the record is there"))
    }
}

impl<T: Core<K, V>, K: Key + ?Sized, V: Value> Map<T, K, V> {
    /// A record's place, to insert a value or change the present one as one atomic step.
    ///
    /// ```
    /// let visits = timberline::Art::<str, u64>::new();
    /// for page in ["/", "/about", "/"] {
    ///     visits.entry(page).and_modify(|count| *count += 1).or_insert(1)?;
    /// }
    /// assert_eq!(visits.get("/"), Some(2));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    pub fn entry<'m>(&'m self, key: &'m K::Borrowed) -> Entry<'m, Self> {
        let (map, modify) = (self, None);
        Entry { map, key, modify }
    }

    /// The value of `key`; if there is no record, `make` returns the value of a new one. The same
    /// as `entry(key).or_insert_with(make)`. If the record is present, it takes no lock. `make`
    /// should be brief and must not use the map: debug builds panic if it does, release builds may
    /// deadlock.
    ///
    /// ```
    /// let squares = timberline::BTree::<u64, u64>::new();
    /// assert_eq!(squares.get_or_insert_with(&7, || 7 * 7)?, 49);
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn get_or_insert_with(
        &self,
        key: &K::Borrowed,
        make: impl FnOnce() -> V,
    ) -> Result<V, Error> {
        self.entry(key).or_insert_with(make)
    }

    /// Exchanges `current` for `new`, where `None` is no record: so it replaces, inserts, removes,
    /// or only compares. The inner result is as that of
    /// [`AtomicU64::compare_exchange`](std::sync::atomic::AtomicU64::compare_exchange): `Ok` has
    /// the replaced value, which equals `current`, and `Err` the present value, which stays. `Arc`s
    /// are equal if they are the same allocation.
    ///
    /// ```
    /// let map = timberline::BTree::<u64, u64>::new();
    /// assert_eq!(map.compare_exchange(&7, None, Some(1))?, Ok(None));
    /// assert_eq!(map.compare_exchange(&7, Some(2), Some(3))?, Err(Some(1)));
    /// assert_eq!(map.compare_exchange(&7, Some(1), None)?, Ok(Some(1)));
    /// assert!(map.is_empty());
    /// # Ok::<(), timberline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn compare_exchange(
        &self,
        key: &K::Borrowed,
        current: Option<V::Ref<'_>>,
        new: Option<V::Ref<'_>>,
    ) -> Result<Result<Option<V>, Option<V>>, Error> {
        let Some(new) = new else {
            return Ok(self.exchange_for_nothing(key, current));
        };
        let new = V::to_stored(new);
        V::Representation::check(new).map_err(|refused| self.error(refused))?;
        let Some(current) = current else {
            let change = V::Representation::setting(self.tree.store(), new, |now| now.is_none());
            let before = self.tree.upsert(key, change, |before| self.own(before));
            let before = before.map_err(|refused| self.error(refused))?;
            return Ok(before.map_or(Ok(None), |before| Err(Some(before))));
        };
        let is_current = Cell::new(false);
        let change = V::Representation::setting(self.tree.store(), new, |now| {
            is_current
                .set(now.is_some_and(|now| V::Representation::same(now, V::to_stored(current))));
            is_current.get()
        });
        let other = |before: Loan<'_>| (!is_current.get()).then(|| self.own(before));
        let modified = self.tree.modify(key, change, other);
        Ok(match modified.map_err(|refused| self.error(refused))? {
            Some(None) => Ok(Some(V::own(current))),
            before => Err(before.flatten()),
        })
    }

    fn exchange_for_nothing(
        &self,
        key: &K::Borrowed,
        current: Option<V::Ref<'_>>,
    ) -> Result<Option<V>, Option<V>> {
        let mut other = None;
        let removed = self.remove_if(key, |now| {
            let same = |current| V::Representation::same(V::to_stored(now), V::to_stored(current));
            let is_current = current.is_some_and(same);
            other = (!is_current).then(|| V::own(now));
            is_current
        });
        match (removed, other) {
            (None, None) if current.is_some() => Err(None),
            (removed, None) => Ok(removed),
            (_, other) => Err(other),
        }
    }

    /// Removes a record if `condition` returns true for its value, as one step. Returns the value.
    /// `condition` is called without a lock, and again if the value changes meanwhile. It may use
    /// the map; it should be brief, because no memory is reclaimed meanwhile.
    ///
    /// ```
    /// let map = timberline::BTree::<u64, u64>::new();
    /// map.insert(&7, 49)?;
    /// assert_eq!(map.remove_if(&7, |value| value > 50), None);
    /// assert_eq!(map.remove_if(&7, |value| value < 50), Some(49));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    pub fn remove_if(
        &self,
        key: &K::Borrowed,
        mut condition: impl FnMut(V::Ref<'_>) -> bool,
    ) -> Option<V> {
        // While the thread is pinned, no other value gets the word that was judged.
        let _guard = self.tree.store().pin();
        let mut judge = |value: Loan<'_>| {
            let is_to_go = lend::<V, _>(self.memory(), value, &mut condition);
            is_to_go.then(|| value.word())
        };
        let mut word = self.tree.get(key, &mut judge)??;
        loop {
            let removed = self.tree.remove(key, Some(word), |loan| self.own(loan));
            if removed.is_some() {
                return removed;
            }
            word = self.judge_in_leaf(key, &mut judge)??;
        }
    }

    /// What `judge` says of a record's value as its leaf has it. A lookup might answer from a copy
    /// of the record; a second attempt goes to where the first one failed.
    #[cold]
    fn judge_in_leaf<R>(&self, key: &K::Borrowed, judge: impl FnMut(Loan<'_>) -> R) -> Option<R> {
        let mut unused: Option<V> = None;
        let unchanged = V::Representation::making(self.tree.store(), &mut unused, |_| None::<V>);
        let judged = self.tree.modify(key, unchanged, judge);
        judged.expect("needs no memory")
    }
}

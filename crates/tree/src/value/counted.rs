//! A value that is an [`Arc`], of which a leaf has the pointer.
//!
//! **Whose a count is.** A word that a leaf has owns one count of its `Arc`, from [`keep`] to
//! [`dispose`]. Copies of the word own none: those in a copy of the record, in a node that is being
//! moved, in a leaf that is no longer linked. The thread that takes the word out of its leaf defers
//! `dispose` to the epoch, and dropping the tree calls it for the remaining words. So a pinned
//! reader may take a count of its own of any word that it validated.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::with_exposed_provenance;
use std::sync::Arc;

use timberline_tier::{Arenas, Memory};

use super::change::{Change, Replace};
use super::representation::inner;
use super::{Dispose, Loan, Stored, Value, Word};
use crate::Error;
use crate::error::Refused;
use crate::store::Store;

/// An [`Arc`] whose pointer is in the leaf; a map stores a `&Arc<T>`. The map has one count of it,
/// which it drops once the record is removed or replaced and no thread reads it any more.
#[derive(Clone, Copy, Debug)]
pub struct Counted<T>(PhantomData<fn() -> T>);

/// The word of a value, which owns a count.
fn keep<T>(value: &Arc<T>) -> u64 {
    Arc::into_raw(value.clone()).expose_provenance() as u64
}

/// Drops the count that a word owns: a [`Dispose`].
///
/// # Safety
/// As there.
unsafe fn dispose<T>(word: u64, _: &Arenas) {
    // SAFETY: `keep` made the word of an `Arc` of this type; the rest is the caller's.
    drop(unsafe { Arc::from_raw(with_exposed_provenance::<T>(word as usize)) });
}

/// Lends the value to `read`.
///
/// # Safety
/// The map's values are `Arc`s of this type.
#[inline(always)]
unsafe fn with<T, R>(value: Option<Loan<'_>>, read: impl FnOnce(Option<&Arc<T>>) -> R) -> R {
    let value = value.map(|value| {
        let pointer = with_exposed_provenance::<T>(value.word() as usize);
        // SAFETY: `keep` made the word. Its own count is there until the epoch has passed that it
        // is retired in. This one is not dropped.
        ManuallyDrop::new(unsafe { Arc::from_raw(pointer) })
    });
    read(value.as_deref())
}

impl<T: Send + Sync + 'static> inner::Represent for Counted<T> {
    const IN_BLOCKS: bool = false;
    const DISPOSE: Option<Dispose> = Some(dispose::<T>);
    type Stored<'a> = &'a Arc<T>;
    type Replaced<V> = Option<V>;

    #[inline(always)]
    fn replaced<V>(
        before: Result<Option<V>, Refused>,
        error: impl FnOnce(Refused) -> Error,
    ) -> Option<V> {
        Word::replaced(before, error)
    }

    fn as_result<V>(replaced: Option<V>) -> Result<Option<V>, Error> {
        Ok(replaced)
    }

    #[inline(always)]
    fn open<R>(_: &impl Memory, loan: Loan<'_>, read: impl FnOnce(Self::Stored<'_>) -> R) -> R {
        // SAFETY: the map's values are represented so.
        unsafe { with(Some(loan), |value| read(value.expect("a word"))) }
    }

    fn same(one: Self::Stored<'_>, two: Self::Stored<'_>) -> bool {
        Arc::ptr_eq(one, two)
    }

    #[inline(always)]
    fn setting<M: Memory>(
        _: &Store<M>,
        value: Self::Stored<'_>,
        mut when: impl FnMut(Option<Self::Stored<'_>>) -> bool,
    ) -> impl Change {
        Replace(move |before: Option<Loan<'_>>| {
            // SAFETY: the map's values are represented so.
            let is_set = unsafe { with(before, &mut when) };
            is_set.then(|| keep(value))
        })
    }

    #[inline(always)]
    fn making<V: Value<Representation = Self>, M: Memory>(
        store: &Store<M>,
        after: &mut Option<V>,
        mut make: impl FnMut(Option<V::Ref<'_>>) -> Option<V>,
    ) -> impl Change {
        Replace(move |before: Option<Loan<'_>>| {
            let make = |now: Option<&Arc<T>>| store.call(|| make(now.map(V::from_stored)));
            // SAFETY: the map's values are represented so.
            *after = unsafe { with(before, make) };
            after.as_ref().map(|value| keep(V::to_stored(value.lend())))
        })
    }
}

/// Lent as a reference to the map's own, without a change of its count. Two are equal if they are
/// the same allocation (`Arc::ptr_eq`).
impl<T: Send + Sync + 'static> Value for Arc<T> {
    type Ref<'a> = &'a Arc<T>;
    type Representation = Counted<T>;

    fn lend(&self) -> Self::Ref<'_> {
        self
    }
    #[inline(always)]
    fn own(value: Self::Ref<'_>) -> Self {
        value.clone()
    }
    fn to_stored(value: Self::Ref<'_>) -> Stored<'_, Self> {
        value
    }
    fn from_stored(stored: Stored<'_, Self>) -> Self::Ref<'_> {
        stored
    }
}

//! The two value representations: in the leaf, or in a block beside it.

use timberline_tier::Memory;

use super::change::{Change, InBlock, check};
use super::{Loan, Value, lent};
use crate::error::Refused;
use crate::store::Store;

/// How values are stored: [`Word`] or [`Bytes`], and no other way.
pub trait Representation: inner::Represent {}

impl<K: inner::Represent> Representation for K {}

/// Eight bytes in the leaf; a map stores a `u64`.
#[derive(Clone, Copy, Debug)]
pub struct Word;

/// A string of up to 65,536 bytes in a block of its own; a map stores a `&[u8]`. The empty one
/// needs no block.
#[derive(Clone, Copy, Debug)]
pub struct Bytes;

pub(crate) mod inner {
    use super::*;

    /// What maps need to know of a representation. Sealed.
    pub trait Represent: Send + Sync + 'static {
        /// Whether leaves' words refer to blocks.
        const IN_BLOCKS: bool;
        /// The stored form.
        type Stored<'a>: Copy;

        /// Whether it is short enough.
        fn check(value: Self::Stored<'_>) -> Result<(), Refused>;

        /// The value that a word refers to.
        fn open<'g>(memory: &impl Memory, loan: Loan<'g>) -> Self::Stored<'g>;

        /// Whether two are equal.
        fn same(one: Self::Stored<'_>, two: Self::Stored<'_>) -> bool;

        /// The word, if it is all there is to store of a value; `None` for those in blocks.
        fn word(value: Self::Stored<'_>) -> Option<u64>;

        /// Replaces the present value by `value`, if `when` returns true.
        fn setting<M: Memory>(
            store: &Store<M>,
            value: Self::Stored<'_>,
            when: impl FnMut(Option<Self::Stored<'_>>) -> bool,
        ) -> impl Change;

        /// Replaces the present value by what `make` returns for it, and leaves that in `after`.
        fn making<V: Value<Representation = Self>, M: Memory>(
            store: &Store<M>,
            after: &mut Option<V>,
            make: impl FnMut(Option<V::Ref<'_>>) -> Option<V>,
        ) -> impl Change
        where
            Self: Sized;
    }
}

impl inner::Represent for Word {
    const IN_BLOCKS: bool = false;
    type Stored<'a> = u64;

    #[inline(always)]
    fn check(_: Self::Stored<'_>) -> Result<(), Refused> {
        Ok(())
    }

    #[inline(always)]
    fn open<'g>(_: &impl Memory, loan: Loan<'g>) -> Self::Stored<'g> {
        loan.word
    }

    #[inline(always)]
    fn same(one: Self::Stored<'_>, two: Self::Stored<'_>) -> bool {
        one == two
    }

    #[inline(always)]
    fn word(value: Self::Stored<'_>) -> Option<u64> {
        Some(value)
    }

    #[inline(always)]
    fn setting<M: Memory>(
        _: &Store<M>,
        value: Self::Stored<'_>,
        mut when: impl FnMut(Option<Self::Stored<'_>>) -> bool,
    ) -> impl Change {
        move |before| when(before).then_some(value)
    }

    #[inline(always)]
    fn making<V: Value<Representation = Word>, M: Memory>(
        store: &Store<M>,
        after: &mut Option<V>,
        mut make: impl FnMut(Option<V::Ref<'_>>) -> Option<V>,
    ) -> impl Change {
        move |before: Option<u64>| {
            *after = store.call(|| make(before.map(V::from_stored)));
            after.as_ref().map(|value| V::to_stored(value.lend()))
        }
    }
}

impl inner::Represent for Bytes {
    const IN_BLOCKS: bool = true;
    type Stored<'a> = &'a [u8];

    fn check(value: Self::Stored<'_>) -> Result<(), Refused> {
        check(value)
    }

    #[inline(always)]
    fn open<'g>(memory: &impl Memory, loan: Loan<'g>) -> Self::Stored<'g> {
        loan.bytes(memory)
    }

    fn same(one: Self::Stored<'_>, two: Self::Stored<'_>) -> bool {
        one == two
    }

    fn word(_: Self::Stored<'_>) -> Option<u64> {
        None
    }

    fn setting<M: Memory>(
        store: &Store<M>,
        value: Self::Stored<'_>,
        mut when: impl FnMut(Option<Self::Stored<'_>>) -> bool,
    ) -> impl Change {
        InBlock::new(
            store,
            move |before: Option<Loan<'_>>, put: &mut dyn FnMut(&[u8])| {
                if when(before.map(|loan| Self::open(&store.memory, loan))) {
                    put(value);
                }
            },
        )
    }

    fn making<V: Value<Representation = Bytes>, M: Memory>(
        store: &Store<M>,
        after: &mut Option<V>,
        mut make: impl FnMut(Option<V::Ref<'_>>) -> Option<V>,
    ) -> impl Change {
        InBlock::new(
            store,
            move |before: Option<Loan<'_>>, put: &mut dyn FnMut(&[u8])| {
                *after = store.call(|| make(before.map(|loan| lent::<V>(&store.memory, loan))));
                if let Some(value) = after {
                    put(V::to_stored(value.lend()));
                }
            },
        )
    }
}

//! The value representations: a word in the leaf, a string in a block beside it; the third, an
//! `Arc`, is in `counted.rs`.

use timberline_tier::Memory;

use super::change::{Change, InBlock, check};
use super::{Dispose, Loan, Value, block};
use crate::Error;
use crate::error::Refused;
use crate::store::Store;

/// How values are stored: [`Word`], [`Bytes`] or [`Counted`](super::Counted), and no other way.
pub trait Representation: inner::Represent {
    /// Converts the result of [`Map::update`](crate::Map::update) and
    /// [`Map::modify`](crate::Map::modify) to a `Result`, for code that is generic over values.
    ///
    /// ```
    /// use timberline::{BTree, Error, Replaced, Representation, Value};
    ///
    /// fn swap<V: Value>(map: &BTree<u64, V>, key: u64, value: &V) -> Result<Option<V>, Error> {
    ///     let replaced: Replaced<V> = map.update(&key, value.lend());
    ///     V::Representation::result(replaced)
    /// }
    ///
    /// let map: BTree<u64, String> = [(7, "a".into())].into();
    /// assert_eq!(swap(&map, 7, &"b".into())?, Some("a".into()));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of the call.
    fn result<V>(replaced: Self::Replaced<V>) -> Result<Option<V>, Error> {
        Self::as_result(replaced)
    }
}

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

    /// The operations of a representation. Sealed.
    pub trait Represent: Send + Sync + 'static {
        /// Whether leaves' words refer to blocks.
        const IN_BLOCKS: bool;
        /// Frees a word that no leaf has any more; `None` if words own nothing.
        const DISPOSE: Option<Dispose>;
        /// The stored form.
        type Stored<'a>: Copy;
        /// The result of a replacement.
        type Replaced<V>;

        /// Converts the tree's result of a replacement to the user's.
        fn replaced<V>(
            before: Result<Option<V>, Refused>,
            error: impl FnOnce(Refused) -> Error,
        ) -> Self::Replaced<V>;

        /// The same, as a `Result`.
        fn as_result<V>(replaced: Self::Replaced<V>) -> Result<Option<V>, Error>;

        /// Refuses a value that is too long.
        #[inline(always)]
        fn check(_: Self::Stored<'_>) -> Result<(), Refused> {
            Ok(())
        }

        /// Applies `read` to the value that a word refers to.
        fn open<R>(
            memory: &impl Memory,
            loan: Loan<'_>,
            read: impl FnOnce(Self::Stored<'_>) -> R,
        ) -> R;

        /// Whether two are equal.
        fn same(one: Self::Stored<'_>, two: Self::Stored<'_>) -> bool;

        /// The word of a value that is stored as a word alone, which owns nothing.
        #[inline(always)]
        fn word(_: Self::Stored<'_>) -> Option<u64> {
            None
        }

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
    const DISPOSE: Option<Dispose> = None;
    type Stored<'a> = u64;
    type Replaced<V> = Option<V>;

    #[inline(always)]
    fn replaced<V>(
        before: Result<Option<V>, Refused>,
        _: impl FnOnce(Refused) -> Error,
    ) -> Option<V> {
        before.expect("a word needs no memory")
    }

    #[inline(always)]
    fn as_result<V>(replaced: Option<V>) -> Result<Option<V>, Error> {
        Ok(replaced)
    }

    #[inline(always)]
    fn open<R>(_: &impl Memory, loan: Loan<'_>, read: impl FnOnce(u64) -> R) -> R {
        read(loan.word())
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
    const DISPOSE: Option<Dispose> = Some(block::free);
    type Stored<'a> = &'a [u8];
    type Replaced<V> = Result<Option<V>, Error>;

    fn replaced<V>(
        before: Result<Option<V>, Refused>,
        error: impl FnOnce(Refused) -> Error,
    ) -> Self::Replaced<V> {
        before.map_err(error)
    }

    fn as_result<V>(replaced: Self::Replaced<V>) -> Result<Option<V>, Error> {
        replaced
    }

    fn check(value: Self::Stored<'_>) -> Result<(), Refused> {
        check(value)
    }

    #[inline(always)]
    fn open<R>(memory: &impl Memory, loan: Loan<'_>, read: impl FnOnce(&[u8]) -> R) -> R {
        read(loan.bytes(memory))
    }

    fn same(one: Self::Stored<'_>, two: Self::Stored<'_>) -> bool {
        one == two
    }

    fn setting<M: Memory>(
        store: &Store<M>,
        value: Self::Stored<'_>,
        mut when: impl FnMut(Option<Self::Stored<'_>>) -> bool,
    ) -> impl Change {
        InBlock::new(
            store,
            move |before: Option<Loan<'_>>, put: &mut dyn FnMut(&[u8])| {
                if when(before.map(|loan| loan.bytes(&store.memory))) {
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
                let now = before.map(|loan| V::from_stored(loan.bytes(&store.memory)));
                *after = store.call(|| make(now));
                if let Some(value) = after {
                    put(V::to_stored(value.lend()));
                }
            },
        )
    }
}

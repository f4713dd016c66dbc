//! What links are distances from.

use std::marker::PhantomData;

use timberline_tier::Arenas;

use super::link::MOST_ALIGN;

/// The address that distances count from, in a tree whose links have this width.
#[derive(Debug)]
pub struct Base<R> {
    pub(super) start: usize,
    reach: PhantomData<R>,
}

impl<R> Clone for Base<R> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Base<R> {}

impl<R> Base<R> {
    /// The origin of these arenas.
    pub fn of(arenas: &Arenas) -> Self {
        Base::before(arenas.range().start)
    }

    pub(super) fn before(start: usize) -> Self {
        Base {
            start: start - MOST_ALIGN,
            reach: PhantomData,
        }
    }

    pub(super) fn distance(self, address: usize) -> u64 {
        (address - self.start) as u64
    }
}

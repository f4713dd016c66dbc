//! State inside shared structures that threads write without disturbing each other: one copy for
//! each stripe, and a stripe for each thread.
//!
//! There are [`STRIPES`] of them and any number of threads, so two threads may share one. State
//! must stay correct then; it is just slower.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

/// How many stripes there are.
pub const STRIPES: usize = 64;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// 0 until the thread has asked for a stripe of its own; so that looking needs no branch.
    static STRIPE: Cell<usize> = const { Cell::new(0) };
}

/// This thread's stripe, below [`STRIPES`]; 0 as long as [`assign`] was not called.
#[inline(always)]
pub fn current() -> usize {
    STRIPE.with(Cell::get)
}

/// This thread's stripe, given out at the first call; never 0.
#[inline(always)]
pub fn assign() -> usize {
    match current() {
        0 => assign_first(),
        stripe => stripe,
    }
}

#[cold]
#[inline(never)]
fn assign_first() -> usize {
    let stripe = 1 + NEXT.fetch_add(1, Relaxed) % (STRIPES - 1);
    STRIPE.set(stripe);
    stripe
}

/// A `T` for each stripe, so far apart that no two share a line (or a pair that is fetched
/// together).
#[derive(Debug)]
pub struct Striped<T>([CachePadded<T>; STRIPES]);

impl<T> Striped<T> {
    /// One made by `make` for each stripe.
    pub fn new(mut make: impl FnMut() -> T) -> Self {
        Striped(std::array::from_fn(|_| CachePadded::new(make())))
    }

    /// This thread's. Threads that have no stripe yet share one.
    #[inline(always)]
    pub fn mine(&self) -> &T {
        // SAFETY: `current` is below STRIPES: 0, or what `assign` made of a remainder.
        unsafe { self.0.get_unchecked(current()) }
    }

    /// This thread's, after giving it a stripe of its own.
    #[inline(always)]
    pub fn assigned(&self) -> &T {
        // Without a check of the bound.
        &self.0[assign() % STRIPES]
    }

    /// That of a stripe, by its number.
    ///
    /// # Panics
    /// If there is no such stripe.
    pub fn of(&self, stripe: usize) -> &T {
        &self.0[stripe]
    }

    /// All stripes'.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &**padded)
    }
}

impl<T: Default> Default for Striped<T> {
    fn default() -> Self {
        Striped::new(T::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_stripe() {
        std::thread::spawn(|| {
            assert_eq!(current(), 0);
            let stripe = assign();
            assert!((1..STRIPES).contains(&stripe));
            assert_eq!((current(), assign()), (stripe, stripe));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn threads_with_stripes_have_places_of_their_own() {
        let stripes = Striped::new(|| AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| stripes.assigned().fetch_add(1, Relaxed));
            }
        });
        let counts: Vec<usize> = stripes.iter().map(|count| count.load(Relaxed)).collect();
        assert_eq!(counts.iter().sum::<usize>(), 4);
        assert_eq!((counts.len(), counts[0]), (STRIPES, 0));
    }
}

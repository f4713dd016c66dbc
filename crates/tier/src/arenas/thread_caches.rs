//! Thread caches of free slots, so that most allocations take no shared lock.
//!
//! A thread cache has a stack for each size class, and counts the bytes that its threads allocated
//! minus those that they freed. As a slot may be freed by another thread, only the sum of all
//! counts has a meaning.
//!
//! Invariant: only the thread that has set `locked` accesses the stacks. A cache is locked for a
//! few instructions and rarely contended (see [`Striped`]), so a thread that finds it locked
//! yields.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::classes::{CLASSES, size_of_class};
use crate::striped::{self, STRIPES, Striped};

/// The most bytes of a class that a cache keeps, unless a single slot has more.
const MAX_BYTES: usize = 16 << 10;
/// The most slots of a class that a cache keeps.
const MAX_SLOTS: usize = 64;

const CAPACITY: [u8; CLASSES] = {
    let mut kept = [1; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let slots = MAX_BYTES / size_of_class(class);
        if slots > 1 {
            kept[class] = if slots < MAX_SLOTS { slots } else { MAX_SLOTS } as u8;
        }
        class += 1;
    }
    kept
};

/// The number of slots that a cache exchanges with the chunks at once: half of its capacity.
pub fn batch(class: usize) -> usize {
    (CAPACITY[class] as usize).div_ceil(2)
}

/// By class, the addresses of free slots; the last is allocated next.
type Stacks = Vec<Vec<usize>>;

#[derive(Default)]
struct ThreadCache {
    locked: AtomicBool,
    /// Bytes allocated minus bytes freed. Written under the lock.
    used: AtomicIsize,
    /// Empty until the cache is used.
    stacks: UnsafeCell<Stacks>,
}

// SAFETY: `stacks` is reached only through `Locked`, of which there is one at a time.
unsafe impl Sync for ThreadCache {}

/// A cache that this thread has locked.
struct Locked<'a>(&'a ThreadCache);

impl ThreadCache {
    #[inline(always)]
    fn lock(&self) -> Locked<'_> {
        while self.locked.swap(true, Acquire) {
            std::thread::yield_now();
        }
        Locked(self)
    }
}

impl Locked<'_> {
    #[inline(always)]
    fn stacks(&mut self) -> &mut Stacks {
        // SAFETY: `self` has the lock, and is exclusively borrowed meanwhile.
        unsafe { &mut *self.0.stacks.get() }
    }

    #[inline(always)]
    fn count(&mut self, bytes: isize) {
        let used = self.0.used.load(Relaxed);
        self.0.used.store(used.wrapping_add(bytes), Relaxed);
    }
}

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.locked.store(false, Release);
    }
}

/// The thread caches of one tier.
#[derive(Default)]
pub struct ThreadCaches {
    caches: Striped<ThreadCache>,
    /// A bit for each cache that was ever used.
    in_use: AtomicU64,
}

const _: () = assert!(STRIPES <= u64::BITS as usize);

impl ThreadCaches {
    /// Takes a slot from this thread's cache.
    #[inline(always)]
    pub fn pop(&self, class: usize) -> Option<usize> {
        let mut cache = self.caches.assigned().lock();
        let slot = cache.stacks().get_mut(class)?.pop()?;
        cache.count(size_of_class(class) as isize);
        Some(slot)
    }

    /// Returns the last of these slots and caches the others, of which the last is taken first.
    pub fn stock(&self, class: usize, slots: &[usize]) -> Option<usize> {
        let (&first, rest) = slots.split_last()?;
        let mut cache = self.caches.assigned().lock();
        self.open(&mut cache)[class].extend_from_slice(rest);
        cache.count(size_of_class(class) as isize);
        Some(first)
    }

    /// Caches a freed slot. Returns whether the cache now exceeds its capacity, so that the caller
    /// calls [`ThreadCaches::shed`].
    #[inline]
    pub fn push(&self, class: usize, slot: usize) -> bool {
        let mut cache = self.caches.assigned().lock();
        cache.count(-(size_of_class(class) as isize));
        let stack = match cache.stacks().get_mut(class) {
            Some(stack) => stack,
            None => &mut self.open(&mut cache)[class],
        };
        stack.push(slot);
        stack.len() > CAPACITY[class] as usize
    }

    /// Counts a freed slot that is not cached.
    pub fn pass(&self, class: usize) {
        let mut cache = self.caches.assigned().lock();
        self.open(&mut cache);
        cache.count(-(size_of_class(class) as isize));
    }

    /// Takes a batch of a class's slots, the oldest ones.
    #[cold]
    #[inline(never)]
    pub fn shed(&self, class: usize) -> Vec<usize> {
        let mut cache = self.caches.assigned().lock();
        match cache.stacks().get_mut(class) {
            Some(stack) => stack.drain(..batch(class).min(stack.len())).collect(),
            None => Vec::new(),
        }
    }

    /// Takes all slots from all caches, by class.
    pub fn drain(&self) -> impl Iterator<Item = (usize, Vec<usize>)> {
        self.opened().flat_map(|cache| {
            std::mem::take(cache.lock().stacks())
                .into_iter()
                .enumerate()
        })
    }

    /// Takes all slots of a class from all caches.
    pub fn drain_of(&self, class: usize) -> Vec<usize> {
        let mut slots = Vec::new();
        for cache in self.opened() {
            if let Some(stack) = cache.lock().stacks().get_mut(class) {
                slots.append(stack);
            }
        }
        slots
    }

    /// Bytes that all threads together allocated and did not free. Exact while none does either.
    pub fn used(&self) -> usize {
        let sum = self.opened().fold(0, |sum: isize, cache| {
            sum.wrapping_add(cache.used.load(Relaxed))
        });
        sum.max(0) as usize
    }

    /// The stacks of this thread's cache, which are made at its first use.
    fn open<'a>(&self, cache: &'a mut Locked<'_>) -> &'a mut Stacks {
        let stacks = cache.stacks();
        if stacks.is_empty() {
            self.in_use.fetch_or(1 << striped::current(), Relaxed);
            stacks.resize_with(CLASSES, Vec::new);
        }
        stacks
    }

    fn opened(&self) -> impl Iterator<Item = &ThreadCache> {
        let mut left = self.in_use.load(Relaxed);
        std::iter::from_fn(move || {
            let stripe = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(self.caches.of(stripe))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::classes::class_of;
    use super::*;

    #[test]
    fn a_cache_keeps_few_bytes_or_one_slot() {
        for class in 0..CLASSES {
            let (size, caches) = (size_of_class(class), ThreadCaches::default());
            let mut kept = 0;
            for slot in 0..1000 {
                kept += 1;
                if caches.push(class, slot) {
                    kept -= caches.shed(class).len();
                }
                assert!(kept == 1 || kept * size <= MAX_BYTES, "{kept} of {size}");
            }
            assert!(kept >= batch(class) && kept <= MAX_SLOTS);
            let drained: usize = caches.drain().map(|(_, slots)| slots.len()).sum();
            assert_eq!((drained, caches.pop(class)), (kept, None));
        }
    }

    #[test]
    fn slots_come_in_the_order_of_their_batch_and_are_counted() {
        let (caches, class) = (ThreadCaches::default(), class_of(24));
        assert_eq!(caches.stock(class, &[]), None);
        assert_eq!(caches.stock(class, &[3, 2, 1]), Some(1));
        assert_eq!([caches.pop(class), caches.pop(class)], [Some(2), Some(3)]);
        assert_eq!((caches.pop(class), caches.used()), (None, 72));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(![1, 2, 3].map(|slot| caches.push(class, slot))[2]));
        });
        assert_eq!(caches.used(), 0, "whoever gives back what another took");
    }
}

//! Free slots that threads keep for themselves, so that most allocations meet no other thread.
//!
//! Each lane has a stack for every class and counts the bytes that its threads took minus those they gave back;
//! neither alone means anything (slots travel between threads), the sum over the lanes does.
//!
//! Invariant: stacks are reached only by whoever has set `busy`. A lane is held for a few
//! instructions and hardly ever contended (see [`crate::lane`]), so who finds it held yields.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::classes::{CLASSES, size_of_class};
use crate::lane::{self, PerLane};

/// Most bytes of a class that a lane keeps, unless one slot has more.
const KEPT_BYTES: usize = 16 << 10;
/// Most slots of a class that a lane keeps.
const KEPT_SLOTS: usize = 64;

const KEPT: [u8; CLASSES] = {
    let mut kept = [1; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let slots = KEPT_BYTES / size_of_class(class);
        if slots > 1 {
            kept[class] = if slots < KEPT_SLOTS {
                slots
            } else {
                KEPT_SLOTS
            } as u8;
        }
        class += 1;
    }
    kept
};

/// Slots that a lane exchanges with the chunks at once: half of what it keeps.
pub fn batch(class: usize) -> usize {
    (KEPT[class] as usize).div_ceil(2)
}

/// Addresses of free slots, the next one last, by class.
type Stacks = Vec<Vec<usize>>;

#[derive(Default)]
struct Lane {
    busy: AtomicBool,
    /// Bytes taken minus bytes given back. Changed by whoever holds the lane.
    used: AtomicIsize,
    /// Empty until the lane is used.
    stacks: UnsafeCell<Stacks>,
}

// SAFETY: `stacks` is reached only through `Held`, of which there is one at a time.
unsafe impl Sync for Lane {}

/// A lane that nobody else reaches the stacks of.
struct Held<'a>(&'a Lane);

impl Lane {
    #[inline(always)]
    fn hold(&self) -> Held<'_> {
        while self.busy.swap(true, Acquire) {
            std::thread::yield_now();
        }
        Held(self)
    }
}

impl Held<'_> {
    #[inline(always)]
    fn stacks(&mut self) -> &mut Stacks {
        // SAFETY: `self` is the only one that holds the lane, and is borrowed for as long.
        unsafe { &mut *self.0.stacks.get() }
    }

    #[inline(always)]
    fn count(&mut self, bytes: isize) {
        let used = self.0.used.load(Relaxed);
        self.0.used.store(used.wrapping_add(bytes), Relaxed);
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.busy.store(false, Release);
    }
}

/// The lanes of one tier.
#[derive(Default)]
pub struct Lanes {
    lanes: PerLane<Lane>,
    /// A bit for each lane that was ever used.
    in_use: AtomicU64,
}

const _: () = assert!(lane::LANES <= u64::BITS as usize);

impl Lanes {
    /// A slot that this thread keeps.
    #[inline]
    pub fn pop(&self, class: usize) -> Option<usize> {
        let mut lane = self.lanes.assigned().hold();
        let slot = lane.stacks().get_mut(class)?.pop()?;
        lane.count(size_of_class(class) as isize);
        Some(slot)
    }

    /// Hands out the first of these slots and keeps the others, to be handed out in their order.
    pub fn stock(&self, class: usize, slots: &[usize]) -> Option<usize> {
        let (&first, rest) = slots.split_first()?;
        let mut lane = self.lanes.assigned().hold();
        self.open(&mut lane)[class].extend(rest.iter().rev());
        lane.count(size_of_class(class) as isize);
        Some(first)
    }

    /// Keeps a slot that is given back. Whether the lane has too many now, which [`Lanes::shed`] is for.
    #[inline]
    pub fn push(&self, class: usize, slot: usize) -> bool {
        let mut lane = self.lanes.assigned().hold();
        lane.count(-(size_of_class(class) as isize));
        let stack = match lane.stacks().get_mut(class) {
            Some(stack) => stack,
            None => &mut self.open(&mut lane)[class],
        };
        stack.push(slot);
        stack.len() > KEPT[class] as usize
    }

    /// Counts a slot that is given back and not kept.
    pub fn pass(&self, class: usize) {
        let mut lane = self.lanes.assigned().hold();
        self.open(&mut lane);
        lane.count(-(size_of_class(class) as isize));
    }

    /// Takes a batch of slots of a class that has too many; the oldest.
    #[cold]
    #[inline(never)]
    pub fn shed(&self, class: usize) -> Vec<usize> {
        let mut lane = self.lanes.assigned().hold();
        match lane.stacks().get_mut(class) {
            Some(stack) => stack.drain(..batch(class).min(stack.len())).collect(),
            None => Vec::new(),
        }
    }

    /// Takes all that any thread keeps, by class.
    pub fn drain(&self) -> impl Iterator<Item = (usize, Vec<usize>)> {
        self.opened()
            .flat_map(|lane| std::mem::take(lane.hold().stacks()).into_iter().enumerate())
    }

    /// Bytes that all threads together took and did not give back. Exact when none is at it.
    pub fn used(&self) -> usize {
        let sum = self.opened().fold(0, |sum: isize, lane| {
            sum.wrapping_add(lane.used.load(Relaxed))
        });
        sum.max(0) as usize
    }

    /// The stacks of this thread's lane, made if there are none.
    fn open<'a>(&self, lane: &'a mut Held<'_>) -> &'a mut Stacks {
        let stacks = lane.stacks();
        if stacks.is_empty() {
            self.in_use.fetch_or(1 << lane::current(), Relaxed);
            stacks.resize_with(CLASSES, Vec::new);
        }
        stacks
    }

    fn opened(&self) -> impl Iterator<Item = &Lane> {
        let mut left = self.in_use.load(Relaxed);
        std::iter::from_fn(move || {
            let lane = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(self.lanes.of(lane))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::classes::class_of;
    use super::*;

    #[test]
    fn a_lane_keeps_few_bytes_or_one_slot() {
        for class in 0..CLASSES {
            let (size, lanes) = (size_of_class(class), Lanes::default());
            let mut kept = 0;
            for slot in 0..1000 {
                kept += 1;
                if lanes.push(class, slot) {
                    kept -= lanes.shed(class).len();
                }
                assert!(kept == 1 || kept * size <= KEPT_BYTES, "{kept} of {size}");
            }
            assert!(kept >= batch(class) && kept <= KEPT_SLOTS);
            let drained: usize = lanes.drain().map(|(_, slots)| slots.len()).sum();
            assert_eq!((drained, lanes.pop(class)), (kept, None));
        }
    }

    #[test]
    fn slots_come_in_the_order_of_their_batch_and_are_counted() {
        let (lanes, class) = (Lanes::default(), class_of(24));
        assert_eq!(lanes.stock(class, &[]), None);
        assert_eq!(lanes.stock(class, &[1, 2, 3]), Some(1));
        assert_eq!([lanes.pop(class), lanes.pop(class)], [Some(2), Some(3)]);
        assert_eq!((lanes.pop(class), lanes.used()), (None, 72));
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(![1, 2, 3].map(|slot| lanes.push(class, slot))[2]));
        });
        assert_eq!(lanes.used(), 0, "whoever gives back what another took");
    }
}

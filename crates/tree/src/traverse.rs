//! Traversals: walks through nodes written once, and run in three ways.
//!
//! A lookup in a tree spends most of its time waiting for memory. How to hide that wait is not the
//! lookup's business, so it is written as a [`Traversal`], which does one node at a time, and
//! whoever runs it decides what the CPU does meanwhile:
//!
//! | driver | between two steps | for |
//! |---|---|---|
//! | [`run`] | nothing: it compiles to the loop that one would have written | one lookup on fast memory |
//! | [`interleave`] | steps of other traversals, in a ring of a given depth | many lookups at hand |
//! | [`Yielding`] | whatever the executor has to do | operations of many tasks on one core |
//!
//! Interleaving is asynchronous memory access chaining (Kocberber, Falsafi, Grot, PVLDB 9(4), 2015): a ring
//! of states, each at its own node, where a finished one is replaced at once; so lookups of different
//! lengths, and ones that start over, keep nobody waiting. That one source serves the plain and the interleaved
//! way is the idea of coroutines for index joins (Psaropoulos, Legler, May, Ailamaki, PVLDB 11(2), 2017).
//! Yielding after each prefetch is how Bando et al. (§3) run key-value stores on memory of
//! microseconds: with latency L and P prefetches in flight, at best one node is had every L/P.
//!
//! Nothing here allocates.

use std::pin::Pin;
use std::task::{Context, Poll};

/// The most traversals in a ring.
pub const MAX_DEPTH: usize = 64;

/// Traversals in a ring where nobody says otherwise: a core has line buffers for about as many.
pub const DEPTH: usize = 16;

/// A walk from node to node.
pub trait Traversal {
    /// What it comes to.
    type Output;

    /// Does the next node.
    ///
    /// `Pending`: there is a next one, and what a step reads of it has been asked for; the later that step, the less
    /// it waits. Where a writer got in between, the walk starts over by itself: that is a step like another.
    ///
    /// After `Ready` it is over, and is not called again.
    fn step(&mut self) -> Poll<Self::Output>;
}

/// Runs a traversal by itself.
#[inline(always)]
pub fn run<T: Traversal>(mut traversal: T) -> T::Output {
    loop {
        if let Poll::Ready(output) = traversal.step() {
            return output;
        }
    }
}

/// Runs traversals, `depth` at a time (made to lie within 1 and [`MAX_DEPTH`]), each doing one step in turn.
/// A finished one is replaced by the next at once. `done` gets the position (from 0) of each in `traversals`, and
/// what it came to, in the order in which they finish.
#[inline(always)]
pub fn interleave<T: Traversal>(
    depth: usize,
    traversals: impl IntoIterator<Item = T>,
    mut done: impl FnMut(usize, T::Output),
) {
    let mut waiting = traversals.into_iter().enumerate();
    let mut ring = [const { None }; MAX_DEPTH];
    let mut length = 0;
    for (place, next) in ring
        .iter_mut()
        .zip(waiting.by_ref().take(depth.clamp(1, MAX_DEPTH)))
    {
        *place = Some(next);
        length += 1;
    }
    let mut at = 0;
    while length > 0 {
        if at >= length {
            at = 0;
        }
        let place = &mut ring[at];
        let (index, traversal) = place.as_mut().expect("the ring is full up to its length");
        match traversal.step() {
            Poll::Pending => at += 1,
            Poll::Ready(output) => {
                done(*index, output);
                // The new one's first step comes at once: nothing was asked for that it would wait for.
                *place = waiting.next();
                if place.is_none() {
                    length -= 1;
                    ring.swap(at, length);
                }
            }
        }
    }
}

/// A traversal as a future: each poll does one step, and yields where the next one would wait for memory.
///
/// It is always ready for the next poll, so it wakes its task before it yields. An executor that goes round
/// its tasks (of which there should be about as many as prefetches can be in flight) need not look at that.
#[derive(Debug)]
pub struct Yielding<T>(pub T);

impl<T: Traversal + Unpin> Future for Yielding<T> {
    type Output = T::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T::Output> {
        let polled = self.0.step();
        if polled.is_pending() {
            context.waker().wake_by_ref();
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::task::Waker;

    /// Takes `left` steps more, and notes each under its name.
    struct Walk<'a> {
        name: char,
        left: usize,
        steps: &'a RefCell<String>,
    }

    impl Traversal for Walk<'_> {
        type Output = char;

        fn step(&mut self) -> Poll<char> {
            self.steps.borrow_mut().push(self.name);
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => return Poll::Ready(self.name.to_ascii_uppercase()),
            }
            Poll::Pending
        }
    }

    fn walks<'a>(
        lengths: &'a [usize],
        steps: &'a RefCell<String>,
    ) -> impl Iterator<Item = Walk<'a>> {
        let names = 'a'..='z';
        names.zip(lengths).map(move |(name, &length)| Walk {
            name,
            left: length - 1,
            steps,
        })
    }

    fn interleaved(depth: usize, lengths: &[usize]) -> (String, String) {
        let (steps, mut ends) = (RefCell::default(), String::new());
        interleave(depth, walks(lengths, &steps), |index, name| {
            assert_eq!(usize::from(name as u8 - b'A'), index);
            ends.push(name);
        });
        (steps.into_inner(), ends)
    }

    #[test]
    fn a_ring_goes_round_and_refills() {
        assert_eq!(
            interleaved(2, &[3, 1, 2]),
            ("abcaca".into(), "BCA".into()),
            "c takes b's place in b's turn"
        );
        assert_eq!(interleaved(1, &[2, 2]).0, "aabb");
        assert_eq!(interleaved(8, &[2, 3, 2]).0, "abcacbb");
        assert_eq!(interleaved(0, &[1, 1]).0, "ab", "one at least");
        assert_eq!(interleaved(4, &[]), Default::default());
    }

    #[test]
    fn each_traversal_finishes_once_at_any_depth() {
        let lengths: Vec<usize> = (0..26).map(|i| 1 + i * 7 % 5).collect();
        for depth in 0..=MAX_DEPTH + 1 {
            let (steps, ends) = interleaved(depth, &lengths);
            assert_eq!(steps.len(), lengths.iter().sum::<usize>());
            let mut ends: Vec<char> = ends.chars().collect();
            ends.sort_unstable();
            assert!(ends.into_iter().eq('A'..='Z'), "depth {depth}");
        }
    }

    #[test]
    fn alone_or_as_a_future_it_takes_the_same_steps() {
        let steps = RefCell::default();
        for walk in walks(&[1, 3], &steps) {
            run(walk);
        }
        assert_eq!(steps.take(), "abbb");
        let walk = walks(&[3], &steps).next().unwrap();
        let mut future = std::pin::pin!(Yielding(walk));
        let mut context = Context::from_waker(Waker::noop());
        let polls: Vec<_> = (0..3).map(|_| future.as_mut().poll(&mut context)).collect();
        assert_eq!(polls, [Poll::Pending, Poll::Pending, Poll::Ready('A')]);
    }
}

//! Traversals: walks through nodes, written once and run in three ways.
//!
//! A lookup in a tree spends most of its time waiting for memory. It does not decide how to hide
//! that wait. It is a [`Traversal`], which processes one node a step, and its driver decides what
//! the CPU does between steps:
//!
//! | driver | between two steps | for |
//! |---|---|---|
//! | [`run`] | nothing: it compiles to a plain loop | one lookup on fast memory |
//! | [`interleave`] | steps of other traversals, in a ring of a given depth | many lookups |
//! | [`Yielding`] | whatever else the executor runs | operations of many tasks on one core |
//!
//! Interleaving is asynchronous memory access chaining (Kocberber, Falsafi, Grot, PVLDB 9(4),
//! 2015): a ring of states, each at its own node, in which a finished one is replaced at once. So
//! lookups of different lengths, and restarts, delay no other lookup. One source for the plain and
//! the interleaved form is the idea of coroutines for index joins (Psaropoulos, Legler, May,
//! Ailamaki, PVLDB 11(2), 2017). Yielding after each prefetch is how Bando et al. (§3) run
//! key-value stores on memory with a latency of microseconds: with latency L and P prefetches in
//! flight, at best one node arrives every L/P.
//!
//! Nothing here allocates.

use std::pin::Pin;
use std::task::{Context, Poll};

/// The most traversals in a ring.
pub const MAX_DEPTH: usize = 64;

/// The default number of traversals in a ring: about the line fill buffers of a core.
pub const DEPTH: usize = 16;

/// A walk from node to node.
pub trait Traversal {
    /// Its result.
    type Output;

    /// Goes on up to the next node that may have to be waited for.
    ///
    /// `Pending`: there is a next node, and its lines that the next step reads have been
    /// prefetched; the later that step, the less it waits. If a writer interfered, the walk
    /// restarts by itself, which is a step like any other.
    ///
    /// After `Ready` it is finished, and must not be called again.
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

/// Runs traversals, `depth` at a time (clamped to 1 to [`MAX_DEPTH`]), one step each in turn. A
/// finished one is replaced by the next at once. `done` gets the position (from 0) of each in
/// `traversals`, and its result, in the order in which they finish.
#[inline(always)]
pub fn interleave<T: Traversal>(
    depth: usize,
    traversals: impl IntoIterator<Item = T>,
    mut done: impl FnMut(usize, T::Output),
) {
    let mut waiting = traversals.into_iter().enumerate();
    let mut ring = [const { None }; MAX_DEPTH];
    let places = depth.clamp(1, MAX_DEPTH);
    let mut left = 0;
    for (place, next) in ring.iter_mut().zip(waiting.by_ref().take(places)) {
        *place = Some(next);
        left += 1;
    }
    let ring = &mut ring[..left];
    let mut at = 0;
    while left > 0 {
        if at >= ring.len() {
            at = 0;
        }
        // When none is left to start, a finished traversal leaves its place empty. So the others
        // keep their order, which is that of their prefetches.
        let Some((index, traversal)) = &mut ring[at] else {
            at += 1;
            continue;
        };
        match traversal.step() {
            Poll::Pending => at += 1,
            Poll::Ready(output) => {
                done(*index, output);
                // The new one's first step runs at once: it has nothing prefetched to wait for.
                ring[at] = waiting.next();
                left -= usize::from(ring[at].is_none());
            }
        }
    }
}

/// A traversal as a future: each poll runs one step, and yields where the next one would wait for
/// memory.
///
/// It is always ready for the next poll, so it wakes its task before it yields. An executor that
/// polls its tasks in turn (about as many as prefetches can be in flight) can ignore the wakeups.
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

/// Steps a traversal that its owner inspects afterwards.
impl<T: Traversal> Traversal for &mut T {
    type Output = T::Output;

    #[inline(always)]
    fn step(&mut self) -> Poll<T::Output> {
        (**self).step()
    }
}

/// Yields once, so that prefetched lines arrive.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    let once = |context: &mut Context<'_>| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    };
    std::future::poll_fn(once).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::task::Waker;

    /// Runs `left` more steps, and records each under its name.
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
        assert_eq!(interleaved(8, &[2, 3, 2]).0, "abcabcb", "in their order");
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

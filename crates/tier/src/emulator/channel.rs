//! The channel to a tier: bandwidth that all threads share.
//!
//! A channel is free again at a virtual time, one word. A thread counts the lines that it reads and
//! accounts for them a batch at a time: the word moves on by the batch's transfer, and where it is
//! ahead of the clock then, the thread waits for it. A thread alone that is no faster than the
//! channel never waits. Threads that are faster take turns by batches, so each gets an equal part.
//! A channel that nobody uses saves up no more than a batch.
//!
//! One write to a shared line for [`BATCH`] lines read: threads don't meet at every access.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lines that a thread reads before it accounts for them: a page.
pub const BATCH: u32 = 64;

/// The bandwidth of one tier.
#[repr(align(128))]
#[derive(Default)]
pub struct Channel {
    /// Ticks that a batch takes; 0 for a channel that no one has to wait for.
    batch: u64,
    /// When all that was accounted for has been transferred; 0 before there is any.
    free: AtomicU64,
}

impl Channel {
    /// A channel that transfers a batch in this many ticks.
    pub fn new(batch: u64) -> Channel {
        Channel {
            batch,
            free: AtomicU64::new(0),
        }
    }

    /// Accounts for a batch that a thread has read by `now`. Returns when its transfer ends: the
    /// thread goes on no earlier.
    pub fn transfer(&self, now: u64) -> u64 {
        if self.batch == 0 {
            return now;
        }
        // The lines came while they were read, so an idle channel ends with the reading.
        let end = |free: u64| match free {
            0 => now,
            free => now.max(free + self.batch),
        };
        // It orders nothing else: threads only agree on this word.
        let before = self
            .free
            .fetch_update(Relaxed, Relaxed, |free| Some(end(free)));
        end(before.unwrap_or_else(|free| free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that stream, on a virtual clock: each takes its ticks to read a batch where nothing
    /// holds it up. Returns batches of each by `until`.
    fn stream(channel: &Channel, ticks: &[u64], until: u64) -> Vec<u64> {
        let mut clocks: Vec<u64> = ticks.iter().map(|_| 1_000_000).collect();
        let mut batches = vec![0; ticks.len()];
        // Always the one whose clock is behind, when its batch is read.
        loop {
            let next = (0..ticks.len())
                .min_by_key(|&it| clocks[it] + ticks[it])
                .unwrap();
            let read = clocks[next] + ticks[next];
            if read > 1_000_000 + until {
                return batches;
            }
            clocks[next] = channel.transfer(read);
            batches[next] += 1;
        }
    }

    #[test]
    fn two_threads_that_stream_get_half_each() {
        assert_eq!(stream(&Channel::new(100), &[100], 100_000), [1000]);
        let both = stream(&Channel::new(100), &[100, 100], 100_000);
        assert!(
            both.iter().all(|batches| (499..=501).contains(batches)),
            "{both:?}"
        );
        let many = stream(&Channel::new(100), &[100, 50, 20, 100], 100_000);
        assert!(
            many.iter().all(|batches| (240..=260).contains(batches)),
            "{many:?}"
        );
    }

    #[test]
    fn a_thread_that_needs_little_gets_it() {
        let parts = stream(&Channel::new(100), &[900, 100], 100_000);
        assert!(
            parts[0] >= 90,
            "{parts:?}: it waits for one batch of the other at most"
        );
        let sum = parts[0] + parts[1];
        assert!((995..=1001).contains(&sum), "{parts:?}: nothing is lost");
    }

    #[test]
    fn an_idle_channel_saves_up_one_batch() {
        let channel = Channel::new(100);
        assert_eq!(channel.transfer(1000), 1000);
        assert_eq!(channel.transfer(9000), 9000);
        assert_eq!(channel.transfer(9000), 9100);
    }

    #[test]
    fn no_one_waits_for_a_channel_without_limit() {
        assert_eq!(stream(&Channel::default(), &[10, 10], 1000), [100, 100]);
    }

    /// Real threads: none of their batches is lost.
    #[test]
    fn batches_of_all_threads_add_up() {
        let channel = Channel::new(7);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        channel.transfer(1);
                    }
                });
            }
        });
        assert_eq!(channel.free.load(Relaxed), 1 + 3999 * 7);
    }
}

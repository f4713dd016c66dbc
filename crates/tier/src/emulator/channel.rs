//! The channel to a tier: the bandwidth that all threads share.
//!
//! One word holds the virtual time when the channel is free again. A thread counts the lines that
//! it reads, and accounts for them a batch at a time: it adds the batch's transfer time to the
//! word. If the word is then ahead of the clock, the thread waits until that time. A single thread
//! that is no faster than the channel never waits. Faster threads take turns, a batch each, so each
//! gets an equal part. An idle channel saves up one batch at most.
//!
//! A thread writes to the shared line once for [`BATCH`] lines read, so threads rarely contend.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lines that a thread reads before it accounts for them: a page.
pub const BATCH: u32 = 64;

/// The bandwidth of one tier.
#[repr(align(128))]
#[derive(Default)]
pub struct Channel {
    /// Ticks of a batch; 0 for unlimited bandwidth.
    batch: u64,
    /// When all accounted batches have been transferred; 0 before the first.
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

    /// Accounts for a batch that a thread has read by `now`. Returns when its transfer ends; the
    /// thread waits until then.
    pub fn transfer(&self, now: u64) -> u64 {
        if self.batch == 0 {
            return now;
        }
        // The lines arrived while they were read, so on an idle channel the transfer has ended.
        let end = |free: u64| match free {
            0 => now,
            free => now.max(free + self.batch),
        };
        // Relaxed: threads share only this word.
        let before = self
            .free
            .fetch_update(Relaxed, Relaxed, |free| Some(end(free)));
        end(before.unwrap_or_else(|free| free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that stream, on a virtual clock: each takes its own ticks to read a batch without
    /// contention. Returns the batches of each by `until`.
    fn stream(channel: &Channel, ticks: &[u64], until: u64) -> Vec<u64> {
        let mut clocks: Vec<u64> = ticks.iter().map(|_| 1_000_000).collect();
        let mut batches = vec![0; ticks.len()];
        // Always the thread whose clock is behind, when it has read its batch.
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

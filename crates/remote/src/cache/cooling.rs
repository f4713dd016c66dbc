//! The cooling map: nodes that go next, found by their address.
//!
//! A hash table of short queues, one to a cache line, so that threads that cool and evict do not
//! meet (Lu et al.: "DEX", VLDB 2024, section 5.2). No word leads to a cooling node, so this is
//! also the table by which it is found again.

use std::sync::{Mutex, MutexGuard};

use super::frame::FrameId;
use crate::address::Address;

/// Nodes in a queue: with their count and the lock they fill a cache line.
const SLOTS: usize = 12;

/// Queues of cooling nodes.
pub(crate) struct Cooling {
    buckets: Box<[Bucket]>,
}

#[repr(align(64))]
struct Bucket(Mutex<Queue>);

/// The oldest node comes first.
#[derive(Default)]
struct Queue {
    nodes: [u32; SLOTS],
    len: u8,
}

impl Cooling {
    /// Room for about so many nodes.
    pub fn new(nodes: usize) -> Cooling {
        let buckets = nodes.div_ceil(SLOTS).max(1);
        Cooling {
            buckets: (0..buckets).map(|_| Bucket(Mutex::default())).collect(),
        }
    }

    /// The bytes that room for so many nodes takes.
    pub fn bytes(nodes: usize) -> usize {
        nodes.div_ceil(SLOTS).max(1) * size_of::<Bucket>()
    }

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.buckets.len()
    }

    /// Appends a node to its queue.
    ///
    /// # Errors
    /// The queue is full. This is its oldest node.
    pub fn push(&self, address: Address, node: FrameId) -> Result<(), FrameId> {
        let mut queue = self.queue_of(address);
        let len = usize::from(queue.len);
        if len == SLOTS {
            return Err(FrameId(queue.nodes[0]));
        }
        queue.nodes[len] = node.0;
        queue.len += 1;
        Ok(())
    }

    /// Removes a node from its queue, if it is there.
    pub fn remove(&self, address: Address, node: FrameId) {
        let mut queue = self.queue_of(address);
        let len = usize::from(queue.len);
        if let Some(at) = queue.nodes[..len].iter().position(|&it| it == node.0) {
            queue.nodes.copy_within(at + 1..len, at);
            queue.len -= 1;
        }
    }

    /// The node with this address, as `is_at` sees it.
    pub fn find(&self, address: Address, is_at: impl Fn(FrameId) -> bool) -> Option<FrameId> {
        let queue = self.queue_of(address);
        let nodes = queue.nodes[..queue.len.into()].iter();
        nodes.map(|&node| FrameId(node)).find(|&node| is_at(node))
    }

    /// The oldest node of a queue.
    pub fn oldest(&self, queue: usize) -> Option<FrameId> {
        let queue = lock(&self.buckets[queue]);
        (queue.len > 0).then(|| FrameId(queue.nodes[0]))
    }

    fn queue_of(&self, address: Address) -> MutexGuard<'_, Queue> {
        // Fibonacci hashing: nodes lie at multiples of 1 KiB.
        let hash = (address.word() >> 10).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        lock(&self.buckets[(hash as usize * self.buckets.len()) >> 32])
    }
}

fn lock(bucket: &Bucket) -> MutexGuard<'_, Queue> {
    bucket.0.lock().unwrap_or_else(|it| it.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_a_cache_line() {
        assert_eq!(size_of::<Bucket>(), 64);
    }

    #[test]
    fn the_oldest_comes_first() {
        let cooling = Cooling::new(1);
        let address = |number: u64| Address::new(1, number << 10);
        for number in 0..SLOTS as u32 {
            let pushed = cooling.push(address(number.into()), FrameId(number));
            assert_eq!(pushed, Ok(()));
        }
        assert_eq!(cooling.push(address(99), FrameId(99)), Err(FrameId(0)));
        cooling.remove(address(0), FrameId(0));
        cooling.remove(address(5), FrameId(5));
        assert_eq!(cooling.oldest(0), Some(FrameId(1)));
        assert_eq!(cooling.find(address(7), |it| it.0 == 7), Some(FrameId(7)));
        assert_eq!(cooling.find(address(5), |it| it.0 == 5), None);
    }
}

//! Nodes waiting for a worker, first come first served, each at most once.
//!
//! Invariant: what waits takes [`MOST`] bytes at most, so that nothing grows without limit where no
//! worker comes. What does not fit is not taken in: a leaf that is hot is found again, and a node
//! above the boundary is told of again when it is next split.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use crate::NodeKey;
use crate::workers::lock;

/// Bytes of all names that may wait; half a million of short ones.
const MOST: usize = 32 << 20;

/// A queue of names. Short locks only; none of its calls waits for a node.
#[derive(Default)]
pub struct NodeQueue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    order: VecDeque<NodeKey>,
    /// The same nodes: what is in the queue is not queued again.
    names: HashSet<NodeKey>,
    /// What they take.
    bytes: usize,
}

/// Bytes that a name takes in the queue, twice.
fn bytes_of(node: &NodeKey) -> usize {
    size_of::<NodeKey>() + node.key.len()
}

impl NodeQueue {
    /// Adds a node unless it is there, or there is no room for its name.
    pub fn push(&self, node: NodeKey) {
        let mut waiting = lock(&self.0);
        let bytes = waiting.bytes + bytes_of(&node);
        if bytes <= MOST && waiting.names.insert(node.clone()) {
            waiting.order.push_back(node);
            waiting.bytes = bytes;
        }
    }

    /// The one that has waited longest.
    pub fn pop(&self) -> Option<NodeKey> {
        let mut waiting = lock(&self.0);
        let node = waiting.order.pop_front()?;
        waiting.names.remove(&node);
        waiting.bytes -= bytes_of(&node);
        Some(node)
    }

    /// All that wait now.
    pub fn take(&self) -> VecDeque<NodeKey> {
        std::mem::take(&mut *lock(&self.0)).order
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        lock(&self.0).order.is_empty()
    }

    /// Forgets all.
    pub fn clear(&self) {
        *lock(&self.0) = Waiting::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_worker_fetches_stays_within_its_room() {
        let queue = NodeQueue::default();
        let name = |number: u32| {
            let key = [&number.to_be_bytes()[..], &[0; 10_000]].concat();
            NodeKey::leaf(key[..].into())
        };
        for number in 0..10_000 {
            queue.push(name(number));
        }
        let waiting = queue.take();
        assert_eq!(waiting.len(), MOST / bytes_of(&name(0)));
        assert_eq!(waiting[7], name(7));
        queue.push(name(8));
        assert_eq!((queue.pop(), queue.pop()), (Some(name(8)), None));
        assert_eq!(lock(&queue.0).bytes, 0);
    }

    #[test]
    fn keeps_order_and_no_node_twice() {
        let queue = NodeQueue::default();
        let [a, b] = [1, 2].map(|key| NodeKey::of_word(key, 0));
        let above = NodeKey::of_word(1, 1);
        for node in [&a, &b, &a, &above, &b] {
            queue.push(node.clone());
        }
        assert_eq!(queue.pop(), Some(a.clone()));
        queue.push(a.clone());
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(rest, [b, above, a.clone()]);
        assert!(queue.is_empty());
        queue.push(a.clone());
        queue.clear();
        assert_eq!(queue.pop(), None);
        queue.push(a);
        assert!(!queue.is_empty(), "a cleared name may come back");
    }
}

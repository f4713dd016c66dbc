//! Nodes that wait for a worker: first in, first out, each at most once.
//!
//! Invariant: the heap that they take stays within the queue's limit, so it is bounded where no
//! worker runs. The queue drops a node that does not fit, and tells that it did. Samples find a hot
//! leaf again. A broken path is reported again by the next split of the node above the boundary, or
//! found by a walk.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use crate::NodeKey;
use crate::workers::lock;

/// The most heap of a queue whatever the budget, bytes.
const MAX_BYTES: usize = 32 << 20;
/// Heap that candidates may take while they wait, beside `usable` bytes of fast memory, bytes.
pub fn heap_of_candidates(usable: usize) -> usize {
    (usable / 64).clamp(64 << 10, MAX_BYTES)
}

/// The same for broken paths. The least is larger: in a small map all paths can break at once while
/// memory is short, and one that is dropped stays broken until its next split.
pub fn heap_of_broken_paths(usable: usize) -> usize {
    (usable / 64).clamp(1 << 20, MAX_BYTES)
}

/// A queue of names. Short locks only; none of its calls waits for a node.
pub struct NodeQueue {
    waiting: Mutex<Queue>,
    /// Bytes of heap.
    limit: usize,
}

/// A queue with a limit of 32 MiB.
impl Default for NodeQueue {
    fn default() -> Self {
        Self::within(MAX_BYTES)
    }
}

#[derive(Default)]
struct Queue {
    order: VecDeque<NodeKey>,
    /// The same nodes as a set, so that none is queued twice.
    names: HashSet<NodeKey>,
    /// Heap of all names, bytes.
    bytes: usize,
    /// Whether a node was dropped.
    has_dropped: bool,
}

/// The most heap that a name takes in the queue, bytes: its key twice, and its places in both
/// tables. A deque grows to twice its length, a hash table to four times and a seventh; while a
/// table grows, the one before is still there.
fn bytes_of(node: &NodeKey) -> usize {
    const TABLES: usize = 10;
    TABLES * size_of::<NodeKey>() + 2 * node.key.heap_bytes()
}

impl NodeQueue {
    /// A queue that takes at most `limit` bytes of heap.
    pub fn within(limit: usize) -> Self {
        NodeQueue {
            waiting: Mutex::default(),
            limit,
        }
    }

    /// Adds a node unless it is there already, or the queue is full.
    pub fn push(&self, node: NodeKey) {
        let mut waiting = lock(&self.waiting);
        let bytes = waiting.bytes + bytes_of(&node);
        if bytes > self.limit {
            waiting.has_dropped |= !waiting.names.contains(&node);
        } else if waiting.names.insert(node.clone()) {
            waiting.order.push_back(node);
            waiting.bytes = bytes;
        }
    }

    /// The one that has waited longest.
    pub fn pop(&self) -> Option<NodeKey> {
        let mut waiting = lock(&self.waiting);
        let node = waiting.order.pop_front()?;
        waiting.names.remove(&node);
        waiting.bytes -= bytes_of(&node);
        Some(node)
    }

    /// All that wait now.
    pub fn take(&self) -> VecDeque<NodeKey> {
        let mut waiting = lock(&self.waiting);
        let has_dropped = waiting.has_dropped;
        let emptied = Queue {
            has_dropped,
            ..Queue::default()
        };
        std::mem::replace(&mut *waiting, emptied).order
    }

    /// Whether a node was dropped since the last such call.
    pub fn take_dropped(&self) -> bool {
        std::mem::take(&mut lock(&self.waiting).has_dropped)
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        lock(&self.waiting).order.is_empty()
    }

    /// Forgets all.
    pub fn clear(&self) {
        *lock(&self.waiting) = Queue::default();
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
        assert_eq!(waiting.len(), MAX_BYTES / bytes_of(&name(0)));
        assert!(waiting.len() > 1000);
        assert_eq!(waiting[7], name(7));
        assert_eq!([queue.take_dropped(), queue.take_dropped()], [true, false]);
        queue.push(name(8));
        assert_eq!((queue.pop(), queue.pop()), (Some(name(8)), None));
        assert_eq!(lock(&queue.waiting).bytes, 0);
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

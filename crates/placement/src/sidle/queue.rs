//! Nodes waiting to be moved, first come first served, each at most once.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use crate::NodeKey;
use crate::workers::lock;

/// A queue of names. Short locks only; none of its calls waits for a node.
#[derive(Default)]
pub struct NodeQueue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    order: VecDeque<NodeKey>,
    /// The same nodes: what is in the queue is not queued again.
    names: HashSet<NodeKey>,
}

impl NodeQueue {
    /// Adds a node unless it is there.
    pub fn push(&self, node: NodeKey) {
        let mut waiting = lock(&self.0);
        if waiting.names.insert(node.clone()) {
            waiting.order.push_back(node);
        }
    }

    pub fn pop(&self) -> Option<NodeKey> {
        let mut waiting = lock(&self.0);
        let node = waiting.order.pop_front()?;
        waiting.names.remove(&node);
        Some(node)
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.0).order.is_empty()
    }

    pub fn clear(&self) {
        *lock(&self.0) = Waiting::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

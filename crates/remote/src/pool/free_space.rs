//! Memory of a server that no node is in.

use std::collections::BTreeSet;

use super::CHUNK;
use crate::image::WORDS;

/// Bytes of a node.
const NODE: usize = 8 * WORDS;

/// Nodes of a chunk, which are handed out at a time.
pub(crate) const NODES: usize = CHUNK / NODE;

/// Offsets of nodes that can be handed out: those that were given back, then those in chunks that
/// were never used.
#[derive(Debug)]
pub(super) struct FreeSpace {
    /// Bytes of the server, whole chunks.
    capacity: usize,
    /// The first byte that was never handed out.
    next_chunk: usize,
    given_back: BTreeSet<u64>,
}

impl FreeSpace {
    /// All of so many bytes but the first chunk.
    pub fn new(capacity: usize) -> FreeSpace {
        FreeSpace {
            capacity,
            next_chunk: CHUNK,
            given_back: BTreeSet::new(),
        }
    }

    /// Hands out some nodes, at most a chunk of them; none if there are none.
    pub fn take(&mut self) -> Vec<u64> {
        if !self.given_back.is_empty() {
            let nodes = (0..NODES).map_while(|_| self.given_back.pop_first());
            return nodes.collect();
        }
        let chunk = self.next_chunk..self.next_chunk + CHUNK;
        if chunk.end > self.capacity {
            return Vec::new();
        }
        self.next_chunk = chunk.end;
        chunk.step_by(NODE).map(|offset| offset as u64).collect()
    }

    /// Takes a node back. Says whether it is one that was handed out.
    pub fn give_back(&mut self, offset: u64) -> bool {
        let handed_out = CHUNK as u64..self.next_chunk as u64;
        let is_node = handed_out.contains(&offset) && offset.is_multiple_of(NODE as u64);
        is_node && self.given_back.insert(offset)
    }

    /// Bytes that are handed out, those of the first chunk included.
    pub fn used(&self) -> usize {
        self.next_chunk.min(self.capacity) - NODE * self.given_back.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_handed_out_once() {
        let mut space = FreeSpace::new(3 * CHUNK);
        let (one, two) = (space.take(), space.take());
        assert_eq!((one.len(), two.len()), (NODES, NODES));
        assert_eq!((one[0], two[0]), (CHUNK as u64, 2 * CHUNK as u64));
        assert_eq!((space.take(), space.used()), (vec![], 3 * CHUNK));
        for offset in [two[7], one[3], one[200]] {
            assert!(space.give_back(offset));
            assert!(!space.give_back(offset), "it was given back before");
        }
        assert_eq!(space.used(), 3 * CHUNK - 3 * NODE);
        assert_eq!(space.take(), [one[3], one[200], two[7]]);
        assert_eq!((space.take(), space.used()), (vec![], 3 * CHUNK));
    }

    #[test]
    fn what_was_never_handed_out_cannot_come_back() {
        let mut space = FreeSpace::new(2 * CHUNK);
        assert!(!space.give_back(CHUNK as u64));
        space.take();
        for offset in [0, 8, CHUNK as u64 + 8, 2 * CHUNK as u64, u64::MAX] {
            assert!(!space.give_back(offset), "{offset}");
        }
        assert_eq!(FreeSpace::new(0).take(), Vec::<u64>::new());
        assert_eq!(FreeSpace::new(0).used(), 0);
    }
}

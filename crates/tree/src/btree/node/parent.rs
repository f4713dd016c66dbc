//! The parent of a node, locked: where the link to it is stored.

use std::sync::atomic::Ordering::Relaxed;

use timberline_sync::Exclusive;
use timberline_tier::Slot;

use super::fresh::{Fresh, Unlinked};
use super::link::Root;
use super::{Body, LockedNode, Search};

/// A locked parent, to point at another node.
pub enum LockedParent<'g, const WORDS: usize> {
    /// The cell that leads to the topmost root.
    Root(Exclusive<'g, Root<WORDS>>),
    /// An inner node.
    Node(LockedNode<'g, WORDS>),
    /// A leaf of another layer, and the key of the entry that the layer's root hangs below.
    Leaf(LockedNode<'g, WORDS>, u64),
}

impl<'g, const WORDS: usize> LockedParent<'g, WORDS> {
    /// Puts a new node in the place of one below. Returns the lock on it, and the one before.
    pub fn replace(
        &self,
        search: Search,
        old: &LockedNode<'g, WORDS>,
        new: Fresh<'g, WORDS>,
    ) -> (LockedNode<'g, WORDS>, Unlinked<'g, WORDS>) {
        assert_eq!(old.height(), new.height());
        let height = old.height();
        let (word, locked) = new.link();
        (locked, self.swap(search, old, word, height))
    }

    /// Puts a new root above the only one below. Returns the lock on it.
    pub fn raise(
        &self,
        search: Search,
        old: &LockedNode<'g, WORDS>,
        slot: Slot<'g>,
    ) -> LockedNode<'g, WORDS> {
        assert!(!matches!(self, LockedParent::Node(_)), "no root");
        let height = old.height() + 1;
        let (word, root) = Fresh::new(slot, old.layer(), height, 0, u64::MAX).link_empty();
        let below = self.swap(search, old, word, height);
        root.push_word(0, below.link());
        root
    }

    /// Makes the only child of the root the root. Returns the root before.
    pub fn lower(&self, search: Search, old: &LockedNode<'g, WORDS>) -> Unlinked<'g, WORDS> {
        assert!(!matches!(self, LockedParent::Node(_)), "no root");
        assert!(old.height() > 0 && old.count() == 1, "no only child");
        self.swap(search, old, old.payload(0), old.height() - 1)
    }

    /// Stores a link, to a node of this height, in the place of the one to `old`.
    fn swap(
        &self,
        search: Search,
        old: &LockedNode<'g, WORDS>,
        word: u64,
        height: u8,
    ) -> Unlinked<'g, WORDS> {
        let before = match self {
            LockedParent::Root(cell) => {
                cell.height.store(height.into(), Relaxed);
                cell.node.swap(word, Relaxed)
            }
            LockedParent::Node(above) => {
                let index = above.child_for(search, old.lower());
                above.swap_word(index, word)
            }
            LockedParent::Leaf(above, key) => {
                let hit = above.find(search, *key).expect("a layer has an entry");
                Body::swap_root(above, hit.index(), word)
            }
        };
        Unlinked::taken(before, old)
    }
}

//! Nodes without a link to them, not linked yet or unlinked, and the parents that link to nodes: as
//! in the B+tree of words (`btree/node/fresh.rs`). A link is stored once, and storing it gives up
//! the node.

use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use timberline_sync::Exclusive;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, Slot};

use super::link::Root;
use super::{LockedNode, Long, LongKeys, Node, Page, Shape, Text, address};
use crate::node::retired::Retired;
use crate::store::Store;

/// A locked node that no other thread knows. Dropping it frees its memory, unless it is linked.
pub struct Fresh<'t, const WORDS: usize> {
    // Dropped first: unlocking is the last access to the node.
    lock: LockedNode<'t, WORDS>,
    slot: Slot<'t>,
}

impl<'t, const WORDS: usize> Fresh<'t, WORDS> {
    /// A locked node in a slot, to be filled.
    fn claim(slot: Slot<'t>) -> Self {
        assert_eq!(slot.bytes(), Page::<WORDS>::BYTES, "a slot for a node");
        let node = slot.address() as *const Node<WORDS>;
        // SAFETY: a slot of this size, aligned to 64 bytes, owned by this and mapped as long as the
        // arenas. All fields are atomics, valid with any bits.
        let lock = unsafe { (*node).claim() };
        lock.heat().store(0, Relaxed);
        Fresh { lock, slot }
    }

    /// A new node at this height, without fences, to be filled.
    pub fn empty(slot: Slot<'t>, height: u8) -> Self {
        let fresh = Self::claim(slot);
        fresh.reset(height, 1, Text::new(&[]), None);
        fresh
    }

    /// The first node of a map.
    pub fn first(slot: Slot<'t>) -> Self {
        Self::empty(slot, 0)
    }

    /// A copy of a node, which it replaces.
    pub fn copy(slot: Slot<'t>, old: &LockedNode<'t, WORDS>) -> Self {
        let fresh = Self::claim(slot);
        fresh.copy_from(old);
        fresh
    }

    /// The node's address.
    pub fn address(&self) -> usize {
        self.slot.address()
    }

    /// Its lock.
    pub fn locked(&self) -> &LockedNode<'t, WORDS> {
        &self.lock
    }

    /// The node's link, for the caller to store, and its lock.
    pub(super) fn link(self) -> (u64, LockedNode<'t, WORDS>) {
        let Fresh { lock, slot } = self;
        (slot.keep().as_ptr() as u64, lock)
    }
}

impl<const WORDS: usize> Deref for Fresh<'_, WORDS> {
    type Target = Page<WORDS>;

    fn deref(&self) -> &Page<WORDS> {
        &self.lock
    }
}

/// A node that no link leads to any more. Threads that found it before may still read it.
#[must_use = "it is to be reclaimed"]
pub struct Unlinked<'g, const WORDS: usize> {
    node: &'g Node<WORDS>,
    height: u8,
}

impl<'g, const WORDS: usize> Unlinked<'g, WORDS> {
    /// A locked node whose link was replaced.
    fn taken(word: u64, node: &LockedNode<'g, WORDS>) -> Self {
        assert_eq!(address(node.of()) as u64, word, "another node was here");
        let (node, height) = (node.of(), node.height());
        Unlinked { node, height }
    }

    /// Its height above the leaves.
    pub fn height(&self) -> u8 {
        self.height
    }

    /// Frees the node when no thread can read it any more. The guard and the store are its tree's.
    pub fn reclaim(self, store: &Store<impl Memory>, guard: &Guard) {
        let (address, is_leaf) = (address(self.node), self.height == 0);
        // SAFETY: `Fresh` made the node in a slot of this size. No link leads to it, and there is
        // one `Unlinked` of a node.
        let retired = unsafe { Retired::new(address, Page::<WORDS>::BYTES, is_leaf) };
        retired.reclaim(store, guard);
    }
}

/// A locked parent, to point at another node.
pub enum LockedParent<'g, const WORDS: usize> {
    /// The cell that leads to the root.
    Root(Exclusive<'g, Root<WORDS>>),
    /// An inner node.
    Node(LockedNode<'g, WORDS>),
}

impl<'g, const WORDS: usize> LockedParent<'g, WORDS> {
    /// Puts a new node in the place of one below. Returns the lock on it, and the one before.
    pub fn replace(
        &self,
        old: &LockedNode<'g, WORDS>,
        new: Fresh<'g, WORDS>,
    ) -> (LockedNode<'g, WORDS>, Unlinked<'g, WORDS>) {
        assert_eq!(old.height(), new.height());
        let height = old.height();
        let (word, locked) = new.link();
        (locked, self.swap(old, word, height))
    }

    /// Puts a new root above the only node below. Returns the lock on it.
    pub fn raise(&self, old: &LockedNode<'g, WORDS>, slot: Slot<'g>) -> LockedNode<'g, WORDS> {
        let height = old.height() + 1;
        let root = Fresh::claim(slot);
        root.reset(height, 2, Text::new(&[]), None);
        root.insert(0, 0, Text::new(&[]), address(old.of()) as u64);
        let (word, root) = root.link();
        // The node below is linked from the new root.
        let _below = self.swap(old, word, height);
        root
    }

    /// Makes the only child of the root the root. Returns the root before.
    pub fn lower(
        &self,
        old: &LockedNode<'g, WORDS>,
        keys: &mut LongKeys<'_>,
    ) -> Unlinked<'g, WORDS> {
        assert!(old.height() > 0 && old.count() == 1, "no only child");
        keys.drop_block(old.block_of(0));
        self.swap(old, old.payload(0), old.height() - 1)
    }

    /// Stores a link, to a node of this height, in the place of the one to `old`.
    fn swap(&self, old: &LockedNode<'g, WORDS>, word: u64, height: u8) -> Unlinked<'g, WORDS> {
        let before = match self {
            LockedParent::Root(cell) => {
                cell.height.store(height.into(), Relaxed);
                cell.node.swap(word, Relaxed)
            }
            LockedParent::Node(above) => {
                let index = above.index_of(old);
                let before = above.payload(index);
                above.set_payload(index, word);
                before
            }
        };
        Unlinked::taken(before, old)
    }
}

/// Children of locked nodes.
impl<const WORDS: usize> Page<WORDS> {
    /// The index of a child of this node.
    pub fn index_of(&self, child: &LockedNode<'_, WORDS>) -> usize {
        let (word, Shape { count, cap, .. }) = (address(child.of()) as u64, self.shape());
        let found = (0..count).find(|&index| self.payload_of(cap, index) == word);
        found.expect("a child of this node")
    }

    /// Links a new node below one that has room for its key, which is its lower fence. Returns the
    /// lock on it.
    pub fn insert_child<'g>(
        above: &LockedNode<'g, WORDS>,
        key: &[u8],
        new: Fresh<'g, WORDS>,
        keys: &mut LongKeys<'_>,
        memory: &impl Memory,
    ) -> LockedNode<'g, WORDS> {
        assert_eq!(above.height(), new.height() + 1);
        let rank = above.rank(key, Long(memory).in_locked(above));
        let Ok(Err(index)) = rank else {
            unreachable!("no child has this lower fence")
        };
        let (word, locked) = new.link();
        above.insert_entry(index, key, word, keys);
        locked
    }

    /// Inserts a child's key and link before `index`.
    fn insert_entry(&self, index: usize, key: &[u8], word: u64, keys: &mut LongKeys<'_>) {
        let text = keys.text::<WORDS>(key, self.fences().prefix);
        self.insert(index, 0, text, word);
    }

    /// Replaces the key of a child, by one that keeps the order. There is room for it.
    pub(super) fn replace_key(&self, index: usize, key: &[u8], keys: &mut LongKeys<'_>) {
        let word = self.payload(index);
        keys.drop_block(self.block_of(index));
        self.remove(index);
        self.insert_entry(index, key, word, keys);
    }

    /// Unlinks one of several children. The caller extends a neighbour over its keys: `survivor`,
    /// which takes its place if that is the one to the left.
    pub(super) fn remove_child<'g>(
        above: &LockedNode<'g, WORDS>,
        child: &LockedNode<'g, WORDS>,
        survivor: &LockedNode<'g, WORDS>,
        keys: &mut LongKeys<'_>,
    ) -> Unlinked<'g, WORDS> {
        assert!(above.height() > 0 && above.count() > 1, "an only child");
        let (gone, stays) = (above.index_of(child), above.index_of(survivor));
        let word = above.payload(gone);
        if gone < stays {
            above.set_payload(gone, above.payload(stays));
        }
        let last = gone.max(stays);
        keys.drop_block(above.block_of(last));
        above.remove(last);
        Unlinked::taken(word, child)
    }
}

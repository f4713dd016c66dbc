//! Nodes without a link to them: not linked yet, or unlinked.
//!
//! A link is stored once, and storing it gives up the node: a [`Fresh`] one, or one that was
//! [`Unlinked`] elsewhere. The link that it replaces comes out as `Unlinked`. So a node is freed
//! once, and only when no link leads to it. The one exception is a copy of an inner node, which has
//! the same children: it is made to replace that node.
#![allow(unsafe_code)]

use std::ops::Deref;

use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, Slot};

use super::block::Name;
use super::{Body, LockedNode, Node, address};
use crate::node::retired::Retired;
use crate::store::Store;

/// A locked node that no other thread knows. Dropping it frees its memory, unless it is linked.
pub struct Fresh<'t, const WORDS: usize> {
    // Dropped first: unlocking is the last access to the node.
    lock: LockedNode<'t, WORDS>,
    slot: Slot<'t>,
}

impl<'t, const WORDS: usize> Fresh<'t, WORDS> {
    fn claim(slot: Slot<'t>) -> Self {
        assert_eq!(slot.bytes(), Body::<WORDS>::BYTES, "a slot for a node");
        let node = slot.address() as *const Node<WORDS>;
        // SAFETY: a slot of this size, aligned to 64 bytes, owned by this and mapped as long as the
        // arenas. All fields are atomics, valid with any bits.
        let lock = unsafe { (*node).claim() };
        Fresh { lock, slot }
    }

    /// The first node of a map.
    pub fn first(slot: Slot<'t>) -> Self {
        Self::new(slot, 0, 0, 0, u64::MAX)
    }

    /// The first node of a layer with this path, which its name gets if it has one.
    pub fn first_of_layer(slot: Slot<'t>, name: Option<Name<'_>>, path: &[u8]) -> Self {
        let number = name.map_or(0, |name| name.write(path));
        Self::new(slot, number, 0, 0, u64::MAX)
    }

    /// An empty node to the right of one that is split. An inner one gets its children from there
    /// before it is linked.
    pub fn beside(slot: Slot<'t>, left: &LockedNode<'t, WORDS>, lower: u64) -> Self {
        Self::new(slot, left.layer(), left.height(), lower, left.upper())
    }

    /// A copy of a node, which it replaces.
    pub fn copy(slot: Slot<'t>, old: &LockedNode<'t, WORDS>) -> Self {
        let fresh = Self::claim(slot);
        fresh.copy_from(old);
        fresh
    }

    pub(super) fn new(slot: Slot<'t>, layer: u32, height: u8, lower: u64, upper: u64) -> Self {
        let fresh = Self::claim(slot);
        fresh.reset(layer, height, lower, upper);
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
        assert!(
            self.height() == 0 || self.count() > 0,
            "an inner node without children"
        );
        self.link_empty()
    }

    /// The same, to get a child before it is unlocked.
    pub(super) fn link_empty(self) -> (u64, LockedNode<'t, WORDS>) {
        let Fresh { lock, slot } = self;
        (slot.keep().as_ptr() as u64, lock)
    }
}

impl<const WORDS: usize> Deref for Fresh<'_, WORDS> {
    type Target = Body<WORDS>;

    fn deref(&self) -> &Body<WORDS> {
        &self.lock
    }
}

/// A node that no link leads to any more. Threads that found it before may still read it.
#[must_use = "it is reclaimed, or linked again"]
pub struct Unlinked<'g, const WORDS: usize> {
    node: &'g Node<WORDS>,
    height: u8,
}

impl<'g, const WORDS: usize> Unlinked<'g, WORDS> {
    /// A locked node whose link was replaced.
    pub(super) fn taken(word: u64, node: &LockedNode<'g, WORDS>) -> Self {
        assert_eq!(address(node.of()) as u64, word, "another node was here");
        let (node, height) = (node.of(), node.height());
        Unlinked { node, height }
    }

    /// The node's link, for the caller to store.
    pub(super) fn link(self) -> u64 {
        self.address() as u64
    }

    /// The node's address.
    pub fn address(&self) -> usize {
        address(self.node)
    }

    /// Its height above the leaves.
    pub fn height(&self) -> u8 {
        self.height
    }

    /// Frees the node when no thread can read it any more. The guard and the store are its tree's.
    pub fn reclaim(self, store: &Store<impl Memory>, guard: &Guard) {
        let (address, is_leaf) = (self.address(), self.height == 0);
        // SAFETY: `Fresh` made the node in a slot of this size. No link leads to it, and there is
        // one `Unlinked` of a node.
        let retired = unsafe { Retired::new(address, Body::<WORDS>::BYTES, is_leaf) };
        retired.reclaim(store, guard);
    }
}

/// Children of locked nodes.
impl<const WORDS: usize> Body<WORDS> {
    /// Links a new node before `index`, below one that is not full. Returns the lock on it.
    pub fn insert_child<'g>(
        above: &LockedNode<'g, WORDS>,
        index: usize,
        new: Fresh<'g, WORDS>,
    ) -> LockedNode<'g, WORDS> {
        assert_eq!(above.height(), new.height() + 1);
        let lower = new.lower();
        let (word, locked) = new.link();
        above.insert_word(index, lower, word);
        locked
    }

    /// Unlinks one of several children. The caller extends a neighbour over its key range.
    pub fn remove_child<'g>(
        above: &LockedNode<'g, WORDS>,
        index: usize,
        child: &LockedNode<'g, WORDS>,
    ) -> Unlinked<'g, WORDS> {
        assert!(above.height() > 0 && above.count() > 1, "an only child");
        let word = above.payload(index);
        above.remove_entry(index);
        Unlinked::taken(word, child)
    }
}

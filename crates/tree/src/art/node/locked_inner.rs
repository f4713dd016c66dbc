//! A locked inner node, whose entries can be changed.
//!
//! Links read from it can be followed: it was reached under a guard, and was not retired when the
//! lock was taken. It takes links only from nodes that give themselves up: a fresh one, or one that
//! replaces its parent.

use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use timberline_sync::{Exclusive, Restart};

use super::base::Base;
use super::body::{AT_END, Body, HAS_END, KIND, Position, word_at};
use super::fresh::Linkable;
use super::layout::{Node3, Node16, Node48, Node256, View};
use super::link::{InnerLink, Kind, Link, StoredLink};
use super::reach::Reach;
use crate::node::retired::Retired;

/// An inner node that this thread alone may change; unlocks when dropped.
#[derive(Debug)]
pub struct LockedInner<'g, R> {
    link: InnerLink<'g>,
    held: Exclusive<'g, Body<R>>,
}

impl<R> Deref for LockedInner<'_, R> {
    type Target = Body<R>;

    #[inline(always)]
    fn deref(&self) -> &Body<R> {
        &self.held
    }
}

impl<'g> InnerLink<'g> {
    /// Locks the target. Waits while another thread holds the lock.
    ///
    /// # Errors
    /// The node was replaced or moved.
    pub fn lock<R: Reach>(self, base: Base<R>) -> Result<LockedInner<'g, R>, Restart> {
        let held = self.node(base).lock()?;
        Ok(LockedInner { link: self, held })
    }
}

impl<'g, R: Reach> LockedInner<'g, R> {
    #[inline(always)]
    pub(super) fn new(link: InnerLink<'g>, held: Exclusive<'g, Body<R>>) -> Self {
        LockedInner { link, held }
    }

    /// A node without entries, in memory that the caller owns. Its prefix is to be set.
    ///
    /// # Safety
    /// The link leads to a slot for a node of its kind. Its first word is zero, no other thread
    /// knows it, and it is not freed before this is dropped.
    pub(super) unsafe fn claim(link: StoredLink, base: Base<R>) -> Self {
        // SAFETY: the caller guarantees it.
        let link = unsafe { link.alive() }.inner().expect("an inner node");
        // SAFETY: the caller guarantees it.
        let held = unsafe { link.node(base).claim() };
        let new = LockedInner { link, held };
        new.reset(link.kind());
        new
    }

    /// Unlocks; nothing was changed.
    pub(super) fn unlock_unchanged(self) {
        self.held.unchanged();
    }

    /// The link to it.
    #[inline(always)]
    pub(super) fn link(&self) -> InnerLink<'g> {
        self.link
    }

    /// The first child at another position than this.
    pub fn other(&self, than: Position) -> (Position, Link<'g>) {
        let mut other = (AT_END, StoredLink::NONE);
        self.each(AT_END, |at, child| {
            if at != than {
                other = (at, child);
            }
            at == than
        });
        let (at, child) = other;
        // SAFETY: the node is locked.
        (at, unsafe { child.alive() })
    }

    /// The child at a position.
    #[inline(always)]
    pub(super) fn at(&self, at: Position) -> StoredLink {
        self.get(self.link.kind(), at)
    }

    /// Links a new node at a free position. There is room.
    #[inline(always)]
    pub fn insert(&self, at: Position, new: impl Linkable) -> Link<'g> {
        let child = new.keep();
        match (self.link.kind(), at.checked_sub(1)) {
            (Kind::N256, Some(byte)) => self.put_wide(byte as u8, child),
            _ => self.put(at, child),
        }
        // SAFETY: it is complete, and linked.
        unsafe { child.alive() }
    }

    /// Unlocks the node and retires it.
    ///
    /// # Safety
    /// No link leads to the node any more.
    pub(super) unsafe fn retire(self) -> Retired {
        let address = std::ptr::from_ref(self.held.of()).addr();
        let bytes = self.kind().bytes::<R>();
        self.held.retire();
        // SAFETY: it was made of a slot for its kind. Only its lock makes one of these, once.
        unsafe { Retired::new(address, bytes, false) }
    }

    /// Resets the node to no entries.
    fn reset(&self, kind: Kind) {
        self.meta.store((kind as u16) << KIND, Relaxed);
        match self.view(kind) {
            View::PackedRecords(..) => {}
            View::Indexed(node) => {
                node.end.store(StoredLink::NONE);
                node.index.iter().for_each(|slot| slot.store(0, Relaxed));
                clear(&node.links);
            }
            View::Full(node) => {
                node.end.store(StoredLink::NONE);
                clear(&node.links);
            }
        }
    }

    /// Changes the prefix. `bytes` are at least as many as the kind stores.
    pub fn set_prefix(&self, len: usize, bytes: impl Iterator<Item = u8>) {
        self.prefix_len.store(len as u16, Relaxed);
        let mut first = [0; 16];
        for (to, byte) in first.iter_mut().zip(bytes) {
            *to = byte;
        }
        let [first, second] = [0, 8].map(|from| word_at(&first, from));
        let in_words = |cells: &[AtomicU64; 2]| {
            cells[0].store(first, Relaxed);
            cells[1].store(second, Relaxed);
        };
        match self.kind() {
            Kind::N3 => {
                let node: &Node3<R> = self.layout();
                node.prefix.store(first as u32, Relaxed);
                node.fifth.store((first >> 32) as u8, Relaxed);
            }
            Kind::N16 => {
                let node: &Node16<R> = self.layout();
                node.prefix.store(first as u32, Relaxed);
            }
            Kind::N48 => in_words(&self.layout::<Node48<R>>().prefix),
            Kind::N256 => in_words(&self.layout::<Node256<R>>().prefix),
        }
    }

    /// Adds the entry for a byte to a node of 256.
    #[inline(always)]
    fn put_wide(&self, byte: u8, link: StoredLink) {
        debug_assert!(self.at(1 + Position::from(byte)).is_none());
        self.layout::<Node256<R>>().links[usize::from(byte)].store(link);
        let meta = self.meta.load(Relaxed);
        self.meta.store(meta + 1, Relaxed);
    }

    /// Adds an entry at a free position. There is room.
    pub(super) fn put(&self, at: Position, link: StoredLink) {
        debug_assert!(!self.is_full_for(at));
        let kind = self.kind();
        match self.view(kind) {
            View::PackedRecords(keys, links) => {
                let (count, end) = (self.count(), self.has_end());
                let lane = (0..count)
                    .find(|&lane| Body::<R>::lane_position(keys, lane, end) > at)
                    .unwrap_or(count);
                for from in (lane..count).rev() {
                    keys[from + 1].store(keys[from].load(Relaxed), Relaxed);
                    links[from + 1].store(links[from].load());
                }
                keys[lane].store(at.saturating_sub(1) as u8, Relaxed);
                links[lane].store(link);
            }
            View::Indexed(node) => match at.checked_sub(1) {
                None => node.end.store(link),
                Some(byte) => {
                    // Without removals the free places are the last ones.
                    let next = self.count() - usize::from(self.has_end());
                    let free = |&slot: &usize| node.links[slot].load().is_none();
                    let slot = (next..node.links.len()).chain(0..next).find(free);
                    let slot = slot.expect("there is room");
                    node.links[slot].store(link);
                    node.index[usize::from(byte)].store(slot as u8 + 1, Relaxed);
                }
            },
            View::Full(node) => match at.checked_sub(1) {
                None => node.end.store(link),
                Some(byte) => node.links[usize::from(byte)].store(link),
            },
        }
        let end = if at == AT_END { HAS_END } else { 0 };
        let meta = self.meta.load(Relaxed);
        self.meta.store((meta + 1) | end, Relaxed);
    }

    /// Replaces the link of a present entry.
    pub(super) fn replace(&self, at: Position, link: StoredLink) {
        match self.view(self.kind()) {
            View::PackedRecords(keys, links) => {
                let lane = self.lane(keys, at);
                links[lane].store(link);
            }
            View::Indexed(node) => match at.checked_sub(1) {
                None => node.end.store(link),
                Some(byte) => {
                    let slot = node.index[usize::from(byte)].load(Relaxed) - 1;
                    node.links[usize::from(slot)].store(link);
                }
            },
            View::Full(node) => match at.checked_sub(1) {
                None => node.end.store(link),
                Some(byte) => node.links[usize::from(byte)].store(link),
            },
        }
    }

    /// Removes a present entry.
    pub(super) fn remove(&self, at: Position) {
        match self.view(self.kind()) {
            View::PackedRecords(keys, links) => {
                let count = self.count();
                for lane in self.lane(keys, at)..count - 1 {
                    keys[lane].store(keys[lane + 1].load(Relaxed), Relaxed);
                    links[lane].store(links[lane + 1].load());
                }
            }
            View::Indexed(node) => {
                self.replace(at, StoredLink::NONE);
                if let Some(byte) = at.checked_sub(1) {
                    node.index[usize::from(byte)].store(0, Relaxed);
                }
            }
            View::Full(_) => self.replace(at, StoredLink::NONE),
        }
        let end = if at == AT_END { HAS_END } else { 0 };
        let meta = self.meta.load(Relaxed);
        self.meta.store((meta - 1) & !end, Relaxed);
    }

    fn lane(&self, keys: &[AtomicU8], at: Position) -> usize {
        let end = self.has_end();
        (0..self.count())
            .find(|&lane| Body::<R>::lane_position(keys, lane, end) == at)
            .expect("the entry is there")
    }
}

fn clear(links: &[impl Reach]) {
    links.iter().for_each(|link| link.store(StoredLink::NONE));
}

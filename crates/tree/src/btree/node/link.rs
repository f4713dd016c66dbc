//! Links between nodes, and reading their targets.
//!
//! A [`Link`] may be followed. So it comes only from the root pointer or a node that was validated
//! after the read, or from a locked node. Then the link was stored while the thread was pinned, and
//! its target is not freed until the thread unpins. The link carries the lifetime of that guard:
//! the root pointer gets it, and every link passes it to those below.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_sync::epoch::Pinned;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::Arenas;

use super::block::Name;
use super::fresh::Fresh;
use super::{Body, Lanes, Node, POISON, address};

/// A link to a node of known height.
#[derive(Clone, Copy, Debug)]
pub struct Link<'g, const WORDS: usize> {
    node: &'g Node<WORDS>,
    height: u8,
}

impl<'g, const WORDS: usize> Link<'g, WORDS> {
    /// # Safety
    /// The word is a link to a node of this height, which was stored when the thread was pinned for
    /// `'g`, or later.
    #[inline(always)]
    pub(super) unsafe fn of_word(word: u64, height: u8) -> Self {
        // SAFETY: as for this function.
        let node = unsafe { node_at(word) };
        Link { node, height }
    }

    /// The target's address.
    #[inline(always)]
    pub fn address(self) -> usize {
        address(self.node)
    }

    /// The target's height above the leaves.
    #[inline(always)]
    pub fn height(self) -> u8 {
        self.height
    }

    /// Starts to read the target; waits for a writer.
    ///
    /// # Errors
    /// The target was retired.
    #[inline(always)]
    pub fn read(self) -> Result<View<'g, WORDS>, Restart> {
        let (snapshot, height) = (self.node.read()?, self.height);
        Ok(View { snapshot, height })
    }

    /// The same, without waiting.
    ///
    /// # Errors
    /// The target was retired, or is locked.
    #[inline(always)]
    pub fn try_read(self) -> Result<View<'g, WORDS>, Restart> {
        let (snapshot, height) = (self.node.try_read()?, self.height);
        Ok(View { snapshot, height })
    }
}

/// The target of a link's word.
///
/// # Safety
/// The word is a link that was stored when the thread was pinned for `'g`, or later.
#[inline(always)]
pub(super) unsafe fn node_at<'g, const WORDS: usize>(word: u64) -> &'g Node<WORDS> {
    debug_assert!(word | 3 != POISON | 3, "a link of no entry is followed");
    // SAFETY: links are made of slots of the arenas, at least a node long and aligned to 64 bytes,
    // by `Fresh`; a slot is not used for anything else while a thread is pinned that may have seen
    // a link to it. All fields are atomics.
    unsafe { &*(word as *const Node<WORDS>) }
}

/// A reader's view of a node: a snapshot, and the node's height.
#[derive(Clone, Copy, Debug)]
pub struct View<'g, const WORDS: usize> {
    snapshot: Snapshot<'g, Body<WORDS>>,
    height: u8,
}

impl<'g, const WORDS: usize> Deref for View<'g, WORDS> {
    type Target = Snapshot<'g, Body<WORDS>>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.snapshot
    }
}

impl<'g, const WORDS: usize> View<'g, WORDS> {
    /// Reads the height from the node.
    #[inline(always)]
    pub fn of(snapshot: Snapshot<'g, Body<WORDS>>) -> Result<Self, Restart> {
        let height = snapshot.get(Body::height)?;
        Ok(View { snapshot, height })
    }

    /// The height above the leaves.
    #[inline(always)]
    pub fn height(&self) -> u8 {
        self.height
    }

    /// The same, if it is a leaf.
    #[inline(always)]
    pub fn leaf(self) -> Option<LeafView<'g, WORDS>> {
        (self.height == 0).then_some(LeafView(self.snapshot))
    }

    /// The link to the node.
    pub fn link(&self) -> Link<'g, WORDS> {
        Link {
            node: self.snapshot.of(),
            height: self.height,
        }
    }

    /// The child that covers a key, and the result of `also`, which gets the child's index.
    #[inline(always)]
    pub fn child_for<R>(
        &self,
        lanes: impl Lanes,
        key: u64,
        also: impl FnOnce(&Body<WORDS>, usize) -> R,
    ) -> Result<(Link<'g, WORDS>, R), Restart> {
        let height = self.height_of_children();
        let (word, read) = self.snapshot.get(|body| {
            let index = body.child_for(lanes, key);
            (body.payload(index), also(body, index))
        })?;
        // SAFETY: validated, so it is a child of this node: the node has at least one, and the
        // index is in range.
        let link = unsafe { Link::of_word(word, height) };
        Ok((link, read))
    }

    /// The child at an index.
    ///
    /// The index is out of range, or the node changed.
    /// There are not that many, or the node changed.
    pub fn child(&self, index: usize) -> Result<Link<'g, WORDS>, Restart> {
        let height = self.height_of_children();
        let word = self.get(|body| (index < body.count()).then(|| body.payload(index)))?;
        // SAFETY: validated, so it is a child of this node.
        word.map(|word| unsafe { Link::of_word(word, height) })
            .ok_or(Restart)
    }

    /// The children from an index on, with their lower fences.
    pub fn children(&self, from: usize) -> Result<Vec<(u64, Link<'g, WORDS>)>, Restart> {
        let height = self.height_of_children();
        let entries: Vec<_> = self.get(|body| body.entries(from..usize::MAX).collect())?;
        // SAFETY: validated, so these are children of this node.
        let link = |(key, word)| (key, unsafe { Link::of_word(word, height) });
        Ok(entries.into_iter().map(link).collect())
    }

    #[inline(always)]
    fn height_of_children(&self) -> u8 {
        assert!(self.height > 0, "a leaf has no children");
        self.height - 1
    }
}

/// A reader's view of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafView<'g, const WORDS: usize>(Snapshot<'g, Body<WORDS>>);

impl<'g, const WORDS: usize> Deref for LeafView<'g, WORDS> {
    type Target = Snapshot<'g, Body<WORDS>>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The root pointer and the tree's height. It has a lock like a node's, and is the root's parent.
#[repr(align(128))]
pub struct Root<const WORDS: usize> {
    pub(super) node: AtomicU64,
    pub(super) height: AtomicU64,
}

impl<const WORDS: usize> Root<WORDS> {
    /// Stores the first node.
    pub fn new(root: Fresh<'_, WORDS>) -> Self {
        let height = root.height().into();
        let (word, _) = root.link();
        Root {
            node: AtomicU64::new(word),
            height: AtomicU64::new(height),
        }
    }

    /// The height of the tree: steps from the leaves to the root.
    pub fn height(&self) -> u8 {
        self.height.load(Relaxed) as u8
    }

    /// The link to the root.
    #[inline(always)]
    pub fn link<'g>(
        cell: &Snapshot<'_, Self>,
        _pinned: Pinned<'g>,
    ) -> Result<Link<'g, WORDS>, Restart> {
        let (word, height) = cell.get(|root| (root.node.load(Relaxed), root.height()))?;
        // SAFETY: validated, so that it is the root, and the thread is pinned.
        Ok(unsafe { Link::of_word(word, height) })
    }
}

impl<const WORDS: usize> Body<WORDS> {
    /// The path and the lower fence of the leaf that may be at an address that nothing is known
    /// about. `mixed`: slots may hold other things. `named`: leaves have layers. The thread is
    /// pinned.
    pub fn guess_leaf(
        arenas: &Arenas,
        address: usize,
        mixed: bool,
        named: bool,
    ) -> Option<(Vec<u8>, u64)> {
        let range = arenas.range();
        if !range.contains(&address) || !(address - range.start).is_multiple_of(Self::BYTES) {
            return None;
        }
        let look = arenas.look(address);
        if look.end < address + Self::BYTES {
            return None;
        }
        // SAFETY: within the arenas, which are readable, and aligned as a node. All fields are
        // atomics, valid with any bits; links read here are not followed.
        let node = unsafe { &*(address as *const Node<WORDS>) };
        let node = match mixed {
            // A locked version word may be arbitrary bits, and then no thread unlocks it.
            true => (0..64).find_map(|_| node.try_read().ok()),
            false => node.read().ok(),
        }?;
        let leaf = node.get(|body| (body.height() == 0).then(|| (body.layer(), body.lower())));
        let (layer, lower) = leaf.ok()??;
        let path = match named {
            true => Name::guess_path(arenas, layer)?,
            false => Vec::new(),
        };
        Some((path, lower))
    }
}

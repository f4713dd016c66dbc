//! Links between nodes, and reading their targets: as in the B+tree of words
//! (`btree/node/link.rs`). A [`Link`] comes only from the root pointer or a node that was validated
//! after the read, and carries the lifetime of the guard.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_sync::epoch::Pinned;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::{Arenas, Memory};

use super::fresh::Fresh;
use super::{Aim, Long, Node, Page, Sought, address};
use crate::range::Way;

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
    unsafe fn of_word(word: u64, height: u8) -> Self {
        // SAFETY: links are made of slots of the arenas, a node long and aligned to 64 bytes, by
        // `Fresh`; a slot is not used for anything else while a thread is pinned that may have seen
        // a link to it. All fields are atomics.
        let node = unsafe { &*(word as *const Node<WORDS>) };
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
}

/// A reader's view of a node: a snapshot, and the node's height.
#[derive(Clone, Copy, Debug)]
pub struct View<'g, const WORDS: usize> {
    snapshot: Snapshot<'g, Page<WORDS>>,
    height: u8,
}

impl<'g, const WORDS: usize> Deref for View<'g, WORDS> {
    type Target = Snapshot<'g, Page<WORDS>>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.snapshot
    }
}

impl<'g, const WORDS: usize> View<'g, WORDS> {
    /// The height above the leaves.
    #[inline(always)]
    pub fn height(&self) -> u8 {
        self.height
    }

    /// Where it lies.
    #[inline(always)]
    pub fn address(&self) -> usize {
        address(self.snapshot.of())
    }

    /// The same, if it is a leaf.
    #[inline(always)]
    pub fn leaf(self) -> Option<LeafView<'g, WORDS>> {
        (self.height == 0).then_some(LeafView(self))
    }

    /// The link to the node.
    pub fn link(&self) -> Link<'g, WORDS> {
        Link {
            node: self.snapshot.of(),
            height: self.height,
        }
    }

    /// The child at an index.
    ///
    /// # Errors
    /// There are not that many, or the node changed.
    #[inline(always)]
    pub fn child(&self, index: usize) -> Result<Link<'g, WORDS>, Restart> {
        assert!(self.height > 0, "a leaf has no children");
        let word = self.get(|page| (index < page.count()).then(|| page.payload(index)))?;
        // SAFETY: validated, so it is a child of this node.
        word.map(|word| unsafe { Link::of_word(word, self.height - 1) })
            .ok_or(Restart)
    }

    /// The child that an aim leads to, and its index.
    #[inline(always)]
    pub fn child_for(
        &self,
        aim: Aim<'_>,
        memory: &impl Memory,
    ) -> Result<(Link<'g, WORDS>, usize), Restart> {
        assert!(self.height > 0, "a leaf has no children");
        let (word, index) = self.get(|page| {
            let index = page.child_for(aim, Long(memory).in_view(self))?;
            Ok((page.payload(index), index))
        })??;
        // SAFETY: validated, so it is a child of this node: the node has at least one.
        let link = unsafe { Link::of_word(word, self.height - 1) };
        Ok((link, index))
    }

    /// Where the children lie.
    pub fn child_addresses(&self) -> Result<Vec<usize>, Restart> {
        assert!(self.height > 0, "a leaf has no children");
        let addresses = |page: &Page<WORDS>| {
            let indices = 0..page.count();
            indices.map(|index| page.child_address(index)).collect()
        };
        self.get(addresses)
    }

    /// The key of an entry.
    ///
    /// # Errors
    /// The node changed, or has fewer entries.
    pub fn key(&self, index: usize, memory: &impl Memory) -> Result<Vec<u8>, Restart> {
        let mut key = Vec::new();
        let read = |page: &Page<WORDS>| match index < page.count() {
            true => page.key(index, &mut key, Long(memory).in_view(self)),
            false => Err(Restart),
        };
        self.get(read)??;
        Ok(key)
    }

    /// The lower fence.
    pub fn lower(&self, memory: &impl Memory) -> Result<Vec<u8>, Restart> {
        let mut fence = Vec::new();
        self.behind(Way::Backward, &mut fence, memory)?;
        Ok(fence)
    }

    /// The upper fence, if there is one.
    pub fn upper(&self, memory: &impl Memory) -> Result<Option<Vec<u8>>, Restart> {
        let mut fence = Vec::new();
        let is_there = self.behind(Way::Forward, &mut fence, memory)?;
        Ok(is_there.then_some(fence))
    }

    /// Replaces `fence` by the one at this end. Returns whether there are keys behind it.
    pub fn behind(
        &self,
        way: Way,
        fence: &mut Vec<u8>,
        memory: &impl Memory,
    ) -> Result<bool, Restart> {
        let open = Long(memory).in_view(self);
        self.get(|page| match way {
            Way::Forward => page.upper(fence, open),
            Way::Backward => page.lower(fence, open).map(|()| !fence.is_empty()),
        })?
    }
}

/// A reader's view of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafView<'g, const WORDS: usize>(View<'g, WORDS>);

impl<'g, const WORDS: usize> Deref for LeafView<'g, WORDS> {
    type Target = View<'g, WORDS>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<const WORDS: usize> LeafView<'_, WORDS> {
    /// The index of a record.
    #[inline(always)]
    pub fn find(&self, key: Sought<'_>, memory: &impl Memory) -> Result<Option<usize>, Restart> {
        self.get(|page| page.find(key, Long(memory).in_view(self)))?
    }

    /// The index at which a record would be inserted that is not there.
    #[inline(always)]
    pub fn rank(&self, key: &[u8], memory: &impl Memory) -> Result<usize, Restart> {
        let rank = self.get(|page| page.rank(key, Long(memory).in_view(self)))??;
        rank.err().ok_or(Restart)
    }

    /// The index of a record, or the one at which it would be inserted. A present one is found as
    /// by [`lend`](Self::lend).
    #[inline(always)]
    pub fn seek(
        &self,
        key: Sought<'_>,
        memory: &impl Memory,
    ) -> Result<Result<usize, usize>, Restart> {
        self.get(|page| page.seek(key, Long(memory).in_view(self)))?
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

impl<const WORDS: usize> Page<WORDS> {
    /// The lower fence of the leaf that may be at an address that nothing is known about; `None` in
    /// it for one that is in a block. The fence may be anything. The thread is pinned.
    #[allow(
        clippy::option_option,
        reason = "no leaf, or one whose fence is in a block"
    )]
    pub fn guess_lower(arenas: &Arenas, address: usize) -> Option<Option<Vec<u8>>> {
        let range = arenas.range();
        if !range.contains(&address) || !(address - range.start).is_multiple_of(8) {
            return None;
        }
        let look = arenas.look(address);
        if look.end < address + Self::BYTES {
            return None;
        }
        // SAFETY: within the arenas, which are readable, and aligned as a node. All fields are
        // atomics, valid with any bits; no word that is read here is followed.
        let node = unsafe { &*(address as *const Node<WORDS>) };
        // A locked version word may be arbitrary bits, and then no thread unlocks it.
        let node = (0..64).find_map(|_| node.try_read().ok())?;
        let mut fence = Vec::new();
        let read = |page: &Self| {
            let is_leaf = page.height() == 0;
            is_leaf.then(|| page.lower(&mut fence, |_| Err(Restart)).is_ok())
        };
        let is_whole = node.get(read).ok()??;
        Some(is_whole.then_some(fence))
    }
}

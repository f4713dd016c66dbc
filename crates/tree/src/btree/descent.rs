//! The descent from the root to a leaf, as a [`Traversal`]: one node a step.
//!
//! A step follows the protocol in [`timberline_sync::version`]: child's pointer from the parent's
//! validated read, child's snapshot, parent validated again. The root pointer is the root's parent;
//! both are one step.

use std::marker::PhantomData;
use std::task::Poll;

use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::pause;
use timberline_sync::{Restart, Snapshot, Versioned};
use timberline_tier::Memory;

use super::node::{Body, Hit, Lanes, LeafView, Link, Root, Share, View, Work};
use super::payload::Values;
use super::tree::{Tree, address};
use crate::cache::Dirty;
use crate::traverse::{Traversal, run};
use crate::value::Represent;

/// The mode of a descent.
pub(super) trait Mode {
    /// Other work runs between two steps, so each prefetches the next node, and emulated memory
    /// delays it. Otherwise the next step follows at once; a prefetch then only makes one wait of
    /// several.
    const LATER: bool;
    /// The record is only read, so a copy of it will do. Otherwise the descent ends at the leaf.
    const OR_COPY: bool;
}

macro_rules! modes {
    ($($(#[$doc:meta])* $mode:ident: $later:literal, $or_copy:literal;)*) => {$(
        $(#[$doc])*
        pub(super) enum $mode {}

        impl Mode for $mode {
            const LATER: bool = $later;
            const OR_COPY: bool = $or_copy;
        }
    )*};
}

modes! {
    /// To a leaf, in one go.
    LeafAtOnce: false, false;
    /// To a leaf, waiting for writers.
    LeafLater: true, false;
    /// To a value, in one go.
    ValueAtOnce: false, true;
    /// To a value, beside other lookups.
    ValueLater: true, true;
}

/// The outcome of a step.
pub(super) enum Met<'t, const WORDS: usize> {
    /// An inner node, whose child was prefetched.
    Inner,
    Leaf(LeafView<'t, WORDS>),
    /// The parent of a slow leaf, and that leaf, which was not prefetched: its record may have a
    /// copy. The next step reads the leaf.
    SlowLeaf(Snapshot<'t, Body<WORDS>>, Link<'t, WORDS>),
}

/// Searches the leaf that covers a key, as its [`Mode`] says.
pub(super) struct Descent<'t, M: Memory, const WORDS: usize, H: Represent, D, L: Lanes> {
    pub tree: &'t Tree<M, WORDS, Values<H>>,
    root: &'t Versioned<Root<WORDS>>,
    pub lanes: L,
    pub pinned: Pinned<'t>,
    pub key: u64,
    /// The last node, and its child that covers the key. `None` at the start.
    pub below: Option<(Snapshot<'t, Body<WORDS>>, Link<'t, WORDS>)>,
    /// The key's part of the range of keys of the last node's child.
    pub share: Share,
    restarts: u32,
    mode: PhantomData<D>,
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, D: Mode, L: Lanes>
    Descent<'t, M, WORDS, H, D, L>
{
    /// The CPU prefetches the children of nodes up to this height. Those above are in the caches.
    const HINTED: u8 = match D::LATER {
        // The search reads all lines of an inner node at once, without waiting for one of them.
        false => 1,
        true if Body::<WORDS>::GUESSED => 2,
        true => u8::MAX,
    };
    /// Emulated memory prefetches the children of nodes up to this height: it models the caches
    /// itself.
    const ASKED: u8 = match D::LATER {
        true if M::CHARGES => u8::MAX,
        _ => Self::HINTED,
    };

    #[inline(always)]
    pub fn new(
        tree: &'t Tree<M, WORDS, Values<H>>,
        key: u64,
        pinned: impl Into<Pinned<'t>>,
        lanes: L,
    ) -> Self {
        Descent {
            tree,
            root: &tree.root,
            lanes,
            pinned: pinned.into(),
            key,
            below: None,
            share: Share::NONE,
            restarts: 0,
            mode: PhantomData,
        }
    }

    /// Restarts from the root, as a node on the path has changed.
    // Inlined, so that the state is never in memory where it can be in registers.
    #[inline(always)]
    pub fn start_over(&mut self) {
        pause(self.restarts);
        self.restarts += 1;
        self.below = None;
    }

    /// Prefetches what the next step will read of a child that covers these keys. For an inner node
    /// any key will do: its search does not start at a guess.
    #[inline(always)]
    pub fn prefetch_child(&mut self, link: Link<'t, WORDS>, lower: u64, upper: u64) {
        let (inner, hinted) = (link.height() > 0, link.height() < Self::HINTED);
        let (memory, node) = (self.tree.memory(), link.address());
        if !Body::<WORDS>::GUESSED {
            return match D::LATER {
                true => memory.prefetch(node, Body::<WORDS>::BYTES),
                false => self.tree.prefetch(node),
            };
        }
        self.share = Share::of(self.key, lower, upper);
        let lines = Body::<WORDS>::guess(self.share, lower, upper);
        match (hinted, inner) {
            (false, _) => {}
            (true, true) => self.tree.prefetch_inner(node, lines),
            (true, false) => self.tree.prefetch_near(node, lines),
        }
        if D::LATER {
            let bits = match inner {
                true => lines.inner_bits::<WORDS>(),
                false => lines.bits(),
            };
            memory.charge_prefetch(node, bits);
        }
    }

    /// Prefetches the slow leaf that the descent met, and that was not prefetched then.
    #[inline(always)]
    pub fn prefetch_leaf(&mut self) -> Result<(), Restart> {
        if let Some((parent, leaf)) = self.below {
            let (lower, upper) = parent.get(|body| self.tree.range_below(body, self.key))?;
            self.prefetch_child(leaf, lower, upper);
        }
        Ok(())
    }

    /// Starts to read a node. If the next step follows at once, it does not wait for a writer: see
    /// [`Get`].
    #[inline(always)]
    fn read(link: Link<'t, WORDS>) -> Result<View<'t, WORDS>, Restart> {
        match D::LATER {
            false => link.try_read(),
            true => link.read(),
        }
    }

    /// Reads the node that was prefetched.
    #[inline(always)]
    pub fn advance(&mut self) -> Result<Met<'t, WORDS>, Restart> {
        loop {
            let node = match self.below {
                None => {
                    let root = match D::LATER {
                        false => self.root.try_read(),
                        true => self.root.read(),
                    }?;
                    let node = Self::read(Root::link(&root, self.pinned)?)?;
                    root.validate()?;
                    node
                }
                Some((parent, link)) => {
                    let node = Self::read(link)?;
                    parent.validate()?;
                    node
                }
            };
            let height = node.height();
            if let Some(leaf) = node.leaf() {
                return Ok(Met::Leaf(leaf));
            }
            let (link, range) = node.child_for(self.lanes, self.key, |body, index| {
                self.tree.charge_child(body, index);
                (height <= Self::ASKED).then(|| body.range_of(index))
            })?;
            self.below = Some((*node, link));
            if D::OR_COPY && height == 1 && self.tree.may_have_copies(link.address()) {
                return Ok(Met::SlowLeaf(*node, link));
            }
            if let Some((lower, upper)) = range {
                self.prefetch_child(link, lower, upper);
            }
            if height <= Self::ASKED || !D::LATER {
                return Ok(Met::Inner);
            }
        }
    }
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, D: Mode, L: Lanes> Traversal
    for Descent<'t, M, WORDS, H, D, L>
{
    /// The leaf, and the key's part of its range.
    type Output = (LeafView<'t, WORDS>, Share);

    #[inline(always)]
    fn step(&mut self) -> Poll<Self::Output> {
        match self.advance() {
            Ok(Met::Leaf(leaf)) => return Poll::Ready((leaf, self.share)),
            Ok(Met::Inner | Met::SlowLeaf(..)) => {}
            Err(Restart) => self.start_over(),
        }
        Poll::Pending
    }
}

/// Finds the leaf that covers a key.
pub(super) struct Leaf<'t, M: Memory, const WORDS: usize, H: Represent> {
    pub tree: &'t Tree<M, WORDS, Values<H>>,
    pub key: u64,
    pub guard: &'t Guard<'t>,
}

impl<'t, M: Memory, const WORDS: usize, H: Represent> Leaf<'t, M, WORDS, H> {
    #[cold]
    fn patiently(self) -> (LeafView<'t, WORDS>, Share) {
        let Leaf { tree, key, guard } = self;
        run(Descent::<_, _, _, LeafLater, _>::new(
            tree,
            key,
            tree.store.pinned(guard),
            tree.search,
        ))
    }
}

impl<'t, M: Memory, const WORDS: usize, H: Represent> Work for Leaf<'t, M, WORDS, H> {
    type Output = (LeafView<'t, WORDS>, Share);

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let Leaf { tree, key, guard } = self;
        let pinned = tree.store.pinned(guard);
        let mut descent = Descent::<_, _, _, LeafAtOnce, _>::new(tree, key, pinned, lanes);
        loop {
            match descent.advance() {
                Ok(Met::Leaf(leaf)) => return (leaf, descent.share),
                Ok(Met::Inner | Met::SlowLeaf(..)) => {}
                Err(Restart) => return self.patiently(),
            }
        }
    }
}

/// The place of a record, present or not, in a leaf that was read without a lock.
pub struct Cursor<'t, const WORDS: usize> {
    pub leaf: LeafView<'t, WORDS>,
    /// The record's index, or the index at which it would be inserted.
    pub found: Result<usize, usize>,
    /// The number of entries of the leaf.
    pub count: usize,
}

/// Finds the place of a key in its leaf. `SHIFTS`: an insert may have to shift entries, which reads
/// all lines, so they are prefetched while the search waits for its own.
pub(super) struct Seek<'t, M: Memory, const WORDS: usize, H: Represent, const SHIFTS: bool>(
    pub Leaf<'t, M, WORDS, H>,
);

impl<'t, M: Memory, const WORDS: usize, H: Represent, const SHIFTS: bool> Work
    for Seek<'t, M, WORDS, H, SHIFTS>
{
    type Output = Result<Cursor<'t, WORDS>, Restart>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let Leaf { tree, key, .. } = self.0;
        let (leaf, share) = self.0.run(lanes);
        tree.seek_in::<SHIFTS>(lanes, leaf, key, share)
    }
}

/// Where a record is changed.
pub(super) enum Place<'t, const WORDS: usize> {
    Leaf(Cursor<'t, WORDS>),
    /// In its dirty copy: the leaf is not needed.
    Copy(Dirty<'t>),
}

/// Finds where to change a record that may have a dirty copy.
pub(super) struct SeekCopy<'t, M: Memory, const WORDS: usize, H: Represent, const SHIFTS: bool>(
    pub Leaf<'t, M, WORDS, H>,
);

impl<'t, M: Memory, const WORDS: usize, H: Represent, const SHIFTS: bool> Work
    for SeekCopy<'t, M, WORDS, H, SHIFTS>
{
    type Output = Result<Place<'t, WORDS>, Restart>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let Leaf { tree, key, guard } = self.0;
        tree.prefetch_copy(key);
        let pinned = tree.store.pinned(guard);
        let mut descent = Descent::<_, _, _, ValueAtOnce, _>::new(tree, key, pinned, lanes);
        let leaf = loop {
            match descent.advance()? {
                Met::Inner => {}
                Met::Leaf(leaf) => break leaf,
                Met::SlowLeaf(..) => {
                    if let Some(copy) = tree.dirty_copy(key, guard) {
                        return Ok(Place::Copy(copy));
                    }
                    descent.prefetch_leaf()?;
                }
            }
        };
        tree.seek_in::<SHIFTS>(lanes, leaf, key, descent.share)
            .map(Place::Leaf)
    }
}

/// Descents in a single tree.
impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// The leaf that covers `key`.
    #[inline(always)]
    pub fn leaf<'g>(&'g self, key: u64, guard: &'g Guard<'g>) -> LeafView<'g, WORDS> {
        self.leaf_near(key, guard).0
    }

    /// The leaf that covers `key`, and the key's part of its range.
    #[inline(always)]
    pub fn leaf_near<'g>(&'g self, key: u64, guard: &'g Guard<'g>) -> (LeafView<'g, WORDS>, Share) {
        self.search.run(Leaf {
            tree: self,
            key,
            guard,
        })
    }

    /// The place of `key` in its leaf. `SHIFTS`: an insert may have to shift entries.
    #[inline(always)]
    pub fn cursor<'g, const SHIFTS: bool>(
        &'g self,
        key: u64,
        guard: &'g Guard<'g>,
    ) -> Result<Cursor<'g, WORDS>, Restart> {
        let tree = self;
        let leaf = Leaf { tree, key, guard };
        self.search.run(Seek::<_, _, _, SHIFTS>(leaf))
    }

    /// The same, or the record's copy if that is dirty.
    #[inline(always)]
    pub(super) fn place_of<'g, const SHIFTS: bool>(
        &'g self,
        key: u64,
        guard: &'g Guard<'g>,
    ) -> Result<Place<'g, WORDS>, Restart> {
        // Decided once, as for lookups.
        if !self.has_copies() {
            return self.cursor::<SHIFTS>(key, guard).map(Place::Leaf);
        }
        let tree = self;
        let leaf = Leaf { tree, key, guard };
        self.search.run(SeekCopy::<_, _, _, SHIFTS>(leaf))
    }

    /// The place of `key` in a leaf that was read.
    #[inline(always)]
    fn seek_in<'g, const SHIFTS: bool>(
        &self,
        lanes: impl Lanes,
        leaf: LeafView<'g, WORDS>,
        key: u64,
        share: Share,
    ) -> Result<Cursor<'g, WORDS>, Restart> {
        if SHIFTS {
            self.prefetch_all(address(leaf.of()));
        }
        let (found, count) = leaf.get(|body| {
            let found = self.seek(lanes, body, key, share);
            (found.map(Hit::index), body.count())
        })?;
        Ok(Cursor { leaf, found, count })
    }
}

//! The descent from the root to a leaf, as a [`Traversal`]: a step for each node that may have to
//! be waited for.
//!
//! A step follows the protocol in [`timberline_sync::version`], as the B+tree of words does.

use std::task::Poll;

use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::pause;
use timberline_tier::{Memory, hint};

use super::node::{Aim, HEADER, LeafView, Link, Root, View};
use super::tree::Tree;
use crate::traverse::{Traversal, run};
use crate::value::Represent;

/// Lines of a leaf that its prints and offsets most often end in.
const SEARCHED: usize = 5;

/// Finds a leaf. With `LATER`, other work runs between two steps, so emulated
/// memory is told what will be read.
pub(super) struct Descent<'t, 'k, M: Memory, const WORDS: usize, H: Represent, const LATER: bool> {
    pub tree: &'t Tree<M, WORDS, H>,
    aim: Aim<'k>,
    pinned: Pinned<'t>,
    /// The last node, its child on the way, and that one's index. `None` at the start.
    pub below: Option<(View<'t, WORDS>, Link<'t, WORDS>, usize)>,
    restarts: u32,
}

impl<'t, 'k, M: Memory, const WORDS: usize, H: Represent, const LATER: bool>
    Descent<'t, 'k, M, WORDS, H, LATER>
{
    /// Nodes up to this height are prefetched. Those above are in the caches, where nodes are as
    /// large as by default: there are few, and each lookup reads some. Emulated memory models the
    /// caches itself.
    const FAR: u8 = if M::CHARGES { u8::MAX } else { 1 };

    #[inline(always)]
    pub fn new(tree: &'t Tree<M, WORDS, H>, aim: Aim<'k>, pinned: impl Into<Pinned<'t>>) -> Self {
        Descent {
            tree,
            aim,
            pinned: pinned.into(),
            below: None,
            restarts: 0,
        }
    }

    /// Restarts from the root, as a node on the path has changed.
    #[inline(always)]
    pub fn start_over(&mut self) {
        pause(self.restarts);
        self.restarts += 1;
        self.below = None;
    }

    #[inline(always)]
    fn prefetch(&self, link: Link<'t, WORDS>) {
        let lines = match link.height() {
            0 => SEARCHED,
            _ => Tree::<M, WORDS, H>::BYTES / 2 / hint::LINE,
        };
        match LATER {
            true => self
                .tree
                .memory()
                .prefetch(link.address(), lines * hint::LINE),
            false => hint::prefetch_lines(link.address(), lines),
        }
    }

    /// Reads the node that was prefetched, and those below it that are near anyway. Returns the
    /// last one if it is a leaf.
    #[inline(always)]
    pub fn advance(&mut self) -> Result<Option<LeafView<'t, WORDS>>, Restart> {
        loop {
            let node = match self.below {
                None => {
                    let root = self.tree.root.read()?;
                    let node = Root::link(&root, self.pinned)?.read()?;
                    root.validate()?;
                    node
                }
                Some((parent, link, _)) => {
                    let node = link.read()?;
                    parent.validate()?;
                    node
                }
            };
            if let Some(leaf) = node.leaf() {
                return Ok(Some(leaf));
            }
            let (link, index) = self.tree.find_child(&node, self.aim)?;
            self.below = Some((node, link, index));
            if link.height() <= Self::FAR {
                self.prefetch(link);
                return Ok(None);
            }
        }
    }
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, const LATER: bool> Traversal
    for Descent<'t, '_, M, WORDS, H, LATER>
{
    type Output = LeafView<'t, WORDS>;

    #[inline(always)]
    fn step(&mut self) -> Poll<LeafView<'t, WORDS>> {
        match self.advance() {
            Ok(Some(leaf)) => return Poll::Ready(leaf),
            Ok(None) => {}
            Err(Restart) => self.start_over(),
        }
        Poll::Pending
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// The leaf that covers a key.
    #[inline(always)]
    pub(super) fn leaf<'g>(&'g self, key: &[u8], guard: &'g Guard<'g>) -> LeafView<'g, WORDS> {
        let pinned = self.store.pinned(guard);
        run(Descent::<_, WORDS, H, false>::new(
            self,
            Aim::At(key),
            pinned,
        ))
    }

    /// The child that an aim leads to, and its index.
    #[inline(always)]
    pub(super) fn find_child<'g>(
        &self,
        node: &View<'g, WORDS>,
        aim: Aim<'_>,
    ) -> Result<(Link<'g, WORDS>, usize), Restart> {
        let (link, index) = node.child_for(aim, self.memory())?;
        if M::CHARGES {
            self.charge(node, index);
        }
        Ok((link, index))
    }

    /// Tells the memory that a node is searched, and which entry it is.
    pub(super) fn charge(&self, node: &View<'_, WORDS>, index: usize) {
        let read = node.get(|page| (page.count(), page.places(index), page.skipped()));
        if let Ok((count, (heads, payloads, _), (skipped, bytes))) = read {
            let (memory, node) = (self.memory(), node.address());
            memory.charge_access(node, HEADER);
            memory.charge_lines(node + skipped, bytes);
            memory.charge_lines(node + heads, 4 * count);
            memory.charge_lines(node + payloads + 8 * index, 8);
        }
    }

    /// Tells the memory that the prints of a leaf are compared.
    #[inline(always)]
    pub(super) fn charge_leaf(&self, leaf: &LeafView<'_, WORDS>) {
        if M::CHARGES
            && let Ok(count) = leaf.get(|page| page.count())
        {
            self.memory()
                .charge_access(leaf.address(), HEADER + 3 * count);
        }
    }
}

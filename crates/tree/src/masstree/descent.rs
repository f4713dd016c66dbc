//! The descent from the topmost root to the place of a key's record, as a [`Traversal`]: one node,
//! or one block, a step.
//!
//! As in the B+tree, the descent takes the child's snapshot before it validates the parent. The
//! parent of a layer's root is the border node that links to it.

use std::task::Poll;

use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::pause;
use timberline_tier::Memory;

use super::Tree;
use super::slice::{SLICE, slice};
use crate::btree::node::{Block, Body, Lanes, Lead, Link, Node, Record, Skip, View, Work, address};
use crate::key;
use crate::traverse::{Traversal, run};
use crate::value::{Loan, Represent};

/// The place of a key's record, present or not.
pub(super) struct Cursor<'t, const WORDS: usize> {
    pub leaf: View<'t, WORDS>,
    /// The depth below the topmost root.
    pub level: u8,
    /// Bytes of the key that lead to the leaf's layer, and the slice after them.
    pub depth: usize,
    pub word: u64,
    pub end: End<'t, WORDS>,
}

/// The end of a descent.
#[derive(Clone, Copy)]
pub(super) enum End<'t, const WORDS: usize> {
    /// The leaf has `count` entries and none for the slice, which would be inserted at `index`.
    Absent { index: usize, count: usize },
    /// The slice is the key's last.
    Value { index: usize, value: Loan<'t> },
    /// One record with the slice, not necessarily the key's.
    Record { index: usize, record: Record<'t> },
    /// A layer whose skip differs from the key after `common` bytes.
    Beside {
        index: usize,
        skip: Skip<'t, WORDS>,
        common: usize,
    },
}

/// The node that the next step reads.
enum Below<'t, const WORDS: usize> {
    Child(View<'t, WORDS>, Link<'t, WORDS>),
    /// The root of a layer.
    Layer(View<'t, WORDS>, &'t Node<WORDS>),
    /// The skip of a layer, in the block of the entry at this index.
    Skip(View<'t, WORDS>, Skip<'t, WORDS>, usize, u64),
}

/// Moves a cursor to a key. With `LATER`, other work runs between two steps, so each prefetches the
/// node or block of the next one.
pub(super) struct Descent<
    't,
    'k,
    M: Memory,
    const WORDS: usize,
    H: Represent,
    const LATER: bool,
    L: Lanes,
> {
    pub tree: &'t Tree<M, WORDS, H>,
    pub key: &'k [u8],
    lanes: L,
    pub pinned: Pinned<'t>,
    depth: usize,
    level: u8,
    below: Option<Below<'t, WORDS>>,
    restarts: u32,
}

impl<'t, 'k, M: Memory, const WORDS: usize, H: Represent, const LATER: bool, L: Lanes>
    Descent<'t, 'k, M, WORDS, H, LATER, L>
{
    #[inline(always)]
    pub fn new(
        tree: &'t Tree<M, WORDS, H>,
        key: &'k [u8],
        pinned: impl Into<Pinned<'t>>,
        lanes: L,
    ) -> Self {
        Descent {
            tree,
            key,
            lanes,
            pinned: pinned.into(),
            depth: 0,
            level: 0,
            below: None,
            restarts: 0,
        }
    }

    /// Restarts from the root after a failed validation.
    #[inline(always)]
    pub fn start_over(&mut self) {
        pause(self.restarts);
        self.restarts += 1;
        (self.depth, self.level) = (0, 0);
        self.below = None;
    }

    #[inline(always)]
    fn prefetch(&self, node: usize) {
        if LATER {
            self.tree.memory().prefetch(node, Body::<WORDS>::BYTES);
        } else {
            self.tree.prefetch(node);
        }
    }

    /// Prefetches a block whose length is not known yet.
    #[inline(always)]
    pub fn prefetch_block(&self, block: Block<'_>) {
        if LATER {
            self.tree.memory().prefetch(block.address(), 64);
        }
    }

    /// Takes one step. Returns the cursor if it was the last.
    #[inline(always)]
    fn advance(&mut self) -> Result<Option<Cursor<'t, WORDS>>, Restart> {
        let node = match self.below.take() {
            None => self.tree.top(self.pinned)?,
            Some(Below::Child(parent, link)) => {
                let node = link.read()?;
                parent.validate()?;
                self.level = self.level.saturating_add(1);
                node
            }
            Some(Below::Layer(leaf, root)) => {
                let root = root.read()?;
                leaf.validate()?;
                self.level = self.level.saturating_add(1);
                View::of(root)?
            }
            Some(Below::Skip(leaf, skip, index, word)) => {
                return self.compare(leaf, skip, index, word);
            }
        };
        let word = slice(self.key, self.depth);
        if node.height() > 0 {
            let link = self.tree.find_child(self.lanes, &node, word)?;
            self.prefetch(link.address());
            self.below = Some(Below::Child(node, link));
            return Ok(None);
        }
        self.arrive(node, word)
    }

    #[inline(always)]
    fn arrive(
        &mut self,
        leaf: View<'t, WORDS>,
        word: u64,
    ) -> Result<Option<Cursor<'t, WORDS>>, Restart> {
        let (found, count) = leaf.find(self.lanes, word, |body, index| {
            self.tree.charge_node(body);
            if let Some(index) = index {
                self.tree.charge_payload(body, index);
            }
        })?;
        let end = match found {
            Err(index) => End::Absent { index, count },
            Ok((index, entry)) => match entry.lead() {
                None => {
                    let value = entry.value();
                    End::Value { index, value }
                }
                Some(Lead::Record(record)) => End::Record { index, record },
                Some(Lead::Layer(root)) => {
                    self.prefetch(address(root));
                    self.depth += SLICE;
                    self.below = Some(Below::Layer(leaf, root));
                    return Ok(None);
                }
                Some(Lead::Skip(skip)) => {
                    self.prefetch_block(*skip);
                    self.below = Some(Below::Skip(leaf, skip, index, word));
                    return Ok(None);
                }
            },
        };
        Ok(Some(self.cursor(leaf, word, end)))
    }

    /// Compares the key with the skip of a layer.
    #[inline(always)]
    fn compare(
        &mut self,
        leaf: View<'t, WORDS>,
        skip: Skip<'t, WORDS>,
        index: usize,
        word: u64,
    ) -> Result<Option<Cursor<'t, WORDS>>, Restart> {
        self.tree
            .memory()
            .charge_access(skip.address(), skip.used());
        let root = skip.root();
        // This also validates the root that was just read.
        leaf.validate()?;
        self.prefetch(address(root));
        let rest = &self.key[self.depth + SLICE..];
        let bytes = skip.bytes();
        if rest.len() <= bytes.len() || !rest.starts_with(bytes) {
            let common = common(bytes, rest);
            let end = End::Beside {
                index,
                skip,
                common,
            };
            return Ok(Some(self.cursor(leaf, word, end)));
        }
        self.depth += SLICE + bytes.len();
        self.below = Some(Below::Layer(leaf, root));
        Ok(None)
    }

    #[inline(always)]
    fn cursor(&self, leaf: View<'t, WORDS>, word: u64, end: End<'t, WORDS>) -> Cursor<'t, WORDS> {
        Cursor {
            leaf,
            level: self.level,
            depth: self.depth,
            word,
            end,
        }
    }
}

/// The length of the common prefix of two strings, without the last byte of each: a key ends in the
/// layer of its last slice, even if that slice is full.
pub(super) fn common(one: &[u8], two: &[u8]) -> usize {
    key::common(
        &one[..one.len().saturating_sub(1)],
        &two[..two.len().saturating_sub(1)],
    )
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, const LATER: bool, L: Lanes> Traversal
    for Descent<'t, '_, M, WORDS, H, LATER, L>
{
    type Output = Cursor<'t, WORDS>;

    #[inline(always)]
    fn step(&mut self) -> Poll<Self::Output> {
        match self.advance() {
            Ok(Some(cursor)) => return Poll::Ready(cursor),
            Ok(None) => {}
            Err(Restart) => self.start_over(),
        }
        Poll::Pending
    }
}

/// Moves a cursor to a key.
pub(super) struct Locate<'t, 'k, M: Memory, const WORDS: usize, H: Represent> {
    pub tree: &'t Tree<M, WORDS, H>,
    pub key: &'k [u8],
    pub guard: &'t Guard<'t>,
}

impl<'t, M: Memory, const WORDS: usize, H: Represent> Work for Locate<'t, '_, M, WORDS, H> {
    type Output = Cursor<'t, WORDS>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let Locate { tree, key, guard } = self;
        let pinned = tree.store.pinned(guard);
        run(Descent::<_, _, _, false, _>::new(tree, key, pinned, lanes))
    }
}

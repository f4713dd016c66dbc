//! The way from the topmost root to where a key's record is or would be, as a [`Traversal`]: one
//! node, or one block, a step.
//!
//! As within a tree, the child's snapshot is taken before the parent is validated: where a layer's
//! root hangs below a border node, that is the parent. A skip is compared on the way.

use std::task::Poll;

use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::pause;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::Memory;

use super::Tree;
use super::slice::{Lead, SLICE, has_more, slice};
use crate::btree::node::{Block, Body, Lanes, Link, Work};
use crate::traverse::{Traversal, run};
use crate::value::Represent;

/// Where a key's record is, or would be.
pub(super) struct Cursor<'t, const WORDS: usize> {
    pub leaf: Snapshot<'t, Body<WORDS>>,
    /// Steps below the topmost root.
    pub level: u8,
    /// Bytes of the key that lead to the leaf's layer, and the slice after them.
    pub depth: usize,
    pub word: u64,
    pub end: End,
}

/// What is there.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// No entry for the slice; this would be its index, beside this many others.
    Absent { index: usize, count: usize },
    /// The slice is the key's last.
    Value { index: usize, value: u64 },
    /// One record with the slice, not necessarily the key's.
    Record { index: usize, record: Block },
    /// A layer whose keys have other bytes next; this many are the same.
    Beside {
        index: usize,
        skip: Block,
        common: usize,
    },
}

/// What the next step reads.
enum Below<'t, const WORDS: usize> {
    /// A node: its height, unless it is a layer's root.
    Node(Snapshot<'t, Body<WORDS>>, Link, Option<u8>),
    /// What a layer's keys have in common: it belongs to the entry at this index.
    Skip(Snapshot<'t, Body<WORDS>>, Block, usize, u64),
}

/// Moves a cursor to a key. `LATER`: other work comes between two steps, so the memory is asked for
/// what the next one reads.
pub(super) struct Descent<
    't,
    M: Memory,
    const WORDS: usize,
    H: Represent,
    const LATER: bool,
    L: Lanes,
> {
    pub tree: &'t Tree<M, WORDS, H>,
    pub key: &'t [u8],
    lanes: L,
    pub pinned: Pinned<'t>,
    depth: usize,
    level: u8,
    below: Option<Below<'t, WORDS>>,
    restarts: u32,
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, const LATER: bool, L: Lanes>
    Descent<'t, M, WORDS, H, LATER, L>
{
    #[inline(always)]
    pub fn new(
        tree: &'t Tree<M, WORDS, H>,
        key: &'t [u8],
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

    /// Goes back to the root: what was read on the way is not so any more.
    #[inline(always)]
    pub fn start_over(&mut self) {
        pause(self.restarts);
        self.restarts += 1;
        (self.depth, self.level) = (0, 0);
        self.below = None;
    }

    #[inline(always)]
    fn prefetch(&self, link: Link) {
        if LATER {
            self.tree
                .memory()
                .prefetch(link.address(), Body::<WORDS>::BYTES);
        } else {
            self.tree.prefetch(link);
        }
    }

    /// Asks for a block of which the length is not known yet.
    #[inline(always)]
    pub fn prefetch_block(&self, block: Block) {
        if LATER {
            self.tree.memory().prefetch(block.address(), 64);
        }
    }

    /// The cursor, if the next step arrives.
    #[inline(always)]
    fn advance(&mut self) -> Result<Option<Cursor<'t, WORDS>>, Restart> {
        let (node, height) = match self.below.take() {
            None => {
                let root = self.tree.root.read()?;
                let (link, height) = root.get(|root| (root.node(), root.height()))?;
                let node = link.node::<WORDS>(self.pinned).read()?;
                root.validate()?;
                (node, height)
            }
            Some(Below::Node(parent, link, height)) => {
                let node = link.node::<WORDS>(self.pinned).read()?;
                parent.validate()?;
                let height = match height {
                    Some(height) => height,
                    None => node.get(Body::height)?,
                };
                self.level = self.level.saturating_add(1);
                (node, height)
            }
            Some(Below::Skip(leaf, skip, index, word)) => {
                return self.compare(leaf, skip, index, word);
            }
        };
        let word = slice(self.key, self.depth);
        if height > 0 {
            let link = node.get(|body| self.tree.find_child(self.lanes, body, word).1)?;
            self.prefetch(link);
            self.below = Some(Below::Node(node, link, Some(height - 1)));
            return Ok(None);
        }
        self.arrive(node, word)
    }

    #[inline(always)]
    fn arrive(
        &mut self,
        leaf: Snapshot<'t, Body<WORDS>>,
        word: u64,
    ) -> Result<Option<Cursor<'t, WORDS>>, Restart> {
        let (found, count, payload) = leaf.get(|body| {
            self.tree.charge_node(body);
            let found = body.find(self.lanes, word);
            let payload = found.map(|index| {
                self.tree.charge_payload(body, index);
                body.payload(index)
            });
            (found, body.count(), payload.unwrap_or(0))
        })?;
        let end = match found {
            Err(index) => End::Absent { index, count },
            Ok(index) if !has_more(word) => {
                let value = payload;
                End::Value { index, value }
            }
            Ok(index) => match Lead::of(payload) {
                Lead::Record(record) => End::Record { index, record },
                Lead::Layer(root) => {
                    self.prefetch(root);
                    self.depth += SLICE;
                    self.below = Some(Below::Node(leaf, root, None));
                    return Ok(None);
                }
                Lead::Skip(skip) => {
                    self.prefetch_block(skip);
                    self.below = Some(Below::Skip(leaf, skip, index, word));
                    return Ok(None);
                }
            },
        };
        Ok(Some(self.cursor(leaf, word, end)))
    }

    /// Compares what all keys of a layer have next.
    #[inline(always)]
    fn compare(
        &mut self,
        leaf: Snapshot<'t, Body<WORDS>>,
        skip: Block,
        index: usize,
        word: u64,
    ) -> Result<Option<Cursor<'t, WORDS>>, Restart> {
        self.tree
            .memory()
            .charge_access(skip.address(), skip.used());
        let root = Link::from_word(skip.word());
        // The root is read under the border node's version.
        leaf.validate()?;
        self.prefetch(root);
        let rest = &self.key[self.depth + SLICE..];
        let bytes = skip.bytes(self.pinned);
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
        self.below = Some(Below::Node(leaf, root, None));
        Ok(None)
    }

    #[inline(always)]
    fn cursor(&self, leaf: Snapshot<'t, Body<WORDS>>, word: u64, end: End) -> Cursor<'t, WORDS> {
        Cursor {
            leaf,
            level: self.level,
            depth: self.depth,
            word,
            end,
        }
    }
}

/// How many bytes two strings have in common, without the last byte of either: a key ends in the
/// layer of its last slice, even if that has all of its seven bytes.
pub(super) fn common(one: &[u8], two: &[u8]) -> usize {
    let (one, two) = (
        &one[..one.len().saturating_sub(1)],
        &two[..two.len().saturating_sub(1)],
    );
    one.iter()
        .zip(two)
        .take_while(|(one, two)| one == two)
        .count()
}

impl<'t, M: Memory, const WORDS: usize, H: Represent, const LATER: bool, L: Lanes> Traversal
    for Descent<'t, M, WORDS, H, LATER, L>
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
pub(super) struct Locate<'t, M: Memory, const WORDS: usize, H: Represent> {
    pub tree: &'t Tree<M, WORDS, H>,
    pub key: &'t [u8],
    pub guard: &'t Guard<'t>,
}

impl<'t, M: Memory, const WORDS: usize, H: Represent> Work for Locate<'t, M, WORDS, H> {
    type Output = Cursor<'t, WORDS>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        let Locate { tree, key, guard } = self;
        run(Descent::<_, _, _, false, _>::new(tree, key, guard, lanes))
    }
}

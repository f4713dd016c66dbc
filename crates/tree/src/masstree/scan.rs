//! Records in order, either way, across layers.
//!
//! A walk has a border node for each layer on its path, and a consistent copy of that node's
//! entries. (A value in a record may be newer than the copy.) It enters a layer as a lookup does,
//! and then continues in the layer above. If a validation fails, it backs up to the last unchanged
//! border node, and continues after the last record that it passed to `visit`. So it visits a
//! record that stays in the map exactly once.
//!
//! `enter.rs` reads border nodes, and `ahead.rs` has the CPU fetch what the walk will read next.

use std::ops::{Bound, ControlFlow};

use smallvec::SmallVec;
use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::pause;
use timberline_tier::Memory;

use super::Tree;
use super::ahead::Above;
use super::descent::Descent;
use super::enter::Entrance;
use super::slice::{SLICE, push_bytes, slice};
use crate::btree::node::{Lead, LeafEntry, Root, View};
use crate::mode::LeafLater;
use crate::range::{Ordered, Way};
use crate::traverse::Yielding;
use crate::value::{Loan, Represent};

/// Entries for which there is room from the start: those of four border nodes of 256 bytes.
const ENTRIES: usize = 64;
/// Bytes of a key for which there is room from the start.
const KEY: usize = 64;

/// A border node on the path.
pub(super) struct Frame<'g, const WORDS: usize> {
    pub leaf: View<'g, WORDS>,
    /// The inner node above it in its layer, if there is one.
    pub above: Option<Above<'g, WORDS>>,
    /// Bytes of the key before this layer.
    pub depth: usize,
    /// The node's copied entries are `start..end` of the walk's; `next` is the next to visit.
    pub start: usize,
    pub next: usize,
    pub end: usize,
    /// Up to which entry the CPU was asked to fetch what they lead to.
    pub asked: usize,
    /// The first slice after this node, in the walk's direction.
    pub beyond: Option<u64>,
    /// Whether the first entry may be beyond the bound at which the walk starts.
    pub at_bound: bool,
}

/// The state of a walk.
pub(super) struct Walk<'g, M: Memory, const WORDS: usize, H: Represent> {
    pub tree: &'g Tree<M, WORDS, H>,
    pub guard: &'g Guard<'g>,
    pub way: Way,
    pub frames: SmallVec<[Frame<'g, WORDS>; 6]>,
    /// The entries of all frames, in the order of the walk.
    pub entries: Vec<LeafEntry<'g, WORDS>>,
    key: Vec<u8>,
    /// Whether `key` is that of a visited record, which is not kept in `last` yet.
    visited: bool,
    /// The key of the last visited record, whenever a validation may fail.
    last: Vec<u8>,
    /// The number of records left to visit.
    pub wanted: usize,
}

/// The relation of an entry to the walk's bound.
enum Side {
    /// All its records are outside the bound.
    Before,
    After,
    /// It is a layer that the bound lies in.
    Within,
}

impl<M: Memory, const WORDS: usize, H: Represent> Ordered for Tree<M, WORDS, H> {
    type Memory = M;

    fn memory(&self) -> &M {
        &self.store.memory
    }

    async fn approach(&self, key: &[u8]) {
        let guard = self.store.domain().owned_guard();
        let descent = Descent::<_, _, _, LeafLater, _>::new(self, key, &guard, self.search);
        Yielding(descent).await;
    }

    fn walk(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        self.walk_with::<true>(way, from, limit, visit)
    }

    fn walk_values(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        self.walk_with::<false>(way, from, limit, |_, value| visit(value))
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Walks over records. Without `KEYS`, `visit` gets some other key.
    fn walk_with<const KEYS: bool>(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        if limit == 0 {
            return 0;
        }
        let guard = self.store.pin();
        let mut walk = Walk {
            tree: self,
            guard: &guard,
            way,
            frames: SmallVec::new(),
            entries: Vec::with_capacity(ENTRIES),
            key: Vec::with_capacity(KEY),
            visited: false,
            last: Vec::new(),
            wanted: limit,
        };
        let (mut outcome, mut tries, mut before) = (walk.run::<KEYS>(from, &mut visit), 0, limit);
        while outcome.is_err() {
            tries = if walk.wanted < before { 0 } else { tries + 1 };
            pause(tries);
            before = walk.wanted;
            let behind = walk.last.clone();
            let from = match before < limit {
                true => Bound::Excluded(&behind[..]),
                false => from,
            };
            walk.back_up(from);
            outcome = walk.run::<KEYS>(from, &mut visit);
        }
        limit - walk.wanted
    }

    /// The topmost root.
    #[inline(always)]
    pub(super) fn top<'g>(&self, pinned: Pinned<'g>) -> Result<View<'g, WORDS>, Restart> {
        let root = self.root.read()?;
        let node = Root::link(&root, pinned)?.read()?;
        root.validate()?;
        Ok(node)
    }

    /// The leaf that covers a slice, below a node.
    pub(super) fn leaf_in<'g>(
        &self,
        mut node: View<'g, WORDS>,
        word: u64,
    ) -> Result<View<'g, WORDS>, Restart> {
        while node.height() > 0 {
            let link = self.find_child(self.search, &node, word)?;
            self.prefetch(link.address());
            let child = link.read()?;
            node.validate()?;
            node = child;
        }
        Ok(node)
    }
}

impl<'g, M: Memory, const WORDS: usize, H: Represent> Walk<'g, M, WORDS, H> {
    /// Drops the changed part of the path. The walk continues from the bound below the rest.
    fn back_up(&mut self, from: Bound<&[u8]>) {
        while let Some(frame) = self.frames.last_mut() {
            if frame.leaf.validate().is_ok() && frame.next > frame.start {
                frame.next -= 1;
                frame.at_bound = match from {
                    Bound::Included(key) | Bound::Excluded(key) => {
                        key.starts_with(&self.key[..frame.depth])
                    }
                    Bound::Unbounded => false,
                };
                self.entries.truncate(frame.end);
                return;
            }
            self.frames.pop();
        }
        self.entries.clear();
    }

    fn run<const KEYS: bool>(
        &mut self,
        from: Bound<&[u8]>,
        visit: &mut impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> Result<(), Restart> {
        if self.frames.is_empty() {
            let node = self.tree.top(self.tree.store.pinned(self.guard))?;
            self.enter(Entrance {
                node,
                fetched: 0,
                depth: 0,
                word: self.start(from, 0),
                at_bound: from != Bound::Unbounded,
            })?;
        }
        while let Some(frame) = self.frames.last() {
            if !frame.at_bound && self.show::<KEYS>(visit).is_break() {
                return Ok(());
            }
            self.keep_last();
            let Some(frame) = self.frames.last_mut() else {
                break;
            };
            let Some(&entry) = self.entries[..frame.end].get(frame.next) else {
                self.next_leaf()?;
                continue;
            };
            frame.next += 1;
            let (leaf, depth) = (frame.leaf, frame.depth);
            let at_bound = std::mem::take(&mut frame.at_bound);
            let word = entry.key;
            let bound = match from {
                Bound::Included(key) | Bound::Excluded(key) if at_bound => Some(key),
                _ => None,
            };
            let bound = bound.filter(|key| slice(key, depth) == word);
            self.key.truncate(depth);
            push_bytes(word, &mut self.key);
            let Some(lead) = entry.lead() else {
                let excluded = bound.is_some() && matches!(from, Bound::Excluded(_));
                if !excluded && self.show_one(entry.value(), visit).is_break() {
                    return Ok(());
                }
                continue;
            };
            let rest = bound.map(|key| &key[depth + SLICE..]);
            let (root, skipped) = match lead {
                Lead::Record(record) => {
                    let shown = rest.is_none_or(|rest| match (self.way, from) {
                        (_, Bound::Excluded(_)) if record.bytes() == rest => false,
                        (Way::Forward, _) => record.bytes() >= rest,
                        (Way::Backward, _) => record.bytes() <= rest,
                    });
                    if shown {
                        self.key.extend_from_slice(record.bytes());
                        if self.show_one(record.value(), visit).is_break() {
                            return Ok(());
                        }
                    }
                    continue;
                }
                Lead::Layer(root) => (root, &[][..]),
                Lead::Skip(skip) => {
                    self.tree
                        .memory()
                        .charge_access(skip.address(), skip.used());
                    let root = skip.root();
                    leaf.validate()?;
                    (root, skip.bytes())
                }
            };
            let side = rest.map_or(Side::After, |rest| self.side(skipped, rest));
            let from = match side {
                Side::Before => continue,
                Side::After => Bound::Unbounded,
                Side::Within => from,
            };
            self.key.extend_from_slice(skipped);
            let depth = self.key.len();
            let root = root.read()?;
            leaf.validate()?;
            self.enter(Entrance {
                node: View::of(root)?,
                fetched: 0,
                depth,
                word: self.start(from, depth),
                at_bound: from != Bound::Unbounded,
            })?;
        }
        Ok(())
    }

    /// Visits the records of the last frame up to its first layer, which have all been copied: no
    /// validation can fail meanwhile. Breaks if no more are wanted.
    #[inline(always)]
    fn show<const KEYS: bool>(
        &mut self,
        visit: &mut impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(frame) = self.frames.last_mut() else {
            return ControlFlow::Continue(());
        };
        let (key, depth) = (&mut self.key, frame.depth);
        let left = &self.entries[frame.next..frame.end];
        let most = left.len().min(self.wanted);
        let (mut shown, mut flow) = (0usize, ControlFlow::Continue(()));
        for entry in &left[..most] {
            let lead = entry.lead();
            let value = match lead {
                None => entry.value(),
                Some(Lead::Record(record)) => record.value(),
                Some(Lead::Layer(_) | Lead::Skip(_)) => break,
            };
            if KEYS {
                write_key(key, depth, entry.key, lead);
            }
            shown += 1;
            flow = visit(key, value);
            if flow.is_break() {
                break;
            }
        }
        if !KEYS && let Some(at) = shown.checked_sub(1) {
            // The walk needs the last one.
            write_key(key, depth, left[at].key, left[at].lead());
        }
        frame.next += shown;
        self.wanted -= shown;
        self.visited |= shown > 0;
        match self.wanted {
            0 => ControlFlow::Break(()),
            _ => flow,
        }
    }

    /// Visits the record whose key is in `key`. Breaks if no more are wanted.
    fn show_one(
        &mut self,
        value: Loan<'_>,
        visit: &mut impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.wanted -= 1;
        self.visited = true;
        match visit(&self.key, value) {
            ControlFlow::Continue(()) if self.wanted > 0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    /// Keeps the key of the last visited record, before `key` changes and a validation may fail.
    #[inline(always)]
    fn keep_last(&mut self) {
        if std::mem::take(&mut self.visited) {
            self.last.clear();
            self.last.extend_from_slice(&self.key);
        }
    }

    /// The relation of a layer with this skip to the bound's remaining bytes.
    fn side(&self, skipped: &[u8], rest: &[u8]) -> Side {
        if rest.len() > skipped.len() && rest.starts_with(skipped) {
            return Side::Within;
        }
        // Keys of the layer are longer than its skip, so an equal bound comes before them.
        match (self.way, skipped >= rest) {
            (Way::Forward, true) | (Way::Backward, false) => Side::After,
            (Way::Forward, false) | (Way::Backward, true) => Side::Before,
        }
    }

    /// The slice at which the walk enters a layer at this depth.
    fn start(&self, from: Bound<&[u8]>, depth: usize) -> u64 {
        match (from, self.way) {
            (Bound::Included(key) | Bound::Excluded(key), _) => slice(key, depth),
            (Bound::Unbounded, Way::Forward) => 0,
            (Bound::Unbounded, Way::Backward) => u64::MAX,
        }
    }
}

/// Writes the key of a record: of the slice and what that leads to, behind the first bytes.
#[inline(always)]
fn write_key<const WORDS: usize>(
    key: &mut Vec<u8>,
    depth: usize,
    slice: u64,
    lead: Option<Lead<'_, WORDS>>,
) {
    key.truncate(depth);
    push_bytes(slice, key);
    if let Some(Lead::Record(record)) = lead {
        key.extend_from_slice(record.bytes());
    }
}

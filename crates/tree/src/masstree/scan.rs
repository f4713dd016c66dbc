//! Records in order, either way, across layers.
//!
//! A walk has a border node for each layer on its path, and a consistent copy of that node's
//! entries. (A value in a record may be newer than the copy.) It enters a layer as a lookup does,
//! and then continues in the layer above. If a validation fails, it backs up to the last unchanged
//! border node, and continues after the last record that it passed to `visit`. So it visits a
//! record that stays in the map exactly once.

use std::ops::{Bound, ControlFlow};

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::{Guard, Pinned};
use timberline_sync::shim::pause;
use timberline_tier::{Memory, hint};

use super::Tree;
use super::descent::Descent;
use super::slice::{SLICE, push_bytes, slice};
use crate::btree::node::{Body, Lead, LeafEntry, Root, View};
use crate::btree::tree::node_address;
use crate::range::{Ordered, Way};
use crate::traverse::Yielding;
use crate::value::{Loan, Represent};

/// A border node on the path.
struct Frame<'g, const WORDS: usize> {
    leaf: View<'g, WORDS>,
    /// Bytes of the key before this layer.
    depth: usize,
    /// The node's copied entries are `start..end` of the walk's; `next` is the next to visit.
    start: usize,
    next: usize,
    end: usize,
    /// The first slice after this node, in the walk's direction.
    beyond: Option<u64>,
    /// Whether the first entry may be beyond the bound at which the walk starts.
    at_bound: bool,
}

/// The state of a walk.
struct Walk<'g, M: Memory, const WORDS: usize, H: Represent> {
    tree: &'g Tree<M, WORDS, H>,
    guard: &'g Guard<'g>,
    way: Way,
    frames: Vec<Frame<'g, WORDS>>,
    /// The entries of all frames, in the order of the walk.
    entries: Vec<LeafEntry<'g, WORDS>>,
    key: Vec<u8>,
    /// The number of records left to visit.
    wanted: usize,
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
        let descent = Descent::<_, _, _, true, _>::new(self, key, &guard, self.search);
        Yielding(descent).await;
    }

    fn walk(
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
            frames: Vec::new(),
            entries: Vec::new(),
            key: Vec::new(),
            wanted: limit,
        };
        let (mut last, mut tries) = (Vec::new(), 0);
        loop {
            // `last` is the key of the last visited record.
            let (before, behind) = (walk.wanted, last.clone());
            let from = match before < limit {
                true => Bound::Excluded(&behind[..]),
                false => from,
            };
            walk.back_up(from);
            let outcome = walk.run(from, &mut |key, value| {
                last.clear();
                last.extend_from_slice(key);
                visit(key, value)
            });
            if outcome.is_ok() {
                return limit - walk.wanted;
            }
            tries = if walk.wanted < before { 0 } else { tries + 1 };
            pause(tries);
        }
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
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

    fn run(
        &mut self,
        from: Bound<&[u8]>,
        visit: &mut impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> Result<(), Restart> {
        let guard = self.guard;
        let mut visit = |wanted: &mut usize, key: &[u8], value: Loan<'_>| {
            *wanted -= 1;
            visit(key, value).is_break() || *wanted == 0
        };
        if self.frames.is_empty() {
            let node = self.tree.top(self.tree.store.pinned(guard))?;
            let bounded = from != Bound::Unbounded;
            self.enter(node, 0, self.start(from, 0), bounded)?;
        }
        while let Some(frame) = self.frames.last_mut() {
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
                if !excluded && visit(&mut self.wanted, &self.key, entry.value()) {
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
                        if visit(&mut self.wanted, &self.key, record.value()) {
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
            let bounded = from != Bound::Unbounded;
            self.enter(View::of(root)?, depth, self.start(from, depth), bounded)?;
        }
        Ok(())
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

    /// Enters the leaf that covers a slice, below `node`, and copies its entries from there on.
    fn enter(
        &mut self,
        node: View<'g, WORDS>,
        depth: usize,
        word: u64,
        at_bound: bool,
    ) -> Result<(), Restart> {
        let leaf = self.tree.leaf_in(node, word)?;
        let start = self.entries.len();
        let (way, tree, entries) = (self.way, self.tree, &mut self.entries);
        // Each entry has at least one record in the walk, except the one at the bound.
        let most = self.wanted.saturating_add(1);
        let beyond = leaf.copy_entries(entries, |body| {
            tree.charge_node(body);
            let rank = body.rank(tree.search, word);
            let count = body.count();
            let (range, all) = match way {
                Way::Forward => (rank..count.min(rank.saturating_add(most)), count),
                Way::Backward => {
                    let end = rank + usize::from(rank < count && body.key(rank) == word);
                    (end.saturating_sub(most)..end, 0)
                }
            };
            let payloads = Body::<WORDS>::payload_offset(range.start);
            tree.memory()
                .charge_lines(node_address(body) + payloads, 8 * range.len());
            let beyond = match way {
                Way::Forward if range.end < all => Some(body.key(range.end)),
                Way::Forward => body.upper().checked_add(1),
                Way::Backward if range.start > all => Some(body.key(range.start - 1)),
                Way::Backward => body.lower().checked_sub(1),
            };
            (range, beyond)
        })?;
        if way == Way::Backward {
            entries[start..].reverse();
        }
        // All that hangs below now, so that the cache misses overlap. A layer has two records.
        let mut layers = self.wanted.div_ceil(2);
        for lead in entries[start..].iter().filter_map(|entry| entry.lead()) {
            match lead {
                Lead::Record(record) => {
                    hint::prefetch_lines(record.address(), 1);
                    continue;
                }
                Lead::Layer(_) | Lead::Skip(_) if layers == 0 => break,
                Lead::Layer(root) => tree.prefetch_all(std::ptr::from_ref(root).addr()),
                Lead::Skip(skip) => hint::prefetch_lines(skip.address(), 1),
            }
            layers -= 1;
        }
        for entry in &entries[start..] {
            if let Some(Lead::Record(record)) = entry.lead() {
                tree.memory().charge_access(record.address(), record.used());
            }
        }
        let end = entries.len();
        self.tree.note(*leaf, Access::Reuse, self.guard);
        self.frames.push(Frame {
            leaf,
            depth,
            start,
            next: start,
            end,
            beyond,
            at_bound,
        });
        Ok(())
    }

    /// Moves the last frame to the next leaf of its layer, if there is one.
    fn next_leaf(&mut self) -> Result<(), Restart> {
        let Some(done) = self.frames.pop() else {
            return Ok(());
        };
        let first = self.frames.last().map_or(0, |above| above.end);
        self.entries.truncate(first);
        let Some(word) = done.beyond else {
            return Ok(());
        };
        let node = match self.frames.last() {
            None => self.tree.top(self.tree.store.pinned(self.guard))?,
            Some(above) => {
                let lead = self.entries[above.next - 1].lead();
                let root = lead.and_then(Lead::root).ok_or(Restart)?;
                above.leaf.validate()?;
                let root = root.read()?;
                above.leaf.validate()?;
                View::of(root)?
            }
        };
        self.enter(node, done.depth, word, false)
    }
}

//! Records in order, either way, across layers.
//!
//! A walk keeps the border nodes it came through, one a layer, with a copy of their entries as of
//! one moment. It steps into a layer as a lookup does, and goes on in the layer above where it left
//! it. Where a writer got in between, it backs up to the last border node that is unchanged, and
//! goes on from there behind the last record that it showed: so a record that is there throughout
//! is seen exactly once.

use std::ops::{Bound, ControlFlow};

use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_sync::shim::pause;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::Memory;

use super::Tree;
use super::descent::Descent;
use super::slice::{Lead, SLICE, has_more, push_bytes, slice};
use crate::btree::node::{Body, Link};
use crate::btree::tree::node_address;
use crate::range::{Ordered, Way};
use crate::traverse::Yielding;
use crate::value::{Loan, Represent};

/// A border node on the way.
struct Frame<'g, const WORDS: usize> {
    leaf: Snapshot<'g, Body<WORDS>>,
    /// Bytes of the key before this layer.
    depth: usize,
    /// Entries that are still to come, of all that were copied.
    start: usize,
    next: usize,
    end: usize,
    /// The next slice that is not in this node.
    beyond: Option<u64>,
    /// The first entry may lie beyond the bound where the walk begins.
    at_bound: bool,
}

/// A walk that no writer disturbed so far.
struct Walk<'g, M: Memory, const WORDS: usize, H: Represent> {
    tree: &'g Tree<M, WORDS, H>,
    guard: &'g Guard<'g>,
    way: Way,
    frames: Vec<Frame<'g, WORDS>>,
    /// The entries of all frames, in the order of the walk.
    entries: Vec<Entry>,
    key: Vec<u8>,
    /// Records that are still to be shown.
    wanted: usize,
}

/// An entry of a border node, and the value of its record if that is what it leads to.
#[derive(Clone, Copy)]
struct Entry {
    word: u64,
    payload: u64,
    value: u64,
}

/// What the walk does with an entry at its bound.
enum Side {
    /// The bound excludes it.
    Before,
    After,
    /// It is a layer that the bound goes on in.
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
            // `last` is the key of the last record that was shown.
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
    /// The topmost root and its height.
    pub(super) fn top<'g>(
        &'g self,
        guard: &'g Guard,
    ) -> Result<(Snapshot<'g, Body<WORDS>>, u8), Restart> {
        let root = self.root.read()?;
        let (link, height) = root.get(|root| (root.node(), root.height()))?;
        let node = link.node::<WORDS>(guard).read()?;
        root.validate()?;
        Ok((node, height))
    }

    /// The leaf that covers a slice, below a node.
    pub(super) fn leaf_in<'g>(
        &'g self,
        mut node: Snapshot<'g, Body<WORDS>>,
        height: u8,
        word: u64,
        guard: &'g Guard,
    ) -> Result<Snapshot<'g, Body<WORDS>>, Restart> {
        for _ in 0..height {
            let link = node.get(|body| self.find_child(self.search, body, word).1)?;
            self.prefetch(link);
            let child = link.node::<WORDS>(guard).read()?;
            node.validate()?;
            node = child;
        }
        Ok(node)
    }
}

impl<'g, M: Memory, const WORDS: usize, H: Represent> Walk<'g, M, WORDS, H> {
    /// Drops what changed since the walk came through, and has it go on from a bound below the
    /// rest.
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
        let mut visit = |wanted: &mut usize, key: &[u8], value: u64| {
            *wanted -= 1;
            visit(key, Loan::new(value, guard)).is_break() || *wanted == 0
        };
        if self.frames.is_empty() {
            let (node, height) = self.tree.top(self.guard)?;
            let bounded = from != Bound::Unbounded;
            self.enter(node, height, 0, self.start(from, 0), bounded)?;
        }
        while let Some(frame) = self.frames.last_mut() {
            let Some(&entry) = self.entries[..frame.end].get(frame.next) else {
                self.next_leaf()?;
                continue;
            };
            frame.next += 1;
            let (leaf, depth) = (frame.leaf, frame.depth);
            let at_bound = std::mem::take(&mut frame.at_bound);
            let Entry {
                word,
                payload,
                value,
            } = entry;
            let bound = match from {
                Bound::Included(key) | Bound::Excluded(key) if at_bound => Some(key),
                _ => None,
            };
            let bound = bound.filter(|key| slice(key, depth) == word);
            self.key.truncate(depth);
            push_bytes(word, &mut self.key);
            if !has_more(word) {
                let excluded = bound.is_some() && matches!(from, Bound::Excluded(_));
                if !excluded && visit(&mut self.wanted, &self.key, value) {
                    return Ok(());
                }
                continue;
            }
            let rest = bound.map(|key| &key[depth + SLICE..]);
            let (root, skipped) = match Lead::of(payload) {
                Lead::Record(record) => {
                    let shown = rest.is_none_or(|rest| match (self.way, from) {
                        (_, Bound::Excluded(_)) if record.bytes(guard) == rest => false,
                        (Way::Forward, _) => record.bytes(guard) >= rest,
                        (Way::Backward, _) => record.bytes(guard) <= rest,
                    });
                    if shown {
                        self.key.extend_from_slice(record.bytes(guard));
                        if visit(&mut self.wanted, &self.key, value) {
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
                    let root = Link::from_word(skip.word());
                    leaf.validate()?;
                    (root, skip.bytes(guard))
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
            let node = root.node::<WORDS>(self.guard).read()?;
            leaf.validate()?;
            let height = node.get(Body::height)?;
            let bounded = from != Bound::Unbounded;
            self.enter(node, height, depth, self.start(from, depth), bounded)?;
        }
        Ok(())
    }

    /// Which side of the bound's `rest` a layer is on that skips some bytes.
    fn side(&self, skipped: &[u8], rest: &[u8]) -> Side {
        if rest.len() > skipped.len() && rest.starts_with(skipped) {
            return Side::Within;
        }
        // Keys of the layer have more than it skips.
        match (self.way, skipped >= rest) {
            (Way::Forward, true) | (Way::Backward, false) => Side::After,
            (Way::Forward, false) | (Way::Backward, true) => Side::Before,
        }
    }

    /// The slice where a layer at this depth is entered.
    fn start(&self, from: Bound<&[u8]>, depth: usize) -> u64 {
        match (from, self.way) {
            (Bound::Included(key) | Bound::Excluded(key), _) => slice(key, depth),
            (Bound::Unbounded, Way::Forward) => 0,
            (Bound::Unbounded, Way::Backward) => u64::MAX,
        }
    }

    /// Copies the entries from a slice on of the leaf that covers it, in the layer below a node.
    fn enter(
        &mut self,
        node: Snapshot<'g, Body<WORDS>>,
        height: u8,
        depth: usize,
        word: u64,
        at_bound: bool,
    ) -> Result<(), Restart> {
        let leaf = self.tree.leaf_in(node, height, word, self.guard)?;
        let start = self.entries.len();
        let (way, tree, entries) = (self.way, self.tree, &mut self.entries);
        // Each entry has a record at least, but for one at the bound.
        let most = self.wanted.saturating_add(1);
        let beyond = leaf.get(|body| {
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
            entries.extend(range.map(|index| {
                let (word, payload) = (body.key(index), body.payload(index));
                Entry {
                    word,
                    payload,
                    value: payload,
                }
            }));
            beyond
        })?;
        for entry in &mut entries[start..] {
            if has_more(entry.word)
                && let Lead::Record(record) = Lead::of(entry.payload)
            {
                tree.memory().charge_access(record.address(), record.used());
                entry.value = record.word();
            }
        }
        // Values in records are under the same version.
        leaf.validate()?;
        if way == Way::Backward {
            entries[start..].reverse();
        }
        let end = entries.len();
        self.tree.note(leaf, Access::Reuse, self.guard);
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

    /// Replaces the last frame by the next leaf of its layer, if there is one.
    fn next_leaf(&mut self) -> Result<(), Restart> {
        let Some(done) = self.frames.pop() else {
            return Ok(());
        };
        let first = self.frames.last().map_or(0, |above| above.end);
        self.entries.truncate(first);
        let Some(word) = done.beyond else {
            return Ok(());
        };
        let (node, height) = match self.frames.last() {
            None => self.tree.top(self.guard)?,
            Some(above) => {
                let root = match Lead::of(self.entries[above.next - 1].payload) {
                    Lead::Layer(root) => root,
                    Lead::Skip(skip) => Link::from_word(skip.word()),
                    Lead::Record(_) => return Err(Restart),
                };
                above.leaf.validate()?;
                let node = root.node::<WORDS>(self.guard).read()?;
                above.leaf.validate()?;
                (node, node.get(Body::height)?)
            }
        };
        self.enter(node, height, done.depth, word, false)
    }
}

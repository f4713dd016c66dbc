//! A tree for tests of placements: nodes without keys or values, full fanout, no concurrency to
//! speak of, and a driver that steps workers by a time of its own.
//!
//! It insists on the single boundary after every move, and records each move.

#[cfg(test)]
mod records;

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use timberline_tier::{CompactionCandidates, TierId};

use crate::workers::{Next, Waker, Worker, lock};
use crate::{
    Compaction, Fence, Fill, KeyBytes, LeafRef, Move, NodeKey, Placed, RecordCache, Relocate, Walk,
};

#[cfg(test)]
pub use records::FakeRecords;

/// Keys from one leaf's lower fence to the next.
const STRIDE: u64 = 10;
const BYTES: usize = 1024;

/// All nodes start in the slowest tier.
pub struct FakeTree {
    fanout: usize,
    /// Nodes that fit into each tier but the slowest.
    limits: Vec<usize>,
    heats: Vec<AtomicU16>,
    /// How many pages of copies there may be.
    most_pages: usize,
    /// The thread that reclaimed last.
    pub reclaimed_by: Mutex<Option<ThreadId>>,
    /// The tiers whose compaction candidates were asked for. All nodes have one size, so there are
    /// none.
    pub asked_for_candidates: Mutex<Vec<TierId>>,
    state: Mutex<State>,
}

struct State {
    /// By height, then from left to right.
    tiers: Vec<Vec<TierId>>,
    moves: Vec<(NodeKey, TierId)>,
    /// Pages of copies.
    pages: usize,
}

impl FakeTree {
    /// `levels` levels of nodes with `fanout` children each; room for `fast_limit` fast nodes.
    pub fn uniform(levels: u8, fanout: usize, fast_limit: usize) -> Self {
        let width = |height| fanout.pow(u32::from(levels - 1 - height));
        let tiers = (0..levels).map(|height| vec![TierId::SLOW; width(height)]);
        let state = State {
            tiers: tiers.collect(),
            moves: Vec::new(),
            pages: 0,
        };
        Self {
            fanout,
            limits: vec![fast_limit],
            heats: (0..width(0)).map(|_| AtomicU16::new(0)).collect(),
            most_pages: 0,
            reclaimed_by: Mutex::default(),
            asked_for_candidates: Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// The same with at most this many pages of copies of records, none of which is there.
    pub fn with_pages(self, most_pages: usize) -> Self {
        FakeTree { most_pages, ..self }
    }

    /// The same with a third tier, which all nodes start in, and room for `limit` nodes in the
    /// second.
    pub fn with_middle(mut self, limit: usize) -> Self {
        self.limits.push(limit);
        self.set_all(TierId(2));
        self
    }

    /// The n-th leaf's name.
    pub fn leaf(n: usize) -> NodeKey {
        NodeKey::of_word(n as u64 * STRIDE, 0)
    }

    /// Shows the n-th leaf to `visit`.
    pub fn with_leaf<T>(&self, n: usize, visit: impl FnOnce(LeafRef<'_>) -> T) -> T {
        visit(LeafRef {
            address: n,
            tier: self.tier(&Self::leaf(n)),
            fence: Fence::of_word(Self::leaf(n).key.word()),
            heat: &self.heats[n],
        })
    }

    /// The heat in the n-th leaf.
    pub fn heat(&self, n: usize) -> u16 {
        self.heats[n].load(Ordering::Relaxed)
    }

    /// Sets the heat in the n-th leaf.
    pub fn set_heat(&self, n: usize, heat: u16) {
        self.heats[n].store(heat, Ordering::Relaxed);
    }

    /// The tier of a node.
    pub fn tier(&self, node: &NodeKey) -> TierId {
        lock(&self.state).tiers[usize::from(node.height)][self.index(node)]
    }

    /// Sets a tier without asking, recording or checking.
    pub fn set_tier(&self, node: &NodeKey, tier: TierId) {
        lock(&self.state).tiers[usize::from(node.height)][self.index(node)] = tier;
    }

    /// Puts all nodes into a tier, as [`Self::set_tier`].
    pub fn set_all(&self, tier: TierId) {
        lock(&self.state)
            .tiers
            .iter_mut()
            .for_each(|level| level.fill(tier));
    }

    /// The moves since the last call, in order.
    pub fn moves(&self) -> Vec<(NodeKey, TierId)> {
        std::mem::take(&mut lock(&self.state).moves)
    }

    /// Whether no node is in a faster tier than its parent.
    pub fn has_single_boundary(&self) -> bool {
        let state = lock(&self.state);
        let mut pairs = state.tiers.iter().zip(state.tiers.iter().skip(1));
        pairs.all(|(below, above)| {
            let mut tiers = below.iter().enumerate();
            tiers.all(|(index, &tier)| above[index / self.fanout] <= tier)
        })
    }

    fn index(&self, node: &NodeKey) -> usize {
        (node.key.word() / STRIDE) as usize / self.fanout.pow(node.height.into())
    }

    fn exists(&self, node: &NodeKey) -> bool {
        let state = lock(&self.state);
        let level = state.tiers.get(usize::from(node.height));
        level.is_some_and(|level| self.index(node) < level.len())
    }

    fn has_child_faster_than(&self, tier: TierId, node: &NodeKey) -> bool {
        let Some(below) = node.height.checked_sub(1) else {
            return false;
        };
        let first = self.index(node) * self.fanout;
        let state = lock(&self.state);
        let children = &state.tiers[usize::from(below)][first..first + self.fanout];
        children.iter().any(|&child| child < tier)
    }

    fn move_to(&self, node: &NodeKey, tier: TierId) {
        self.set_tier(node, tier);
        lock(&self.state).moves.push((node.clone(), tier));
        assert!(self.has_single_boundary(), "moving {node:?} to {tier:?}");
    }

    fn is_full(&self, tier: TierId) -> bool {
        let limit = self.limits.get(tier.index());
        limit.is_some_and(|&limit| self.used(tier) >= limit)
    }

    /// The slowest tier that there is, or this.
    fn no_slower(&self, tier: TierId) -> TierId {
        tier.min(TierId(self.limits.len() as u8))
    }

    fn used(&self, tier: TierId) -> usize {
        let state = lock(&self.state);
        let all = state.tiers.iter().flatten();
        let pages = if tier.is_fast() { state.pages } else { 0 };
        all.filter(|&&found| found == tier).count() + pages
    }
}

impl Walk for FakeTree {
    fn levels(&self) -> u8 {
        lock(&self.state).tiers.len() as u8
    }

    fn level_of(&self, node: &NodeKey) -> u8 {
        self.levels() - 1 - node.height
    }

    fn node_bytes(&self) -> usize {
        BYTES
    }

    fn fill(&self, tier: TierId) -> Fill {
        let limit = self.limits.get(tier.index());
        Fill {
            used: self.used(tier) * BYTES,
            limit: limit.map_or(usize::MAX, |limit| limit * BYTES),
        }
    }

    fn each_leaf(&self, from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>) {
        let first = KeyBytes::from(from).word().div_ceil(STRIDE) as usize;
        for n in first..self.heats.len() {
            if self.with_leaf(n, &mut *visit).is_break() {
                return;
            }
        }
    }

    fn each_leaf_in(
        &self,
        tier: TierId,
        from: &[u8],
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) {
        self.each_leaf(&[], &mut |leaf| {
            let name = leaf.fence.to_bytes();
            let above = |height| NodeKey::of_word(name.word(), height);
            let is_met = |height| self.tier(&above(height)) <= tier;
            if *name >= *from && leaf.tier == tier && (0..self.levels()).all(is_met) {
                visit(leaf)
            } else {
                ControlFlow::Continue(())
            }
        });
    }

    fn lowest_fast_inner(&self, draw: u64) -> Option<NodeKey> {
        let state = lock(&self.state);
        let inner = 1..state.tiers.len().saturating_sub(1);
        let lowest = inner
            .into_iter()
            .find(|&height| state.tiers[height].iter().any(|tier| tier.is_fast()))?;
        let level = &state.tiers[lowest];
        let start = draw as usize % level.len();
        let index = (start..level.len() + start)
            .map(|index| index % level.len())
            .find(|&index| level[index].is_fast())?;
        let width = STRIDE * self.fanout.pow(lowest as u32) as u64;
        Some(NodeKey::of_word(index as u64 * width, lowest as u8))
    }

    fn parent_of(&self, node: &NodeKey) -> Option<NodeKey> {
        let height = node.height + 1;
        let parent = NodeKey::of_word(node.key.word(), height);
        let width = STRIDE * self.fanout.pow(height.into()) as u64;
        self.exists(&parent)
            .then(|| NodeKey::of_word(self.index(&parent) as u64 * width, height))
    }

    fn fence_at(&self, address: usize) -> Option<KeyBytes> {
        (address < self.heats.len()).then(|| Self::leaf(address).key)
    }
}

impl Relocate for FakeTree {
    /// Memory is free at once; only the call is noted.
    fn reclaim(&self) {
        *lock(&self.reclaimed_by) = Some(std::thread::current().id());
    }

    fn tiers(&self) -> u8 {
        self.limits.len() as u8 + 1
    }

    fn promote_to(&self, node: &NodeKey, to: TierId) -> Move {
        if !self.exists(node) {
            return Move::Stale;
        }
        let mut moved = 0;
        for height in (node.height..self.levels()).rev() {
            let step = NodeKey::of_word(node.key.word(), height);
            if self.tier(&step) <= to {
                continue;
            }
            if self.is_full(to) {
                return Move::Full;
            }
            self.move_to(&step, to);
            moved += 1;
        }
        if moved > 0 {
            Move::Moved(moved)
        } else {
            Move::AlreadyThere
        }
    }

    fn demote_to(&self, node: &NodeKey, to: TierId) -> Move {
        let to = self.no_slower(to);
        if !self.exists(node) {
            Move::Stale
        } else if self.tier(node) >= to {
            Move::AlreadyThere
        } else if self.has_child_faster_than(to, node) {
            Move::Blocked
        } else if self.is_full(to) {
            Move::Full
        } else {
            self.move_to(node, to);
            Move::Moved(1)
        }
    }

    fn demote_subtree_to(&self, node: &NodeKey, to: TierId) -> Move {
        let to = self.no_slower(to);
        if !self.exists(node) {
            return Move::Stale;
        }
        let mut moved = 0;
        for height in 0..=node.height {
            let first = self.index(node) * self.fanout.pow((node.height - height).into());
            let count = self.fanout.pow((node.height - height).into());
            let width = STRIDE * self.fanout.pow(height.into()) as u64;
            for index in first..first + count {
                let below = NodeKey::of_word(index as u64 * width, height);
                // Set before checking: the nodes above these are there already or on their way.
                if self.tier(&below) < to {
                    if self.is_full(to) {
                        return Move::Full;
                    }
                    self.set_tier(&below, to);
                    lock(&self.state).moves.push((below, to));
                    moved += 1;
                }
            }
        }
        if moved > 0 {
            Move::Moved(moved)
        } else {
            Move::AlreadyThere
        }
    }
}

impl Compaction for FakeTree {
    fn compaction_candidates(&self, tier: TierId) -> CompactionCandidates {
        lock(&self.asked_for_candidates).push(tier);
        CompactionCandidates::NONE
    }
}

impl RecordCache for FakeTree {
    fn record_pages(&self) -> (usize, usize) {
        (lock(&self.state).pages, self.most_pages)
    }

    fn add_record_page(&self) -> bool {
        let (pages, most) = self.record_pages();
        let fits = pages < most && !self.is_full(TierId::FAST);
        lock(&self.state).pages += usize::from(fits);
        fits
    }

    fn drop_record_page(&self) -> bool {
        let pages = &mut lock(&self.state).pages;
        let is_there = *pages > 0;
        *pages -= usize::from(is_there);
        is_there
    }
}

/// Steps workers as threads would, one step at a time, with a time that only it moves.
pub struct Clockwork {
    workers: Vec<(Box<dyn Worker>, Waker, Option<Duration>)>,
    now: Duration,
}

impl Clockwork {
    /// All of them take a first step at once.
    pub fn new(workers: Vec<Box<dyn Worker>>) -> Self {
        let due_at_once = |worker: Box<dyn Worker>| {
            let waker = worker.waker();
            (worker, waker, Some(Duration::ZERO))
        };
        Self {
            workers: workers.into_iter().map(due_at_once).collect(),
            now: Duration::ZERO,
        }
    }

    /// Runs all steps that come due within `time`, and those that they bring about.
    pub fn run_for(&mut self, tree: &dyn Placed, time: Duration) {
        let end = self.now + time;
        loop {
            let mut idle = true;
            for (worker, waker, due) in &mut self.workers {
                if waker.take() || due.is_some_and(|due| due <= self.now) {
                    idle = false;
                    *due = match worker.step(tree, self.now) {
                        Next::After(time) => Some(self.now + time),
                        Next::WhenWoken => None,
                    };
                }
            }
            if idle {
                let next = self.workers.iter().filter_map(|(_, _, due)| *due).min();
                match next {
                    Some(next) if next <= end => self.now = next,
                    _ => break,
                }
            }
        }
        self.now = end;
    }
}

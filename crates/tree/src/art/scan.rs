//! Scans: a walk that runs some links ahead of the records that are shown, so that misses overlap.
//!
//! Each record is as of some moment of the scan: it was in the tree when the walk passed it, and
//! its value is the one of that moment or a later one.

use std::ops::{Bound, ControlFlow};

use timberline_placement::Access;
use timberline_tier::Memory;

use super::descent::Descent;
use super::node::{
    DENSE_DEPTH, DENSE_HEAD, DenseLeaf, Link, Pack, Reach, Record, Terminal, TerminalKey,
    value_offset,
};
use super::tree::Tree;
use super::walk::{Filled, Walker};
use super::way::Start;
use crate::mode::LeafLater;
use crate::range::{Ordered, Way};
use crate::traverse::Yielding;
use crate::value::Loan;

/// The least number of links that the walk is ahead, and that are shown at once: about as many
/// misses as a core has in flight.
const AHEAD: usize = 16;

/// The outcome of showing some records: their number, and whether to go on.
type Shown = (usize, ControlFlow<()>);

impl<M: Memory, R: Reach> Ordered for Tree<M, R> {
    type Memory = M;

    fn memory(&self) -> &M {
        self.memory()
    }

    async fn approach(&self, key: &[u8]) {
        let guard = self.store.domain().owned_guard();
        let descent = Descent::<_, _, _, LeafLater>::new(self, key, &guard);
        Yielding(descent).await;
    }

    fn walk(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        self.scan(way, Start::of(from), limit, visit)
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Calls `visit` with up to `limit` records, in order from `start` on, until it breaks. Returns
    /// the number of calls. It holds back the epoch meanwhile, so unbounded scans use an iterator.
    pub fn scan(
        &self,
        way: Way,
        start: Start<'_>,
        limit: usize,
        mut visit: impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        if limit == 0 {
            return 0;
        }
        let guard = self.store.pin();
        let mut walker = Walker::new(self, way, start, &guard);
        let mut ring = [Link::NONE; 2 * AHEAD];
        // The numbers of links found and passed, and of records shown.
        let (mut walked, mut passed, mut seen) = (0, 0, 0);
        // The last of these links, and its key if it leads to a pack.
        let (mut last, mut last_packed) = (Link::NONE, [0; 8]);
        loop {
            // Each link leads to one record or more.
            let most = (limit - seen).saturating_add(passed);
            let until = most.min(passed + ring.len());
            let filled;
            (walked, filled) = walker.fill(&mut ring, walked, until, most);
            // At a position where the walk goes on, only links that were prefetched earlier are
            // shown.
            let show = match filled == Filled::Full && until == passed + ring.len() {
                true => passed + AHEAD,
                false => walked,
            };
            if passed < walked && walker.leaves_out(passed, ring[passed % ring.len()]) {
                passed += 1;
            }
            while passed < show {
                let link = ring[passed % ring.len()];
                passed += 1;
                if let Some(leaf) = link.leaf(self.base) {
                    seen += 1;
                    self.visit_leaf(leaf);
                    last = link;
                    let flow = visit(leaf.key(), leaf.value());
                    self.note(Terminal::Leaf(leaf), Access::Reuse, &guard);
                    if flow.is_break() || seen == limit {
                        return seen;
                    }
                    continue;
                }
                let (from, left) = (walker.from(passed - 1), limit - seen);
                let (shown, flow) = if let Some(pack) = link.pack(self.base) {
                    let held = pack.last();
                    let end = match way {
                        Way::Forward => held.last(),
                        Way::Backward => held.first(),
                    };
                    // All its records from the start on may have been removed: the others are
                    // before the start, so the walk can't continue from them.
                    let end = end.map(|(key, _)| key.to_be_bytes());
                    if let Some(end) = end.filter(|end| !from.leaves_out(way, end)) {
                        (last, last_packed) = (link, end);
                    }
                    self.note(Terminal::Pack(pack), Access::Reuse, &guard);
                    self.show_pack(pack, &held, way, from, left, &mut visit)
                } else if let Some(dense) = link.dense(self.base) {
                    last = link;
                    self.note(Terminal::DenseLeaf(dense), Access::Reuse, &guard);
                    self.show_dense(dense, way, from, left, &mut visit)
                } else {
                    continue;
                };
                seen += shown;
                if flow.is_break() || seen == limit {
                    return seen;
                }
            }
            match filled {
                _ if seen == limit => return seen,
                Filled::Ended => return seen,
                // The records shown so far are final. The tree may have others by now.
                Filled::Lost => walker.start_over(match last.terminal(self.base) {
                    None => start,
                    Some(Terminal::Pack(_)) => Start::After(TerminalKey::Number(last_packed)),
                    Some(last) => Start::After(way.last_of(last)),
                }),
                Filled::Full | Filled::WithDense => {}
            }
        }
    }

    /// Shows up to `limit` records of a pack.
    #[inline(always)]
    fn show_pack(
        &self,
        pack: Pack<'_>,
        held: &[Record],
        way: Way,
        from: Start<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> Shown {
        self.visit_pack(pack);
        let mut seen = 0;
        let is_bounded = from.key().is_some();
        for (key, value) in way.over(held) {
            let key = key.to_be_bytes();
            if is_bounded && from.leaves_out(way, &key) {
                continue;
            }
            seen += 1;
            let flow = visit(&key, pack.lend(value));
            if flow.is_break() || seen == limit {
                return (seen, flow);
            }
        }
        (seen, ControlFlow::Continue(()))
    }

    /// Shows up to `limit` records of a dense leaf.
    fn show_dense(
        &self,
        dense: DenseLeaf<'_>,
        way: Way,
        start: Start<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> Shown {
        self.memory().charge_access(dense.address(), DENSE_HEAD);
        let (mut key, mut seen, mut values) = (*dense.least(), 0, [0; 64]);
        for group in 0..4 {
            let group = match way {
                Way::Forward => group,
                Way::Backward => 3 - group,
            };
            let mut wanted = start.places_in(dense, way, group);
            while wanted != 0 {
                // No more places than records that may be shown.
                let part = way.next_places(wanted, limit - seen);
                wanted &= !part;
                let mut left = self.copy_places(dense, group, part, &mut values);
                while left != 0 {
                    let at = way.next_place(left);
                    left &= !(1 << at);
                    key[DENSE_DEPTH] = 64 * group + at as u8;
                    seen += 1;
                    let flow = visit(&key, dense.lend(values[at as usize]));
                    if flow.is_break() || seen == limit {
                        return (seen, flow);
                    }
                }
            }
        }
        (seen, ControlFlow::Continue(()))
    }

    /// Copies the records at some of 64 places of a dense leaf. Returns which there are.
    #[inline(always)]
    fn copy_places(
        &self,
        dense: DenseLeaf<'_>,
        group: u8,
        wanted: u64,
        values: &mut [u64; 64],
    ) -> u64 {
        let (first, last) = (wanted.trailing_zeros(), wanted.ilog2());
        let lines = dense.address() + value_offset(64 * group + first as u8);
        let bytes = (last - first + 1) as usize * size_of::<u64>();
        self.memory().charge_lines(lines, bytes);
        self.retry(|| {
            let snapshot = dense.read_last();
            snapshot.get(|records| records.copy_group(group, wanted, values))
        })
    }
}

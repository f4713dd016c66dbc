//! Scans: a walk that runs some links ahead of the records that are shown, so that misses overlap.
//!
//! Each record is as of some moment of the scan: it was in the tree when the walk passed it, and
//! its value is the one of that moment or a later one.

use std::ops::{Bound, ControlFlow};

use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::descent::Descent;
use super::node::{
    DENSE_DEPTH, DENSE_HEAD, DenseLeaf, Link, PACKED, Reach, Terminal, TerminalKey, value_offset,
};
use super::tree::Tree;
use super::walk::{AHEAD_OF_NEED, Filled, Walker};
use super::way::Start;
use crate::range::{Ordered, Way};
use crate::traverse::Yielding;
use crate::value::Loan;

/// The least number of links that the walk is ahead, and that are shown at once: about as many
/// misses as a core has in flight.
const AHEAD: usize = 16;
/// The number of links that the walk gets ahead.
const MOST_AHEAD: usize = 2 * AHEAD;

/// How far a scan is.
#[derive(Clone, Copy)]
struct Shown<'g> {
    /// The number of records that are still to be shown.
    left: usize,
    /// The last link that was passed, and the last key if it leads to a pack.
    last: Link<'g>,
    last_packed: u64,
}

impl<M: Memory, R: Reach> Ordered for Tree<M, R> {
    type Memory = M;

    fn memory(&self) -> &M {
        self.memory()
    }

    async fn approach(&self, key: &[u8]) {
        let guard = self.store.domain().owned_guard();
        Yielding(Descent::new(self, key, &guard)).await;
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
        let mut ring = [Link::NONE; MOST_AHEAD + AHEAD_OF_NEED];
        // The number of links in the ring.
        let mut walked = 0_usize;
        let mut shown = Shown {
            left: limit,
            last: Link::NONE,
            last_packed: 0,
        };
        loop {
            let most = walked.saturating_add(Self::links_wanted(&ring[..walked], shown.left));
            let until = most.min(MOST_AHEAD);
            let filled;
            (walked, filled) = walker.fill(&mut ring, walked, until, most);
            // At a position where the walk goes on, only links that were prefetched earlier are
            // shown.
            let show = match filled == Filled::Full && until == MOST_AHEAD {
                true => AHEAD,
                false => walked,
            };
            let is_sought = walked > 0 && walker.was_sought();
            let (first, others) = ring[..show].split_at(usize::from(is_sought));
            let mut flow = ControlFlow::Continue(());
            if is_sought {
                let from = walker.start();
                (shown, flow) = self.show::<true>(first, way, from, shown, &guard, &mut visit);
            }
            if flow.is_continue() {
                let from = Start::Everything;
                (shown, flow) = self.show::<false>(others, way, from, shown, &guard, &mut visit);
            }
            if flow.is_break() {
                return limit - shown.left;
            }
            ring.copy_within(show..walked, 0);
            walked -= show;
            match filled {
                Filled::Ended => return limit - shown.left,
                // The records shown so far are final. The tree may have others by now.
                Filled::Lost => walker.start_over(match shown.last.terminal(self.base) {
                    None => start,
                    Some(Terminal::Pack(_)) => {
                        Start::After(TerminalKey::Number(shown.last_packed.to_be_bytes()))
                    }
                    Some(last) => Start::After(way.last_of(last)),
                }),
                Filled::Full | Filled::WithDense => {}
            }
        }
    }

    /// Shows the records of these links until none is left to show; if they are bounded, those from
    /// `from` on.
    // A function of its own, so that its state is in registers.
    #[inline(never)]
    fn show<'g, const BOUNDED: bool>(
        &self,
        links: &[Link<'g>],
        way: Way,
        from: Start<'g>,
        shown: Shown<'g>,
        guard: &Guard<'_>,
        visit: &mut impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> (Shown<'g>, ControlFlow<()>) {
        let Shown {
            mut left,
            mut last,
            mut last_packed,
        } = shown;
        let mut flow = ControlFlow::Continue(());
        let base = self.base;
        'links: for &link in links {
            self.note_at(link, Access::Reuse, guard);
            if let Some(leaf) = link.leaf(base) {
                if BOUNDED && from.leaves_out(way, leaf.key()) {
                    continue;
                }
                self.visit_leaf(leaf);
                last = link;
                left -= 1;
                flow = visit(leaf.key(), leaf.value());
            } else if let Some(pack) = link.pack(base) {
                self.visit_pack(pack);
                let mut held = pack.last();
                if way == Way::Backward {
                    held = held.reversed();
                }
                for at in 0..PACKED {
                    let Some((key, value)) = held.record(at) else {
                        break;
                    };
                    let bytes = key.to_be_bytes();
                    if BOUNDED && from.leaves_out(way, &bytes) {
                        continue;
                    }
                    // Where all that are not before the start were removed, the walk can't
                    // continue from here.
                    (last, last_packed) = (link, key);
                    left -= 1;
                    flow = visit(&bytes, pack.lend(value));
                    if flow.is_break() || left == 0 {
                        break 'links;
                    }
                }
            } else if let Some(dense) = link.dense(base) {
                if BOUNDED && from.leaves_out(way, &way.last_of(Terminal::DenseLeaf(dense))) {
                    continue;
                }
                last = link;
                let seen;
                (seen, flow) = self.show_dense(dense, way, from, left, visit);
                left -= seen;
            }
            if flow.is_break() || left == 0 {
                break;
            }
        }
        if left == 0 {
            flow = ControlFlow::Break(());
        }
        let shown = Shown {
            left,
            last,
            last_packed,
        };
        (shown, flow)
    }

    /// How many links are wanted beyond these, for so many records. Each leads to one or more, and
    /// most packs have two or three.
    fn links_wanted(pending: &[Link<'_>], records: usize) -> usize {
        if records >= 2 * (MOST_AHEAD + AHEAD_OF_NEED) {
            return records;
        }
        let packs = pending.iter().filter(|link| !link.is_leaf()).count();
        records.saturating_sub(pending.len() + packs)
    }

    /// Shows up to `limit` records of a dense leaf. Returns their number, and whether to go on.
    #[inline(never)]
    fn show_dense(
        &self,
        dense: DenseLeaf<'_>,
        way: Way,
        start: Start<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> (usize, ControlFlow<()>) {
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

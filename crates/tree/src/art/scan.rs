//! Scans: a walk that runs some leaves ahead of what is shown, so that their misses overlap.
//!
//! Each record is as of some moment of the scan: it was there when the walk passed it, and its value is what it was then, or later.

use std::ops::ControlFlow;

use timberline_placement::Access;
use timberline_sync::epoch;
use timberline_tier::Memory;

use super::node::{ROW_DEPTH, ROW_HEAD, Reach, Row, Tip, value_offset};
use super::tree::Tree;
use super::walk::{Filled, Item, Start, Walker, Way};

/// Leaves that the walk is ahead, at least, and shows at once: about as many misses as a core has under way.
const AHEAD: usize = 16;

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Calls `visit` with up to `limit` records, in order from `start` on, until it breaks. Returns how many it was called
    /// with. While it lasts the epoch is held back; scans without end are an iterator's.
    pub fn scan(
        &self,
        way: Way,
        start: Start<'_>,
        limit: usize,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> usize {
        let guard = epoch::pin();
        let mut walker = Walker::new(self, way, start, &guard).at_most(limit);
        // A pack may bring two records more than were asked for.
        const MOST: usize = 2 * AHEAD;
        let mut ring = [Item::NONE; MOST + 2];
        // Leaves and rows that were walked to and shown, and records shown.
        let (mut walked, mut passed, mut seen) = (0, 0, 0);
        loop {
            let most = (limit - seen).saturating_add(passed);
            let until = most.min(passed + MOST);
            let filled;
            (walked, filled) = walker.fill(&mut ring, walked, until, most);
            // Where the walk goes on, leaves are shown that were asked for some time ago only.
            let show = match filled == Filled::Full && until == passed + MOST {
                true => passed + AHEAD,
                false => walked,
            };
            while passed < show {
                let item = ring[passed % ring.len()];
                passed += 1;
                let tip = match item {
                    Item::Record((key, value)) => {
                        seen += 1;
                        if visit(&key.to_be_bytes(), value).is_break() || seen == limit {
                            return seen;
                        }
                        continue;
                    }
                    Item::At(link) => self.tip_at(link, &guard),
                };
                let flow = match tip {
                    Some(Tip::Row(row)) => {
                        let left = limit - seen;
                        let (shown, flow) = self.show_row(row, way, start, left, &mut visit);
                        seen += shown;
                        flow
                    }
                    Some(Tip::Leaf(leaf)) => {
                        seen += 1;
                        self.visit_leaf(leaf);
                        let flow = visit(leaf.key(), leaf.value());
                        self.note(Tip::Leaf(leaf), Access::Reuse);
                        flow
                    }
                    Some(Tip::Pack(_)) | None => ControlFlow::Continue(()),
                };
                if flow.is_break() || seen == limit {
                    return seen;
                }
            }
            if filled == Filled::Ended || seen == limit {
                return seen;
            }
        }
    }

    /// Shows up to `limit` records of a row. Returns how many, and whether to go on.
    fn show_row(
        &self,
        row: Row<'_>,
        way: Way,
        start: Start<'_>,
        limit: usize,
        visit: &mut impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> (usize, ControlFlow<()>) {
        self.memory().visit(row.address(), ROW_HEAD);
        let (mut key, mut seen) = (*row.least(), 0);
        for group in 0..4 {
            let group = match way {
                Way::Forward => group,
                Way::Backward => 3 - group,
            };
            let (mut left, values) = self.group_of(row, way, start, group);
            while left != 0 {
                let at = match way {
                    Way::Forward => left.trailing_zeros(),
                    Way::Backward => left.ilog2(),
                };
                left &= !(1 << at);
                key[ROW_DEPTH] = 64 * group + at as u8;
                seen += 1;
                let flow = visit(&key, values[at as usize]);
                if flow.is_break() || seen == limit {
                    self.note(Tip::Row(row), Access::Reuse);
                    return (seen, flow);
                }
            }
        }
        self.note(Tip::Row(row), Access::Reuse);
        (seen, ControlFlow::Continue(()))
    }

    /// The records of 64 places of a row, without those that a scan from `start` leaves out.
    #[inline(always)]
    fn group_of(&self, row: Row<'_>, way: Way, start: Start<'_>, group: u8) -> (u64, [u64; 64]) {
        let wanted = start.places_in(row, way, group);
        let mut values = [0; 64];
        if wanted == 0 {
            return (0, values);
        }
        let first = row.address() + value_offset(64 * group);
        self.memory().touch(first, size_of_val(&values));
        let there = self.retry(|| {
            row.read_last()
                .get(|records| records.copy_group(group, wanted, &mut values))
        });
        (there, values)
    }
}

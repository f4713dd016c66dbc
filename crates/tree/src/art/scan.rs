//! Scans: a walk that runs some leaves ahead of what is shown, so that their misses overlap.
//!
//! Each record is as of some moment of the scan: it was there when the walk passed it, and its value is what it was then, or later.

use std::ops::ControlFlow;

use timberline_placement::Access;
use timberline_sync::epoch;
use timberline_tier::Memory;

use super::node::{Leaf, Reach};
use super::tree::Tree;
use super::walk::{Start, Walker, Way};

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
        let mut ring: [Option<Leaf<'_>>; 2 * AHEAD] = [None; 2 * AHEAD];
        let (mut walked, mut seen) = (0, 0usize);
        loop {
            let until = limit.min(seen.saturating_add(ring.len()));
            walked = walker.fill(&mut ring, walked, until);
            // Where the walk goes on, leaves are shown that were asked for some time ago only.
            let show = match walked == until && until < limit {
                true => seen + AHEAD,
                false => walked,
            };
            while seen < show {
                let Some(leaf) = ring[seen % ring.len()] else {
                    return seen;
                };
                seen += 1;
                self.visit_leaf(leaf);
                let flow = visit(leaf.key(), leaf.value());
                self.note(leaf, Access::Reuse);
                if flow.is_break() {
                    return seen;
                }
            }
            if walked < until || seen == limit {
                return seen;
            }
        }
    }
}

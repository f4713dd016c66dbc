//! Scans: leaf by leaf, each leaf's records as of one moment.
//!
//! A scan continues at the leaf's upper fence plus one (or its lower fence minus one), so a record
//! that is there throughout is seen exactly once whatever splits, merges or moves meanwhile.
//! Records that come and go are seen or not. Between leaves nothing is held: no lock, no pin.

use std::ops::{self, Bound, ControlFlow};

use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::Memory;

use super::descent::{Descent, LeafLater};
use super::find::{NodeName, Parent};
use super::node::{Body, LeafView, View};
use super::payload::{Payload, Values};
use super::tree::{Tree, address};
use crate::seeded::{self, Bug};
use crate::traverse::{Yielding, yield_now};
use crate::value::{Loan, Represent};

/// A record's key and value.
pub(super) type Record<'g> = (u64, Loan<'g>);

/// Inclusive bounds of the keys that are still to come; empty when `first > last`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub first: u64,
    pub last: u64,
}

impl Span {
    pub const NONE: Span = Span { first: 1, last: 0 };

    pub fn of(low: Bound<u64>, high: Bound<u64>) -> Span {
        let first = match low {
            Bound::Included(key) => Some(key),
            Bound::Excluded(key) => key.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let last = match high {
            Bound::Included(key) => Some(key),
            Bound::Excluded(key) => key.checked_sub(1),
            Bound::Unbounded => Some(u64::MAX),
        };
        first
            .zip(last)
            .map_or(Span::NONE, |(first, last)| Span { first, last })
    }

    pub fn is_empty(self) -> bool {
        self.first > self.last
    }

    pub fn after(self, key: u64) -> Span {
        key.checked_add(1)
            .map_or(Span::NONE, |first| Span { first, ..self })
    }

    pub fn before(self, key: u64) -> Span {
        key.checked_sub(1)
            .map_or(Span::NONE, |last| Span { last, ..self })
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, Values<H>> {
    /// Gives `take` the records of `span` in the leaf that covers `key`, by way of `entries`.
    /// Returns that leaf's fences.
    pub(super) fn copy_leaf(
        &self,
        key: u64,
        span: Span,
        buffer: &mut Vec<Record<'static>>,
        mut take: impl FnMut(u64, Loan<'_>),
    ) -> (u64, u64) {
        let guard = self.store.pin();
        let mut records: Vec<Record<'_>> = std::mem::take(buffer);
        let fences = self.retry(|| {
            let leaf = self.leaf(key, &guard);
            let fences = self.copy(&leaf, span, usize::MAX, &mut records, &guard)?;
            self.note(*leaf, Access::Reuse, &guard);
            Ok(fences)
        });
        for (key, value) in records.drain(..) {
            take(key, value);
        }
        // The same memory, without a loan of this guard in it.
        *buffer = records.into_iter().map(|_| unreachable!()).collect();
        fences
    }

    /// Copies up to `limit` records of a span. Returns the leaf's fences. A stale leaf is brought
    /// up to date, and has to be read again.
    fn copy<'g>(
        &self,
        leaf: &LeafView<'g, WORDS>,
        span: Span,
        limit: usize,
        into: &mut Vec<Record<'g>>,
        guard: &Guard,
    ) -> Result<(u64, u64), Restart> {
        into.clear();
        let (fences, is_stale) = leaf.copy_values(into, |body| {
            let (range, fences) = self.choose(body, span, limit);
            let is_stale = <Values<H> as Payload>::CACHED && body.stale() != 0;
            (range, (fences, is_stale))
        })?;
        if is_stale && !seeded::has(Bug::StaleLeafScanned) {
            self.take_over_all(&leaf.upgrade()?, guard);
            return Err(Restart);
        }
        Ok(fences)
    }

    /// The indices of up to `limit` records of a span in a leaf, and the leaf's fences.
    #[inline(always)]
    fn choose(
        &self,
        body: &Body<WORDS>,
        span: Span,
        limit: usize,
    ) -> (ops::Range<usize>, (u64, u64)) {
        self.charge_node(body);
        let start = body.rank(self.search, span.first);
        // Found by one search, so that the loop that copies compares no keys.
        let end = match span.last < body.upper() {
            true => body.rank(self.search, span.last + 1),
            false => usize::MAX,
        };
        let range = start..end.min(start.saturating_add(limit));
        if M::CHARGES {
            let payloads = super::tree::node_address(body) + Body::<WORDS>::payload_offset(start);
            let read = range.end.min(body.count()).saturating_sub(start);
            self.memory().charge_lines(payloads, 8 * read);
        }
        (range, (body.lower(), body.upper()))
    }

    /// Calls `visit` with up to `limit` records from `from` on, in order, until it breaks. Returns
    /// how many it was called with. While it lasts the thread is pinned, which holds the epoch
    /// back; scans without end are an iterator's.
    pub fn scan(
        &self,
        from: u64,
        limit: usize,
        mut visit: impl FnMut(u64, Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        let guard = self.store.pin();
        let mut records = Vec::with_capacity(Self::CAPACITY);
        let mut span = Span {
            first: from,
            last: u64::MAX,
        };
        let mut seen = 0;
        let mut above = None;
        while seen < limit && !span.is_empty() {
            let left = limit - seen;
            let (_, upper) =
                self.retry(|| self.next_leaf(&mut above, span, left, &mut records, &guard));
            for &(key, value) in &records {
                seen += 1;
                if visit(key, value).is_break() {
                    return seen;
                }
            }
            span = span.after(upper);
        }
        seen
    }

    /// As [`scan`](Self::scan), of a span from its end on.
    pub(super) fn scan_back(
        &self,
        mut span: Span,
        limit: usize,
        mut visit: impl FnMut(u64, Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        let guard = self.store.pin();
        let (mut records, mut seen) = (Vec::with_capacity(Self::CAPACITY), 0);
        while seen < limit && !span.is_empty() {
            let (lower, _) = self.retry(|| {
                let leaf = self.leaf(span.last, &guard);
                let fences = self.copy(&leaf, span, usize::MAX, &mut records, &guard)?;
                self.note(*leaf, Access::Reuse, &guard);
                Ok(fences)
            });
            for &(key, value) in records.iter().rev().take(limit - seen) {
                seen += 1;
                if visit(key, value).is_break() {
                    return seen;
                }
            }
            span = span.before(lower);
        }
        seen
    }

    /// Copies the leaf that covers `span.first`, through its parent where that is still the same.
    fn next_leaf<'g>(
        &'g self,
        above: &mut Option<View<'g, WORDS>>,
        span: Span,
        limit: usize,
        records: &mut Vec<Record<'g>>,
        guard: &'g Guard<'g>,
    ) -> Result<(u64, u64), Restart> {
        let leaf = match above.take() {
            Some(parent) if parent.get(|body| body.covers(span.first)) == Ok(true) => {
                let link = self.find_child(self.search, &parent, span.first)?;
                self.prefetch_all(link.address());
                let leaf = link.read()?;
                parent.validate()?;
                *above = Some(parent);
                leaf
            }
            _ => {
                let place = self.find(NodeName::leaf(span.first), guard)?;
                let place = place.expect("every tree has leaves");
                if let Parent::Node(parent) = place.parent {
                    *above = Some(parent);
                }
                place.node
            }
        };
        let leaf = leaf.leaf().expect("what covers a key is a leaf");
        if limit > Self::CAPACITY / 2 {
            self.prefetch_beyond(above.as_deref(), span.first);
        }
        let fences = self.copy(&leaf, span, limit, records, guard)?;
        self.note(*leaf, Access::Reuse, guard);
        Ok(fences)
    }

    /// Has the CPU fetch the leaf after the one that covers `key`, while that is read.
    fn prefetch_beyond(&self, parent: Option<&Snapshot<'_, Body<WORDS>>>, key: u64) {
        let Some(parent) = parent else {
            return;
        };
        let next = parent.get(|body| {
            let next = body.child_for(self.search, key) + 1;
            (next < body.count()).then(|| body.child_address(next))
        });
        if let Ok(Some(leaf)) = next {
            self.prefetch_all(leaf);
        }
    }

    /// Has the memory fetch the leaf that covers `key`, and the next one, yielding at each node on
    /// the way.
    pub(super) async fn approach(&self, key: u64) {
        let guard = self.store.domain().owned_guard();
        let mut descent = Descent::<_, _, _, LeafLater, _>::new(self, key, &guard, self.search);
        let (leaf, _) = Yielding(&mut descent).await;
        self.memory().prefetch(address(leaf.of()), Self::BYTES);
        let parent = descent.below.map(|(parent, _)| parent);
        self.prefetch_beyond(parent.as_ref(), key);
        yield_now().await;
    }
}

//! Scans: leaf by leaf, each leaf's records as of one moment.
//!
//! A scan continues at the leaf's fence, through its parent where that is still the same, so a
//! record that is there throughout is seen exactly once whatever splits, merges or moves meanwhile.

use std::ops::{Bound, ControlFlow};

use timberline_placement::Access;
use timberline_sync::Restart;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, hint};

use super::descent::Descent;
use super::node::{Aim, Copied, LeafView, Sought, View};
use super::tree::Tree;
use crate::range::{Ordered, Way};
use crate::traverse::{Yielding, run, yield_now};
use crate::value::{Loan, Represent};

/// The parent of a leaf, if it has one, and the leaf's index there.
type Above<'g, const WORDS: usize> = Option<(View<'g, WORDS>, usize)>;

/// A scan under way.
struct Scan<'g, const WORDS: usize> {
    way: Way,
    with_keys: bool,
    guard: &'g Guard<'g>,
    /// Of the last leaf that was copied.
    above: Above<'g, WORDS>,
    copied: Copied<'g>,
}

impl<'g, const WORDS: usize> Scan<'g, WORDS> {
    /// The index of the leaf behind this one, below the same parent.
    fn behind(&self, index: usize) -> Option<usize> {
        match self.way {
            Way::Forward => Some(index + 1),
            Way::Backward => index.checked_sub(1),
        }
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Shows up to `limit` records, with their keys or without, until `visit` breaks.
    #[inline(always)]
    fn scan<const KEYS: bool>(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        let guard = &self.store.pin();
        let mut scan = Scan {
            way,
            with_keys: KEYS,
            guard,
            above: None,
            copied: Copied::default(),
        };
        let (mut seen, mut key) = (0, Vec::new());
        let (mut bound, mut border, mut behind) = (from, Vec::new(), Vec::new());
        while seen < limit {
            let is_more =
                self.retry(|| self.copy_leaf(&mut scan, bound, limit - seen, &mut behind));
            let count = scan.copied.count();
            for at in 0..count {
                let index = match way {
                    Way::Forward => at,
                    Way::Backward => count - 1 - at,
                };
                if KEYS {
                    scan.copied.key(index, self.memory(), &mut key);
                }
                seen += 1;
                if visit(&key, scan.copied.value(index)).is_break() {
                    return seen;
                }
            }
            if !is_more {
                break;
            }
            std::mem::swap(&mut border, &mut behind);
            bound = match way {
                Way::Forward => Bound::Included(&border[..]),
                Way::Backward => Bound::Excluded(&border[..]),
            };
        }
        seen
    }

    /// Copies the records of a leaf from a bound on. Returns whether there may be more that are
    /// wanted; then the fence that they are behind is in `behind`.
    fn copy_leaf<'g>(
        &'g self,
        scan: &mut Scan<'g, WORDS>,
        from: Bound<&[u8]>,
        limit: usize,
        behind: &mut Vec<u8>,
    ) -> Result<bool, Restart> {
        let (leaf, is_next, above) = self.next_leaf(scan, from)?;
        self.charge_leaf(&leaf);
        if limit > 1 {
            // Its fences are there.
            hint::prefetch_lines(leaf.address() + Self::BYTES - hint::LINE, 1);
            self.prefetch_behind(scan, &above, limit);
        }
        let from = match is_next {
            // Its near fence is the last leaf's far one.
            true => Bound::Unbounded,
            false => from.map(Sought::new),
        };
        let memory = self.memory();
        scan.copied
            .copy(&leaf, scan.with_keys, (scan.way, from), limit, memory)?;
        let is_more = scan.copied.count() < limit && leaf.behind(scan.way, behind, memory)?;
        scan.above = above;
        self.note(leaf, Access::Reuse, scan.guard);
        Ok(is_more)
    }

    /// The leaf where a scan continues, and whether it is the neighbour of the last one.
    #[allow(
        clippy::type_complexity,
        reason = "a leaf, how it was found, and its parent"
    )]
    fn next_leaf<'g>(
        &'g self,
        scan: &mut Scan<'g, WORDS>,
        from: Bound<&[u8]>,
    ) -> Result<(LeafView<'g, WORDS>, bool, Above<'g, WORDS>), Restart> {
        if let Some((parent, last)) = scan.above.take()
            && let Some(index) = scan.behind(last)
            && let Ok(link) = parent.child(index)
        {
            let leaf = link.read()?;
            parent.validate()?;
            return Ok((leaf.leaf().ok_or(Restart)?, true, Some((parent, index))));
        }
        let aim = match (scan.way, from) {
            (Way::Backward, Bound::Unbounded) => Aim::Last,
            (Way::Backward, Bound::Excluded(key)) => Aim::Below(key),
            (_, Bound::Included(key) | Bound::Excluded(key)) => Aim::At(key),
            (Way::Forward, Bound::Unbounded) => Aim::At(&[]),
        };
        let pinned = self.store.pinned(scan.guard);
        let mut descent = Descent::<_, WORDS, H, false>::new(self, aim, pinned);
        let leaf = run(&mut descent);
        let above = descent.below.map(|(parent, _, index)| (parent, index));
        Ok((leaf, false, above))
    }

    /// Has the CPU fetch the leaf behind the one that is read now, as much of it as is wanted.
    #[inline(always)]
    fn prefetch_behind<'g>(&self, scan: &Scan<'g, WORDS>, above: &Above<'g, WORDS>, limit: usize) {
        let Some((parent, index)) = above else {
            return;
        };
        let behind = scan.behind(*index).map(|index| parent.child(index));
        if let Some(Ok(leaf)) = behind {
            let lines = Self::BYTES / hint::LINE;
            if scan.with_keys {
                return hint::prefetch_lines(leaf.address(), lines);
            }
            // The fences, too, are near the end.
            hint::prefetch_lines(leaf.address(), 1);
            let values = limit.div_ceil(hint::LINE / 8).min(lines / 3);
            hint::prefetch_lines(leaf.address() + lines / 4 * hint::LINE, values);
        }
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Ordered for Tree<M, WORDS, H> {
    type Memory = M;

    fn memory(&self) -> &M {
        self.memory()
    }

    fn walk(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        self.scan::<true>(way, from, limit, visit)
    }

    fn walk_values(
        &self,
        way: Way,
        from: Bound<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(Loan<'_>) -> ControlFlow<()>,
    ) -> usize {
        self.scan::<false>(way, from, limit, |_, value| visit(value))
    }

    async fn approach(&self, key: &[u8]) {
        let guard = self.store.domain().owned_guard();
        let mut descent = Descent::<_, WORDS, H, true>::new(self, Aim::At(key), &guard);
        let leaf = Yielding(&mut descent).await;
        self.memory().prefetch(leaf.address(), Self::BYTES);
        yield_now().await;
    }
}

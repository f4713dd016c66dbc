//! The first and the last record: taking them out, and taking out all.
//!
//! The first record is what a path of first entries leads to. It is removed as any other, but only
//! if all nodes of the path are as they were once what holds the record is locked: so at the moment
//! of the lock no record is less.

use std::ops::ControlFlow;

use timberline_sync::Restart;
use timberline_sync::shim::pause;
use timberline_tier::Memory;

use super::node::{AT_END, PackedRecords, Parent, Position, Reach, Records};
use super::tree::Tree;
use super::way::Start;
use crate::clear;
use crate::range::Way;
use crate::seeded::{self, Bug};
use crate::value::{Loan, dispose_of_all};

/// Which records may be removed: any one, one of a value, or only the first or the last of all.
pub(super) struct Ends<'g, R> {
    way: Option<Way>,
    only: Option<u64>,
    /// Where the path to that went, from the root on.
    path: Vec<Parent<'g, R>>,
}

impl<'g, R: Reach> Ends<'g, R> {
    /// Any one, if its value is `only` or that is `None`.
    pub fn any(only: Option<u64>) -> Self {
        let (way, path) = (None, Vec::new());
        Ends { way, only, path }
    }

    fn only(way: Way) -> Self {
        let path = Vec::new();
        let way = Some(way).filter(|_| !seeded::has(Bug::PoppedInTwoSteps));
        let only = None;
        Ends { way, only, path }
    }

    /// Whether a record of this value may be removed.
    pub fn allow(&self, value: u64) -> bool {
        self.only.is_none_or(|only| only == value)
    }

    /// Whether the path may go on from here.
    pub fn pass(&mut self, parent: Parent<'g, R>) -> Result<bool, Restart> {
        let Some(way) = self.way else {
            return Ok(true);
        };
        if let Parent::Node(inner, at) = parent {
            let mut first = AT_END;
            inner.get(|body| {
                let show = |at: Position, _| {
                    first = at;
                    false
                };
                match way {
                    Way::Forward => body.each(way.begin(), show),
                    Way::Backward => body.each_back(way.begin(), show),
                }
            })?;
            if first != at {
                return Ok(false);
            }
        }
        self.path.push(parent);
        Ok(true)
    }

    /// Whether a key may be removed from a pack.
    pub fn is_at_end(&self, records: &PackedRecords, key: u64) -> bool {
        let all = records.all();
        let end = match self.way {
            None => return true,
            Some(Way::Forward) => all.first(),
            Some(Way::Backward) => all.last(),
        };
        end.is_some_and(|&(end, _)| end == key)
    }

    /// Whether the record at a place of a dense leaf may be removed.
    pub fn is_at_end_of_dense(&self, records: &Records, at: u8) -> bool {
        let Some(way) = self.way else { return true };
        let mut ends = None;
        records.each(|at, _| ends = Some((ends.map_or(at, |(first, _)| first), at)));
        ends.is_some_and(|(first, last)| match way {
            Way::Forward => first == at,
            Way::Backward => last == at,
        })
    }

    /// Called when all is locked that is about to change, with the last nodes of the path, this
    /// many.
    ///
    /// # Errors
    /// The rest of the path has changed.
    pub fn hold(&self, locked: usize) -> Result<(), Restart> {
        let rest = self.path.len().saturating_sub(locked);
        self.path[..rest].iter().try_for_each(Parent::validate)
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Removes the first or the last record. Returns what `out` makes of its key and its value.
    pub fn pop<T>(&self, way: Way, out: impl FnOnce(&[u8], Loan<'_>) -> T) -> Option<T> {
        let mut key = Vec::new();
        for tries in 0.. {
            key.clear();
            let found = self.scan(way, Start::Everything, 1, |first, _| {
                key.extend_from_slice(first);
                ControlFlow::Break(())
            });
            // No link hung below the root.
            if found == 0 {
                return None;
            }
            if seeded::has(Bug::PoppedInTwoSteps) {
                std::thread::yield_now();
            }
            let guard = self.store.pin();
            let value = self.retry(|| self.try_remove(&key, &mut Ends::only(way), &guard));
            if let Some(value) = value {
                return Some(out(&key, value));
            }
            // Another record is at that end by now.
            pause(tries);
        }
        None
    }

    /// Removes all records: see [`clear`](crate::clear).
    pub fn clear(&self) {
        clear::clear_ordered(self, |key| _ = self.remove(key, None, |_| ()));
    }
}

impl<M: Memory, R: Reach> Drop for Tree<M, R> {
    fn drop(&mut self) {
        dispose_of_all(&self.store, |dispose| {
            self.scan(Way::Forward, Start::Everything, usize::MAX, |_, value| {
                dispose(value);
                ControlFlow::Continue(())
            });
        });
    }
}

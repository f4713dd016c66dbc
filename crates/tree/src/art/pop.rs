//! Removing the first record, the last record, or all records.
//!
//! The path of first entries leads to the first record. `pop` removes it as any other record, but
//! only if no node of the path has changed when the record's node is locked. So at the moment of
//! the lock no smaller record exists.

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

/// The condition for removing a record: none, its value, or that it is the first or the last of
/// all.
pub(super) struct Ends<'g, R> {
    way: Option<Way>,
    only: Option<u64>,
    /// The path to the record, from the root on.
    path: Vec<Parent<'g, R>>,
}

impl<'g, R: Reach> Ends<'g, R> {
    /// Any record, if its value is `only` or `only` is `None`.
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

    /// Whether this node is on the path to the first or the last record.
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

    /// Whether the record at this position of a dense leaf may be removed.
    pub fn is_at_end_of_dense(&self, records: &Records, at: u8) -> bool {
        let Some(way) = self.way else { return true };
        let mut ends = None;
        records.each(|at, _| ends = Some((ends.map_or(at, |(first, _)| first), at)));
        ends.is_some_and(|(first, last)| match way {
            Way::Forward => first == at,
            Way::Backward => last == at,
        })
    }

    /// Validates the path after the nodes that are about to change are locked: the last `locked`
    /// nodes of the path.
    ///
    /// # Errors
    /// Another node of the path has changed.
    pub fn hold(&self, locked: usize) -> Result<(), Restart> {
        let rest = self.path.len().saturating_sub(locked);
        self.path[..rest].iter().try_for_each(Parent::validate)
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Removes the first or the last record. Returns the result of `out` for its key and value.
    pub fn pop<T>(&self, way: Way, out: impl FnOnce(&[u8], Loan<'_>) -> T) -> Option<T> {
        let mut key = Vec::new();
        for tries in 0.. {
            key.clear();
            let found = self.scan(way, Start::Everything, 1, |first, _| {
                key.extend_from_slice(first);
                ControlFlow::Break(())
            });
            // The map is empty.
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
            // Another record is the first or the last one by now.
            pause(tries);
        }
        None
    }

    /// Removes all records: see [`clear`](crate::clear).
    pub fn clear(&self) {
        clear::clear_ordered(self, |key| _ = self.remove(key, None, |_| ()));
        while self.copies.drop_page(&self.store) {}
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

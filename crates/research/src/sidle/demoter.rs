//! The demotion executor: Algorithm 1 (SIDLE §4.2.2). It also repairs boundaries that a full fast
//! tier broke.
//!
//! Invariant: a node is tried only after all of its children that were queued before it. The queue
//! is first in, first out, and a parent is queued when a child has been demoted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Round, Sidle, fast_usage};
use timberline_placement::workers::{Next, Waker, Worker};
use timberline_placement::{Move, NodeKey, Placed, boundary};
use timberline_tier::TierId;

/// Nodes in a step, which bounds the wait of a pause or a stop.
const BATCH: usize = 64;

pub struct Demoter {
    sidle: Arc<Sidle>,
}

impl Demoter {
    pub fn new(sidle: Arc<Sidle>) -> Self {
        Self { sidle }
    }

    /// The loop body of Algorithm 1. Returns whether anything moved.
    fn demote(&self, tree: &dyn Placed, node: NodeKey) -> bool {
        let sidle = &*self.sidle;
        let is_protected = |node| tree.level_of(node) < sidle.params.load().l_demote;
        if is_protected(&node) {
            return false;
        }
        let moved = match tree.demote(&node) {
            Move::Moved(nodes) => nodes,
            Move::AlreadyThere => 0,
            Move::Stale | Move::Blocked => return false,
            Move::Full => {
                // There is no slow memory, so no further node can be demoted either.
                sidle.demotions.clear();
                return false;
            }
        };
        self.count(moved);
        if let Some(parent) = tree.parent_of(&node)
            && !is_protected(&parent)
        {
            sidle.demotions.push(parent);
        }
        moved > 0
    }

    /// Restores the single boundary where it is broken; false when neither tier has room.
    fn mend(&self, tree: &dyn Placed) -> bool {
        let mended = boundary::mend(&self.sidle.broken, TierId::FAST, tree, || false);
        let promoted = &self.sidle.promoted;
        promoted.fetch_add(mended.promoted as u64, Ordering::Relaxed);
        self.count(mended.demoted);
        mended.wholly
    }

    /// The first optimisation of §4.3: a strain relieved this far needs no more demotions.
    fn stop_in_time(&self, tree: &dyn Placed) {
        let sidle = &*self.sidle;
        if sidle.is_strained() && fast_usage(tree) < sidle.config.low_watermark {
            sidle.relieved.store(sidle.is_released(), Ordering::Release);
            sidle.demotions.clear();
        }
    }

    fn count(&self, nodes: usize) {
        let demoted = &self.sidle.demoted;
        demoted.fetch_add(nodes as u64, Ordering::Relaxed);
    }
}

impl Worker for Demoter {
    fn name(&self) -> &'static str {
        "sidle-demoter"
    }

    fn waker(&self) -> Waker {
        self.sidle.wake_demoter.clone()
    }

    fn step(&mut self, tree: &dyn Placed, _: Duration) -> Next {
        let sidle = &*self.sidle;
        let mended = self.mend(tree);
        if sidle.relieved.load(Ordering::Acquire) {
            sidle.demotions.clear();
        }
        for _ in 0..BATCH {
            let Some(node) = sidle.demotions.pop() else {
                break;
            };
            if self.demote(tree, node) {
                self.stop_in_time(tree);
            }
        }
        // Demoted nodes take fast memory until they are reclaimed; usage is judged after that.
        tree.reclaim();
        self.stop_in_time(tree);
        if !sidle.demotions.is_empty() {
            return Next::After(Duration::ZERO);
        }
        if sidle.advance_round(Round::Demote, Round::Over) {
            sidle.wake_watermark.wake();
        }
        if mended {
            Next::WhenWoken
        } else {
            Next::After(sidle.config.trigger_period)
        }
    }
}

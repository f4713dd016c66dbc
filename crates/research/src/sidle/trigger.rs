//! The migration trigger: scans all leaves, counts their heat, queues those that should move
//! (SIDLE §4.2.4).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Histogram, Round, Sidle};
use timberline_placement::workers::{Next, Waker, Worker, lock};
use timberline_placement::{NodeKey, Placed};

/// Interval at which cold slow leaves are queued, for the sake of their ancestors. A parent has
/// dozens of leaves, so few scans reach every parent, and a scan queues few leaves that are slow
/// already. A prime, so that scans of one length do not meet the same leaves again and again.
const SLOW_STRIDE: u64 = 61;

pub struct Trigger {
    sidle: Arc<Sidle>,
    /// Cold slow leaves seen, in all scans.
    cold_slow: u64,
}

impl Trigger {
    pub fn new(sidle: Arc<Sidle>) -> Self {
        // The first one counts: a small tree has few.
        let cold_slow = SLOW_STRIDE - 1;
        Self { sidle, cold_slow }
    }

    fn scan(&mut self, tree: &dyn Placed) {
        let sidle = &*self.sidle;
        let _alone = lock(&sidle.scan);
        sidle.update_thresholds();
        let thresholds = sidle.thresholds.load();
        let l_demote = sidle.params.load().l_demote;
        let mut found = Histogram::default();
        tree.each_leaf(&[], &mut |leaf| {
            let heat = leaf.heat.load(Ordering::Relaxed);
            found.add(heat);
            let name = || NodeKey::leaf(leaf.fence.to_bytes());
            let (is_cold, is_fast) = (thresholds.is_cold(heat), leaf.tier.is_fast());
            if thresholds.is_hot(heat) && !is_fast && !sidle.is_strained() {
                sidle.promotions.push(name());
            } else if is_cold && is_fast {
                let leaf = name();
                if l_demote == 0 || tree.level_of(&leaf) >= l_demote {
                    sidle.demotions.push(leaf);
                }
            } else if is_cold && !sidle.is_released() {
                self.cold_slow += 1;
                if self.cold_slow.is_multiple_of(SLOW_STRIDE) {
                    let leaf = name();
                    if tree.level_of(&leaf) > l_demote {
                        sidle.demotions.push(leaf);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        *lock(&sidle.histogram) = found;
        sidle.update_thresholds();
    }
}

impl Worker for Trigger {
    fn name(&self) -> &'static str {
        "sidle-trigger"
    }

    fn waker(&self) -> Waker {
        self.sidle.wake_trigger.clone()
    }

    fn step(&mut self, tree: &dyn Placed, _: Duration) -> Next {
        // A round that begins during this scan wants one of its own.
        let for_round = self.sidle.is_round(Round::Scan);
        self.scan(tree);
        let sidle = &self.sidle;
        if for_round {
            sidle.advance_round(Round::Scan, Round::Demote);
        }
        if for_round || !sidle.demotions.is_empty() {
            sidle.wake_demoter.wake();
        }
        if !sidle.promotions.is_empty() {
            sidle.wake_promoter.wake();
        }
        Next::After(sidle.config.trigger_period)
    }
}

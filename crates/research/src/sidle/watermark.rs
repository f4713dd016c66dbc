//! The watermark maintainer: keeps the fill of fast memory between two watermarks by steering
//! allocation and migration (SIDLE §4.3, Figure 13).
//!
//! The published loop under strain blocks until demotions are done. Here each turn of that loop is
//! a step: the demoter wakes this worker when the round is over, and between rounds it can be
//! paused and stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use timberline_tier::TierId;

use super::{Params, Round, Sidle, SidleConfig, fast_usage, params};
use timberline_placement::Placed;
use timberline_placement::workers::{Next, Waker, Worker};

pub struct Watermark {
    sidle: Arc<Sidle>,
    strain: Option<Strain>,
}

/// An adjustment for strain, under way.
struct Strain {
    before: Params,
    /// The parameters were at their limits when the round began.
    exhausted: bool,
    /// Nodes demoted in all when the round began.
    demoted: u64,
    /// Rounds so far.
    rounds: u32,
}

impl Watermark {
    pub fn new(sidle: Arc<Sidle>) -> Self {
        let strain = None;
        Self { sidle, strain }
    }

    fn begin_strain(&mut self, tree: &dyn Placed) {
        let sidle = self.sidle.clone();
        sidle.relieved.store(false, Ordering::Release);
        sidle.strained.store(true, Ordering::Release);
        let before = sidle.params.load();
        let before = sidle.config.rules.strain_begins(before, tree.levels());
        sidle.params.store(before);
        self.begin_round(tree, before, 1);
    }

    /// One step harsher, then a scan and its demotions.
    fn begin_round(&mut self, tree: &dyn Placed, before: Params, rounds: u32) {
        let sidle = &*self.sidle;
        let now = sidle.params.load();
        let next = sidle.config.rules.harsher(now, l_min(tree));
        sidle.params.store(next);
        self.strain = Some(Strain {
            before,
            exhausted: next == now,
            demoted: sidle.demoted.load(Ordering::Relaxed),
            rounds,
        });
        sidle.round.store(Round::Scan as u8, Ordering::Release);
        sidle.wake_trigger.wake();
    }

    fn end_strain(&self, tree: &dyn Placed, before: Params) {
        let sidle = &*self.sidle;
        sidle.round.store(Round::Over as u8, Ordering::Release);
        let (rules, now) = (sidle.config.rules, sidle.params.load());
        let params = rules.strain_ends(now, before, tree.levels());
        sidle.params.store(params);
        if sidle.is_released() {
            sidle.promotions.clear();
        }
        sidle.strained.store(false, Ordering::Release);
        sidle.wake_promoter.wake();
    }
}

impl Worker for Watermark {
    fn name(&self) -> &'static str {
        "sidle-watermark"
    }

    fn waker(&self) -> Waker {
        self.sidle.wake_watermark.clone()
    }

    fn step(&mut self, tree: &dyn Placed, _: Duration) -> Next {
        let SidleConfig {
            high_watermark: high,
            low_watermark: low,
            watermark_period,
            rules,
            ..
        } = self.sidle.config;
        let next = Next::After(watermark_period);
        if tree.fill(TierId::SLOW).limit == 0 {
            return next;
        }
        let usage = fast_usage(tree);
        let params = &self.sidle.params;
        match self.strain.take() {
            None if usage > high => self.begin_strain(tree),
            None if usage < low => params.store(rules.abundant(params.load(), tree.levels())),
            None => params.store(rules.between(params.load(), tree.levels())),
            Some(strain) => {
                let is_over = self.sidle.is_round(Round::Over);
                let demoted = self.sidle.demoted.load(Ordering::Relaxed) - strain.demoted;
                let hopeless = strain.exhausted && demoted == 0;
                let was_last = hopeless || strain.rounds >= rules.most_rounds();
                if usage < low || is_over && (usage <= high || was_last) {
                    self.end_strain(tree, strain.before);
                } else if is_over {
                    self.begin_round(tree, strain.before, strain.rounds + 1);
                } else {
                    self.strain = Some(strain);
                }
            }
        }
        next
    }
}

/// `L_min` for the tree as it is.
fn l_min(tree: &dyn Placed) -> u8 {
    let bytes = tree.node_bytes().max(1);
    let fast = tree.fill(TierId::FAST);
    let nodes = (fast.used + tree.fill(TierId::SLOW).used) / bytes;
    params::l_min(tree.levels(), nodes, fast.limit / bytes)
}

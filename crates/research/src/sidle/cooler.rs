//! The cooler: halves every leaf's heat, so that recent accesses weigh more (SIDLE §4.2.3).

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Sidle;
use timberline_placement::Placed;
use timberline_placement::workers::{Next, Worker, lock};

pub struct Cooler {
    sidle: Arc<Sidle>,
}

impl Cooler {
    pub fn new(sidle: Arc<Sidle>) -> Self {
        Self { sidle }
    }
}

impl Worker for Cooler {
    fn name(&self) -> &'static str {
        "sidle-cooler"
    }

    fn step(&mut self, tree: &dyn Placed, _: Duration) -> Next {
        let sidle = &*self.sidle;
        let _alone = lock(&sidle.scan);
        tree.each_leaf(&[], &mut |leaf| {
            // A cold leaf's line is not dirtied for nothing.
            let halved = |heat: u16| (heat > 0).then_some(heat / 2);
            let _ = leaf
                .heat
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, halved);
            ControlFlow::Continue(())
        });
        lock(&sidle.histogram).cool();
        sidle.update_thresholds();
        Next::After(sidle.config.cooler_period)
    }
}

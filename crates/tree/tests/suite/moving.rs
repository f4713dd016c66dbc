//! The placements that move nodes, their workers stepped by hand or running as threads.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timberline_placement::workers::Worker;
use timberline_placement::{HeatIn, Placed, Placement, Timberline, TimberlineConfig};
use timberline_research::sidle::Technique;
use timberline_research::{Random, Sidle, SidleConfig};
use timberline_tier::Arenas;

use super::arenas;
use super::clockwork::Clockwork;
use super::placing::{Placing, Setup};

/// A placement and how to make its workers.
pub struct Policy {
    /// As in reports.
    pub name: &'static str,
    pub placement: Arc<dyn Placement>,
    pub workers: Box<dyn Fn() -> Vec<Box<dyn Worker>> + Send + Sync>,
    /// What it believes, for the message of a test that fails.
    pub beliefs: Box<dyn Fn() -> String + Send + Sync>,
}

/// Makes one for a map.
pub type Make = fn(&Setup) -> (Arenas, Policy);

/// Those that move hot leaves to fast memory.
pub const ALL: &[Make] = &[|setup| (setup.arenas(), sidle()), timberline];

/// SIDLE as published.
pub fn sidle() -> Policy {
    sidle_with(SidleConfig::default())
}

/// SIDLE with other periods.
pub fn sidle_with(config: SidleConfig) -> Policy {
    let sidle = Sidle::new(config);
    let believing = sidle.clone();
    Policy {
        name: "sidle",
        placement: sidle.clone(),
        beliefs: Box::new(move || format!("{:?}", believing.snapshot())),
        workers: Box::new(move || sidle.workers()),
    }
}

/// A step of SIDLE's ablation that moves nodes: two levels are meant to be fast.
pub fn sidle_up_to(technique: Technique) -> Policy {
    sidle_with(SidleConfig {
        up_to: technique,
        fixed_levels: 2,
        ..SidleConfig::default()
    })
}

/// One that moves nodes to no purpose.
pub fn random(seed: u64) -> Policy {
    let random = Random::new(seed);
    Policy {
        name: "random",
        placement: random.clone(),
        beliefs: Box::new(String::new),
        workers: Box::new(move || random.workers()),
    }
}

/// Ours, with heat in a table.
pub fn timberline(setup: &Setup) -> (Arenas, Policy) {
    let node_bytes = setup.node_bytes;
    timberline_in(setup, HeatIn::Table { node_bytes })
}

/// Ours, with fast memory for its table, if it has one, on top of the nodes'.
pub fn timberline_in(setup: &Setup, home: HeatIn) -> (Arenas, Policy) {
    let arenas = match home {
        HeatIn::Table { node_bytes } => arenas::two_and_table(setup.fast, setup.slow, node_bytes),
        HeatIn::Leaf { .. } => setup.arenas(),
    };
    let ours = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
    let believing = ours.clone();
    let policy = Policy {
        name: "timberline",
        placement: ours.clone(),
        beliefs: Box::new(move || format!("samples one in {}", believing.interval())),
        workers: Box::new(move || ours.workers()),
    };
    (arenas, policy)
}

/// Time in which workers come to rest once nothing happens any more: several periods of each.
const A_WHILE: Duration = Duration::from_secs(3);

impl Policy {
    /// The workers under a clock of the test's own.
    pub fn clockwork(&self) -> Clockwork {
        Clockwork::new((self.workers)())
    }

    /// For tests that know nothing of workers: they run when the map is to settle.
    pub fn placing(self) -> Placing {
        let clockwork = Mutex::new(self.clockwork());
        let settle = move |placed: &dyn Placed| {
            clockwork.lock().unwrap().run_for(placed, A_WHILE);
        };
        Placing {
            placement: self.placement,
            settle: Some(Box::new(settle)),
        }
    }
}

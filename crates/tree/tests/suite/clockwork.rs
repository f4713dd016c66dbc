//! Steps a placement's workers as their threads would, one step at a time, in a time of the test's
//! own.

use std::time::Duration;

use timberline_placement::Placed;
use timberline_placement::workers::{Next, Waker, Worker};

/// Workers under a clock that only [`Clockwork::run_for`] moves.
pub struct Clockwork {
    workers: Vec<Wheel>,
    now: Duration,
}

struct Wheel {
    worker: Box<dyn Worker>,
    waker: Waker,
    /// Its next step, if no wake-up comes before.
    due: Option<Duration>,
}

impl Clockwork {
    /// All of them are due at once, as when threads start.
    pub fn new(workers: Vec<Box<dyn Worker>>) -> Self {
        let wheel = |worker: Box<dyn Worker>| Wheel {
            waker: worker.waker(),
            worker,
            due: Some(Duration::ZERO),
        };
        Clockwork {
            workers: workers.into_iter().map(wheel).collect(),
            now: Duration::ZERO,
        }
    }

    /// Runs all steps that come due within `time`, and those that they bring about.
    pub fn run_for(&mut self, placed: &dyn Placed, time: Duration) {
        let end = self.now + time;
        while self.now <= end {
            let mut rests = true;
            for wheel in &mut self.workers {
                if wheel.waker.take() || wheel.due.is_some_and(|due| due <= self.now) {
                    rests = false;
                    wheel.due = match wheel.worker.step(placed, self.now) {
                        Next::After(time) => Some(self.now + time),
                        Next::WhenWoken => None,
                    };
                }
            }
            if rests {
                let next = self.workers.iter().filter_map(|wheel| wheel.due).min();
                self.now = next.unwrap_or(Duration::MAX);
            }
        }
        self.now = end;
    }
}

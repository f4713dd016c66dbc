//! The promotion executor: brings hot leaves to fast memory with their whole paths
//! (SIDLE §4.2.1).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Sidle, fast_usage};
use timberline_placement::workers::{Next, Waker, Worker};
use timberline_placement::{Move, Placed};

/// Paths in a step, which bounds the wait of a pause or a stop.
const BATCH: usize = 64;

pub struct Promoter {
    sidle: Arc<Sidle>,
}

impl Promoter {
    pub fn new(sidle: Arc<Sidle>) -> Self {
        Self { sidle }
    }
}

impl Worker for Promoter {
    fn name(&self) -> &'static str {
        "sidle-promoter"
    }

    fn waker(&self) -> Waker {
        self.sidle.wake_promoter.clone()
    }

    fn step(&mut self, tree: &dyn Placed, _: Duration) -> Next {
        let sidle = &*self.sidle;
        for _ in 0..BATCH {
            // The watermark maintainer wakes this worker when the strain is over.
            if sidle.is_strained() {
                return Next::WhenWoken;
            }
            let Some(leaf) = sidle.promotions.pop() else {
                return Next::WhenWoken;
            };
            match tree.promote_path(leaf.key) {
                Move::Moved(nodes) => {
                    sidle.promoted.fetch_add(nodes as u64, Ordering::Relaxed);
                }
                Move::AlreadyThere | Move::Stale | Move::Blocked => {}
                Move::Full => {
                    sidle.wake_watermark.wake();
                    return Next::WhenWoken;
                }
            }
            if fast_usage(tree) > sidle.config.high_watermark {
                sidle.wake_watermark.wake();
                break;
            }
        }
        Next::After(Duration::ZERO)
    }
}

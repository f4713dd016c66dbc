//! Moves nodes as fast as possible, in both directions, at all levels.

use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_placement::{NodeKey, Placed};
use timberline_sync::epoch;

use super::draw::Draw;

/// One random move among keys below `keys`.
pub fn step(placed: &dyn Placed, draw: &mut Draw, keys: u64) {
    let node = NodeKey {
        key: draw.below(keys),
        height: draw.below(placed.levels().into()) as u8,
    };
    match draw.below(8) {
        0..4 => placed.promote_path(node.key),
        4..7 => placed.demote(node),
        _ => placed.demote_subtree(node),
    };
}

/// Moves nodes until told to stop.
fn run(placed: &dyn Placed, draw: &mut Draw, keys: u64, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        step(placed, draw, keys);
        if draw.once_in(16) {
            epoch::pin().flush();
        }
        if draw.once_in(256) {
            placed.each_leaf(&mut |_| ControlFlow::Continue(()));
        }
    }
}

/// Runs `work` while nodes move, and stops that even if `work` panics.
pub fn beside<R>(placed: &dyn Placed, mut draw: Draw, keys: u64, work: impl FnOnce() -> R) -> R {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let (stop, moving) = (AtomicBool::new(false), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                step(placed, &mut draw, keys);
            }
            moving.wait();
            run(placed, &mut draw, keys, &stop);
        });
        let _stopping = Stop(&stop);
        moving.wait();
        work()
    })
}

//! Moves nodes as fast as possible, in both directions, at all levels.

use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_sync::epoch;

use super::draw::Draw;
use super::{TestMap, names};

/// One random move among keys below `keys`.
pub fn step<T: TestMap>(map: &T, draw: &mut Draw, keys: u64) {
    let placed = map.placed();
    let leaf = T::leaf_of(draw.below(keys));
    match draw.below(8) {
        0..4 => placed.promote_path(leaf.key),
        4..7 => placed.demote(&names::on_path(&*placed, leaf, draw)),
        _ => placed.demote_subtree(&names::on_path(&*placed, leaf, draw)),
    };
}

/// Moves nodes until told to stop.
fn run(map: &impl TestMap, draw: &mut Draw, keys: u64, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        step(map, draw, keys);
        if draw.once_in(16) {
            epoch::pin().flush();
        }
        if draw.once_in(256) {
            map.placed().each_leaf(&mut |_| ControlFlow::Continue(()));
        }
    }
}

/// Runs `work` while nodes move, and stops that even if `work` panics.
pub fn beside<R>(map: &impl TestMap, mut draw: Draw, keys: u64, work: impl FnOnce() -> R) -> R {
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
                step(map, &mut draw, keys);
            }
            moving.wait();
            run(map, &mut draw, keys, &stop);
        });
        let _stopping = Stop(&stop);
        moving.wait();
        work()
    })
}

//! Moves nodes as fast as possible, in both directions, at all levels.

use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::draw::Draw;
use super::{TestMap, asks, names, threads};

/// One random move among keys below `keys`.
pub fn step<T: TestMap>(map: &T, draw: &mut Draw, keys: u64) {
    let key = draw.below(keys);
    step_at(map, draw, key);
}

/// One random move on the path to a key.
pub fn step_at<T: TestMap>(map: &T, draw: &mut Draw, key: u64) {
    let placed = map.placed();
    let leaf = T::leaf_of(key);
    match draw.below(12) {
        0..4 => _ = placed.promote_path(leaf.key),
        4..7 => _ = placed.demote(&names::on_path(&*placed, leaf, draw)),
        7 => _ = placed.demote_subtree(&names::on_path(&*placed, leaf, draw)),
        // Where no copies are made, these do nothing.
        8 => _ = placed.add_record_page(),
        9 => _ = placed.drop_record_page(),
        _ => {
            let question = draw.word();
            asks::ask(&*placed, leaf, question, draw);
        }
    }
}

/// Steps after the work is done, at most, until nodes moved both ways.
const OVERTIME: usize = 100_000;

/// Moves nodes until told to stop. On a busy machine, that may be before anything was there to
/// move; then longer.
fn run(map: &impl TestMap, draw: &mut Draw, key: impl Fn(&mut Draw) -> u64, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let at = key(draw);
        step_at(map, draw, at);
        if draw.once_in(16) {
            map.placed().reclaim();
        }
        if draw.once_in(256) {
            map.placed()
                .each_leaf(&[], &mut |_| ControlFlow::Continue(()));
        }
    }
    for _ in 0..OVERTIME {
        let stats = map.stats();
        if stats.promoted > 0 && stats.demoted > 0 {
            return;
        }
        let at = key(draw);
        step_at(map, draw, at);
        // What left fast memory is in the way until nobody is pinned who may have seen it, and
        // others must run for that.
        map.placed().reclaim();
        std::thread::yield_now();
    }
}

/// Runs `work` while nodes on the paths to keys below `keys` move, and stops that even if `work`
/// panics.
pub fn beside<R>(map: &impl TestMap, draw: Draw, keys: u64, work: impl FnOnce() -> R) -> R {
    beside_at(map, draw, |draw| draw.below(keys), work)
}

/// As [`beside`], with keys drawn by `key`, which is called on the thread that moves nodes.
pub fn beside_at<R>(
    map: &impl TestMap,
    mut draw: Draw,
    key: impl Fn(&mut Draw) -> u64 + Send + Sync,
    work: impl FnOnce() -> R,
) -> R {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let (stop, moving) = (AtomicBool::new(false), Barrier::new(2));
    let mut move_nodes = || {
        for _ in 0..50 {
            let at = key(&mut draw);
            step_at(map, &mut draw, at);
        }
        moving.wait();
        run(map, &mut draw, &key, &stop);
    };
    threads::beside(&mut move_nodes, || {
        let _stopping = Stop(&stop);
        moving.wait();
        let done = work();
        // What this thread replaced in fast memory waits with it, and could be in the way of all
        // that is to go there.
        map.placed().reclaim();
        done
    })
}

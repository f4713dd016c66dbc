//! The workers of moving placements at work on a real map: hot leaves become fast and stay found,
//! within the budget, below one boundary, whatever else happens.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use timberline_placement::Placed;
use timberline_placement::workers::{Next, Worker, Workers};
use timberline_research::SidleConfig;

use super::draw::{Draw, seed};
use super::map::as_model;
use super::moving::{self, Policy};
use super::placing::Setup;
use super::{TestMap, arenas, check, effort, names, threads};

fn setup<T: TestMap>(seed: u64) -> Setup {
    Setup {
        seed,
        fast: T::QUARTER,
        slow: arenas::AMPLE,
        node_bytes: T::APART,
    }
}

fn loaded<T: TestMap>(make: moving::Make, seed: u64) -> (T, Policy, BTreeMap<u64, u64>) {
    let (arenas, policy) = make(&setup::<T>(seed));
    let map = T::make(arenas, policy.placement.clone()).unwrap();
    let mut draw = Draw::new(seed, 77);
    let keys = draw.shuffled((0..T::MANY).collect());
    let model = as_model(keys.iter().map(|&key| (key, !key)));
    for key in keys {
        assert_eq!(map.insert(key, !key), Ok(None));
    }
    (map, policy, model)
}

/// Nine requests in ten go to `hot`.
fn request<T: TestMap>(map: &T, draw: &mut Draw, hot: &Range<u64>) {
    let key = match draw.once_in(10) {
        true => draw.below(T::MANY),
        false => hot.start + draw.below(hot.end - hot.start),
    };
    assert_eq!(map.get(key), Some(!key), "{key}");
}

/// Which share of the leaves inside and outside of `hot` are fast.
fn fast_shares<T: TestMap>(placed: &dyn Placed, hot: &Range<u64>) -> (f64, f64) {
    let mut counts = [[0usize; 2]; 2];
    placed.each_leaf(&[], &mut |leaf| {
        counts[usize::from(hot.contains(&T::key_of(&leaf.fence.to_bytes())))]
            [usize::from(leaf.tier.is_fast())] += 1;
        ControlFlow::Continue(())
    });
    let share = |[slow, fast]: [usize; 2]| fast as f64 / (slow + fast).max(1) as f64;
    (share(counts[1]), share(counts[0]))
}

/// Requests and workers' steps take turns; the hot region is a twentieth of the keys, then another
/// one.
pub fn hot_leaves_become_fast_wherever_they_are<T: TestMap>() {
    let seed = seed();
    for &make in moving::ALL {
        let (map, policy, model) = loaded::<T>(make, seed);
        let name = policy.name;
        let (placed, mut clockwork) = (map.placed(), policy.clockwork());
        let mut draw = Draw::new(seed, 0);
        let size = T::MANY / 20;
        for start in [12 * size, 3 * size, 17 * size] {
            let hot = start..start + size;
            let mut best = 0f64;
            for _ in 0..80 {
                for _ in 0..1_000 {
                    request(&map, &mut draw, &hot);
                }
                for _ in 0..5 {
                    // Other tests hold the epoch back, which a step by hand leaves no time for, and
                    // memory that is not yet free seems short.
                    check::nothing_leaked(&map);
                    clockwork.run_for(&*placed, Duration::from_millis(20));
                }
                check::within_budget(&map);
                best = best.max(fast_shares::<T>(&*placed, &hot).0);
            }
            let (inside, outside) = fast_shares::<T>(&*placed, &hot);
            let seen = format!(
                "{name} at {start}: fast are {inside} of the hot leaves, {best} at best, {outside} of the others; {}",
                (policy.beliefs)()
            );
            assert!(best > 0.6 && outside < 0.3, "{seen}");
            // SIDLE's watermark moves by percents of leaves that lie in few bins, so on a tree this
            // small it swings between all and none. Where nodes are tiny, inner nodes fill much of
            // fast memory.
            assert!(inside > 0.5 || name == "sidle", "{seen}");
            let stats = map.stats();
            assert_eq!(stats.above_boundary, 0, "{name}: {stats:?}");
        }
        check::moved_both_ways(&map);
        check::same(&map, &model);
        check::nothing_leaked(&map);
        check::comes_back(&map);
    }
}

/// Fast memory is exhausted by inserts and hot all over; after a rest there is one boundary again.
pub fn growth_beyond_the_budget_keeps_it<T: TestMap>() {
    let seed = seed();
    for &make in moving::ALL {
        let (arenas, policy) = make(&Setup {
            fast: 4 * arenas::CHUNK,
            ..setup::<T>(seed)
        });
        let map = T::make(arenas, policy.placement.clone()).unwrap();
        let (placed, mut clockwork) = (map.placed(), policy.clockwork());
        let (mut draw, mut model) = (Draw::new(seed, 0), BTreeMap::new());
        for step in 0..60_000u64 {
            let key = draw.below(2 * T::MANY);
            match draw.below(8) {
                0..3 => assert_eq!(map.insert(key, step), Ok(model.insert(key, step))),
                3 => assert_eq!(map.remove(key), model.remove(&key)),
                _ => assert_eq!(map.get(key), model.get(&key).copied()),
            }
            if step % 500 == 0 {
                clockwork.run_for(&*placed, Duration::from_millis(50));
                check::within_budget(&map);
            }
        }
        let placing = policy.placing();
        check::at_rest(&map, &model, &placing);
        check::nothing_leaked(&map);
        check::comes_back(&map);
    }
}

/// SIDLE with hardly a rest between two steps; none at all when woken.
fn restless() -> SidleConfig {
    const MOMENT: Duration = Duration::from_millis(5);
    SidleConfig {
        trigger_period: MOMENT,
        cooler_period: MOMENT,
        watermark_period: MOMENT,
        ..SidleConfig::default()
    }
}

const RESTLESS: [moving::Make; 2] = [
    |setup| (setup.arenas(), moving::sidle_with(restless())),
    moving::timberline,
];

/// Wakes all workers again and again beside `work`, even if that panics, and watches the budget.
fn awake<T: TestMap, R>(map: &T, workers: &Workers, work: impl FnOnce() -> R) -> R {
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    let names: Vec<_> = workers
        .cpu_time()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let mut wake = || {
        while !done.load(Relaxed) {
            for name in &names {
                assert!(workers.wake(name));
            }
            check::within_budget(map);
            std::thread::yield_now();
        }
    };
    threads::beside(&mut wake, || {
        let _done = Done(&done);
        work()
    })
}

/// One thread's share of the records, under a workload with a hot region that moves.
fn churn<T: TestMap>(map: &T, mut draw: Draw, threads: u64, thread: u64) -> BTreeMap<u64, u64> {
    const STEPS: u64 = 30_000;
    let keys = T::MANY / threads;
    let (mut model, hot) = (BTreeMap::new(), keys / 20);
    for step in 0..STEPS {
        let start = step / 10_000 * 5 * hot;
        let number = match draw.once_in(5) {
            true => draw.below(keys),
            false => start + draw.below(hot),
        };
        let key = number * threads + thread;
        match draw.below(8) {
            0 | 1 => assert_eq!(map.insert(key, step), Ok(model.insert(key, step)), "{key}"),
            2 => assert_eq!(map.remove(key), model.remove(&key), "{key}"),
            3 => {
                let before = model
                    .get_mut(&key)
                    .map(|value| std::mem::replace(value, step));
                assert_eq!(map.update(key, step), before, "{key}");
            }
            _ => assert_eq!(map.get(key), model.get(&key).copied(), "{key}"),
        }
    }
    model
}

/// The real threads, without rest, beside threads that change everything.
pub fn restless_workers_lose_nothing_and_keep_the_budget<T: TestMap>() {
    const THREADS: u64 = 2;
    let seed = seed();
    for make in RESTLESS {
        let (arenas, policy) = make(&Setup {
            fast: 8 * arenas::CHUNK,
            ..setup::<T>(seed)
        });
        let map = T::make(arenas, policy.placement.clone()).unwrap();
        let mut workers = Workers::start((policy.workers)(), map.placed()).unwrap();
        let models = awake(&map, &workers, || {
            let work = |thread| churn(&map, Draw::new(seed, thread), THREADS, thread);
            let models = threads::each(THREADS, &work);
            // On a busy machine the workers may not have had a turn yet.
            check::eventually("a move", || {
                for key in 0..1_000 {
                    map.get(key);
                }
                let stats = map.stats();
                stats.promoted + stats.demoted > 0
            });
            models
        });
        workers.stop();
        assert_eq!(workers.panicked(), None);
        let model = as_model(models.into_iter().flatten());
        check::at_rest(&map, &model, &policy.placing());
        check::nothing_leaked(&map);
        check::comes_back(&map);
    }
}

/// Panics in the middle of a sweep, while it holds whatever a sweep holds, and after a move.
struct Clumsy;

impl Worker for Clumsy {
    fn name(&self) -> &'static str {
        "clumsy"
    }

    fn step(&mut self, tree: &dyn Placed, _: Duration) -> Next {
        tree.promote_path(names::fences(tree)[0].clone());
        tree.each_leaf(&[], &mut |leaf| {
            panic!("dropped the leaf at {}", leaf.fence.to_bytes().word())
        });
        Next::WhenWoken
    }
}

pub fn a_worker_that_panics_takes_nothing_with_it<T: TestMap>() {
    let seed = seed();
    for make in RESTLESS {
        let (map, policy, mut model) = loaded::<T>(make, seed);
        let mut all = (policy.workers)();
        all.push(Box::new(Clumsy));
        let mut workers = Workers::start(all, map.placed()).unwrap();
        check::eventually("a panic", || workers.panicked().is_some());
        let panic = workers.panicked().unwrap();
        assert_eq!(panic, "clumsy: dropped the leaf at 0");

        // The others end, but the thread that uses the map goes on.
        let mut draw = Draw::new(seed, 0);
        awake(&map, &workers, || {
            for step in 0..effort::times(20_000) {
                let key = draw.below(T::MANY);
                match draw.below(4) {
                    0 => assert_eq!(map.insert(key, step), Ok(model.insert(key, step))),
                    1 => assert_eq!(map.remove(key), model.remove(&key)),
                    _ => assert_eq!(map.get(key), model.get(&key).copied()),
                }
            }
        });
        workers.stop();
        assert_eq!(workers.panicked(), Some(panic));
        check::at_rest(&map, &model, &policy.placing());
        check::nothing_leaked(&map);
        check::comes_back(&map);
    }
}

/// A worker that waits for an hour, or is paused, is stopped all the same, or this test never ends.
pub fn workers_stop_at_any_moment<T: TestMap>() {
    const HOUR: Duration = Duration::from_secs(3600);
    let seed = seed();
    let sleepy: moving::Make = |setup| {
        let config = SidleConfig {
            trigger_period: HOUR,
            cooler_period: HOUR,
            watermark_period: HOUR,
            ..SidleConfig::default()
        };
        (setup.arenas(), moving::sidle_with(config))
    };
    for make in [sleepy, RESTLESS[0], RESTLESS[1]] {
        let (map, policy, model) = loaded::<T>(make, seed);
        for round in 0..4.max(effort::times(20)) {
            let mut workers = Workers::start((policy.workers)(), map.placed()).unwrap();
            map.get(round);
            match round % 4 {
                0 => workers.pause(),
                1 => workers.stop(),
                2 => {
                    workers.pause();
                    let moves = || (map.stats().promoted, map.stats().demoted);
                    let before = moves();
                    (0..1_000).for_each(|key| assert!(map.get(key).is_some()));
                    assert_eq!(moves(), before, "nobody moves anything");
                    workers.resume();
                }
                _ => {}
            }
        }
        check::same(&map, &model);
        check::within_budget(&map);
    }
}

//! Workers that lack something: memory, a turn, a clock that goes as clocks should.

use std::sync::mpsc;
use std::time::Duration;

use std::ops::ControlFlow;

use allocation_counter::measure;
use timberline_placement::Placed;
use timberline_placement::workers::{Next, Worker, Workers};
use timberline_sync::epoch::Domain;
use timberline_tier::Arenas;

use crate::map::{Key, Map};
use crate::memory::{ENDS, MAX_ALLOCATIONS, MAX_OF_OPERATION, fail, mend};
use crate::model::{Model, Op, ask_both, ends_well, same};
use crate::suite::clockwork::Clockwork;
use crate::suite::draw::{Draw, seed};
use crate::suite::moving::{self, Policy};
use crate::suite::placing::Setup;
use crate::suite::{arenas, check};

/// Records of a map, and those of them that are hot at a time.
const RECORDS: u64 = 2_000;
const HOT: u64 = RECORDS / 10;

/// All policies with workers.
pub fn policies<T: Map>() -> [fn() -> (Arenas, Policy); 2] {
    [
        || (setup().arenas(), moving::sidle()),
        || moving::timberline_in(&setup(), T::HEAT),
    ]
}

/// Fast memory for a part of the nodes.
fn setup() -> Setup {
    Setup {
        seed: seed(),
        fast: 8 * arenas::CHUNK,
        slow: 2 * arenas::AMPLE,
        node_bytes: 0,
    }
}

/// A map with records of short values.
pub fn loaded<T: Map>(arenas: Arenas, policy: &Policy) -> (T, Model) {
    let map = T::make(arenas, policy.placement.clone());
    let mut model = Model::new();
    for number in 0..RECORDS {
        ask_both(&Op::Insert(T::key(number), 32 * number), &map, &mut model);
    }
    (map, model)
}

/// Reads some of the records again and again; others in each of ten rounds.
pub fn warm<T: Map>(map: &T, model: &Model, round: u64) {
    let hot: Vec<Key> = (0..HOT)
        .map(|number| T::key(round % 10 * HOT + number))
        .collect();
    for _ in 0..8 {
        for key in &hot {
            assert_eq!(map.get(key), model.get(key).copied());
        }
    }
}

fn moves<T: Map>(map: &T) -> u64 {
    let stats = map.stats();
    stats.promoted + stats.demoted
}

/// Rest for the workers; afterwards there is one boundary.
fn settle<T: Map>(map: &T, clockwork: &mut Clockwork) {
    clockwork.run_for(&*map.placed(), Duration::from_secs(3));
    let stats = map.stats();
    assert_eq!(stats.above_boundary, 0, "{stats:?}");
}

/// The nth allocation and all after it fail while the workers take some steps each, until those get
/// through undisturbed. Then they go on.
pub fn workers_without_memory_go_on_later<T: Map>() {
    let next = |nth: &u64| Some(nth + if *nth < MAX_OF_OPERATION { 1 } else { nth / 2 });
    for make in policies::<T>() {
        let (arenas, policy) = make();
        let (map, mut model): (T, _) = loaded(arenas, &policy);
        let (placed, mut clockwork) = (map.placed(), policy.clockwork());
        let (mut round, mut failures) = (0, 0);
        for ends in ENDS {
            for nth in std::iter::successors(Some(1), next) {
                round += 1;
                let before = moves(&map);
                warm(&map, &model, round);
                fail(&map, ends(nth));
                clockwork.run_for(&*placed, Duration::from_millis(600));
                let failed = mend(&map);
                same(&map, &model);
                failures += failed;
                let moved = moves(&map) > before;
                if failed == 0 && moved || nth > MAX_ALLOCATIONS {
                    break;
                }
            }
        }
        assert!(failures > 10, "{failures} allocations failed");
        settle(&map, &mut clockwork);
        let before = moves(&map);
        for round in 0..10 {
            warm(&map, &model, round);
            clockwork.run_for(&*placed, Duration::from_millis(600));
        }
        assert!(moves(&map) > before, "nothing moves any more");
        settle(&map, &mut clockwork);
        same(&map, &model);
        ends_well(&map, &mut model, &mut Draw::new(seed(), 2));
    }
}

/// Workers are made, and never run: the thread that uses the map does not notice, and what waits
/// for the workers stays within bounds.
pub fn workers_that_never_run_are_not_missed<T: Map>() {
    for make in policies::<T>() {
        let (arenas, policy) = make();
        let (map, mut model): (T, _) = loaded(arenas, &policy);
        let _workers = (policy.workers)();
        let mut draw = Draw::new(seed(), 3);
        let mut churn = |steps: u64| {
            for step in 0..steps {
                warm_a_little(&map, &model, &mut draw);
                ask_both(&Op::draw::<T>(&mut draw, &model), &map, &mut model);
                if step % 100 == 0 {
                    same(&map, &model);
                }
            }
        };
        churn(1_500);
        // What waits for workers repeats itself by now, but for a thread's buffer of suggestions,
        // which may be growing still.
        let more = measure(|| churn(1_500)).bytes_current;
        assert!(more < 512 << 10, "{more} bytes more");
        drop(model);
        let mut model: Model = map.all().into_iter().collect();
        // And when they have their turn, they catch up.
        settle(&map, &mut policy.clockwork());
        ends_well(&map, &mut model, &mut Draw::new(seed(), 4));
    }
}

fn warm_a_little<T: Map>(map: &T, model: &Model, draw: &mut Draw) {
    for _ in 0..5 {
        let key = T::key(draw.below(RECORDS));
        assert_eq!(map.get(&key), model.get(&key).copied());
    }
}

/// Times that workers are handed one after the other: as usual, standing still, back, and far
/// ahead.
const TIMES: [Duration; 12] = [
    Duration::ZERO,
    Duration::from_millis(600),
    Duration::from_millis(600),
    Duration::from_millis(20),
    Duration::ZERO,
    Duration::from_secs(100 * 365 * 86_400),
    Duration::from_secs(1),
    Duration::from_nanos(u64::MAX),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
    Duration::from_nanos(1),
    Duration::MAX,
];

/// Whatever time it is, a step moves a bounded number of nodes, and wants the next step soon.
pub fn a_clock_that_jumps_misleads_no_worker<T: Map>() {
    for make in policies::<T>() {
        let (arenas, policy) = make();
        let (map, mut model): (T, _) = loaded(arenas, &policy);
        let (placed, mut workers) = (map.placed(), (policy.workers)());
        for (round, now) in (0..3).flat_map(|_| TIMES).enumerate() {
            warm(&map, &model, round as u64 / 12);
            for worker in &mut workers {
                let (before, nodes) = (moves(&map), map.stats().levels);
                let next = worker.step(&*placed, now);
                let soon = |time| time <= Duration::from_secs(10);
                assert!(
                    matches!(next, Next::WhenWoken)
                        || matches!(next, Next::After(time) if soon(time))
                );
                let nodes: usize = nodes.iter().map(|level| level.fast + level.slow).sum();
                // Each node once down and once up.
                assert!(moves(&map) - before <= 2 * nodes as u64, "at {now:?}");
            }
            same(&map, &model);
        }
        assert!(moves(&map) > 0, "nothing ever moved");
        settle(&map, &mut policy.clockwork());
        ends_well(&map, &mut model, &mut Draw::new(seed(), 5));
    }
}

/// Loses its core in the middle of a walk over the leaves, pinned.
struct Sleepy {
    domain: Domain,
    asleep: mpsc::Sender<()>,
    awake: mpsc::Receiver<()>,
}

impl Worker for Sleepy {
    fn name(&self) -> &'static str {
        "sleepy"
    }

    fn step(&mut self, tree: &dyn Placed, _: Duration) -> Next {
        tree.each_leaf(&[], &mut |_| {
            let _pinned = self.domain.pin();
            self.asleep.send(()).unwrap();
            let _ = self.awake.recv();
            ControlFlow::Break(())
        });
        Next::WhenWoken
    }
}

/// No memory comes back meanwhile, so an insert may be refused in the end; nothing else is, and
/// afterwards all is well.
pub fn a_worker_that_stands_still_holds_up_memory_only<T: Map>() {
    let (arenas, policy) = (arenas::two(0, 64 * arenas::CHUNK), moving::sidle());
    let map = T::make(arenas, policy.placement.clone());
    let (mut model, mut draw) = (Model::new(), Draw::new(seed(), 6));
    ask_both(&Op::Insert(T::key(0), 1), &map, &mut model);
    let (asleep, sleeps) = mpsc::channel();
    let (wake, awake) = mpsc::channel();
    let sleepy = Box::new(Sleepy {
        domain: map.domain().clone(),
        asleep,
        awake,
    });
    let mut workers = Workers::start(vec![sleepy], map.placed()).unwrap();
    // Goes first if this test fails, and so wakes the worker.
    let wake = wake;
    sleeps.recv().unwrap();
    let mut refused = 0;
    for number in 0..100_000 {
        let more = Op::Insert(T::key(number), 32 * number);
        for mut op in [Op::draw::<T>(&mut draw, &model), more] {
            match op.ask(&map) {
                Ok(answer) => assert_eq!(answer, op.tell(&mut model), "{op:?}"),
                Err(refusal) => {
                    refused += 1;
                    op.take_done(refusal, &mut model);
                }
            }
        }
        if refused > 20 {
            break;
        }
    }
    assert!(refused > 0, "memory never ended");
    same(&map, &model);
    wake.send(()).unwrap();
    workers.stop();
    assert_eq!(workers.panicked(), None);
    check::reclaim_until(&*map.placed(), "room for a record", || {
        let (key, value) = (T::key(1), 32);
        let inserted = map.insert(&key, value).is_ok();
        if inserted {
            model.insert(key, value);
        }
        inserted
    });
    same(&map, &model);
}

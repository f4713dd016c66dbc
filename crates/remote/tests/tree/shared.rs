//! Leaves that several compute servers write.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use crate::asked;
use crate::linear::{Answer, Event, Op, is_linearizable, judge};
use crate::meddling::Meddling;
use timberline_remote::fabric::{
    Completion, Connection, Fabric, InProcess, Network, Operation, Reply, Simulation, Tasks,
};
use timberline_remote::{
    Check, Direct, Error, Layout, Member, NODE_BYTES, Options, RemoteTree, Turns, load,
};

const SERVERS: usize = 4;
/// Tasks of each compute server.
const TASKS: u64 = 4;
/// Keys that all tasks change and read.
const HOT: u64 = 24;
/// Of the hot keys; others lie between them.
const STRIDE: u64 = 1 << 20;

/// All settings with leaves of several compute servers.
fn settings() -> Vec<Direct> {
    let mut all = Vec::new();
    for check in [Check::Checksum, Check::Versions] {
        for turns in [Turns::Alone, Turns::HandedOver, Turns::Together] {
            for cached_ways in [true, false] {
                all.push(Direct {
                    check,
                    turns,
                    cached_ways,
                });
            }
        }
    }
    all
}

fn options(direct: Direct, seed: u64) -> Options {
    Options {
        cache_bytes: 84 << 10,
        copies: 0.0,
        direct: Some(direct),
        seed,
        ..Options::default()
    }
}

fn shared_layout() -> Layout {
    Layout {
        shared_leaves: true,
        ..Layout::default()
    }
}

struct World<'a> {
    simulation: &'a Simulation,
    events: RefCell<Vec<Event>>,
    /// Acknowledged records of keys that one task has alone, in leaves that all write.
    own: RefCell<BTreeMap<u64, u64>>,
    /// Keys of which that is not known.
    unknown: RefCell<HashSet<u64>>,
    values: Cell<u64>,
}

impl World<'_> {
    /// Works on hot keys, and inserts others so that leaves are split.
    async fn work(&self, tree: &RemoteTree, task: u64, mut draws: fastrand::Rng) {
        for step in 0..160 {
            if draws.u8(0..10) < 6 {
                let own = draws.u64(0..HOT) * STRIDE + 1 + task + step * 64;
                let inserted = tree.insert(own, step).await;
                match inserted {
                    Ok(before) => {
                        assert_eq!(before, None);
                        self.own.borrow_mut().insert(own, step);
                        let is_lossy = !self.unknown.borrow().is_empty();
                        let found = tree.get(own).await;
                        assert!(found == Ok(Some(step)) || found.is_err() || is_lossy);
                    }
                    Err(_) => drop(self.unknown.borrow_mut().insert(own)),
                }
                continue;
            }
            let key = draws.u64(0..HOT) * STRIDE;
            self.values.set(self.values.get() + 1);
            let value = self.values.get();
            let op = asked::draw(&mut draws, value);
            let index = {
                let mut events = self.events.borrow_mut();
                events.push(Event {
                    key,
                    op,
                    begin: self.simulation.now_ns(),
                    end: u64::MAX,
                    answer: None,
                });
                events.len() - 1
            };
            let result = asked::ask(tree, key, op).await;
            if let Ok(was) = result {
                let event = &mut self.events.borrow_mut()[index];
                event.answer = Some(Answer::Was(was));
                event.end = self.simulation.now_ns();
            }
        }
    }

    fn check(&self, seed: u64, direct: Direct) {
        let judged = judge(&self.events.borrow());
        judged.unwrap_or_else(|why| panic!("seed {seed}, {direct:?}: {why}"));
    }
}

/// Four compute servers change the same keys, in leaves that they split meanwhile, on a network
/// that reorders and tears. In some clusters answers are lost; in some a server dies, with locks in
/// its hands. What was acknowledged is read back by all, and histories are linearizable.
#[test]
fn servers_that_share_leaves_lose_no_update() {
    let first = crate::first_seed();
    let clusters = if cfg!(debug_assertions) { 72 } else { 1_440 };
    let settings = settings();
    for seed in first..first + clusters {
        let direct = settings[seed as usize % settings.len()];
        let (is_lossy, has_death) = (seed / 12 % 3 == 1, seed / 12 % 3 == 2);
        println!("TIMBERLINE_SEED={seed}");
        let network = Network {
            jitter: 2.0,
            deadline_ns: 50_000,
            ..Network::default()
        };
        let simulation = Simulation::new(seed, network, 3, 8 << 20).unwrap();
        let loaded = load(simulation.client(), shared_layout(), []);
        simulation.block_on(loaded).unwrap().unwrap();
        let fabrics: Vec<_> = (0..SERVERS).map(|_| simulation.client()).collect();
        let dying = fabrics[0].compute();
        let open = |fabric: &Arc<_>| {
            let opened = RemoteTree::open(Arc::clone(fabric), options(direct, seed));
            simulation.block_on(opened).unwrap().unwrap()
        };
        let trees: Vec<RemoteTree> = fabrics.iter().map(open).collect();
        if is_lossy {
            simulation.set_network(Network {
                lost: 0.001,
                unanswered: 0.001,
                ..network
            });
        }
        let world = World {
            simulation: &simulation,
            events: RefCell::default(),
            own: RefCell::default(),
            unknown: RefCell::default(),
            values: Cell::default(),
        };
        let mut tasks = Tasks::default();
        for (server, tree) in trees.iter().enumerate() {
            for task in 0..TASKS {
                let task = server as u64 * TASKS + task;
                let draws = fastrand::Rng::with_seed(seed * 100 + task);
                tasks.add(world.work(tree, task, draws));
            }
        }
        let mut draws = fastrand::Rng::with_seed(seed);
        if has_death {
            let death_ns = draws.u64(50_000..1_500_000);
            let death = tasks.add(simulation.sleep(death_ns));
            while tasks.left() > 1 && simulation.run(&mut tasks).unwrap() != death {}
            (0..TASKS as usize).for_each(|task| tasks.kill(task));
            // What it was doing is not known.
            let other = Connection::new(Arc::clone(&fabrics[1]));
            tasks.add(async move { other.fence(dying).await.unwrap() });
        }
        let stuck = tasks.add(async {
            simulation.sleep(60_000_000_000).await;
            panic!("seed {seed}, {direct:?}: it takes for ever");
        });
        while tasks.left() > 1 {
            assert_ne!(simulation.run(&mut tasks), Ok(stuck));
        }
        drop(tasks);
        simulation.set_network(network);
        world.check(seed, direct);
        let living = if has_death { 1 } else { 0 };
        for tree in &trees[living..] {
            let check = async {
                let mut found = BTreeMap::new();
                let mut scan = tree.scan(0..=u64::MAX).unwrap();
                while let Some((key, value)) = scan.next().await.unwrap() {
                    assert_eq!(found.insert(key, value), None, "seed {seed}: twice {key}");
                }
                let (own, unknown) = (world.own.borrow(), world.unknown.borrow());
                for (key, value) in own.iter() {
                    assert_eq!(
                        found.get(key),
                        Some(value),
                        "seed {seed}, {direct:?}: {key}"
                    );
                }
                // The dead one may have done what it could not acknowledge.
                let others = found.keys().filter(|key| *key % STRIDE > 0);
                let others = others.filter(|key| !own.contains_key(key) && !unknown.contains(key));
                let most = if has_death { TASKS as usize } else { 0 };
                assert!(others.count() <= most, "seed {seed}, {direct:?}");
            };
            simulation.block_on(check).unwrap();
        }
    }
}

/// The checker finds what it is there for.
#[test]
fn a_lost_update_is_no_linearizable_history() {
    let event = |op, begin, end, was: Option<Option<u64>>| Event {
        key: 0,
        op,
        begin,
        end,
        answer: was.map(Answer::Was),
    };
    let lost = [
        event(Op::Insert(1), 0, 9, Some(None)),
        event(Op::Insert(2), 1, 9, Some(None)),
    ];
    assert!(!is_linearizable(&lost));
    let stale = [
        event(Op::Insert(1), 0, 2, Some(None)),
        event(Op::Get, 3, 4, Some(None)),
    ];
    assert!(!is_linearizable(&stale));
    let good = [
        event(Op::Insert(1), 0, 9, Some(None)),
        event(Op::Update(2), 1, 9, Some(Some(1))),
        event(Op::Remove, 2, u64::MAX, None),
        event(Op::Get, 3, 8, Some(Some(1))),
        event(Op::Get, 10, 12, Some(None)),
    ];
    assert!(is_linearizable(&good));
}

/// On threads, with memory servers in this process.
#[test]
fn threads_that_share_leaves_lose_no_record() {
    const EACH: u64 = 1_500;
    for direct in settings() {
        let pool = InProcess::new(2, 8 << 20).unwrap();
        let loaded = load(Arc::new(pool.clone()), shared_layout(), []);
        timberline_io::wait_for(loaded).unwrap();
        thread::scope(|scope| {
            for server in 0..3 {
                let pool = pool.client();
                scope.spawn(move || {
                    let open = RemoteTree::open(Arc::new(pool), options(direct, server));
                    let tree = timberline_io::wait_for(open).unwrap();
                    for number in 0..EACH {
                        let key = number * 3 + server;
                        let work = async {
                            assert_eq!(tree.insert(key, key).await, Ok(None));
                            assert_eq!(tree.update(key, !key).await, Ok(Some(key)));
                        };
                        timberline_io::wait_for(work);
                    }
                });
            }
        });
        let open = RemoteTree::open(Arc::new(pool.client()), options(direct, 9));
        timberline_io::wait_for(async {
            let tree = open.await.unwrap();
            let mut scan = tree.scan(0..=u64::MAX).unwrap();
            for key in 0..3 * EACH {
                assert_eq!(scan.next().await, Ok(Some((key, !key))), "{direct:?}");
            }
            assert_eq!(scan.next().await, Ok(None));
        });
    }
}

/// A pool of which another compute server writes the nodes, whose thread does not run for long: so
/// many reads of nodes get a mixture of two images.
fn mid_write(inner: InProcess, mixed: Arc<AtomicU32>) -> Arc<impl Fabric> {
    let start = move |inner: &InProcess, operation: Operation| {
        let is_of_a_node =
            matches!(operation, Operation::Read(_, words) if words * 8 == NODE_BYTES);
        let answer = inner.start(operation);
        let take_one = |left: u32| left.checked_sub(1);
        if !is_of_a_node || mixed.fetch_update(Relaxed, Relaxed, take_one).is_err() {
            return answer;
        }
        let mixture = timberline_io::wait_for(answer).map(|reply| match reply {
            Reply::Words(mut words) => {
                words[8] ^= 1;
                Reply::Words(words)
            }
            other => other,
        });
        Completion::ready(mixture)
    };
    Arc::new(Meddling { inner, start })
}

/// However often a node is read while another thread is in the middle of writing it.
#[test]
fn who_is_stopped_while_it_writes_is_waited_for() {
    let direct = Direct {
        check: Check::Checksum,
        turns: Turns::Alone,
        cached_ways: false,
    };
    let pool = InProcess::new(2, 8 << 20).unwrap();
    let mixed = Arc::new(AtomicU32::new(0));
    let fabric = mid_write(pool.client(), Arc::clone(&mixed));
    timberline_io::wait_for(async {
        let records = (0..1_000).map(|key| (key, key));
        let loaded = load(Arc::new(pool.clone()), shared_layout(), records);
        loaded.await.unwrap();
        let tree = RemoteTree::open(fabric, options(direct, 1)).await.unwrap();
        for key in [0, 500, 999] {
            mixed.store(5_000, Relaxed);
            assert_eq!(tree.get(key).await, Ok(Some(key)));
            assert_eq!(mixed.load(Relaxed), 0);
        }
    });
}

/// Leaves of one compute server, without a cache: the same in fewer operations.
#[test]
fn leaves_of_one_server_need_no_locks() {
    for cached_ways in [true, false] {
        for turns in [Turns::Alone, Turns::Together] {
            let direct = Direct {
                check: Check::Owner,
                turns,
                cached_ways,
            };
            let pool = Arc::new(InProcess::new(2, 8 << 20).unwrap());
            timberline_io::wait_for(async {
                load(pool.clone(), Layout::default(), []).await.unwrap();
                let tree = RemoteTree::open(pool, options(direct, 1)).await.unwrap();
                let mut model = BTreeMap::new();
                let mut draws = fastrand::Rng::with_seed(1);
                for _ in 0..6_000 {
                    let (key, value) = (draws.u64(0..4_000), draws.u64(..));
                    match draws.u8(0..4) {
                        0 => assert_eq!(tree.remove(key).await, Ok(model.remove(&key))),
                        1 => assert_eq!(tree.get(key).await, Ok(model.get(&key).copied())),
                        _ => {
                            let before = model.insert(key, value);
                            assert_eq!(tree.insert(key, value).await, Ok(before));
                        }
                    }
                }
                let mut scan = tree.scan(0..=u64::MAX).unwrap();
                for record in model {
                    assert_eq!(scan.next().await, Ok(Some(record)));
                }
                assert_eq!(scan.next().await, Ok(None));
                assert_eq!(tree.counts().atomics, 0);
            });
        }
    }
}

/// Who would take shared leaves for its own is refused, and the other way round.
#[test]
fn a_tree_is_opened_as_it_was_loaded() {
    let direct = settings()[0];
    for shared_leaves in [true, false] {
        let pool = Arc::new(InProcess::new(1, 4 << 20).unwrap());
        let layout = Layout {
            shared_leaves,
            ..Layout::default()
        };
        timberline_io::wait_for(async {
            load(pool.clone(), layout, []).await.unwrap();
            let wrong = Options {
                direct: (!shared_leaves).then_some(direct),
                ..options(direct, 1)
            };
            let refused = RemoteTree::open(pool.clone(), wrong).await.err();
            assert_eq!(refused, Some(Error::SharedLeaves(shared_leaves)));
            let lease = std::time::Duration::from_secs(1);
            let member = Member::join(pool, options(direct, 1), lease).await;
            assert_eq!(member.err(), Some(Error::DirectMember));
        });
    }
}

//! Clusters on a simulated network.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};

use timberline_remote::fabric::{Network, Simulation, Tasks};
use timberline_remote::{Error, Layout, LeafAdmission, Options, RemoteTree, load};

const QUARTER: u64 = 1 << 62;

fn network() -> Network {
    Network {
        jitter: 2.0,
        ..Network::default()
    }
}

fn options(id: u16, seed: u64) -> Options {
    let lower = u64::from(id) * QUARTER;
    Options {
        cache_bytes: 200 << 10,
        partition: lower..=lower + (QUARTER - 1),
        seed,
        ..Options::default()
    }
}

/// Tasks of each compute server.
const TASKS: u64 = 12;

/// Four compute servers with twelve tasks each, every task with keys of its own in leaves that it
/// shares with the others, on a network that reorders and tears: every task finds what it wrote.
#[test]
fn clusters_lose_nothing() {
    let clusters = if cfg!(debug_assertions) { 12 } else { 200 };
    let mut calls = 0;
    for seed in 0..clusters {
        let offloading = seed % 4 < 2;
        // Quick enough to be asked often.
        let network = Network {
            find_ns: [0, 100],
            ..network()
        };
        let simulation = Simulation::new(seed, network, 4, 8 << 20).unwrap();
        let layout = Layout {
            boundaries: (1..4).map(|number| number * QUARTER).collect(),
            ..Layout::default()
        };
        let loaded = simulation.block_on(load(simulation.client(), layout, []));
        loaded.unwrap().unwrap();
        let open = |id| {
            let copies = if seed % 2 == 0 { 0.4 } else { 0.0 };
            let options = Options {
                // Little more than the least.
                cache_bytes: ((84 << 10) as f64 / (1.0 - copies)) as usize,
                copies,
                offloading,
                leaf_admission: [
                    LeafAdmission::Chance(0.1),
                    LeafAdmission::Chance(1.0),
                    LeafAdmission::Adaptive,
                ][seed as usize % 3],
                ..options(id, seed)
            };
            let tree = RemoteTree::open(simulation.client(), options);
            simulation.block_on(tree).unwrap().unwrap()
        };
        let servers: Vec<RemoteTree> = (0..4).map(open).collect();
        let models = RefCell::new(vec![BTreeMap::new(); 4]);
        let mut tasks = Tasks::default();
        for (id, server) in servers.iter().enumerate() {
            for task in 0..TASKS {
                let draws = fastrand::Rng::with_seed(seed * 100 + id as u64 * 10 + task);
                let models = &models;
                let model = move || RefMut::map(models.borrow_mut(), |all| &mut all[id]);
                tasks.add(work(server, task, draws, model));
            }
        }
        tasks.add(async {
            simulation.sleep(10_000_000_000).await;
            panic!("seed {seed}: it takes for ever");
        });
        while tasks.left() > 1 {
            simulation.run(&mut tasks).expect("somebody can go on");
        }
        drop(tasks);
        for (server, model) in servers.iter().zip(models.take()) {
            let check = async {
                server.flush().await.unwrap();
                let mut scan = server.scan(server.partitions()[0].clone()).unwrap();
                for record in model {
                    assert_eq!(scan.next().await.unwrap(), Some(record), "seed {seed}");
                }
                assert_eq!(scan.next().await.unwrap(), None);
            };
            simulation.block_on(check).unwrap();
            calls += if offloading { server.counts().calls } else { 0 };
        }
    }
    assert!(calls > 500 * clusters, "{calls}");
}

/// Works on keys that no other task of the server has.
async fn work<'a>(
    server: &RemoteTree,
    task: u64,
    mut draws: fastrand::Rng,
    model: impl Fn() -> RefMut<'a, BTreeMap<u64, u64>>,
) {
    let first = *server.partitions()[0].start();
    for step in 0..1_500 {
        let key = first + (draws.u64(0..1_000) * TASKS + task) * 1_000_003;
        let before = model().get(&key).copied();
        match draws.u8(0..8) {
            0..2 => assert_eq!(server.get(key).await, Ok(before)),
            2 => {
                assert_eq!(server.remove(key).await, Ok(before));
                model().remove(&key);
            }
            3 => {
                let mut scan = server
                    .scan(key..=*server.partitions()[0].end())
                    .unwrap()
                    .limit(100);
                let mut found = Vec::new();
                while let Some((key, _)) = scan.next().await.unwrap() {
                    found.push(key);
                }
                assert!(found.is_sorted_by(|a, b| a < b));
                assert_eq!(found.first() == Some(&key), before.is_some());
            }
            4 => {
                assert_eq!(server.update(key, step).await, Ok(before));
                if before.is_some() {
                    model().insert(key, step);
                }
            }
            _ => {
                assert_eq!(server.insert(key, step).await, Ok(before));
                model().insert(key, step);
            }
        }
    }
}

/// The cache has few inner nodes, so memory servers are asked for the way below others while leaves
/// change, cool and go: what they find is the latest.
#[test]
fn what_memory_servers_find_is_the_latest() {
    const RECORDS: u64 = 600_000;
    let runs = if cfg!(debug_assertions) { 1 } else { 4 };
    for seed in 0..runs {
        let network = Network {
            find_ns: [0, 10],
            ..network()
        };
        let simulation = Simulation::new(seed, network, 2, 16 << 20).unwrap();
        let records = (0..RECORDS).map(|key| (key, key));
        let loaded = load(simulation.client(), Layout::default(), records);
        simulation.block_on(loaded).unwrap().unwrap();
        let options = Options {
            // Several queues of cooling nodes, so that they do not go in their order.
            cache_bytes: 400 << 10,
            partition: 0..=u64::MAX,
            offloading: true,
            copies: 0.0,
            leaf_admission: LeafAdmission::Chance(1.0),
            seed,
            ..Options::default()
        };
        let open = RemoteTree::open(simulation.client(), options);
        let tree = &simulation.block_on(open).unwrap().unwrap();
        let mut tasks = Tasks::default();
        for task in 0..TASKS {
            tasks.add(async move {
                let mut draws = fastrand::Rng::with_seed(seed * 100 + task);
                let mut model = BTreeMap::new();
                let mut recent = VecDeque::new();
                for step in 0..8_000 {
                    // Half of them were changed a short while ago.
                    let key = match draws.bool() || recent.is_empty() {
                        true => draws.u64(0..RECORDS / TASKS) * TASKS + task,
                        false => recent[draws.usize(..recent.len())],
                    };
                    let before = Some(*model.get(&key).unwrap_or(&key));
                    if draws.bool() {
                        assert_eq!(tree.get(key).await, Ok(before), "seed {seed}");
                    } else {
                        assert_eq!(tree.update(key, step).await, Ok(before), "seed {seed}");
                        model.insert(key, step);
                        recent.push_back(key);
                        if recent.len() > 5 {
                            recent.pop_front();
                        }
                    }
                }
            });
        }
        while tasks.left() > 0 {
            simulation.run(&mut tasks).expect("somebody can go on");
        }
        drop(tasks);
        let calls = tree.counts().calls;
        assert!(calls > 5_000, "{calls}");
    }
}

/// The same seed, the same history, to the nanosecond and the operation.
#[test]
fn a_seed_determines_everything() {
    let run = |seed| {
        let simulation = Simulation::new(seed, network(), 2, 4 << 20).unwrap();
        let records = (0..5_000).map(|key| (key, key));
        let loaded = load(simulation.client(), Layout::default(), records);
        simulation.block_on(loaded).unwrap().unwrap();
        let open = RemoteTree::open(simulation.client(), options(0, seed));
        let tree = simulation.block_on(open).unwrap().unwrap();
        let mut tasks = Tasks::default();
        for task in 0..4 {
            let tree = &tree;
            tasks.add(async move {
                let mut draws = fastrand::Rng::with_seed(task);
                for _ in 0..2_000 {
                    tree.insert(draws.u64(0..9_000), 1).await.unwrap();
                }
            });
        }
        while tasks.left() > 0 {
            simulation.run(&mut tasks).unwrap();
        }
        drop(tasks);
        (simulation.now_ns(), tree.counts())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// A memory server that dies: operations that need it fail within the deadline and name it, others
/// go on.
#[test]
fn a_dead_memory_server_is_named() {
    let simulation = Simulation::new(1, Network::default(), 3, 8 << 20).unwrap();
    let layout = Layout {
        subtree_height: 1,
        ..Layout::default()
    };
    let records = (0..60_000).map(|key| (key, key));
    let loaded = load(simulation.client(), layout, records);
    simulation.block_on(loaded).unwrap().unwrap();
    let options = Options {
        cache_bytes: 200 << 10,
        // A record that has a copy needs no server.
        copies: 0.0,
        ..Options::default()
    };
    let open = RemoteTree::open(simulation.client(), options);
    let tree = simulation.block_on(open).unwrap().unwrap();
    let count = || {
        let (mut found, mut failed) = (0, 0);
        for key in (0..60_000).step_by(97) {
            let start_ns = simulation.now_ns();
            match simulation.block_on(tree.get(key)).expect("no hang") {
                Ok(value) => {
                    assert_eq!(value, Some(key));
                    found += 1;
                }
                Err(error) => {
                    assert_eq!(error, Error::TimedOut(1));
                    failed += 1;
                }
            }
            assert!(simulation.now_ns() - start_ns <= 4_000_000);
        }
        (found, failed)
    };
    assert_eq!(count(), (619, 0));
    simulation.kill(1);
    let (found, failed) = count();
    assert!(
        found > 300 && failed > 100,
        "{found} found, {failed} failed"
    );
}

//! Trees that shrink to a root and grow again, by several compute servers that share its inner
//! nodes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use timberline_remote::fabric::{Network, Simulation, Tasks};
use timberline_remote::{Layout, LeafAdmission, Options, RemoteTree, load};

const SERVERS: u64 = 3;
const TASKS: u64 = 3;
/// Keys of a task.
const KEYS: u64 = 150;

/// Each compute server has a third of the keys, and each of its tasks some of these, in leaves that
/// it shares with the others. All go and come while inner nodes are merged, on a network that
/// reorders and tears.
#[test]
fn what_is_merged_above_is_found() {
    let first = crate::first_seed();
    let clusters = if cfg!(debug_assertions) { 25 } else { 1_000 };
    let mut inner = 0;
    for seed in first..first + clusters {
        println!("TIMBERLINE_SEED={seed}");
        let network = Network {
            jitter: 2.0,
            find_ns: [0, 100],
            ..Network::default()
        };
        let simulation = Simulation::new(seed, network, 2, 8 << 20).unwrap();
        let each = TASKS * KEYS;
        let layout = Layout {
            boundaries: (1..SERVERS).map(|server| server * each).collect(),
            fill: [0.05, 0.1, 0.2][seed as usize % 3],
            ..Layout::default()
        };
        let records = (0..SERVERS * each).map(|key| (key, key));
        let loaded = load(simulation.client(), layout, records.clone());
        simulation.block_on(loaded).unwrap().unwrap();
        let open = |server: u64| {
            let last = if server + 1 == SERVERS {
                u64::MAX
            } else {
                (server + 1) * each - 1
            };
            let options = Options {
                cache_bytes: [100 << 10, 400 << 10][seed as usize % 2],
                partition: server * each..=last,
                copies: [0.0, 0.2][seed as usize / 2 % 2],
                leaf_admission: [
                    LeafAdmission::Chance(0.1),
                    LeafAdmission::Chance(1.0),
                    LeafAdmission::Adaptive,
                ][seed as usize / 3 % 3],
                offloading: seed % 5 < 3,
                seed,
                ..Options::default()
            };
            let open = RemoteTree::open(simulation.client(), options);
            simulation.block_on(open).unwrap().unwrap()
        };
        let trees: Vec<RemoteTree> = (0..SERVERS).map(open).collect();
        let model: RefCell<BTreeMap<u64, u64>> = RefCell::new(records.collect());
        let left = Cell::new(SERVERS * TASKS);
        let mut tasks = Tasks::default();
        for lane in 0..SERVERS * TASKS {
            let (tree, model, left) = (&trees[(lane / TASKS) as usize], &model, &left);
            let mut draws = fastrand::Rng::with_seed(seed * SERVERS * TASKS + lane);
            tasks.add(async move {
                for step in 0..1_600 {
                    let key = lane / TASKS * each + draws.u64(0..KEYS) * TASKS + lane % TASKS;
                    let before = model.borrow().get(&key).copied();
                    let shrinks = step / 400 % 2 == 0;
                    let found = match draws.u8(0..8) {
                        0 => tree.get(key).await,
                        1 if !shrinks => tree.remove(key).await.inspect(|_| {
                            model.borrow_mut().remove(&key);
                        }),
                        _ if shrinks => tree.remove(key).await.inspect(|_| {
                            model.borrow_mut().remove(&key);
                        }),
                        _ => tree.insert(key, step).await.inspect(|_| {
                            model.borrow_mut().insert(key, step);
                        }),
                    };
                    assert_eq!(found, Ok(before), "seed {seed}, key {key}");
                }
                left.set(left.get() - 1);
            });
        }
        tasks.add(async {
            simulation.sleep(10_000_000_000).await;
            panic!("seed {seed}: it takes for ever");
        });
        while left.get() > 0 {
            simulation.run(&mut tasks).expect("somebody can go on");
        }
        drop(tasks);
        for tree in &trees {
            simulation.block_on(tree.flush()).unwrap().unwrap();
            inner += tree.inner_merges();
        }
        let open = RemoteTree::open(simulation.client(), Options::default());
        let again = simulation.block_on(open).unwrap().unwrap();
        let found = simulation.block_on(async {
            let mut scan = again.scan(0..=u64::MAX).unwrap();
            let mut found = BTreeMap::new();
            while let Some((key, value)) = scan.next().await.unwrap() {
                found.insert(key, value);
            }
            found
        });
        assert_eq!(found.unwrap(), model.into_inner(), "seed {seed}");
    }
    assert!(inner > 10 * clusters, "{inner} merges of inner nodes");
    println!("{inner} merges of inner nodes");
}

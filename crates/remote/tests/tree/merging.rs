//! Leaves that are emptied are merged, and their memory goes back to the pool.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use timberline_io::wait_for;
use timberline_remote::fabric::{Call, Completer, Completion, Fabric, Operation, Reply};
use timberline_remote::fabric::{Connection, InProcess, Network, Simulation, Tasks};
use timberline_remote::{
    ComputeId, Layout, LeafAdmission, Member, NODE_BYTES, Options, RemoteTree,
};
use timberline_remote::{Result, ServerId, load};

/// Nodes of all memory servers that somebody has.
async fn nodes(pool: &InProcess) -> Result<usize> {
    let connection = Connection::new(Arc::new(pool.client()));
    let mut bytes = 0;
    for server in 0..connection.servers() {
        bytes += connection.load(server).await?.allocated_bytes;
    }
    Ok(bytes as usize / NODE_BYTES)
}

async fn all(tree: &RemoteTree) -> Result<Vec<(u64, u64)>> {
    let mut scan = tree.scan(0..=u64::MAX)?;
    let mut records = Vec::new();
    while let Some(record) = scan.next().await? {
        records.push(record);
    }
    Ok(records)
}

const RECORDS: u64 = 150_000;

/// The keys of all records, from the left, from the right, and all over.
fn nth_key(number: u64, order: u64) -> u64 {
    match order {
        0 => number,
        1 => RECORDS - 1 - number,
        _ => number * 100_003 % RECORDS,
    }
}

/// A compute server that has all keys.
async fn sole_member(pool: &InProcess, seed: u64) -> Result<Member> {
    let options = Options {
        cache_bytes: 256 << 10,
        seed,
        ..Options::default()
    };
    let lease = Duration::from_secs(3600);
    let member = Member::join(Arc::new(pool.client()), options, lease).await?;
    member.tend().await?;
    member.claim(&(0..=u64::MAX)).await?;
    Ok(member)
}

/// Nearly all memory of records that were removed is there again, for any compute server.
#[test]
fn the_memory_of_what_was_removed_is_used_again() -> Result<()> {
    // Room for what is loaded, and little more.
    let pool = InProcess::new(2, 2_500 << 10)?;
    wait_for(async {
        let records = (0..RECORDS).map(|key| (key, key));
        load(Arc::new(pool.client()), Layout::default(), records).await?;
        let loaded = nodes(&pool).await?;
        for round in 0..3 {
            let member = sole_member(&pool, round).await?;
            let tree = member.tree();
            for number in 0..RECORDS {
                assert!(tree.remove(nth_key(number, round)).await?.is_some());
            }
            assert_eq!(all(tree).await?, []);
            assert!(tree.merges() > 2_500, "{} merges", tree.merges());
            tree.flush().await?;
            for key in 0..RECORDS / 3 {
                assert_eq!(tree.insert(3 * key, round).await?, None);
            }
            for key in (0..RECORDS).filter(|key| key % 3 != 0) {
                assert_eq!(tree.insert(key, round).await?, None);
            }
            assert_eq!(all(tree).await?.len() as u64, RECORDS);
            member.leave().await?;
        }
        // Inserts in this order leave fuller leaves than loading.
        assert!(nodes(&pool).await? <= loaded + loaded / 4);
        Ok(())
    })
}

/// A tree that was emptied has a leaf and a node above it. All other memory is given back.
#[test]
fn an_emptied_tree_takes_no_memory() -> Result<()> {
    for order in 0..3 {
        let pool = InProcess::new(2, 8 << 20)?;
        wait_for(async {
            load(Arc::new(pool.client()), Layout::default(), []).await?;
            let empty = nodes(&pool).await?;
            let member = sole_member(&pool, 0).await?;
            let tree = member.tree();
            let key = |number| nth_key(number, order);
            for number in 0..RECORDS {
                assert_eq!(tree.insert(key(number), number).await?, None);
            }
            let full = nodes(&pool).await?;
            for number in 0..RECORDS {
                assert_eq!(tree.remove(key(number)).await?, Some(number));
            }
            assert_eq!(all(tree).await?, []);
            let inner = tree.inner_merges();
            assert!(inner > 30, "{inner} merges of inner nodes");
            member.leave().await?;
            let left = nodes(&pool).await?;
            assert!(full > 2_500 && left <= empty + 8, "{empty}, {full}, {left}");
            Ok(())
        })?;
    }
    Ok(())
}

/// Many tasks insert, remove, look up and scan, on a network that reorders and tears: all as in a
/// map in memory, while leaves split and merge.
#[test]
fn what_is_merged_is_found() {
    const KEYS: u64 = 3_000;
    const TASKS: u64 = 10;
    let (mut merges, mut calls) = (0, 0);
    for seed in 0..if cfg!(debug_assertions) { 12 } else { 200 } {
        let network = Network {
            jitter: 2.0,
            find_ns: [0, 100],
            ..Network::default()
        };
        let simulation = Simulation::new(seed, network, 2, 8 << 20).unwrap();
        let records = (0..KEYS).map(|key| (key, key));
        let loaded = load(simulation.client(), Layout::default(), records.clone());
        simulation.block_on(loaded).unwrap().unwrap();
        let options = Options {
            cache_bytes: [110 << 10, 160 << 10][seed as usize % 2],
            copies: [0.0, 0.2][seed as usize / 2 % 2],
            leaf_admission: [
                LeafAdmission::Chance(0.1),
                LeafAdmission::Chance(1.0),
                LeafAdmission::Adaptive,
            ][seed as usize % 3],
            offloading: seed % 5 < 3,
            write_through: seed % 7 == 0,
            seed,
            ..Options::default()
        };
        let open = RemoteTree::open(simulation.client(), options);
        let tree = simulation.block_on(open).unwrap().unwrap();
        let model: RefCell<BTreeMap<u64, u64>> = RefCell::new(records.collect());
        let left = Cell::new(TASKS);
        let mut tasks = Tasks::default();
        for task in 0..TASKS {
            let (tree, model, left) = (&tree, &model, &left);
            let mut draws = fastrand::Rng::with_seed(seed * TASKS + task);
            tasks.add(async move {
                // Each task has its own keys, in leaves that it shares with the others.
                for step in 0..1_500 {
                    let key = draws.u64(0..KEYS / TASKS) * TASKS + task;
                    let before = model.borrow().get(&key).copied();
                    // Phases in which most records go, and in which they come.
                    let shrinks = step / 300 % 2 == 0;
                    let found = match (draws.u8(0..8), shrinks) {
                        (0, _) => tree.get(key).await,
                        (1, _) => {
                            let value = draws.u64(..);
                            let found = tree.update(key, value).await;
                            if before.is_some() {
                                model.borrow_mut().insert(key, value);
                            }
                            found
                        }
                        (2, true) | (3.., false) => {
                            let value = draws.u64(..);
                            let found = tree.insert(key, value).await;
                            model.borrow_mut().insert(key, value);
                            found
                        }
                        (2, false) | (3.., true) => {
                            let found = tree.remove(key).await;
                            model.borrow_mut().remove(&key);
                            found
                        }
                    };
                    assert_eq!(found, Ok(before), "seed {seed}, key {key}");
                }
                left.set(left.get() - 1);
            });
        }
        for down in [false, true] {
            let (tree, left, simulation) = (&tree, &left, &simulation);
            tasks.add(async move {
                while left.get() > 0 {
                    // A scan in the cache takes no time.
                    simulation.sleep(5_000).await;
                    let mut scan = match down {
                        true => tree.scan_down(0..=u64::MAX),
                        false => tree.scan(0..=u64::MAX),
                    }
                    .unwrap();
                    let mut keys = Vec::new();
                    while let Some((key, _)) = scan.next().await.unwrap() {
                        keys.push(key);
                    }
                    let is_sorted = match down {
                        true => keys.is_sorted_by(|a, b| a > b),
                        false => keys.is_sorted_by(|a, b| a < b),
                    };
                    assert!(is_sorted, "seed {seed}: a record twice");
                }
            });
        }
        while tasks.left() > 0 {
            simulation.run(&mut tasks).expect("somebody can go on");
        }
        drop(tasks);
        let expected: Vec<_> = model.into_inner().into_iter().collect();
        let found = simulation.block_on(all(&tree)).unwrap().unwrap();
        assert_eq!(found, expected, "seed {seed}");
        // The pool has the same, once all is written.
        simulation.block_on(tree.flush()).unwrap().unwrap();
        let open = RemoteTree::open(simulation.client(), Options::default());
        let again = simulation.block_on(open).unwrap().unwrap();
        let found = simulation.block_on(all(&again)).unwrap().unwrap();
        assert_eq!(found, expected, "seed {seed}");
        merges += tree.merges();
        calls += tree.counts().calls;
    }
    assert!(merges > 100 && calls > 0, "{merges} merges, {calls} calls");
}

/// Leaves of two compute servers are never one, though both have the node above.
#[test]
fn partitions_stay_apart() {
    let pool = InProcess::new(1, 8 << 20).unwrap();
    let layout = Layout {
        boundaries: vec![1_000],
        // So there are many nodes, which are merged into few.
        fill: 0.1,
        ..Layout::default()
    };
    wait_for(async {
        let records = (0..2_000).map(|key| (key, key));
        load(Arc::new(pool.client()), layout, records).await?;
        let open = |keys| {
            let options = Options {
                cache_bytes: 256 << 10,
                partition: keys,
                ..Options::default()
            };
            RemoteTree::open(Arc::new(pool.client()), options)
        };
        let (low, high) = (open(0..=999).await?, open(1_000..=u64::MAX).await?);
        for key in (0..1_000).rev() {
            assert_eq!(low.remove(key).await?, Some(key));
            assert_eq!(high.remove(1_999 - key).await?, Some(1_999 - key));
        }
        assert!(low.merges() > 10 && high.merges() > 10);
        assert!(low.inner_merges() > 5 && high.inner_merges() > 5);
        for key in 0..1_000 {
            assert_eq!(low.insert(key, 1).await?, None);
            assert_eq!(high.insert(1_000 + key, 2).await?, None);
        }
        for key in 0..1_000 {
            assert_eq!(low.get(key).await?, Some(1));
            assert_eq!(high.get(1_000 + key).await?, Some(2));
        }
        Ok::<(), timberline_remote::Error>(())
    })
    .unwrap();
}

/// Memory servers in this process, whose answers about one key are held back. By its clock, a read
/// takes long and a call does not.
struct Late {
    inner: InProcess,
    now_ns: AtomicU64,
    key: AtomicU64,
    held: Mutex<Option<(Completer, Result<Reply>)>>,
}

impl Late {
    /// Lets the answer that was held back arrive.
    fn let_go(&self) {
        let (completer, reply) = self.held.lock().unwrap().take().unwrap();
        completer.complete(reply);
    }
}

impl Fabric for Late {
    fn servers(&self) -> ServerId {
        self.inner.servers()
    }

    fn compute(&self) -> ComputeId {
        self.inner.compute()
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.load(Relaxed))
    }

    fn start(&self, operation: Operation) -> Completion {
        let mut held = self.held.lock().unwrap();
        // While an answer is held back the clock stands still, or calls would seem slow.
        if held.is_none() {
            let is_read = matches!(operation, Operation::Read(..));
            let ns = if is_read { 1_000 } else { 10 };
            self.now_ns.fetch_add(ns, Relaxed);
        }
        let key = self.key.load(Relaxed);
        let is_meant = matches!(operation, Operation::Call(_, Call::Find(find)) if find.key == key);
        let mut answer = self.inner.start(operation);
        if !is_meant || held.is_some() {
            return answer;
        }
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(reply) = pin!(&mut answer).poll(&mut context) else {
            panic!("memory in this process answers at once");
        };
        let (completion, completer) = Completion::pending();
        *held = Some((completer, reply));
        completion
    }
}

/// A memory server finds a record; then its leaf is merged with the one before it, the record is
/// changed, and all of that leaves the cache, before the answer comes. It is too old.
#[test]
fn an_answer_from_before_a_merge_is_too_old() -> Result<()> {
    const RECORDS: u64 = 150_000;
    const NEVER: u64 = u64::MAX;
    let late = Arc::new(Late {
        inner: InProcess::new(1, 16 << 20)?,
        now_ns: AtomicU64::new(0),
        key: AtomicU64::new(NEVER),
        held: Mutex::default(),
    });
    wait_for(async {
        let records = (0..RECORDS).map(|key| (key, key));
        load(late.clone(), Layout::default(), records).await?;
        let options = Options {
            cache_bytes: 100 << 10,
            copies: 0.0,
            leaf_admission: LeafAdmission::Chance(1.0),
            offloading: true,
            ..Options::default()
        };
        let tree = RemoteTree::open(late.clone(), options).await?;
        // Scans bring nodes to the cache, in which others lie then.
        let elsewhere = async || {
            let mut scan = tree.scan(60_000..=100_000)?;
            while scan.next().await?.is_some() {}
            Result::Ok(())
        };
        let leaf = 43;
        let (mut kept, mut merges) = (0, 0);
        for pair in 1..40 {
            // Neighbours with 16 records each: the next that goes has them merged.
            let left = 2 * leaf * pair;
            let right = left + leaf;
            for first in [left, right] {
                for key in first + 16..first + leaf {
                    tree.remove(key).await?;
                }
            }
            let before = tree.merges();
            tree.flush().await?;
            elsewhere().await?;
            late.key.store(right, Relaxed);
            let mut get = pin!(tree.get(right));
            let mut context = Context::from_waker(Waker::noop());
            let first = get.as_mut().poll(&mut context);
            late.key.store(NEVER, Relaxed);
            if first.is_ready() {
                assert_eq!(first, Poll::Ready(Ok(Some(right))));
                continue;
            }
            kept += 1;
            tree.remove(left).await?;
            merges += tree.merges() - before;
            tree.update(right, NEVER).await?;
            elsewhere().await?;
            late.let_go();
            assert_eq!(get.await, Ok(Some(NEVER)));
        }
        assert!(kept > 20 && merges > 10, "{kept} kept, {merges} merges");
        Ok(())
    })
}

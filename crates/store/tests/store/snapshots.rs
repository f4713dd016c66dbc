//! Snapshots: whatever goes on meanwhile, they show the records of their moment, and what they hold
//! is bounded.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::opened::{Folder, pause, with_store};
use crate::{SEGMENT, options_with};
use fastrand::Rng;
use timberline_io::{Disk, Simulation};
use timberline_store::{
    Batch, Clock, Durability, Error, Expiry, IndexMap, IndexMemory, Options, Scan, Snapshot, Store,
};

type Record = (Vec<u8>, Vec<u8>);
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// More than a snapshot lists at once.
const KEYS: u32 = 300;
const NEVER: u64 = u64::MAX;

fn options() -> Options {
    Options {
        cache_bytes: 64 << 10,
        ..options_with(Durability::None)
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

async fn step(scan: &mut Scan, from_back: bool) -> Option<Record> {
    let next = match from_back {
        true => scan.next_back().await,
        false => scan.next().await,
    };
    next.map(|it| it.expect("it is read"))
}

/// A snapshot, what it has to show, and a scan under way with what that has left.
struct Held {
    snapshot: Snapshot,
    model: Model,
    scan: Scan,
    left: VecDeque<Record>,
}

impl Held {
    fn new(store: &Store, model: Model) -> Held {
        let snapshot = store.snapshot();
        let left = model.iter().map(|it| (it.0.clone(), it.1.clone()));
        Held {
            scan: snapshot.range(..),
            left: left.collect(),
            snapshot,
            model,
        }
    }

    /// Reads in some way.
    async fn read(&mut self, rng: &mut Rng) {
        let first = key(rng.u32(0..KEYS));
        match rng.u8(0..24) {
            0 => {
                let last = first.clone().max(key(rng.u32(0..KEYS)));
                let mut scan = self.snapshot.range(&first[..]..&last[..]);
                let bounds = (Bound::Included(first), Bound::Excluded(last));
                for (key, value) in self.model.range(bounds) {
                    let next = step(&mut scan, false).await;
                    assert_eq!(next.as_ref(), Some(&(key.clone(), value.clone())));
                }
                assert_eq!(step(&mut scan, false).await, None);
            }
            1 => {
                let mut scan = self.snapshot.prefix(b"key 1");
                let has_prefix = self.model.iter().filter(|it| it.0.starts_with(b"key 1"));
                for (key, value) in has_prefix.rev() {
                    let next = step(&mut scan, true).await;
                    assert_eq!(next.as_ref(), Some(&(key.clone(), value.clone())));
                }
                assert_eq!(step(&mut scan, true).await, None);
            }
            2 => self.finish(rng).await,
            3..12 => {
                let found = self.snapshot.get(&first).await.expect("it is read");
                assert_eq!(found.as_ref(), self.model.get(&first));
            }
            _ => self.step(rng.bool()).await,
        }
    }

    async fn step(&mut self, from_back: bool) {
        let expected = match from_back {
            true => self.left.pop_back(),
            false => self.left.pop_front(),
        };
        assert_eq!(step(&mut self.scan, from_back).await, expected);
    }

    /// Goes on with the scan to its end, and begins another.
    async fn finish(&mut self, rng: &mut Rng) {
        while !self.left.is_empty() {
            self.step(rng.bool()).await;
        }
        self.step(rng.bool()).await;
        self.scan = self.snapshot.range(..);
        let all = self.model.iter().map(|it| (it.0.clone(), it.1.clone()));
        self.left = all.collect();
    }
}

/// All records, with their times.
type Timed = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

fn visible(model: &Timed, now: u64) -> Model {
    let records = model.iter().filter(|it| it.1.1 > now);
    records.map(|it| (it.0.clone(), it.1.0.clone())).collect()
}

/// Puts, deletes and batches of both; a third of the records expires.
async fn change(store: &Store, rng: &mut Rng, model: &mut Timed, now: u64) {
    let mut batch = Batch::new();
    for _ in 0..rng.usize(1..5) {
        let key = key(rng.u32(0..KEYS));
        if rng.u8(0..3) > 0 {
            let value = vec![rng.u8(..); rng.usize(0..500)];
            let expires = match rng.u8(0..3) {
                0 => now + rng.u64(0..300),
                _ => NEVER,
            };
            batch.put_expiring(&key, &value, Expiry::At(expires));
            model.insert(key, (value, expires));
        } else {
            batch.delete(&key);
            model.remove(&key);
        }
    }
    store.write(&batch).await.expect("there is space");
}

#[test]
fn a_snapshot_shows_its_moment() {
    let (mut most_held, mut cleaned, mut expired) = (0, 0, 0);
    for seed in 0..30 {
        let map = IndexMap::ALL[seed as usize % 2];
        let (disk, mut driver) = Disk::simulated(&Simulation::new(seed));
        let clock = Arc::new(AtomicU64::new(1 << 40));
        let options = Options {
            clock: Clock::Program(Arc::clone(&clock)),
            index: IndexMemory::plain(map),
            ..options()
        };
        let mut rng = Rng::with_seed(seed);
        let mut model = Timed::new();
        driver.block_on(async {
            with_store(&disk, options.clone(), async |store| {
                let mut all: Vec<Held> = Vec::new();
                for _ in 0..4_000 {
                    let now = clock.load(SeqCst);
                    match rng.u8(0..100) {
                        0 => store.begin_checkpoint(),
                        1 => store.begin_expiry(),
                        2 if all.len() < 4 => all.push(Held::new(store, visible(&model, now))),
                        3 if !all.is_empty() => {
                            let mut held = all.swap_remove(rng.usize(0..all.len()));
                            held.finish(&mut rng).await;
                        }
                        4..14 => {
                            clock.fetch_add(rng.u64(0..20), SeqCst);
                        }
                        14..24 => pause().await,
                        24..60 if !all.is_empty() => {
                            let one = rng.usize(0..all.len());
                            all[one].read(&mut rng).await;
                        }
                        _ => change(store, &mut rng, &mut model, now).await,
                    }
                    most_held = most_held.max(store.stats().held);
                }
                for mut held in all {
                    held.finish(&mut rng).await;
                }
                let stats = store.stats();
                assert_eq!(
                    (stats.snapshots, stats.snapshot_bytes, stats.held),
                    (0, 0, 0)
                );
                cleaned += stats.cleaned;
                expired += stats.expired;
            })
            .await;
            with_store(&disk, options, async |store| {
                let now = clock.load(SeqCst);
                let mut held = Held::new(store, visible(&model, now));
                held.finish(&mut rng).await;
            })
            .await;
        });
    }
    println!("{cleaned} cleaned, at most {most_held} of them held; {expired} expired");
    assert!(most_held > 1 && cleaned > 100 && expired > 100);
}

async fn put_all(store: &Store, keys: u32, version: u8) {
    for number in 0..keys {
        let put = store.put(&key(number), &[version; 500]).await;
        put.expect("there is space");
    }
}

/// Whether a snapshot still shows one version of all keys.
async fn shows(snapshot: &Snapshot, keys: u32, version: u8) -> bool {
    for number in 0..keys {
        match snapshot.get(&key(number)).await {
            Ok(value) => assert_eq!(value, Some(vec![version; 500])),
            Err(Error::SnapshotGivenUp) => return false,
            Err(error) => panic!("{error}"),
        }
    }
    true
}

#[test]
fn cleaned_segments_are_held_up_to_a_bound_and_then_the_oldest_snapshot_goes() {
    // The records are in six segments, so two snapshots can hold more, and one cannot.
    let (most, keys) = (8, 600);
    let (disk, mut driver) = Disk::simulated(&Simulation::new(1));
    let options = Options {
        snapshot_space: most * SEGMENT,
        ..options()
    };
    driver.block_on(with_store(&disk, options, async |store| {
        put_all(store, keys, 1).await;
        let old = store.snapshot();
        let mut scan = old.range(..);
        assert!(scan.next().await.expect("it is there").is_ok());
        for _ in 0..3 {
            put_all(store, keys, 2).await;
        }
        assert!(store.stats().held > 1, "{:?}", store.stats());
        assert!(shows(&old, keys, 1).await, "it holds what was cleaned");
        let new = store.snapshot();
        let clone = new.clone();
        drop(new);
        let mut rounds = 0;
        while shows(&old, 1, 1).await {
            assert!(store.stats().held as u64 <= most);
            put_all(store, keys, 3).await;
            rounds += 1;
            assert!(rounds < 100, "it holds more and more");
        }
        for _ in 0..3 {
            put_all(store, keys, 4).await;
            assert!(store.stats().held as u64 <= most);
        }
        // It says so, once, and the other is as it was.
        let mut ahead = 1;
        let error = loop {
            match scan.next().await.expect("no end without an error") {
                Ok((_, value)) => assert_eq!(value, [1; 500]),
                Err(error) => break error,
            }
            ahead += 1;
        };
        let message = "the snapshot was given up: more has changed since than this store keeps";
        assert!(error.to_string().starts_with(message), "{error}");
        assert!(ahead < keys, "{ahead}");
        let after = old.prefix(b"key").next_back().await.expect("an error");
        assert!(matches!(after, Err(Error::SnapshotGivenUp)), "{after:?}");
        assert!(shows(&clone, keys, 2).await);
        drop((old, scan, clone));
        assert_eq!((store.stats().snapshots, store.stats().held), (0, 0));
    }));
}

#[test]
pub fn what_changed_is_noted_up_to_a_bound_and_then_the_oldest_snapshot_goes() {
    let most = 256 << 10;
    let (disk, mut driver) = Disk::simulated(&Simulation::new(2));
    let options = Options {
        snapshot_memory: most,
        ..options()
    };
    driver.block_on(with_store(&disk, options, async |store| {
        put_all(store, 100, 1).await;
        let (old, mut number) = (store.snapshot(), 0u32);
        let mut new = None;
        while shows(&old, 100, 1).await {
            assert!(store.stats().snapshot_bytes <= most);
            for _ in 0..100 {
                let put = store.put(&number.to_be_bytes(), b"").await;
                put.expect("there is space");
                number += 1;
            }
            if number == 1_000 {
                new = Some(store.snapshot());
            }
        }
        assert!(number > 1_000, "{number}");
        let new = new.expect("it was taken");
        assert!(shows(&new, 100, 1).await, "it has noted less");
        assert_eq!(
            new.get(&999u32.to_be_bytes()).await.expect("it is read"),
            Some(vec![])
        );
        assert_eq!(
            new.get(&1_000u32.to_be_bytes()).await.expect("it is read"),
            None
        );
    }));
}

/// Long keys fill the memory fast: the snapshot goes before a put is refused.
#[test]
fn no_put_is_refused_for_a_snapshot() {
    let (disk, mut driver) = Disk::simulated(&Simulation::new(3));
    let options = Options {
        segment_bytes: 1 << 20,
        memory_bytes: Options::LEAST_MEMORY,
        snapshot_memory: u64::MAX,
        ..options()
    };
    let long = |number: u32| [&number.to_be_bytes()[..], &[7; 8_000]].concat();
    driver.block_on(with_store(&disk, options, async |store| {
        let mut count = 0;
        let mut snapshot = None;
        let error = loop {
            // As far as half of the memory.
            if snapshot.is_none() && store.stats().index_bytes > 16 << 20 {
                snapshot = Some(store.snapshot());
            }
            match store.put(&long(count), b"").await {
                Ok(()) => count += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::OutOfMemory), "{error}");
        let got = snapshot.expect("it was taken").get(&long(0)).await;
        assert!(matches!(got, Err(Error::SnapshotGivenUp)), "{got:?}");
        assert!(store.stats().index_bytes >= Options::LEAST_MEMORY / 2);
    }));
}

/// One key changes all the time: a snapshot has one value of it.
#[test]
fn a_value_stays_beside_threads() {
    let folder = Folder::new();
    let (store, _) = Store::open(&folder.0, options()).expect("it opens");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, is_over) = (&store, &is_over);
        scope.spawn(move || {
            let mut number = 0u64;
            while !is_over.load(SeqCst) {
                let put = store.blocking().put(b"hot", &number.to_le_bytes());
                put.expect("there is space");
                number += 1;
            }
        });
        let reader = scope.spawn(move || {
            for _ in 0..20_000 {
                let snapshot = store.snapshot();
                let get = || snapshot.blocking().get(b"hot").expect("it is read");
                let first = get();
                assert_eq!(get(), first);
                assert_eq!(get(), first);
            }
        });
        let ended = reader.join();
        is_over.store(true, SeqCst);
        ended.expect("it ends");
    });
}

/// Each writer moves amounts among keys of its own; every snapshot has the same total.
#[test]
pub fn batches_are_whole_beside_threads() {
    let folder = Folder::new();
    let (store, _) = Store::open(&folder.0, options()).expect("it opens");
    let (writers, accounts) = (3u8, 100u8);
    let value = |amount: u64| [&amount.to_le_bytes()[..], &[0; 400]].concat();
    let amount = |value: &[u8]| u64::from_le_bytes(value[..8].try_into().expect("eight bytes"));
    for writer in 0..writers {
        for account in 0..accounts {
            let put = store.blocking().put(&[writer, account], &value(100));
            put.expect("there is space");
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(writer.into());
                let mut amounts = vec![100; accounts.into()];
                while !is_over.load(SeqCst) {
                    let [from, to] = [(); 2].map(|()| rng.usize(0..amounts.len()));
                    if from == to || amounts[from] == 0 {
                        continue;
                    }
                    let moved = rng.u64(1..=amounts[from]);
                    amounts[from] -= moved;
                    amounts[to] += moved;
                    let mut batch = Batch::new();
                    for account in [from, to] {
                        let key = [writer, account as u8];
                        match amounts[account] {
                            0 => batch.delete(&key),
                            amount => batch.put(&key, &value(amount)),
                        }
                    }
                    store.blocking().write(&batch).expect("there is space");
                }
            });
        }
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let store = &store;
                scope.spawn(move || {
                    let mut rounds = 0;
                    while rounds < 30 || store.stats().cleaned == 0 {
                        let snapshot = store.snapshot();
                        let total = Cell::new(0);
                        let count = |record: Result<Record, Error>| {
                            let (key, value) = record.expect("it is read");
                            total.set(total.get() + amount(&value));
                            let got = snapshot.blocking().get(&key).expect("it is read");
                            assert_eq!(got, Some(value));
                        };
                        match reader {
                            0 => snapshot.blocking().range(..).for_each(count),
                            _ => snapshot.blocking().range(..).rev().for_each(count),
                        }
                        assert_eq!(total.get(), 100 * u64::from(writers) * u64::from(accounts));
                        rounds += 1;
                    }
                })
            })
            .collect();
        let ended: Vec<_> = readers.into_iter().map(|it| it.join()).collect();
        is_over.store(true, SeqCst);
        ended.into_iter().for_each(|it| it.expect("it ends"));
    });
    // A snapshot and its scan outlive the store's last clone.
    let snapshot = store.snapshot();
    drop(store);
    let mut scan = snapshot.blocking().range(..);
    drop(snapshot);
    assert!(scan.next().expect("there are records").is_ok());
    assert!(scan.count() > 10);
}

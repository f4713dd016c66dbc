//! Checkpoints: what opening need not read, and what it does when one can't be used.

use std::path::{Path, PathBuf};
use std::task::{Context, Waker};

use crate::options_with;
use timberline_io::{BLOCK, Buffer, Disk, Driver, Faults, Mode, Simulation};
use timberline_store::{Durability, Options, Report, Store, join};

const KEYS: u32 = 2000;

fn options() -> Options {
    options_with(Durability::None)
}

fn key(number: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_be_bytes());
    key[12..].copy_from_slice(&number.to_be_bytes());
    key
}

fn value(number: u32, version: u8) -> Vec<u8> {
    vec![version; 100 + number as usize % 50]
}

async fn open(disk: &Disk) -> (Store, Report) {
    let opened = Store::open_on(disk, Path::new("store"), options()).await;
    opened.expect("it opens")
}

async fn put(store: &Store, keys: std::ops::Range<u32>, version: u8) {
    for number in keys {
        let put = store.put(&key(number), &value(number, version)).await;
        put.expect("there is space");
    }
}

/// Runs work on an open store, and the disk beside it. Afterwards nothing is left running, as after
/// a kill.
pub async fn beside_maintenance<T>(store: &Store, work: impl Future<Output = T>) -> T {
    let mut maintained = std::pin::pin!(store.maintain());
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        let ended = maintained.as_mut().poll(context);
        assert!(ended.is_pending(), "it ends early: {ended:?}");
        work.as_mut().poll(context)
    })
    .await
}

async fn close(store: &Store) {
    let maintained = join(async { store.close() }, store.maintain()).await.1;
    maintained.expect("nothing fails");
}

/// A store with all keys, closed; and its disk.
fn closed(seed: u64) -> (Simulation, Disk, Driver) {
    let simulation = Simulation::new(seed);
    let (disk, mut driver) = Disk::simulated(&simulation);
    driver.block_on(async {
        let (store, _) = open(&disk).await;
        beside_maintenance(&store, put(&store, 0..KEYS, 1)).await;
        close(&store).await;
    });
    (simulation, disk, driver)
}

async fn assert_holds(store: &Store, version: impl Fn(u32) -> Option<u8>) {
    assert_holds_of(store, KEYS, version).await;
}

/// The same of so many keys.
async fn assert_holds_of(store: &Store, keys: u32, version: impl Fn(u32) -> Option<u8>) {
    for number in 0..keys {
        let found = store.get(&key(number)).await.expect("it is read");
        let expected = version(number).map(|it| value(number, it));
        assert_eq!(found, expected, "key {number}");
    }
    let expected = (0..keys).filter(|&it| version(it).is_some()).count();
    assert_eq!(store.len(), expected);
}

fn checkpoints(disk: &Disk) -> Vec<PathBuf> {
    let files = disk.list(Path::new("store")).expect("it is there");
    let is_one = |path: &PathBuf| path.extension().is_some_and(|it| it == "checkpoint");
    files.into_iter().filter(is_one).collect()
}

#[test]
pub fn after_a_clean_stop_no_record_is_read() {
    let (simulation, disk, mut driver) = closed(1);
    assert_eq!(checkpoints(&disk).len(), 1);
    driver.block_on(async {
        let before = simulation.requests();
        let (store, report) = open(&disk).await;
        assert_eq!(report.keys, KEYS as usize);
        assert_eq!(report.unread, report.segments);
        assert_eq!(report.checkpoints, []);
        // Of each segment: its name, its length, its header, a sync. And two new ones.
        let requests = simulation.requests() - before;
        println!("{requests} requests for {} segments", report.segments);
        assert!(requests <= 4 * report.segments as u64 + 40);
        assert_holds(&store, |_| Some(1)).await;
    });
}

/// What cleaning goes by is the same with a checkpoint as without. Nothing is cleaned here: of a
/// record that was just being moved, either place may count.
#[test]
pub fn segments_are_as_live_as_if_all_records_were_read() {
    let (simulation, disk, mut driver) = closed(9);
    driver.block_on(async {
        let options = Options {
            idle_bytes: u64::MAX,
            ..options()
        };
        let opened = Store::open_on(&disk, Path::new("store"), options).await;
        let (store, _) = opened.expect("it opens");
        let work = async {
            put(&store, 0..700, 2).await;
            store.delete(&key(701)).await.expect("it is deleted");
            store.begin_checkpoint();
            put(&store, 1000..1500, 2).await;
            store.delete(&key(1600)).await.expect("it is deleted");
            store.sync().await.expect("nothing fails");
        };
        beside_maintenance(&store, work).await;
        let stats = store.stats();
        assert_eq!((stats.checkpoints, stats.moved), (1, 0));
    });
    let (disk, mut driver) = Disk::simulated(&simulation);
    driver.block_on(async {
        let mut live = Vec::new();
        for _ in 0..2 {
            let (store, report) = open(&disk).await;
            assert_eq!(report.unread > 0, live.is_empty());
            let stats = store.stats();
            live.push((stats.keys, stats.live * stats.segments as f64));
            for path in checkpoints(&disk) {
                disk.remove_now(&path).expect("it is there");
            }
        }
        let ((keys, with), (same, without)) = (live[0], live[1]);
        assert_eq!(keys, same);
        assert!((with - without).abs() < 1e-9, "{with} {without}");
    });
}

#[test]
pub fn after_a_kill_only_the_end_is_read() {
    let (simulation, disk, mut driver) = closed(2);
    driver.block_on(async {
        let (store, _) = open(&disk).await;
        let work = async {
            put(&store, 0..300, 2).await;
            for number in 300..400 {
                store.delete(&key(number)).await.expect("it is deleted");
            }
            store.sync().await.expect("nothing fails");
        };
        beside_maintenance(&store, work).await;
    });
    let (disk, mut driver) = Disk::simulated(&simulation);
    driver.block_on(async {
        let (store, report) = open(&disk).await;
        println!("{report:?}");
        assert!(report.unread * 2 > report.segments, "{report:?}");
        assert!(report.unread < report.segments, "{report:?}");
        let version = |number| match number {
            0..300 => Some(2),
            300..400 => None,
            _ => Some(1),
        };
        assert_holds(&store, version).await;
        assert!(store.stats().live <= 1.0);
    });
}

/// Keys are overwritten and moved by the cleaner while checkpoints are written, again and again.
#[test]
pub fn writers_and_the_cleaner_go_on_while_a_checkpoint_is_written() {
    // A store of a few segments is cleaned as a whole while a checkpoint is written.
    const MANY: u32 = 5 * KEYS;
    let simulation = Simulation::new(3);
    let (disk, mut driver) = Disk::simulated(&simulation);
    let mut versions = vec![0; MANY as usize];
    let mut rng = fastrand::Rng::with_seed(3);
    let mut unread = 0;
    for generation in 0..5 {
        driver.block_on(async {
            let (store, report) = open(&disk).await;
            unread += report.unread;
            assert_eq!(report.checkpoints, [], "generation {generation}");
            assert_eq!(report.unread > 0, generation > 0, "a checkpoint is used");
            assert_holds_of(&store, MANY, |it| {
                Some(versions[it as usize]).filter(|&it| it > 0)
            })
            .await;
            let work = async {
                for _ in 0..3 * MANY {
                    // Every third key is hot.
                    let number = match rng.u8(0..4) {
                        0 => rng.u32(0..MANY),
                        _ => rng.u32(0..MANY / 3) * 3,
                    };
                    if rng.u32(0..1000) == 0 {
                        store.begin_checkpoint();
                    }
                    let version = rng.u8(0..10);
                    versions[number as usize] = version;
                    if version == 0 {
                        store.delete(&key(number)).await.expect("it is deleted");
                    } else {
                        put(&store, number..number + 1, version).await;
                    }
                }
                store.sync().await.expect("nothing fails");
            };
            beside_maintenance(&store, work).await;
            let stats = store.stats();
            assert!(stats.checkpoints > 5 && stats.cleaned > 5, "{stats:?}");
        });
        // Of a kill, only a checkpoint that was under way is left beside the last one. It is not
        // used, which the report says: here there is none, so that it says nothing.
        for path in checkpoints(&disk).iter().skip(1) {
            disk.remove_now(path).expect("it is there");
        }
    }
    println!("{unread} segments were not read");
    assert!(unread > 60, "{unread}");
}

/// A get on the same thread would wait for all keys of a page otherwise.
#[test]
fn others_have_turns_while_a_checkpoint_is_written() {
    const MANY: u32 = 20_000;
    let (_, disk, mut driver) = crate::simulated(5);
    driver.block_on(crate::with_store(
        &disk,
        crate::options_with(Durability::None),
        async |store| {
            for key in 0..MANY {
                store.put(&key.to_be_bytes(), b"").await.expect("it is put");
            }
            let mut turns = 0;
            // The first ones may be under way, or wanted because of the puts.
            for _ in 0..4 {
                turns = 0;
                let before = store.stats().checkpoints;
                store.begin_checkpoint();
                while store.stats().checkpoints == before {
                    crate::pause().await;
                    turns += 1;
                }
            }
            assert!(turns > MANY / 512, "{turns}");
        },
    ));
}

/// A get waits at the disk for what is written there.
#[test]
fn a_checkpoint_is_written_in_small_parts_while_somebody_reads() {
    const MANY: u32 = 40_000;
    let (_, disk, mut driver) = crate::simulated(11);
    let options = Options {
        segment_bytes: 4 << 20,
        cache_bytes: 0,
        ..crate::options_with(Durability::None)
    };
    driver.block_on(crate::with_store(&disk, options, async |store| {
        for key in 0..MANY {
            store.put(&key.to_be_bytes(), b"").await.expect("it is put");
        }
        store.sync().await.expect("nothing fails");
        let checkpoint = async || {
            let (before, checkpoints) = (disk.counts(), store.stats().checkpoints);
            store.begin_checkpoint();
            while store.stats().checkpoints == checkpoints {
                crate::pause().await;
            }
            let counts = disk.counts();
            let bytes = counts.written_bytes - before.written_bytes;
            bytes / (counts.writes - before.writes)
        };
        // The first one may be under way, or wanted because of the puts.
        checkpoint().await;
        let alone = checkpoint().await;
        let mut get = Box::pin(store.get(&[0; 4]));
        let mut context = Context::from_waker(Waker::noop());
        assert!(get.as_mut().poll(&mut context).is_pending());
        let beside = checkpoint().await;
        assert!(alone > 64 << 10 && beside <= 64 << 10, "{alone}, {beside}");
        assert_eq!(get.await.expect("it is read").as_deref(), Some(&b""[..]));
    }));
}

#[test]
fn the_power_may_go_off_at_any_request_of_a_checkpoint() {
    let mut n = 0;
    loop {
        let (simulation, disk, mut driver) = closed(4);
        let all = driver.block_on(async {
            let (store, _) = open(&disk).await;
            beside_maintenance(&store, async {
                put(&store, 0..50, 2).await;
                store.sync().await.expect("nothing fails");
            })
            .await;
            simulation.set_faults(Faults {
                short: 0.1,
                power_off: Some(simulation.requests() + n),
                ..Faults::default()
            });
            let ended = join(async { store.close() }, store.maintain()).await.1;
            ended.is_ok() && store.checkpoint_failure().is_none()
        });
        let simulation = simulation.crash();
        let (disk, mut driver) = Disk::simulated(&simulation);
        driver.block_on(async {
            let (store, report) = open(&disk).await;
            assert!(report.unread > 0, "one of the two is always there");
            assert_holds(&store, |number| Some(if number < 50 { 2 } else { 1 })).await;
        });
        if all {
            break;
        }
        n += 1;
    }
    println!("the power went off {n} times");
    assert!(n > 5);
}

/// Changes the only checkpoint, and returns why opening did not use it.
fn refused(seed: u64, change: impl Fn(&mut [u8])) -> String {
    let (_, disk, mut driver) = closed(seed);
    let paths = checkpoints(&disk);
    driver.block_on(async {
        let mode = Mode::create();
        let file = disk.open_file(&paths[0], mode).expect("it is there");
        let len = file.len().expect("it is there") as usize;
        let mut bytes = Buffer::zeroed(len).expect("there is memory");
        file.read_exact_now(&mut bytes, 0).expect("it is read");
        change(&mut bytes[..len]);
        let (_, written) = file.write_all(bytes, 0..len, 0).await;
        written.expect("it is written");
        let (store, report) = open(&disk).await;
        assert_eq!((report.unread, report.keys), (0, KEYS as usize));
        assert_holds(&store, |_| Some(1)).await;
        // The next one takes its place.
        close(&store).await;
        assert_ne!(checkpoints(&disk), paths);
        let (_, after) = open(&disk).await;
        assert_eq!(
            (after.unread, after.checkpoints),
            (after.segments, Vec::new())
        );
        let [(path, reason)] = &report.checkpoints[..] else {
            panic!("{report:?}");
        };
        assert_eq!(path, &paths[0]);
        reason.clone()
    })
}

#[test]
fn a_checkpoint_that_is_damaged_is_not_used_and_the_report_says_why() {
    // The first page is one block, the second has the keys.
    assert_eq!(refused(5, |it| it[60] ^= 4), "it is damaged, at byte 0");
    let in_keys = refused(5, |it| it[BLOCK + 5000] ^= 1);
    assert_eq!(in_keys, "it is damaged, at byte 4096");
    let magic = refused(5, |it| it[8] = b'X');
    assert_eq!(magic, "it is damaged, at byte 0");
    let end = refused(5, |it| {
        let last = it.len() - BLOCK;
        it[last..].fill(0);
    });
    assert!(end.starts_with("it was never finished, at byte "), "{end}");
    // Its pages are whole, but in another order.
    let swapped = refused(5, |it| it.copy_within(BLOCK.., 0));
    assert_eq!(swapped, "it is damaged, at byte 0");
}

#[test]
fn a_checkpoint_of_another_version_is_not_used_and_the_report_says_why() {
    assert_eq!(
        refused(6, |it| it[16..20].copy_from_slice(&0u32.to_le_bytes())),
        "its format is version 0; this program reads 1 to 4, at byte 0"
    );
}

/// A checkpoint for which there is no space costs nothing but time.
#[test]
fn without_space_for_a_checkpoint_the_store_works() {
    let (simulation, disk, mut driver) = closed(7);
    driver.block_on(async {
        let (store, _) = open(&disk).await;
        simulation.set_faults(Faults {
            capacity: simulation.used(),
            ..Faults::default()
        });
        // Without a kill, which may leave a checkpoint that is being written.
        let work = async {
            put(&store, 0..50, 2).await;
            store.close();
        };
        let maintained = join(work, store.maintain()).await.1;
        maintained.expect("nothing else fails");
        let failure = store.checkpoint_failure().expect("there is no space");
        assert!(failure.to_string().contains("full"), "{failure}");
        assert_eq!(checkpoints(&disk).len(), 1);
        let (store, report) = open_without_limit(&simulation, &disk).await;
        assert!(report.unread > 0);
        assert_holds(&store, |number| Some(if number < 50 { 2 } else { 1 })).await;
    });
}

/// What a kill left of a checkpoint makes space for the next one.
#[test]
fn an_unfinished_checkpoint_takes_no_space_of_the_next_one() {
    let (simulation, disk, mut driver) = closed(12);
    driver.block_on(async {
        let (store, _) = open(&disk).await;
        let bytes_of_newest = || {
            let all = checkpoints(&disk);
            let file = disk.open_file(all.last().expect("one is there"), Mode::read());
            file.expect("it is there").len().expect("it is there")
        };
        let (one, before) = (bytes_of_newest(), checkpoints(&disk));
        beside_maintenance(&store, async {
            put(&store, 0..50, 2).await;
            store.sync().await.expect("nothing fails");
            store.begin_checkpoint();
            // All of it but the last page.
            while checkpoints(&disk) == before || bytes_of_newest() < one - 2 * BLOCK as u64 {
                crate::pause().await;
            }
        })
        .await;
        drop(store);
        assert_eq!(checkpoints(&disk).len(), 2);
        let (store, report) = open(&disk).await;
        assert!(report.unread > 0 && report.checkpoints.len() == 1);
        // Room for one, with the space of the unfinished one.
        simulation.set_faults(Faults {
            capacity: simulation.used() + 4 * BLOCK as u64,
            ..Faults::default()
        });
        close(&store).await;
        assert_eq!(store.checkpoint_failure().map(|it| it.to_string()), None);
        assert_eq!(checkpoints(&disk).len(), 1);
    });
}

async fn open_without_limit(simulation: &Simulation, disk: &Disk) -> (Store, Report) {
    simulation.set_faults(Faults::default());
    open(disk).await
}

#[test]
pub fn the_longest_keys_fit_into_a_checkpoint() {
    let simulation = Simulation::new(8);
    let (disk, mut driver) = Disk::simulated(&simulation);
    let options = Options {
        segment_bytes: 1 << 20,
        ..options()
    };
    let long = |number: u8| vec![number; timberline_store::MAX_KEY];
    driver.block_on(async {
        let open = || Store::open_on(&disk, Path::new("store"), options.clone());
        let (store, _) = open().await.expect("it opens");
        let work = async {
            for number in 0..20 {
                let put = store.put(&long(number), &[number]).await;
                put.expect("there is space");
            }
            store.put(&[], b"nothing").await.expect("there is space");
        };
        beside_maintenance(&store, work).await;
        close(&store).await;
        let (store, report) = open().await.expect("it opens");
        assert_eq!((report.keys, report.unread), (21, report.segments));
        for number in 0..20 {
            let found = store.get(&long(number)).await.expect("it is read");
            assert_eq!(found, Some(vec![number]));
        }
    });
}

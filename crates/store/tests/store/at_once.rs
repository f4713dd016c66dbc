//! What is done without waiting, mixed with futures: it does all that these do, or nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::task::Poll;

use crate::opened::{pause, simulated, two_tiers, with_store};
use crate::{SEGMENT, options_with};
use fastrand::Rng;
use timberline_io::{Disk, Faults, wait_for};
use timberline_store::{
    Batch, Change, Durability, Error, Expiry, IndexMap, IndexMemory, KeyPlace, Options, Store, join,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Bytes of a piece, in segments of this size.
const PIECE: usize = 8152;

fn options(durability: Durability, index: IndexMemory) -> Options {
    Options {
        index,
        // Less than there are values.
        cache_bytes: 64 << 10,
        capacity: 40 * SEGMENT,
        ..options_with(durability)
    }
}

/// Some have eight bytes: those are words in the index.
fn draw_key(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(0..100) {
        number if number % 3 == 0 => format!("key {number:04}").into_bytes(),
        number => format!("key {number}").into_bytes(),
    }
}

fn draw_value(rng: &mut Rng) -> Vec<u8> {
    let longest = match rng.u8(0..20) {
        0 => 4 * PIECE,
        _ => 2000,
    };
    vec![rng.u8(..); rng.usize(0..longest)]
}

/// How often something was done without waiting, and how often not.
#[derive(Default)]
struct Counts {
    got: [u32; 2],
    put: [u32; 2],
}

/// What is read without waiting is what the model has; and nothing else can be.
fn get_now(store: &Store, model: &Model, key: &[u8], counts: &mut Counts) {
    let found = store.get_now(key, <[u8]>::to_vec);
    counts.got[usize::from(found.is_pending())] += 1;
    let Poll::Ready(found) = found else { return };
    assert_eq!(found.as_ref(), model.get(key));
    assert!(found.is_none_or(|it| it.len() <= SEGMENT as usize / 8));
}

async fn put(
    store: &Store,
    model: &mut Model,
    (key, value): (Vec<u8>, Vec<u8>),
    now: bool,
) -> bool {
    let done = match now {
        true => store.put_now(&key, &value),
        false => Poll::Ready(store.put(&key, &value).await),
    };
    match done {
        Poll::Ready(result) => {
            result.expect("there is space");
            model.insert(key, value);
            true
        }
        // It changes nothing.
        Poll::Pending => {
            let found = store.get(&key).await.expect("it is read");
            assert_eq!(found.as_ref(), model.get(&key));
            false
        }
    }
}

/// A random operation of a key that was, or is, at this place in the index, if it was there. Others
/// are done between that and this one.
fn operate_at(
    store: &Store,
    model: &mut Model,
    rng: &mut Rng,
    (key, place): (&[u8], Option<KeyPlace>),
) {
    let (value, other) = (draw_value(rng), draw_key(rng));
    let is_there = model.contains_key(key);
    match rng.u8(0..5) {
        0 => {
            let found = place.map(|it| store.get_now_at(it, key, <[u8]>::to_vec));
            if let Some(Poll::Ready(found)) = found {
                assert_eq!(Some(&found), model.get(key));
            }
        }
        1 => {
            if let Poll::Ready(done) = store.put_now_at(key, &value, place) {
                done.expect("there is space");
                model.insert(key.into(), value);
            }
        }
        2 => {
            if let Poll::Ready(done) = store.replace_now_at(key, &value, place) {
                assert_eq!(done.expect("there is space"), is_there);
                if is_there {
                    model.insert(key.into(), value);
                }
            }
        }
        3 => {
            // Of another key's place: a leaf of a B+tree may have moved this one's record there.
            let found = place.map(|it| store.get_now_at(it, &other, <[u8]>::to_vec));
            if let Some(Poll::Ready(found)) = found {
                assert_eq!(Some(&found), model.get(&other));
            }
            let changes = [Change::put(&other, &value).at(place), Change::put(key, b"")];
            if let Poll::Ready(done) = store.replace_all_now(&changes) {
                let are_there = is_there && model.contains_key(&other);
                assert_eq!(done.expect("there is space"), are_there);
                if are_there {
                    model.insert(other, value);
                    model.insert(key.into(), Vec::new());
                }
            }
        }
        _ => {
            let changes = [
                Change::delete(&other),
                Change::put(key, &value).at(place),
                Change::put(b"key 0", b""),
            ];
            if let Poll::Ready(done) = store.write_now(&changes) {
                done.expect("there is space");
                model.remove(&other);
                model.insert(key.into(), value);
                model.insert(b"key 0".to_vec(), Vec::new());
            }
        }
    }
}

/// Random operations, each in one of its forms.
async fn operate(store: &Store, model: &mut Model, rng: &mut Rng, counts: &mut Counts) {
    let key = draw_key(rng);
    match rng.u8(0..12) {
        0..3 => get_now(store, model, &key, counts),
        3..5 => {
            let found = store.get(&key).await.expect("it is read");
            assert_eq!(found.as_ref(), model.get(&key));
        }
        5..8 => {
            let done = put(store, model, (key, draw_value(rng)), true).await;
            counts.put[usize::from(!done)] += 1;
        }
        8 => {
            put(store, model, (key, draw_value(rng)), false).await;
        }
        9 => {
            let deleted = store.delete(&key).await.expect("it is deleted");
            assert_eq!(deleted, model.remove(&key).is_some());
        }
        10 => {
            let mut batch = Batch::new();
            for _ in 0..rng.u8(1..5) {
                let (key, value) = (draw_key(rng), draw_value(rng));
                batch.put(&key, &value);
                model.insert(key, value);
            }
            store.write(&batch).await.expect("there is space");
        }
        _ => {
            // Keys that are there and others; some of them twice.
            let keys: Vec<_> = (0..rng.usize(0..40)).map(|_| draw_key(rng)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut fetched = store.fetched();
            if rng.bool() {
                fetched.fetch(&keys, |_| true).await;
            }
            let held = store.places();
            let places = store.prepare(&held, &keys, |at| at % 2 == 0);
            for (key, place) in keys.iter().zip(&places) {
                let is_known = model.contains_key(*key) && !store.is_index_slow();
                assert_eq!(place.is_some(), is_known, "{key:?}");
            }
            for (key, place) in keys.into_iter().zip(places) {
                get_now(store, model, key, counts);
                operate_at(store, model, rng, (key, place));
            }
        }
    }
}

/// Opens the store in turns, so that it reads from checkpoints too.
fn run(seed: u64, durability: Durability, index: fn() -> IndexMemory) -> Counts {
    let (_, disk, mut driver) = simulated(seed);
    let (mut rng, mut model) = (Rng::with_seed(seed), Model::new());
    let mut counts = Counts::default();
    for _ in 0..3 {
        driver.block_on(with_store(
            &disk,
            options(durability, index()),
            async |store| {
                for _ in 0..1500 {
                    operate(store, &mut model, &mut rng, &mut counts).await;
                    if rng.u8(0..8) == 0 {
                        pause().await;
                    }
                }
                assert_eq!(store.len(), model.len());
                for (key, value) in &model {
                    let found = store.get(key).await.expect("it is read");
                    assert_eq!(found.as_ref(), Some(value));
                }
            },
        ));
    }
    counts
}

#[test]
fn they_do_what_futures_do() {
    let mut all = Counts::default();
    for seed in 1..9 {
        let index: fn() -> IndexMemory = match seed % 2 {
            0 => || IndexMemory::plain(IndexMap::Art),
            _ => || IndexMemory::plain(IndexMap::BTree),
        };
        let counts = run(seed, Durability::None, index);
        for which in 0..2 {
            all.got[which] += counts.got[which];
            all.put[which] += counts.put[which];
        }
    }
    let Counts { got, put } = all;
    println!("gets: {got:?}, puts: {put:?}");
    // Both happen, and mostly there is no need to wait.
    assert!(got[0] > got[1] && got[1] > 0 && put[0] > put[1] && put[1] > 0);
}

#[test]
fn where_a_write_waits_for_the_disk_none_is_done_at_once() {
    let counts = run(21, Durability::Each, IndexMemory::default);
    assert!(counts.put[0] == 0 && counts.put[1] > 0 && counts.got[0] > 0);
}

#[test]
fn where_the_index_may_be_in_slow_memory_nothing_is_done_at_once() {
    let counts = run(22, Durability::None, two_tiers);
    assert_eq!((counts.put[0], counts.got[0]), (0, 0));
    assert!(counts.put[1] > 0 && counts.got[1] > 0);
}

#[test]
fn values_in_pieces_and_those_that_expired_are_declined_and_what_can_not_be_is_said() {
    let (_, disk, mut driver) = simulated(23);
    let options = options(Durability::None, IndexMemory::default());
    driver.block_on(with_store(&disk, options, async |store| {
        let large = vec![7; 2 * PIECE];
        assert!(store.put_now(b"key", &large).is_pending());
        assert_eq!(store.get_now(b"key", <[u8]>::len), Poll::Ready(None));
        store.put(b"key", &large).await.expect("there is space");
        assert!(store.get_now(b"key", <[u8]>::len).is_pending());
        store.prepare(&store.places(), &[&b"key"[..], b"other"], |_| true);
        assert!(store.put_now(b"key", b"short").is_ready());
        let short = store.get_now(b"key", <[u8]>::to_vec);
        assert_eq!(short, Poll::Ready(Some(b"short".to_vec())));
        let gone = store.put_expiring(b"key", b"gone", Expiry::At(1));
        gone.await.expect("there is space");
        assert_eq!(store.get_now(b"key", <[u8]>::len), Poll::Ready(None));
        // It does not expire then.
        assert!(store.put_now(b"key", b"new").is_ready());
        assert_eq!(store.expiry(b"key"), Some(Expiry::Never));
        for (key, value) in [(vec![0; 70_000], 1), (vec![1], (64 << 20) + 8192)] {
            let refused = store.put_now(&key, &vec![0; value]);
            let Poll::Ready(Err(Error::KeyTooLong(..) | Error::ValueTooLong(..))) = refused else {
                panic!("{refused:?}");
            };
        }
    }));
}

/// After a write failed, and after the end, writes are errors, and reads go on.
#[test]
fn the_nth_request_fails_for_every_n() {
    let mut n = 0;
    loop {
        let (simulation, disk, mut driver) = simulated(24);
        let map = IndexMap::ALL[n as usize % 2];
        let options = || options(Durability::None, IndexMemory::plain(map));
        let mut model = Model::new();
        let all_done = driver.block_on(async {
            let opened = Store::open_on(&disk, Path::new("store"), options()).await;
            let (store, _) = opened.expect("nothing fails yet");
            let first = simulation.requests();
            simulation.set_faults(Faults {
                failed_request: Some(first + n),
                ..Faults::default()
            });
            let work = async {
                let mut rng = Rng::with_seed(n);
                let mut failed = None;
                for nth in 0..60u8 {
                    let (key, value) = (vec![nth % 20], vec![nth; 6000]);
                    let done = match store.put_now(&key, &value) {
                        Poll::Ready(done) => done,
                        Poll::Pending => store.put(&key, &value).await,
                    };
                    match (done, &failed) {
                        (Ok(()), Some(error @ Error::ReadOnly(_))) => {
                            panic!("{n}: a write after {error}")
                        }
                        // A segment that could not be made is tried again.
                        (Ok(()), _) => drop(model.insert(key, value)),
                        (Err(error), _) => failed = Some(error),
                    }
                    if rng.bool() {
                        pause().await;
                    }
                    let key = vec![rng.u8(0..20)];
                    store.prepare(&store.places(), &[&key[..]], |_| true);
                    if let Poll::Ready(found) = store.get_now(&key, <[u8]>::to_vec) {
                        assert_eq!(found.as_ref(), model.get(&key), "{n}");
                    }
                }
                store.close();
                let late = store.put_now(b"late", b"");
                assert!(matches!(late, Poll::Ready(Err(_))), "{n}: {late:?}");
                failed.is_none()
            };
            join(work, store.maintain()).await.0 && simulation.requests() <= first + n
        });
        if all_done {
            break;
        }
        n += 1;
    }
    assert!(n > 10, "{n}");
}

/// With threads of its own: who is declined waits, and nothing is lost after a stop.
#[test]
fn threads_mix_both_forms() {
    let (simulation, disk, driver) = simulated(25);
    let options = || options(Durability::None, IndexMemory::default());
    let opened = Store::open_threaded((disk, driver), "store", options());
    let (store, _) = opened.expect("it opens");
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let store = &store;
            scope.spawn(move || {
                let (mut rng, mut model) = (Rng::with_seed(thread.into()), Model::new());
                for _ in 0..2000 {
                    let (key, value) = (vec![thread, rng.u8(0..10)], draw_value(&mut rng));
                    match store.put_now(&key, &value) {
                        Poll::Ready(done) => done.expect("there is space"),
                        Poll::Pending => wait_for(store.put(&key, &value)).expect("so"),
                    }
                    model.insert(key, value);
                    let key = vec![thread, rng.u8(0..10)];
                    let found = match store.get_now(&key, <[u8]>::to_vec) {
                        Poll::Ready(found) => found,
                        Poll::Pending => wait_for(store.get(&key)).expect("it is read"),
                    };
                    assert_eq!(found.as_ref(), model.get(&key));
                }
            });
        }
    });
    let keys = store.len();
    store.stop().expect("it is on the disk");
    drop(store);
    let (disk, mut driver) = Disk::simulated(&simulation.crash());
    driver.block_on(with_store(&disk, options(), async |store| {
        assert_eq!(store.len(), keys);
    }));
}

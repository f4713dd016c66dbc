//! Random work on a simulated disk that crashes: what was acknowledged as durable is there
//! afterwards, and everything that is there ends at one operation. Half of the records expire, by a
//! clock that the test moves. Some values are in pieces: those of more than 8,152 bytes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use fastrand::Rng;
use timberline_io::{Disk, Faults, Simulation};
use timberline_store::{
    Batch, CacheMemory, Caching, Clock, Durability, Error, Expiry, IndexMap, IndexMemory, Options,
    Store, join,
};

/// All records, expired ones too: a value, and when it expires.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;
/// When a record expires that does not.
const NEVER: u64 = u64::MAX;

/// Writes that take effect together.
type Change = Vec<(Vec<u8>, Option<(Vec<u8>, u64)>)>;

/// `is_tiered`: whether lookups in the index give others a turn at each node.
fn options(
    durability: Durability,
    now: &Arc<AtomicU64>,
    map: IndexMap,
    is_tiered: bool,
) -> Options {
    Options {
        index: match is_tiered {
            true => crate::opened::tiers(map, 64 << 20),
            false => IndexMemory::plain(map),
        },
        clock: Clock::Program(Arc::clone(now)),
        snapshot_memory: u64::MAX,
        snapshot_space: u64::MAX,
        // So much that nothing is evicted: a run is to repeat.
        cache_bytes: 1 << 20,
        caching: match is_tiered {
            true => Caching::BlocksIn(CacheMemory::default()),
            false => Caching::Values,
        },
        memory_bytes: u64::MAX,
        durability,
        segment_bytes: 64 << 10,
        capacity: 40 * (64 << 10),
        idle_bytes: if is_tiered { 2 * (64 << 10) } else { 0 },
        evict: false,
        direct: false,
    }
}

/// Those that did not expire.
fn visible(model: &Model, now: u64) -> Model {
    let mut model = model.clone();
    model.retain(|_, it| it.1 > now);
    model
}

/// Some have eight bytes: those are words in the index.
fn key(number: u32) -> Vec<u8> {
    match number % 3 {
        0 => format!("key {number:04}").into_bytes(),
        _ => format!("key {number}").into_bytes(),
    }
}

fn draw_key(rng: &mut Rng) -> Vec<u8> {
    key(rng.u32(0..60))
}

fn draw_expiry(rng: &mut Rng, now: u64) -> u64 {
    // A time that has passed, now and then.
    let at = (now + rng.u64(0..400)).saturating_sub(5);
    if rng.bool() { at } else { NEVER }
}

fn draw_change(rng: &mut Rng, model: &Model, now: u64) -> Change {
    // Another time for a record that is there.
    if rng.u8(0..8) == 0 {
        let key = draw_key(rng);
        if let Some((value, _)) = model.get(&key).filter(|it| it.1 > now) {
            return vec![(key, Some((value.clone(), draw_expiry(rng, now))))];
        }
    }

    let writes = if rng.u8(0..5) == 0 {
        rng.usize(2..5)
    } else {
        1
    };
    let write = |_| {
        let key = draw_key(rng);
        let put = rng.u8(0..4) > 0;
        let long = match rng.u8(0..60) {
            0..3 => 40_000,
            3..6 => 1700,
            _ => 600,
        };
        let put = put.then(|| {
            let value = vec![rng.u8(..); rng.usize(0..long)];
            (value, draw_expiry(rng, now))
        });
        (key, put)
    };
    (0..writes).map(write).collect()
}

fn apply(model: &mut Model, change: &Change) {
    for (key, put) in change {
        match put {
            Some(put) => model.insert(key.clone(), put.clone()),
            None => model.remove(key),
        };
    }
}

/// `before` is the state without the change.
async fn write(store: &Store, change: &Change, before: &Model, now: u64) -> Result<(), Error> {
    if let [(key, put)] = &change[..] {
        let old = before.get(key).filter(|it| it.1 > now);
        return match (put, old) {
            (Some((value, NEVER)), Some((same, at))) if value == same && *at < NEVER => {
                assert_eq!(store.expiry(key), Some(Expiry::At(*at)));
                store.persist(key).await.map(|it| assert!(it))
            }
            (Some((value, at)), Some((same, _))) if value == same => {
                let set = store.set_expiry(key, Expiry::At(*at)).await;
                set.map(|it| assert!(it))
            }
            // In parts.
            (Some((value, at)), _) if value.len() % 2 == 1 && value.len() > 1700 => {
                let expiry = if *at == NEVER {
                    Expiry::Never
                } else {
                    Expiry::At(*at)
                };
                let mut writer = store.writer(key, expiry);
                for part in value.chunks(3000) {
                    writer.write(part).await?;
                }
                writer.commit().await
            }
            (Some((value, NEVER)), Some((old, _))) if value.len() % 4 == 2 => {
                let set = store.compare_and_set(key, Some(old), Some(value)).await?;
                set.map_err(|_| panic!("it is the value"))
            }
            (Some((value, NEVER)), _) => store.put(key, value).await,
            (Some((value, at)), _) => store.put_expiring(key, value, Expiry::At(*at)).await,
            (None, old) => {
                let deleted = store.delete(key).await;
                deleted.map(|it| assert_eq!(it, old.is_some()))
            }
        };
    }
    let mut batch = Batch::new();
    for (key, put) in change {
        match put {
            Some((value, at)) => batch.put_expiring(key, value, Expiry::At(*at)),
            None => batch.delete(key),
        }
    }
    store.write(&batch).await
}

/// Reads in some way, if the disk lets it.
async fn read(store: &Store, model: &Model, now: u64, rng: &mut Rng) -> Result<(), Error> {
    let expected = visible(model, now);
    let key = draw_key(rng);
    assert_eq!(store.contains_key(&key), expected.contains_key(&key));
    match rng.u8(0..16) {
        0 => {
            let mut scan = store.range(&key[..]..);
            let records = expected.range(key..);
            for (key, (value, _)) in records {
                let next = scan.next().await.expect("there is one more")?;
                assert_eq!((&next.0, &next.1), (key, value));
            }
            assert!(scan.next().await.is_none());
        }
        1 => {
            let mut scan = store.range(..&key[..]);
            let bounds = (Bound::Unbounded, Bound::Excluded(key));
            for (key, (value, _)) in expected.range(bounds).rev() {
                let next = scan.next_back().await.expect("there is one more")?;
                assert_eq!((&next.0, &next.1), (key, value));
            }
            assert!(scan.next_back().await.is_none());
        }
        3 => {
            let reader = store.reader(&key).await?;
            let value = expected.get(&key).map(|it| &it.0);
            let len = reader.as_ref().map(|it| it.len() as usize);
            assert_eq!(len, value.map(Vec::len));
            if let (Some(reader), Some(value)) = (reader, value) {
                let (at, mut part) = (rng.usize(..=value.len()), vec![0; 10_000]);
                let bytes = reader.read_at(at as u64, &mut part).await?;
                let rest = &value[at..];
                assert_eq!(&part[..bytes], &rest[..rest.len().min(10_000)]);
            }
        }
        2 => {
            let keys: Vec<_> = store.keys(..).collect();
            assert_eq!(keys, expected.keys().cloned().collect::<Vec<_>>());
        }
        _ => assert_eq!(
            store.get(&key).await?.as_ref(),
            expected.get(&key).map(|it| &it.0)
        ),
    }
    Ok(())
}

async fn content(store: &Store) -> Model {
    let mut all = Model::new();
    for key in (0..60).map(key) {
        if let Some(value) = store.get(&key).await.expect("it is read") {
            let expires = match store.expiry(&key) {
                Some(Expiry::At(at)) => at,
                Some(Expiry::Never) => NEVER,
                other => panic!("{other:?}"),
            };
            all.insert(key, (value, expires));
        }
    }
    assert_eq!(all.len(), store.len());
    all
}

/// What happened in all generations.
#[derive(Default)]
struct Counts {
    cleaned: Cell<u64>,
    checkpoints: Cell<u64>,
    /// Segments that were not read since a checkpoint knew them, and checkpoints that were not
    /// used.
    unread: Cell<usize>,
    refused: Cell<usize>,
    expired: Cell<u64>,
    /// Values in pieces that were there after a crash.
    large: Cell<usize>,
}

/// Opens the store, checks that it holds one of the states that are allowed, works on it until the
/// power goes off or it is closed, and returns the disk after the crash with the states that are
/// allowed then.
fn generation(
    simulation: &Simulation,
    allowed: &[Model],
    durability: Durability,
    rng: &mut Rng,
    counts: &Counts,
    clock: &Arc<AtomicU64>,
) -> (Simulation, Vec<Model>) {
    let (disk, mut driver) = Disk::simulated(simulation);
    let mut states = Vec::new();
    let (durable, is_closed) = (Cell::new(0), Cell::new(false));
    let map = IndexMap::ALL[rng.usize(..2)];
    let options = options(durability, clock, map, rng.bool());
    driver.block_on(async {
        let (store, report) = Store::open_on(&disk, Path::new("store"), options)
            .await
            .expect("it opens");
        assert_eq!(
            (report.damaged, report.lost),
            (vec![], Vec::<Vec<u8>>::new())
        );
        counts.unread.set(counts.unread.get() + report.unread);
        let refused = counts.refused.get() + report.checkpoints.len();
        counts.refused.set(refused);
        let (found, now) = (content(&store).await, clock.load(SeqCst));
        let state = allowed.iter().find(|it| visible(it, now) == found);
        let mut model = state.expect("it is one of the states").clone();
        let large = model.values().filter(|it| it.0.len() > 8152).count();
        counts.large.set(counts.large.get() + large);
        states.push(model.clone());
        // From now on it is durable: opening has synced it.
        simulation.set_faults(Faults {
            short: 0.1,
            failed_sync: if rng.u8(0..4) == 0 { 0.05 } else { 0.0 },
            power_off: Some(simulation.requests() + rng.u64(0..600)),
            ..Faults::default()
        });
        let work = async {
            // One that is given up now and then.
            let mut writer = None;
            loop {
                match rng.u8(0..20) {
                    0 => writer = None,
                    1 => {
                        let writer = writer
                            .get_or_insert_with(|| store.writer(&draw_key(rng), Expiry::Never));
                        if writer.write(&vec![7; rng.usize(..20_000)]).await.is_err() {
                            break;
                        }
                    }
                    _ => {}
                }
                if rng.u16(0..1000) == 0 {
                    is_closed.set(true);
                    break;
                }
                if rng.u8(0..100) == 0 {
                    store.begin_checkpoint();
                }
                if rng.u8(0..4) == 0 {
                    clock.fetch_add(rng.u64(0..20), SeqCst);
                }
                if rng.u8(0..100) == 0 {
                    store.begin_expiry();
                }
                let now = clock.load(SeqCst);
                if rng.u8(0..4) == 0 && read(&store, &model, now, rng).await.is_err() {
                    break;
                }
                let change = draw_change(rng, &model, now);
                let before = model.clone();
                apply(&mut model, &change);
                states.push(model.clone());
                if write(&store, &change, &before, now).await.is_err() {
                    break;
                }
                if durability == Durability::Each {
                    durable.set(states.len() - 1);
                } else if rng.u8(0..50) == 0 {
                    if store.sync().await.is_err() {
                        break;
                    }
                    durable.set(states.len() - 1);
                }
            }
            store.close();
        };
        if join(work, store.maintain()).await.1.is_ok() && is_closed.get() {
            durable.set(states.len() - 1);
        }
        let stats = store.stats();
        counts.cleaned.set(counts.cleaned.get() + stats.cleaned);
        counts.expired.set(counts.expired.get() + stats.expired);
        counts
            .checkpoints
            .set(counts.checkpoints.get() + stats.checkpoints);
    });
    (simulation.crash(), states.split_off(durable.get()))
}

/// Disks of one seed.
const DISKS: u64 = 20;

/// Disks of the seed in `TIMBERLINE_SEED`; no two seeds have the same.
fn crashes(durability: Durability) {
    let seed = match std::env::var("TIMBERLINE_SEED") {
        Ok(text) => text.parse().expect("TIMBERLINE_SEED is a whole number"),
        Err(_) => 1u64,
    };
    let counts = Counts::default();
    for disk in DISKS * seed..DISKS * (seed + 1) {
        println!("TIMBERLINE_SEED={seed}, disk {disk}");
        let mut rng = Rng::with_seed(disk);
        let mut simulation = Simulation::new(disk);
        let mut allowed = vec![Model::new()];
        let clock = Arc::new(AtomicU64::new(1 << 40));
        for _ in 0..6 {
            (simulation, allowed) =
                generation(&simulation, &allowed, durability, &mut rng, &counts, &clock);
            // It goes on while the store is closed.
            clock.fetch_add(rng.u64(0..200), SeqCst);
        }
    }
    let (unread, refused) = (counts.unread.get(), counts.refused.get());
    let (cleaned, checkpoints) = (counts.cleaned.get(), counts.checkpoints.get());
    println!("{} values in pieces", counts.large.get());
    assert!(counts.large.get() > 0);
    println!("{cleaned} segments were cleaned; {checkpoints} checkpoints, {refused} refused");
    let expired = counts.expired.get();
    println!("{unread} segments were not read; {expired} records expired");
    assert!(cleaned > 0 && checkpoints > 0 && unread > 0 && expired > 0);
}

#[test]
fn what_was_acknowledged_survives_a_crash() {
    crashes(Durability::Each);
}

#[test]
fn without_durability_a_crash_leaves_the_state_after_some_operation() {
    crashes(Durability::None);
}

//! Random work on a simulated disk that crashes: what was acknowledged as durable is there
//! afterwards, and everything that is there ends at one operation.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use fastrand::Rng;
use timberline_io::{Disk, Faults, Simulation};
use timberline_store::{Batch, Durability, Error, Options, Store, join};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Writes that take effect together.
type Change = Vec<(Vec<u8>, Option<Vec<u8>>)>;

fn options(durability: Durability) -> Options {
    Options {
        // So much that nothing is evicted: a run is to repeat.
        cache_bytes: 1 << 20,
        memory_bytes: u64::MAX,
        durability,
        segment_bytes: 64 << 10,
        capacity: 40 * (64 << 10),
        evict: false,
        direct: false,
    }
}

fn draw_change(rng: &mut Rng) -> Change {
    let writes = if rng.u8(0..5) == 0 {
        rng.usize(2..5)
    } else {
        1
    };
    let write = |_| {
        let key = format!("key {}", rng.u32(0..60)).into_bytes();
        let put = rng.u8(0..4) > 0;
        let long = if rng.u8(0..20) == 0 { 1700 } else { 600 };
        let value = put.then(|| vec![rng.u8(..); rng.usize(0..long)]);
        (key, value)
    };
    (0..writes).map(write).collect()
}

fn apply(model: &mut Model, change: &Change) {
    for (key, value) in change {
        match value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(key),
        };
    }
}

async fn write(store: &Store, change: &Change) -> Result<(), Error> {
    if let [(key, value)] = &change[..] {
        return match value {
            Some(value) => store.put(key, value).await,
            None => store.delete(key).await.map(|_| ()),
        };
    }
    let mut batch = Batch::new();
    for (key, value) in change {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        }
    }
    store.write(&batch).await
}

async fn content(store: &Store) -> Model {
    let mut all = Model::new();
    for key in 0..60 {
        let key = format!("key {key}").into_bytes();
        if let Some(value) = store.get(&key).await.expect("it is read") {
            all.insert(key, value);
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
) -> (Simulation, Vec<Model>) {
    let (disk, mut driver) = Disk::simulated(simulation);
    let mut states = Vec::new();
    let (durable, is_closed) = (Cell::new(0), Cell::new(false));
    driver.block_on(async {
        let (store, report) = Store::open_on(&disk, Path::new("store"), options(durability))
            .await
            .expect("it opens");
        assert_eq!(report.damaged, []);
        counts.unread.set(counts.unread.get() + report.unread);
        let refused = counts.refused.get() + report.checkpoints.len();
        counts.refused.set(refused);
        let mut model = content(&store).await;
        assert!(
            allowed.contains(&model),
            "{} states, none is it",
            allowed.len()
        );
        states.push(model.clone());
        // From now on it is durable: opening has synced it.
        simulation.set_faults(Faults {
            short: 0.1,
            power_off: Some(simulation.requests() + rng.u64(0..600)),
            ..Faults::default()
        });
        let work = async {
            loop {
                if rng.u16(0..1000) == 0 {
                    is_closed.set(true);
                    break;
                }
                if rng.u8(0..100) == 0 {
                    store.begin_checkpoint();
                }
                let change = draw_change(rng);
                apply(&mut model, &change);
                states.push(model.clone());
                if write(&store, &change).await.is_err() {
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
        counts
            .checkpoints
            .set(counts.checkpoints.get() + stats.checkpoints);
    });
    (simulation.crash(), states.split_off(durable.get()))
}

/// Twenty disks, from the seed in `TIMBERLINE_SEED` on.
fn crashes(durability: Durability) {
    let first = match std::env::var("TIMBERLINE_SEED") {
        Ok(text) => text.parse().expect("TIMBERLINE_SEED is a whole number"),
        Err(_) => 1u64,
    };
    let counts = Counts::default();
    for seed in first..first + 20 {
        println!("TIMBERLINE_SEED={seed}");
        let mut rng = Rng::with_seed(seed);
        let mut simulation = Simulation::new(seed);
        let mut allowed = vec![Model::new()];
        for _ in 0..6 {
            (simulation, allowed) =
                generation(&simulation, &allowed, durability, &mut rng, &counts);
        }
    }
    let (unread, refused) = (counts.unread.get(), counts.refused.get());
    let (cleaned, checkpoints) = (counts.cleaned.get(), counts.checkpoints.get());
    println!("{cleaned} segments were cleaned; {checkpoints} checkpoints, {refused} refused");
    println!("{unread} segments were not read");
    assert!(cleaned > 0 && checkpoints > 0 && unread > 0);
}

#[test]
fn what_was_acknowledged_survives_a_crash() {
    crashes(Durability::Each);
}

#[test]
fn without_durability_a_crash_leaves_the_state_after_some_operation() {
    crashes(Durability::None);
}

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
        durability,
        segment_bytes: 64 << 10,
        capacity: 40 * (64 << 10),
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

/// Opens the store, checks that it holds one of the states that are allowed, works on it until the
/// power goes off, and returns the disk after the crash with the states that are allowed then.
fn generation(
    simulation: &Simulation,
    allowed: &[Model],
    durability: Durability,
    rng: &mut Rng,
    cleaned: &Cell<u64>,
) -> (Simulation, Vec<Model>) {
    let (disk, mut driver) = Disk::simulated(simulation);
    let mut states = Vec::new();
    let durable = Cell::new(0);
    driver.block_on(async {
        let (store, report) = Store::open(&disk, Path::new("store"), options(durability))
            .await
            .expect("it opens");
        assert_eq!(report.damaged, []);
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
        let _ = join(work, store.maintain()).await;
        cleaned.set(cleaned.get() + store.stats().cleaned);
    });
    (simulation.crash(), states.split_off(durable.get()))
}

/// Twenty disks, from the seed in `TIMBERLINE_SEED` on.
fn crashes(durability: Durability) {
    let first = match std::env::var("TIMBERLINE_SEED") {
        Ok(text) => text.parse().expect("TIMBERLINE_SEED is a whole number"),
        Err(_) => 1u64,
    };
    let cleaned = Cell::new(0);
    for seed in first..first + 20 {
        println!("TIMBERLINE_SEED={seed}");
        let mut rng = Rng::with_seed(seed);
        let mut simulation = Simulation::new(seed);
        let mut allowed = vec![Model::new()];
        for _ in 0..6 {
            (simulation, allowed) =
                generation(&simulation, &allowed, durability, &mut rng, &cleaned);
        }
    }
    println!("{} segments were cleaned", cleaned.get());
    assert!(cleaned.get() > 0, "nothing was cleaned");
}

#[test]
fn what_was_acknowledged_survives_a_crash() {
    crashes(Durability::Each);
}

#[test]
fn without_durability_a_crash_leaves_the_state_after_some_operation() {
    crashes(Durability::None);
}

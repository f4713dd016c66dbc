//! Each request of a store at work fails once: all that was acknowledged is there after a crash.

use std::collections::BTreeMap;
use std::path::Path;

use fastrand::Rng;
use timberline_io::{Disk, Faults, Simulation};
use timberline_store::{Batch, Error, Expiry, Options, Store, join};

use crate::{SEGMENT, options, with_store};

/// For each key what its value may be: more than one after a write that failed.
type Allowed = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

const KEYS: u32 = 60;
const WRITES: usize = 250;

fn set_up() -> Options {
    Options {
        capacity: 8 * SEGMENT,
        cache_bytes: 0,
        ..options()
    }
}

fn draw_key(rng: &mut Rng) -> Vec<u8> {
    format!("key {}", rng.u32(0..KEYS)).into_bytes()
}

fn draw_value(rng: &mut Rng) -> Vec<u8> {
    vec![rng.u8(..); rng.usize(0..2000)]
}

/// A write of some kind, and what it makes of its keys.
async fn write(
    store: &Store,
    rng: &mut Rng,
    before: &Allowed,
) -> (Vec<(Vec<u8>, Option<Vec<u8>>)>, Result<(), Error>) {
    let (key, value) = (draw_key(rng), draw_value(rng));
    match rng.u8(0..6) {
        0 => {
            let deleted = store.delete(&key).await.map(drop);
            (vec![(key, None)], deleted)
        }
        1 => {
            let mut batch = Batch::new();
            let mut changes = BTreeMap::new();
            for _ in 0..rng.usize(2..6) {
                let key = draw_key(rng);
                let put = rng.bool().then(|| draw_value(rng));
                match &put {
                    Some(value) => batch.put(&key, value),
                    None => batch.delete(&key),
                }
                changes.insert(key, put);
            }
            let written = store.write(&batch).await;
            (changes.into_iter().collect(), written)
        }
        2 => {
            let old = before.get(&key).map_or(&None, |it| &it[0]).as_deref();
            let set = store.compare_and_set(&key, old, Some(&value)).await;
            let set = set.map(|it| it.expect("it is the value"));
            (vec![(key, Some(value))], set)
        }
        3 => {
            let at = Expiry::At(u64::MAX - 1);
            let put = store.put_expiring(&key, &value, at).await;
            (vec![(key, Some(value))], put)
        }
        _ => {
            let put = store.put(&key, &value).await;
            (vec![(key, Some(value))], put)
        }
    }
}

/// Works until a write fails, and then on. What each key may have at the end, and whether a backup
/// was made.
async fn work(store: &Store, rng: &mut Rng, mut allowed: Allowed) -> (Allowed, bool) {
    let mut failed = false;
    for nth in 0..WRITES {
        match nth {
            100 => store.begin_checkpoint(),
            150 => store.begin_expiry(),
            _ => {}
        }
        if failed && rng.u8(0..6) > 0 {
            continue;
        }
        let before = if failed {
            Allowed::new()
        } else {
            allowed.clone()
        };
        // Once a write failed, it is not known what a comparison finds.
        let (changes, written) = match failed {
            false => write(store, rng, &before).await,
            true => {
                let (key, value) = (draw_key(rng), draw_value(rng));
                let put = store.put(&key, &value).await;
                (vec![(key, Some(value))], put)
            }
        };
        failed |= written.is_err();
        for (key, value) in changes {
            let states = allowed.entry(key).or_insert_with(|| vec![None]);
            if written.is_ok() {
                states.clear();
            }
            states.push(value);
        }
    }
    let copied = store.backup(Path::new("copy")).await;
    (allowed, copied.is_ok())
}

async fn holds(disk: &Disk, folder: &str, allowed: &Allowed, context: &str) {
    let opened = Store::open_on(disk, Path::new(folder), set_up()).await;
    let (store, report) = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!((report.damaged, report.lost), (vec![], vec![]), "{context}");
    for (key, states) in allowed {
        let read = store.get(key).await.expect("it is read");
        let key = key.escape_ascii();
        assert!(states.contains(&read), "{context}, \"{key}\": {read:?}");
    }
}

/// Opens a store that has records and works on it, with the nth request failing. Returns whether
/// there were so many.
fn failing(n: u64) -> bool {
    let simulation = Simulation::new(n);
    let (disk, mut driver) = Disk::simulated(&simulation);
    let mut rng = Rng::with_seed(31);
    let mut allowed = Allowed::new();
    driver.block_on(with_store(&disk, set_up(), async |store| {
        for _ in 0..KEYS {
            let (key, value) = (draw_key(&mut rng), draw_value(&mut rng));
            store.put(&key, &value).await.expect("there is space");
            allowed.insert(key, vec![Some(value)]);
        }
    }));
    let failed_request = Some(simulation.requests() + n);
    simulation.set_faults(Faults {
        failed_request,
        ..Faults::default()
    });
    let mut has_copy = false;
    driver.block_on(async {
        let opened = Store::open_on(&disk, Path::new("store"), set_up()).await;
        let Ok((store, _)) = opened else {
            return;
        };
        let work = async {
            let done = work(&store, &mut rng, allowed.clone()).await;
            store.close();
            done
        };
        // Whatever failed is told to those who wrote.
        ((allowed, has_copy), _) = join(work, store.maintain()).await;
    });
    let was_reached = Some(simulation.requests()) > failed_request;
    let after = simulation.crash();
    let (disk, mut driver) = Disk::simulated(&after);
    driver.block_on(async {
        holds(&disk, "store", &allowed, &format!("request {n}")).await;
        if has_copy {
            holds(&disk, "copy", &allowed, &format!("request {n}, the copy")).await;
        }
    });
    was_reached
}

#[test]
fn all_that_was_acknowledged_is_there_whatever_request_fails() {
    let failed = (0..).take_while(|&n| failing(n)).count();
    println!("{failed} requests failed, one at a time");
    assert!(failed > 300, "{failed}");
}

//! Records of bytes in the pool, compared with a map.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use timberline_io::wait_for;
use timberline_remote::fabric::{Connection, InProcess};
use timberline_remote::pool::Origin;
use timberline_remote::records::{MAX_RECORD, Records};
use timberline_remote::{Address, Error, Layout, Options, Result, load_if_empty};

const ORIGIN: Origin = Origin { data: 5, base: 9 };

fn join(pool: &InProcess) -> Result<Records> {
    let options = Options {
        cache_bytes: 200 << 10,
        ..Options::default()
    };
    let lease = Duration::from_secs(3600);
    wait_for(Records::join(Arc::new(pool.client()), options, lease))
}

/// Bytes of the pool that are not free.
fn used(pool: &InProcess) -> u64 {
    let connection = Connection::new(Arc::new(pool.client()));
    let loads = (0..connection.servers()).map(|server| wait_for(connection.load(server)).unwrap());
    loads.map(|it| it.allocated_bytes).sum()
}

fn pool(servers: u16, bytes: usize) -> Result<InProcess> {
    let pool = InProcess::new(servers, bytes)?;
    let layout = || Layout {
        boundaries: vec![8],
        ..Layout::default()
    };
    let make = || wait_for(load_if_empty(Arc::new(pool.client()), layout(), ORIGIN));
    assert!(make()?);
    assert!(!make()?, "it is there");
    Ok(pool)
}

/// Few places, so that keys share them; values of all sizes; places change hands.
#[test]
fn records_are_those_of_a_map() -> Result<()> {
    const PLACES: u64 = 16;
    let pool = pool(3, 16 << 20)?;
    let members = [join(&pool)?, join(&pool)?];
    assert_eq!(wait_for(members[0].member().origin())?, ORIGIN);
    wait_for(members[0].member().claim(&(0..=u64::MAX)))?;
    let mut model = BTreeMap::<(u64, Vec<u8>), (Vec<u8>, bool)>::new();
    let mut draws = fastrand::Rng::with_seed(11);
    let mut owner = 0;
    for round in 0..4_000 {
        let place = draws.u64(0..PLACES);
        let key = format!("key {}", draws.u64(0..3)).into_bytes();
        let id = (place, key.clone());
        let records = &members[owner];
        let other = wait_for(members[1 - owner].get(place, &key));
        assert_eq!(other, Err(Error::NotOwned(place)));
        let before = model.get(&id).map(|it| it.0.clone());
        assert_eq!(wait_for(records.get(place, &key))?, before, "round {round}");
        match draws.u8(0..10) {
            0..4 => {
                let most = [10, 100, 1_000, 1_100, 20_000, 300_000][draws.usize(0..6)];
                let value = vec![draws.u8(..); draws.usize(0..most)];
                let marked = draws.bool();
                let put = wait_for(records.put(place, &key, &value, marked))?;
                assert_eq!(put, before);
                model.insert(id, (value, marked));
            }
            4..7 => {
                assert_eq!(wait_for(records.remove(place, &key))?, before);
                model.remove(&id);
            }
            7 if round % 20 == 0 => {
                let to = members[1 - owner].member();
                let from = records.member();
                wait_for(from.hand_over(0..=u64::MAX, to.compute()))?;
                wait_for(to.sync())?;
                owner = 1 - owner;
            }
            8 => {
                let places = place..=PLACES;
                let marked = draws.bool();
                let expected = model.iter().filter(|it| it.0.0 >= place);
                let expected = expected.filter(|it| it.1.1 || !marked);
                let expected: Vec<_> = expected.map(|(id, it)| (id.clone(), it.clone())).collect();
                let (mut found, mut next) = (Vec::new(), Some(place));
                while let Some(from) = next {
                    let most = draws.usize(1..5);
                    let (some, rest) = wait_for(records.list(from..=PLACES, most, marked))?;
                    found.extend(some);
                    next = rest;
                }
                let found = found.into_iter();
                let mut found: Vec<_> = found
                    .map(|(place, it)| ((place, it.key), (it.value, it.marked)))
                    .collect();
                found.sort();
                assert_eq!(found, expected);
                let counted = wait_for(records.count(places))?;
                assert!(marked || counted == found.len() as u64);
            }
            _ => {}
        }
    }
    assert!(model.len() > 5);
    for (place, key) in model.into_keys() {
        assert!(wait_for(members[owner].remove(place, &key))?.is_some());
    }
    assert_eq!(wait_for(members[owner].count(0..=u64::MAX))?, 0);
    Ok(())
}

/// What is freed is used again: a pool of 2 MiB takes many times as much, one after the other.
#[test]
fn a_full_pool_refuses_and_loses_nothing() -> Result<()> {
    let pool = pool(2, 1 << 20)?;
    let records = join(&pool)?;
    wait_for(records.member().claim(&(0..=u64::MAX)))?;
    let value = |number: u64| vec![number as u8; 3_000];
    let put = |number: u64| wait_for(records.put(number << 40, b"key", &value(number), false));
    let full = (0..).find_map(|number| put(number).err().map(|error| (number, error)));
    let (count, error) = full.unwrap();
    assert!(matches!(error, Error::PoolFull(_)), "{error}");
    assert!(count > 100, "{count}");
    for number in 0..count {
        let found = wait_for(records.get(number << 40, b"key"))?;
        assert_eq!(found, Some(value(number)));
    }
    assert_eq!(wait_for(records.get(count << 40, b"key"))?, None);
    // A record that does not fit changes nothing.
    let long = vec![1; 1 << 20];
    let refused = wait_for(records.put(0, b"key", &long, false));
    assert!(matches!(refused, Err(Error::PoolFull(_))), "{refused:?}");
    assert_eq!(wait_for(records.get(0, b"key"))?, Some(value(0)));
    let longer = vec![1; MAX_RECORD];
    let refused = wait_for(records.put(0, b"key", &longer, false));
    assert!(
        matches!(refused, Err(Error::RecordTooLong(_))),
        "{refused:?}"
    );
    for number in 0..count {
        wait_for(records.remove(number << 40, b"key"))?;
    }
    for round in 0..10 * count {
        put(round % (count / 2))?;
    }
    for number in 0..count {
        wait_for(records.remove(number << 40, b"key"))?;
    }
    let before = used(&pool);
    wait_for(records.leave())?;
    assert!(used(&pool) < before / 2, "{} of {before}", used(&pool));
    Ok(())
}

/// A reader that is late finds other records where a block was, and is not misled; nor does it see
/// a value before it counts.
#[test]
fn readers_and_writers_do_not_disturb_each_other() -> Result<()> {
    const PLACES: usize = 4;
    let pool = pool(1, 4 << 20)?;
    let records = join(&pool)?;
    wait_for(records.member().claim(&(0..=u64::MAX)))?;
    let value = |place: usize, number: u64| {
        let mut value = vec![place as u8; 20 + 37 * number as usize % 3_000];
        value[..8].copy_from_slice(&number.to_le_bytes());
        value
    };
    for place in 0..PLACES {
        wait_for(records.put(place as u64, b"key", &value(place, 0), false))?;
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for lane in 0..2 {
            let (records, is_over) = (&records, &is_over);
            scope.spawn(move || {
                for number in 0..8_000 {
                    let place = 2 * (number as usize % (PLACES / 2)) + lane;
                    let value = value(place, number);
                    wait_for(records.put(place as u64, b"key", &value, false)).unwrap();
                }
                is_over.store(true, Relaxed);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = [0; PLACES];
                for place in (0..PLACES).cycle() {
                    if is_over.load(Relaxed) {
                        break;
                    }
                    let found = wait_for(records.get(place as u64, b"key"))
                        .unwrap()
                        .unwrap();
                    let number = u64::from_le_bytes(found[..8].try_into().unwrap());
                    assert_eq!(found, value(place, number));
                    assert!(number >= last[place], "{number} after {}", last[place]);
                    last[place] = number;
                }
            });
        }
    });
    Ok(())
}

#[test]
fn a_damaged_record_is_said() -> Result<()> {
    let pool = pool(1, 2 << 20)?;
    let records = join(&pool)?;
    wait_for(records.member().claim(&(0..=u64::MAX)))?;
    wait_for(records.put(7, b"key", &[1; 50], false))?;
    wait_for(records.put(8, b"key", &[1; 5_000], false))?;
    for place in [7, 8] {
        let word = wait_for(records.member().tree().get(place))?.unwrap();
        let at = Address::of_word(word & !31);
        let connection = Connection::new(Arc::new(pool.client()));
        wait_for(connection.write(at.add(16), vec![99, 99]))?;
        let damaged = Err(Error::Damaged(at));
        assert_eq!(wait_for(records.get(place, b"key")), damaged);
        assert_eq!(wait_for(records.remove(place, b"key")), damaged);
        assert_eq!(wait_for(records.get(9, b"key")), Ok(None));
    }
    Ok(())
}

/// The servers in another order are another pool, without a tree.
#[test]
fn a_pool_that_is_in_use_gets_no_second_tree() -> Result<()> {
    let pool = InProcess::new(2, 2 << 20)?;
    let connection = Connection::new(Arc::new(pool.client()));
    wait_for(connection.allocate(1))?;
    let made = wait_for(load_if_empty(
        Arc::new(pool.client()),
        Layout::default(),
        ORIGIN,
    ));
    assert_eq!(made, Err(Error::NotEmpty(1)));
    Ok(())
}

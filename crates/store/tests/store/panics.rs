//! A panic in a thread of the store is an error for all who wait for it, and what was acknowledged
//! stays.

use std::path::Path;

use crate::opened::{simulated, with_store};
use crate::{SEGMENT, options_with};
use timberline_io::{Disk, Faults};
use timberline_store::{Durability, Error, Options, Store};

const WRITERS: u8 = 3;

fn options() -> Options {
    Options {
        capacity: 12 * SEGMENT,
        ..options_with(Durability::Each)
    }
}

/// Puts values until one is refused, and says how many were acknowledged, and why not more.
fn put_all(store: &Store, writer: u8) -> (u32, Result<(), Error>) {
    for nth in 0..60u32 {
        let value = [&nth.to_le_bytes()[..], &[writer; 3000]].concat();
        if let Err(error) = store.blocking().put(&[writer], &value) {
            return (nth, Err(error));
        }
    }
    (60, Ok(()))
}

/// Maintenance asks for names when it makes segments, removes them and writes checkpoints.
#[test]
fn requests_of_maintenance_panic() {
    let (mut of_maintenance, mut n) = (0, 0);
    loop {
        let (simulation, disk, mut driver) = simulated(1);
        // It exists before anything panics.
        driver.block_on(with_store(&disk, options(), async |_| ()));
        simulation.set_faults(Faults {
            panicking_request: Some(simulation.requests() + n),
            ..Faults::default()
        });
        let opening = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Store::open_threaded((disk, driver), "store", options())
        }));
        let Ok(Ok((store, _))) = opening else {
            n += 5;
            continue;
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let put = |writer| {
                scope.spawn({
                    let store = &store;
                    move || put_all(store, writer)
                })
            };
            let writers: Vec<_> = (0..WRITERS).map(put).collect();
            writers
                .into_iter()
                .map(|it| it.join().expect("it ends"))
                .collect()
        });
        let stopped = store.stop();
        let refused = results.iter().filter_map(|it| it.1.as_ref().err());
        for error in refused {
            assert!(
                matches!(error, Error::ReadOnly(_) | Error::Disk(..)),
                "{n}: {error}"
            );
            of_maintenance += u32::from(error.to_string().contains("its maintenance panicked"));
            assert!(stopped.is_err(), "{n}");
            assert!(store.blocking().put(b"k", b"").is_err());
        }
        drop(store);
        let all_done = stopped.is_ok() && results.iter().all(|it| it.1.is_ok());
        simulation.set_faults(Faults::default());
        let (disk, mut driver) = Disk::simulated(&simulation.crash());
        driver.block_on(with_store(&disk, options(), async |store| {
            for (writer, (acknowledged, _)) in (0..WRITERS).zip(&results) {
                let value = store.get(&[writer]).await.expect("it is read");
                let last = value.map_or(0, |it| {
                    1 + u32::from_le_bytes(*it.first_chunk().expect("it has four"))
                });
                assert!((*acknowledged..=acknowledged + 1).contains(&last), "{n}");
            }
        }));
        if all_done {
            break;
        }
        n += 5;
    }
    println!("{n} requests, {of_maintenance} writers refused since maintenance panicked");
    assert!(of_maintenance > 0);
}

#[test]
fn who_waits_for_maintenance_that_is_dropped_gets_an_error() {
    let (_, disk, mut driver) = simulated(2);
    let (store, _) = driver
        .block_on(Store::open_on(&disk, Path::new("store"), options()))
        .expect("it opens");
    let waiter = std::thread::spawn({
        let store = store.clone();
        move || store.blocking().put(b"key", b"value")
    });
    // It begins, and waits for work.
    let mut maintenance = Box::pin(store.maintain());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(maintenance.as_mut().poll(&mut context).is_pending());
    drop(maintenance);
    let error = waiter
        .join()
        .expect("it ends")
        .expect_err("nobody commits it");
    let message = "the store takes no more writes since one failed: its maintenance was ended";
    assert_eq!(error.to_string(), message);
}

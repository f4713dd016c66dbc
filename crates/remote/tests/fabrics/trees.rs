//! The tree over each fabric.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use timberline_io::wait_for;
use timberline_remote::fabric::Fabric;
use timberline_remote::pool::CHUNK;
use timberline_remote::{Error, Layout, Member, Options, RemoteTree, load};

use super::beds::{connect, each, networks, server};

fn options() -> Options {
    Options {
        cache_bytes: 256 << 10,
        offloading: true,
        ..Options::default()
    }
}

#[test]
fn a_tree_has_what_was_put_there() {
    each(32, |bed| {
        let fabric = bed.client();
        bed.run(Box::pin(async move {
            let records = (0..6_000).map(|key| (3 * key, key));
            load(Arc::clone(&fabric), Layout::default(), records)
                .await
                .unwrap();
            let tree = RemoteTree::open(fabric, options()).await.unwrap();
            for number in 0..6_000 {
                assert_eq!(tree.get(3 * number).await, Ok(Some(number)));
                assert_eq!(tree.insert(3 * number + 1, number).await, Ok(None));
            }
            for number in (0..6_000).step_by(2) {
                assert_eq!(tree.remove(3 * number).await, Ok(Some(number)));
            }
            let mut scan = tree.scan(0..=u64::MAX).unwrap();
            let mut count = 0;
            while let Some((key, value)) = scan.next().await.unwrap() {
                assert_eq!(value, key / 3);
                count += 1;
            }
            assert_eq!(count, 9_000);
        }));
    });
}

/// A pool that is full refuses, and goes on.
#[test]
fn a_full_pool_refuses() {
    each(2, |bed| {
        let fabric = bed.client();
        bed.run(Box::pin(async move {
            load(Arc::clone(&fabric), Layout::default(), [])
                .await
                .unwrap();
            let tree = RemoteTree::open(fabric, options()).await.unwrap();
            let mut count = 0;
            let refused = loop {
                match tree.insert(count, count).await {
                    Ok(_) => count += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(refused, Error::PoolFull(_)), "{refused}");
            assert!(count > 3_000, "{count}");
            for key in (0..count).step_by(7) {
                assert_eq!(tree.get(key).await, Ok(Some(key)));
            }
            assert_eq!(tree.update(5, 6).await, Ok(Some(5)));
        }));
    });
}

/// Keys change hands to and fro while both members change them.
#[test]
fn keys_change_hands_under_load() {
    const KEYS: u64 = 4_000;
    const STRIDE: u64 = u64::MAX / KEYS;
    for kind in networks() {
        let servers = [0, 1].map(|_| server(&kind, 64 * CHUNK, None));
        let client = || connect(&kind, &servers, None).unwrap();
        let records = (0..KEYS).map(|number| (number * STRIDE, 0));
        wait_for(load(client(), Layout::default(), records)).unwrap();
        let join = |fabric: Arc<dyn Fabric>| {
            let options = Options {
                offloading: false,
                ..options()
            };
            wait_for(Member::join(fabric, options, Duration::from_secs(3_600))).unwrap()
        };
        let members = [join(client()), join(client())];
        wait_for(members[0].claim(&(0..=u64::MAX))).unwrap();
        let is_over = AtomicBool::new(false);
        let changes = AtomicU64::new(0);
        thread::scope(|scope| {
            let workers = [0, 1].map(|lane| {
                let (members, is_over, changes) = (&members, &is_over, &changes);
                scope.spawn(move || {
                    let mut last = vec![0; KEYS as usize];
                    let mut draws = fastrand::Rng::with_seed(lane);
                    while !is_over.load(Relaxed) {
                        let number = draws.u64(0..KEYS / 2) * 2 + lane;
                        let next = last[number as usize] + 1;
                        for member in members {
                            match wait_for(member.tree().update(number * STRIDE, next)) {
                                Err(Error::NotOwned(_)) => {}
                                result => {
                                    assert_eq!(result, Ok(Some(next - 1)), "{number}");
                                    last[number as usize] = next;
                                    changes.fetch_add(1, Relaxed);
                                    break;
                                }
                            }
                        }
                    }
                    last
                })
            });
            for round in 0..6 {
                let seen = changes.load(Relaxed);
                while changes.load(Relaxed) < seen + 200 {
                    thread::sleep(Duration::from_millis(1));
                }
                let (from, to) = (round % 2, (round + 1) % 2);
                let keys = members[from].tree().partitions()[0].clone();
                let compute = members[to].compute();
                wait_for(members[from].hand_over(keys, compute)).unwrap();
                wait_for(members[to].sync()).unwrap();
            }
            is_over.store(true, Relaxed);
            for (lane, worker) in workers.into_iter().enumerate() {
                let last = worker.join().unwrap();
                for number in (lane as u64..KEYS).step_by(2) {
                    let found = wait_for(members[0].tree().get(number * STRIDE));
                    assert_eq!(found, Ok(Some(last[number as usize])), "{kind}: {number}");
                }
            }
        });
    }
}

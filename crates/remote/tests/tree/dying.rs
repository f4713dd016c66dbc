//! A compute server that dies in the middle of a change to leaves that others write, too: at each
//! of its operations on the pool.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use crate::meddling::Meddling;
use timberline_io::wait_for;
use timberline_remote::fabric::{Completion, Connection, Fabric, InProcess};
use timberline_remote::{Check, Direct, Layout, NODE_ENTRIES, Options, RemoteTree, Turns, load};

/// A compute server that dies after so many operations: later ones do not begin, and do not end.
fn mortal(inner: InProcess, left: Arc<AtomicU64>) -> Arc<impl Fabric> {
    let start = move |inner: &InProcess, operation| {
        let left_now = left.load(Relaxed);
        if left_now == 0 {
            return Completion::pending().0;
        }
        left.store(left_now - 1, Relaxed);
        inner.start(operation)
    };
    Arc::new(Meddling { inner, start })
}

fn options(direct: Direct) -> Options {
    Options {
        cache_bytes: 84 << 10,
        copies: 0.0,
        direct: Some(direct),
        ..Options::default()
    }
}

fn open(fabric: Arc<dyn Fabric>, direct: Direct) -> RemoteTree {
    wait_for(RemoteTree::open(fabric, options(direct))).unwrap()
}

/// One server splits a leaf and dies. Another one has an old copy of the parent, a third one comes
/// new. Whoever changes a record, the others read that.
#[test]
fn a_split_may_end_anywhere() {
    const KEYS: u64 = NODE_ENTRIES as u64;
    let direct = Direct {
        check: Check::Checksum,
        turns: Turns::Alone,
        cached_ways: true,
    };
    let (mut deaths, mut is_alive) = (0, false);
    while !is_alive {
        // Who goes on first: the one that comes new, or the one with the old copy; and where.
        for (new_first, key) in [(true, 4), (true, 90), (false, 4), (false, 90)] {
            let pool = InProcess::new(1, 4 << 20).unwrap();
            let layout = Layout {
                shared_leaves: true,
                fill: 1.0,
                ..Layout::default()
            };
            // Three leaves that are full; the middle one is split.
            let records = (0..3 * KEYS).map(|number| (2 * number, number));
            wait_for(load(Arc::new(pool.clone()), layout, records)).unwrap();
            let first = 2 * KEYS;
            let key = first + key;
            let old = open(Arc::new(pool.client()), direct);
            assert_eq!(wait_for(old.get(key)), Ok(Some(key / 2)));
            let left = Arc::new(AtomicU64::new(u64::MAX));
            let dying = mortal(pool.client(), Arc::clone(&left));
            let compute = dying.compute();
            let tree = open(dying.clone(), direct);
            left.store(deaths, Relaxed);
            let inserted = {
                let mut insert = pin!(tree.insert(first + 41, 7));
                // Nothing is waited for but the pool.
                let mut context = Context::from_waker(Waker::noop());
                insert.as_mut().poll(&mut context)
            };
            is_alive = inserted.is_ready();
            let judge = Connection::new(Arc::new(pool.client()));
            wait_for(judge.fence(compute)).unwrap();

            let new = open(Arc::new(pool.client()), direct);
            let [one, other] = match new_first {
                true => [&new, &old],
                false => [&old, &new],
            };
            let at = format!("death after {deaths}, new first: {new_first}, key {key}");
            assert_eq!(wait_for(one.update(key, 1)), Ok(Some(key / 2)), "{at}");
            assert_eq!(wait_for(other.get(key)), Ok(Some(1)), "{at}");
            assert_eq!(wait_for(other.update(key, 2)), Ok(Some(1)), "{at}");
            assert_eq!(wait_for(one.get(key)), Ok(Some(2)), "{at}");
            for tree in [one, other] {
                wait_for(tree.insert(key + 1, 3)).unwrap();
                assert_eq!(wait_for(tree.get(key + 1)), Ok(Some(3)), "{at}");
            }
            // All records are there, once.
            for tree in [one, other] {
                let mut scan = tree.scan(0..=u64::MAX).unwrap();
                let mut found = Vec::new();
                while let Some((key, _)) = wait_for(scan.next()).unwrap() {
                    found.push(key);
                }
                assert!(found.is_sorted_by(|a, b| a < b), "{at}");
                let loaded = found.iter().filter(|key| *key % 2 == 0);
                assert_eq!(loaded.count() as u64, 3 * KEYS, "{at}");
                let is_there = found.contains(&(first + 41));
                assert!(is_there || inserted != Poll::Ready(Ok(None)), "{at}");
            }
        }
        deaths += 1;
    }
    assert!(deaths > 12, "a split takes more than {deaths} operations");
}

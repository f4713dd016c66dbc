//! Readers beside threads that replace nodes.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::epoch::{Domain, guard};

/// A node that is reused instead of freed, so that a reader that comes too late detects it.
struct Node {
    /// A new one at each reuse.
    stamp: AtomicU64,
}

const DEAD: u64 = 0;

/// Threads replace nodes while others read them for a while: no reader sees a node freed or reused.
fn replace_and_look(is_fenced: bool) {
    const ROUNDS: u64 = if cfg!(miri) { 200 } else { 30_000 };
    let cells: [AtomicPtr<Node>; 4] = Default::default();
    let pool = Arc::new(Mutex::new(Vec::<&'static Node>::new()));
    let (stamps, replaced, freed) = (
        AtomicU64::new(DEAD + 1),
        AtomicU64::new(0),
        Arc::new(AtomicU64::new(0)),
    );
    let make = || {
        let node = pool.lock().unwrap().pop().unwrap_or_else(|| {
            let stamp = AtomicU64::new(DEAD);
            Box::leak(Box::new(Node { stamp }))
        });
        node.stamp.store(stamps.fetch_add(1, Relaxed), Relaxed);
        std::ptr::from_ref(node).cast_mut()
    };
    for cell in &cells {
        cell.store(make(), Relaxed);
    }
    let (domain, writers_left) = (Domain::new(), AtomicUsize::new(2));
    thread::scope(|scope| {
        for writer in 0..2 {
            let (cells, make, pool, freed) = (&cells, &make, &pool, &freed);
            let (domain, replaced, writers_left) = (&domain, &replaced, &writers_left);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let guard = domain.pin();
                    let old = cells[((round + writer) % 4) as usize].swap(make(), AcqRel);
                    // SAFETY: nodes are leaked.
                    let old: &'static Node = unsafe { &*old };
                    let (pool, freed) = (pool.clone(), freed.clone());
                    guard.defer(move || {
                        old.stamp.store(DEAD, Relaxed);
                        pool.lock().unwrap().push(old);
                        freed.fetch_add(1, Relaxed);
                    });
                    replaced.fetch_add(1, Relaxed);
                    if round.is_multiple_of(100) {
                        guard.flush();
                    }
                }
                writers_left.fetch_sub(1, Relaxed);
            });
        }
        for reader in 0..2 {
            let (domain, cells, writers_left) = (&domain, &cells, &writers_left);
            scope.spawn(move || {
                if is_fenced {
                    guard::fence_from_now_on(domain);
                }
                let mut looks = 0_usize;
                while writers_left.load(Relaxed) > 0 {
                    let _guard = domain.pin();
                    looks += 1;
                    // SAFETY: nodes are leaked.
                    let node = unsafe { &*cells[(looks + reader) % 4].load(Acquire) };
                    let stamp = node.stamp.load(Relaxed);
                    assert_ne!(stamp, DEAD, "a dead node was reached");
                    if looks.is_multiple_of(1000) {
                        thread::yield_now();
                    }
                    for _ in 0..looks % 32 {
                        assert_eq!(
                            node.stamp.load(Relaxed),
                            stamp,
                            "a node died under a reader"
                        );
                    }
                }
            });
        }
    });
    // The destructors of the scope's threads may still be about to seal the last bags.
    domain.collect_all();
    assert_eq!(freed.load(Relaxed), replaced.into_inner());
}

#[test]
fn no_reader_sees_a_freed_node() {
    replace_and_look(false);
}

#[test]
fn no_reader_that_crosses_its_own_barrier_sees_a_freed_node() {
    replace_and_look(true);
}

//! The domain alone, where one thread plays all and nothing is left to chance; then real threads, which share the one
//! domain of the process with the other tests: those hold the epoch back at times, so freeing is waited for.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use super::deferred::Deferred;
use super::domain::Domain;
use super::{Guard, collect, is_pinned, local, pin};

/// Sealed garbage of one call, which counts.
fn seal(domain: &Domain, freed: &Arc<AtomicUsize>) {
    let freed = freed.clone();
    let call = Deferred::new(move || {
        freed.fetch_add(1, Relaxed);
    });
    domain.garbage().seal(vec![call]);
}

fn advance_and_free(domain: &Domain) {
    let mut garbage = domain.garbage();
    garbage.advance();
    while let Some(bag) = garbage.take_free() {
        bag.into_iter().for_each(Deferred::call);
    }
}

#[test]
fn garbage_is_freed_two_epochs_after_it_was_sealed() {
    let (domain, freed) = (Domain::new(), Arc::default());
    seal(&domain, &freed);
    advance_and_free(&domain);
    assert_eq!(freed.load(Relaxed), 0);
    seal(&domain, &freed);
    advance_and_free(&domain);
    assert_eq!(freed.load(Relaxed), 1, "the older bag alone");
    advance_and_free(&domain);
    assert_eq!(freed.load(Relaxed), 2);
}

#[test]
fn a_pinned_thread_holds_back_what_was_sealed_since_and_nothing_older() {
    let (domain, before, since) = (Domain::new(), Arc::default(), Arc::default());
    seal(&domain, &before);
    advance_and_free(&domain);
    let slot = domain.take_slot();
    domain.enter(slot);
    seal(&domain, &since);
    for _ in 0..5 {
        advance_and_free(&domain);
    }
    assert_eq!((before.load(Relaxed), since.load(Relaxed)), (1, 0));
    slot.leave();
    advance_and_free(&domain);
    assert_eq!(since.load(Relaxed), 1);
}

#[test]
fn slots_are_used_again() {
    let domain = Domain::new();
    let (first, second) = (domain.take_slot(), domain.take_slot());
    assert!(!std::ptr::eq(first, second));
    first.give_up();
    assert!(std::ptr::eq(domain.take_slot(), first));
}

/// Reclaims until `done`, but not for ever.
fn reclaim_until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..20_000 {
        collect();
        if done() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("never came: {what}");
}

#[test]
fn a_thread_is_pinned_as_long_as_any_of_its_guards_lives() {
    assert!(!is_pinned());
    let outer = pin();
    let inner = pin();
    drop(outer);
    assert!(is_pinned());
    thread::spawn(|| assert!(!is_pinned())).join().unwrap();
    drop(inner);
    assert!(!is_pinned());
}

#[test]
fn another_threads_guard_holds_back_the_call() {
    let freed = Arc::new(AtomicBool::new(false));
    let (pinned, flushed) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = pin();
            pinned.wait();
            flushed.wait();
            assert!(!freed.load(Relaxed));
            drop(guard);
        });
        pinned.wait();
        let call = {
            let freed = freed.clone();
            move || freed.store(true, Relaxed)
        };
        pin().defer(call);
        (0..10).for_each(|_| collect());
        flushed.wait();
    });
    reclaim_until("freeing", || freed.load(Relaxed));
}

#[test]
fn what_a_thread_deferred_is_freed_after_it_ended() {
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..8 {
        let count = count.clone();
        // Fewer than fill a bag.
        let deferring = move || {
            for _ in 0..5 {
                let count = count.clone();
                pin().defer(move || count.fetch_add(1, Relaxed));
            }
        };
        thread::spawn(deferring).join().unwrap();
    }
    reclaim_until("40 calls", || count.load(Relaxed) == 40);
}

#[test]
fn destructors_of_an_ending_thread_may_pin_and_defer() {
    struct Last(
        Arc<AtomicUsize>,
        #[expect(dead_code, reason = "dropped last")] Option<Guard>,
    );
    impl Drop for Last {
        fn drop(&mut self) {
            for _ in 0..3 {
                let count = self.0.clone();
                pin().defer(move || count.fetch_add(1, Relaxed));
            }
        }
    }
    thread_local! {
        static FIRST: RefCell<Option<Last>> = const { RefCell::new(None) };
        static SECOND: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    let count = Arc::new(AtomicUsize::new(0));
    for is_pinned_at_end in [false, true] {
        let count = count.clone();
        // One is destroyed before what ends the thread's part in the epoch, one after.
        let ending = move || {
            FIRST.with(|last| *last.borrow_mut() = Some(Last(count.clone(), None)));
            let guard = is_pinned_at_end.then(pin);
            drop(pin());
            SECOND.with(|last| *last.borrow_mut() = Some(Last(count, guard)));
        };
        thread::spawn(ending).join().unwrap();
    }
    reclaim_until("12 calls", || count.load(Relaxed) == 12);
}

#[test]
fn calls_may_pin_and_defer_and_flush_and_do_not_nest() {
    static DEPTH: AtomicUsize = AtomicUsize::new(0);
    fn again(left: usize, done: Arc<AtomicUsize>, is_in_one: Arc<AtomicBool>) {
        assert!(!is_in_one.swap(true, Relaxed), "a call within a call");
        let guard = pin();
        done.fetch_add(1, Relaxed);
        if left > 0 {
            let (done, is_in_one) = (done.clone(), is_in_one.clone());
            guard.defer(move || again(left - 1, done, is_in_one));
        }
        for _ in 0..100 {
            guard.defer(|| DEPTH.fetch_add(1, Relaxed));
        }
        guard.flush();
        drop(guard);
        collect();
        is_in_one.store(false, Relaxed);
    }
    let (done, is_in_one) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let first = done.clone();
    pin().defer(move || again(20, first, is_in_one));
    reclaim_until("21 calls", || {
        done.load(Relaxed) == 21 && DEPTH.load(Relaxed) == 2100
    });
}

#[test]
fn full_bags_are_freed_without_a_flush() {
    const MADE: usize = 1_000_000;
    let freed = Arc::new(AtomicUsize::new(0));
    for made in 0..MADE {
        let counted = freed.clone();
        pin().defer(move || counted.fetch_add(1, Relaxed));
        if freed.load(Relaxed) > 10_000 {
            return;
        }
        if made.is_multiple_of(64) {
            // Other tests may be pinned and off their cores.
            thread::yield_now();
        }
    }
    panic!("{} of {MADE} freed", freed.load(Relaxed));
}

/// A node whose memory is not given back but used again, so that a reader who comes too late finds out.
struct Node {
    /// Another one in each life.
    stamp: AtomicU64,
}

const DEAD: u64 = 0;

/// Threads that replace nodes, beside threads that look at them for a while: nobody sees a node die or get another life.
fn replace_and_look(is_fenced: bool) {
    const ROUNDS: u64 = 30_000;
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
    let writers_left = AtomicUsize::new(2);
    thread::scope(|scope| {
        for writer in 0..2 {
            let (cells, make, pool, freed) = (&cells, &make, &pool, &freed);
            let (replaced, writers_left) = (&replaced, &writers_left);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let guard = pin();
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
            let (cells, writers_left) = (&cells, &writers_left);
            scope.spawn(move || {
                if is_fenced {
                    local::fence_from_now_on();
                }
                let mut looks = 0_usize;
                while writers_left.load(Relaxed) > 0 {
                    let _guard = pin();
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
    let replaced = replaced.into_inner();
    reclaim_until("all nodes", || freed.load(Relaxed) == replaced);
}

#[test]
fn no_reader_sees_a_freed_node() {
    replace_and_look(false);
}

#[test]
fn no_reader_that_crosses_its_own_barrier_sees_a_freed_node() {
    replace_and_look(true);
}

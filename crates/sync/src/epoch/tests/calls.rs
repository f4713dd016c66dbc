//! Deferred calls: when they are made, what they may do, and what a panic leaves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, LazyLock, Mutex};

use super::defer_count;
use crate::epoch::Domain;

#[test]
fn calls_may_pin_and_defer_and_flush_and_do_not_nest() {
    struct Again {
        domain: &'static Domain,
        done: AtomicUsize,
        small: AtomicUsize,
        is_in_one: AtomicBool,
    }
    fn again(left: usize, all: Arc<Again>) {
        assert!(!all.is_in_one.swap(true, Relaxed), "a call within a call");
        let guard = all.domain.pin();
        all.done.fetch_add(1, Relaxed);
        if left > 0 {
            let all = all.clone();
            guard.defer(move || again(left - 1, all));
        }
        for _ in 0..100 {
            let all = all.clone();
            guard.defer(move || all.small.fetch_add(1, Relaxed));
        }
        guard.flush();
        guard.flush_at_end();
        drop(guard);
        all.domain.collect();
        all.is_in_one.store(false, Relaxed);
    }
    static DOMAIN: LazyLock<Domain> = LazyLock::new(Domain::new);
    let all = Arc::new(Again {
        domain: &DOMAIN,
        done: AtomicUsize::new(0),
        small: AtomicUsize::new(0),
        is_in_one: AtomicBool::new(false),
    });
    let first = all.clone();
    DOMAIN.pin().defer(move || again(20, first));
    for _ in 0..50 {
        DOMAIN.collect();
    }
    assert_eq!(all.done.load(Relaxed), 21);
    assert_eq!(all.small.load(Relaxed), 2100);
}

/// Retiring under a lock, when memory is short: the call takes the lock itself.
#[test]
fn a_flush_at_the_end_comes_when_the_last_guard_has_gone() {
    let (domain, lock) = (Domain::new(), Arc::new(Mutex::new(0)));
    for _ in 0..10 {
        let outer = domain.pin();
        let held = lock.lock().unwrap();
        let guard = domain.pin();
        let call = {
            let lock = lock.clone();
            move || *lock.try_lock().expect("it is free") += 1
        };
        guard.defer(call);
        guard.flush_at_end();
        drop(guard);
        drop(held);
        drop(outer);
    }
    assert!(*lock.lock().unwrap() >= 8, "all but the youngest");
}

/// A bag that is due is emptied by the next pin, before there is a guard to be dropped.
#[test]
fn a_call_that_panics_in_a_pin_leaves_the_thread_unpinned() {
    let (domain, count) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    domain.pin().defer(|| panic!("as the test wants"));
    defer_count(&domain, &count);
    let caught = (0..1_000).find_map(|_| {
        let pinned = catch_unwind(AssertUnwindSafe(|| drop(domain.pin())));
        assert!(!domain.is_pinned());
        domain.pin().defer(|| ());
        pinned.err()
    });
    assert!(caught.is_some(), "full bags are due");
    domain.collect();
    assert_eq!(count.load(Relaxed), 1, "nothing holds the epoch back");
}

#[test]
fn a_call_that_panics_leaves_the_rest_for_later() {
    let (domain, done) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    let guard = domain.pin();
    for call in 0..10 {
        let done = done.clone();
        guard.defer(move || {
            assert_ne!(call, 4, "as the test wants");
            done.fetch_add(1, Relaxed);
        });
    }
    drop(guard);
    let caught = catch_unwind(AssertUnwindSafe(|| domain.collect()));
    assert!(caught.is_err());
    assert!(!domain.is_pinned());
    assert_eq!(done.load(Relaxed), 4);
    domain.collect();
    assert_eq!(done.load(Relaxed), 9);
}

/// An operation that panics unwinds through its guard: the calls wait, or a second panic would end
/// the process.
#[test]
fn no_call_is_made_on_the_way_out_of_a_panic() {
    let domain = Domain::new();
    let count = Arc::new(AtomicUsize::new(0));
    defer_count(&domain, &count);
    domain.pin().flush();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let guard = domain.pin();
        guard.flush_at_end();
        panic!("as the test wants");
    }));
    assert!(caught.is_err() && !domain.is_pinned());
    assert_eq!(count.load(Relaxed), 0);
    drop(domain.pin());
    assert_eq!(count.load(Relaxed), 1);
}

#[test]
fn full_bags_are_freed_without_a_flush() {
    const MADE: usize = 10_000;
    let (domain, freed) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    (0..MADE).for_each(|_| defer_count(&domain, &freed));
    // The bag that is being filled, and those that wait for one or two more to be sealed.
    assert!(freed.load(Relaxed) > MADE - 5 * 64);
}

/// Calls wait in numbers that depend on what they free.
#[test]
fn bags_are_full_by_the_bytes_that_their_calls_free() {
    let waiting_after = |calls: usize, bytes: usize| {
        let (domain, freed) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..calls {
            let freed = freed.clone();
            let count = move || freed.fetch_add(1, Relaxed);
            domain.pin().defer_freeing(bytes, count);
        }
        calls - freed.load(Relaxed)
    };
    let (small, large) = (waiting_after(10_000, 24), waiting_after(10_000, 4 << 10));
    assert!((512..5 * 512).contains(&small), "{small} small ones wait");
    assert!((16..5 * 16).contains(&large), "{large} large ones wait");
}

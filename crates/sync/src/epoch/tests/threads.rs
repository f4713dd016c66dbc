//! Threads and domains: who is pinned where, and what a thread or a domain leaves when it ends.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Barrier, LazyLock};
use std::thread;

use super::{defer_count, in_a_thread};
use crate::epoch::{Domain, Guard};

#[test]
fn a_thread_is_pinned_as_long_as_any_of_its_guards_lives() {
    let (domain, other) = (Domain::new(), Domain::new());
    assert!(!domain.is_pinned());
    let outer = domain.pin();
    let inner = domain.pin();
    assert!(outer.is_of(&domain) && !inner.is_of(&other));
    drop(outer);
    assert!(domain.is_pinned() && !other.is_pinned());
    in_a_thread(|| assert!(!domain.is_pinned()));
    drop(inner);
    assert!(!domain.is_pinned());
}

#[test]
fn another_threads_guard_holds_back_the_call() {
    let (domain, freed) = (Domain::new(), Arc::new(AtomicBool::new(false)));
    let (pinned, flushed) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = domain.pin();
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
        domain.pin().defer(call);
        (0..10).for_each(|_| domain.collect());
        flushed.wait();
    });
    domain.collect();
    assert!(freed.load(Relaxed));
}

#[test]
fn a_guard_holds_back_its_own_domain_alone() {
    let domains: [Domain; 2] = Default::default();
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let guard = domains[0].pin();
    for (domain, count) in domains.iter().zip(&counts) {
        defer_count(domain, count);
        domain.collect();
    }
    assert_eq!(counts.each_ref().map(|count| count.load(Relaxed)), [0, 1]);
    drop(guard);
    domains[0].collect();
    assert_eq!(counts.each_ref().map(|count| count.load(Relaxed)), [1, 1]);
}

#[test]
fn what_a_thread_deferred_is_freed_after_it_ended() {
    let (domain, count) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..8 {
        // Fewer than fill a bag.
        in_a_thread(|| (0..5).for_each(|_| defer_count(&domain, &count)));
    }
    domain.collect();
    assert_eq!((count.load(Relaxed), domain.stuck()), (40, 0));
}

/// More threads than have their slots in the domain, in two of them.
#[test]
fn what_an_idle_thread_deferred_is_freed_by_another_that_collects_all() {
    let (domain, count, idle) = (Domain::new(), Arc::default(), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            defer_count(&domain, &count);
            idle.wait();
            idle.wait();
            defer_count(&domain, &count);
            domain.collect();
        });
        idle.wait();
        domain.collect();
        assert_eq!(count.load(Relaxed), 0);
        domain.collect_all();
        assert_eq!(count.load(Relaxed), 1);
        idle.wait();
    });
    assert_eq!(count.load(Relaxed), 2, "its slot is as it was");
}

#[test]
fn any_number_of_threads_has_slots() {
    const THREADS: usize = 100;
    let domains: [Domain; 2] = Default::default();
    let (count, barrier) = (Arc::new(AtomicUsize::new(0)), Barrier::new(THREADS));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let guards = domains.each_ref().map(Domain::pin);
                barrier.wait();
                domains
                    .iter()
                    .for_each(|domain| defer_count(domain, &count));
                domains.iter().for_each(Domain::collect);
                assert_eq!(count.load(Relaxed), 0, "all are pinned");
                barrier.wait();
                drop(guards);
            });
        }
    });
    domains.iter().for_each(Domain::collect);
    assert_eq!(count.load(Relaxed), 2 * THREADS);
}

#[test]
fn a_domain_that_ends_makes_the_calls_that_are_left_whoever_forgot_a_guard() {
    let (domain, count) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    let handle = domain.clone();
    std::mem::forget(domain.pin());
    defer_count(&domain, &count);
    domain.pin().flush();
    defer_count(&domain, &count);
    domain.pin().defer(|| panic!("as the test wants"));
    defer_count(&domain, &count);
    drop(domain);
    assert_eq!(count.load(Relaxed), 0);
    drop(handle);
    assert_eq!(count.load(Relaxed), 3);
}

#[test]
fn a_thread_that_ended_with_a_forgotten_guard_is_stuck_in_its_domain_alone() {
    let (domain, other) = (Domain::new(), Domain::new());
    let count = Arc::new(AtomicUsize::new(0));
    in_a_thread(|| {
        drop(other.pin());
        std::mem::forget(domain.pin());
        defer_count(&domain, &count);
    });
    assert_eq!((domain.stuck(), other.stuck()), (1, 0));
    defer_count(&other, &count);
    for domain in [&domain, &other] {
        domain.collect();
        // Threads that come later have other slots.
        in_a_thread(|| domain.collect());
    }
    assert_eq!(count.load(Relaxed), 1);
    drop(domain);
    assert_eq!(count.load(Relaxed), 2);
}

#[test]
fn destructors_of_an_ending_thread_may_pin_and_defer() {
    /// A guard that borrows nothing; the domain outlives the thread.
    fn guard(domain: &'static Domain) -> Guard<'static> {
        domain.pin()
    }
    struct Last(
        &'static Domain,
        Arc<AtomicUsize>,
        #[expect(dead_code, reason = "dropped last")] Option<Guard<'static>>,
    );
    impl Drop for Last {
        fn drop(&mut self) {
            (0..3).for_each(|_| defer_count(self.0, &self.1));
        }
    }
    thread_local! {
        static FIRST: RefCell<Option<Last>> = const { RefCell::new(None) };
        static SECOND: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    let (domain, count) = (LazyLock::force(&DOMAIN), Arc::new(AtomicUsize::new(0)));
    static DOMAIN: LazyLock<Domain> = LazyLock::new(Domain::new);
    for is_pinned_at_end in [false, true] {
        let count = count.clone();
        // One is destroyed before what ends the thread's part in the epoch, one after.
        let ending = move || {
            FIRST.with(|last| *last.borrow_mut() = Some(Last(domain, count.clone(), None)));
            let guard = is_pinned_at_end.then(|| guard(domain));
            drop(domain.pin());
            SECOND.with(|last| *last.borrow_mut() = Some(Last(domain, count, guard)));
        };
        thread::spawn(ending).join().unwrap();
        assert_eq!(domain.stuck(), 0, "the guard was dropped in the end");
    }
    domain.collect();
    assert_eq!(count.load(Relaxed), 12);
}

/// The last handle goes with an ending thread, in whose destructors the calls are made; they pin
/// another domain.
#[test]
fn a_domain_may_end_with_a_thread() {
    let (other, count) = (Domain::new(), Arc::new(AtomicUsize::new(0)));
    thread_local!(static LAST: RefCell<Option<Domain>> = const { RefCell::new(None) });
    for is_first in [false, true] {
        let (other, count) = (other.clone(), count.clone());
        let ending = move || {
            let domain = Domain::new();
            if is_first {
                drop(domain.pin());
            }
            LAST.with(|last| *last.borrow_mut() = Some(domain.clone()));
            let deferred = (other.clone(), count.clone());
            domain
                .pin()
                .defer(move || defer_count(&deferred.0, &deferred.1));
            drop(other.pin());
        };
        thread::spawn(ending).join().unwrap();
    }
    other.collect();
    assert_eq!(count.load(Relaxed), 2);
}

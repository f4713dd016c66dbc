//! The protocol alone, where one thread plays all and nothing is left to chance; then real threads.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Arc, Barrier, LazyLock, Mutex};
use std::thread;

use super::core::Core;
use super::deferred::Deferred;
use super::{Domain, Guard, guard};

/// Sealed garbage of one call, which counts.
fn seal(domain: &Core, freed: &Arc<AtomicUsize>) {
    let freed = freed.clone();
    let call = Deferred::new(move || {
        freed.fetch_add(1, Relaxed);
    });
    domain.garbage().seal(vec![call]);
}

fn advance_and_free(domain: &Core) {
    let mut garbage = domain.garbage();
    garbage.advance();
    while let Some(bag) = garbage.take_free() {
        bag.into_iter().for_each(Deferred::call);
    }
}

#[test]
fn garbage_is_freed_two_epochs_after_it_was_sealed() {
    let (domain, freed) = (Core::new(), Arc::default());
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
    let (domain, before, since) = (Core::new(), Arc::default(), Arc::default());
    seal(&domain, &before);
    advance_and_free(&domain);
    let slot = domain.slots.of(40);
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

/// It holds back what a pinned thread would, wherever it goes and whatever its thread does.
#[test]
fn an_owned_guard_holds_back_what_was_deferred_since_and_nothing_older() {
    let domain = Domain::new();
    for rounds in 0..4 {
        let (before, since) = (Arc::default(), Arc::default());
        defer_count(&domain, &before);
        domain.pin().flush();
        let owned = domain.owned_guard();
        assert!(!domain.is_pinned());
        defer_count(&domain, &since);
        domain.collect();
        domain.collect();
        let counts = (before.load(Relaxed), since.load(Relaxed));
        assert_eq!(counts, (1, 0), "{rounds}");
        in_a_thread(|| {
            domain.collect();
            assert_eq!((since.load(Relaxed), domain.owned_guards()), (0, 1));
            drop(owned);
            domain.collect();
        });
        assert_eq!((since.load(Relaxed), domain.owned_guards()), (1, 0));
        // The next round begins in an epoch of the other parity.
        defer_count(&domain, &before);
        domain.pin().flush();
    }
}

/// Guards that overlap for ever, none of which lives long, hold nothing back for ever.
#[test]
fn owned_guards_that_overlap_let_the_epoch_pass() {
    let domain = Domain::new();
    let freed = Arc::default();
    let mut last = domain.owned_guard();
    for _ in 0..10 {
        defer_count(&domain, &freed);
        let next = domain.owned_guard();
        drop(std::mem::replace(&mut last, next));
        domain.pin().flush();
    }
    assert!(freed.load(Relaxed) >= 5, "{freed:?} of 10");
    drop(last);
    domain.collect();
    assert_eq!(freed.load(Relaxed), 10);
}

/// The slot passes to another thread with the guards that were made in it.
#[test]
fn an_owned_guard_outlives_its_thread_and_a_forgotten_one_holds_back_its_domain_alone() {
    let (domain, other) = (Domain::new(), Domain::new());
    let (held, free) = (Arc::default(), Arc::default());
    let owned = thread::scope(|scope| scope.spawn(|| domain.owned_guard()).join().unwrap());
    defer_count(&domain, &held);
    for _ in 0..3 {
        in_a_thread(|| domain.collect());
    }
    assert_eq!((held.load(Relaxed), domain.stuck()), (0, 0));
    std::mem::forget(owned);
    domain.collect();
    assert_eq!((held.load(Relaxed), domain.owned_guards()), (0, 1));
    defer_count(&other, &free);
    other.collect();
    assert_eq!(free.load(Relaxed), 1);
    drop(domain);
    assert_eq!(held.load(Relaxed), 1, "the domain ended");
}

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

/// Runs a thread to its very end: a scope alone does not wait for the destructors of its threads.
fn in_a_thread(run: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(run).join().unwrap());
}

/// Has a call deferred that counts.
fn defer_count(domain: &Domain, count: &Arc<AtomicUsize>) {
    let count = count.clone();
    domain.pin().defer(move || count.fetch_add(1, Relaxed));
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

/// A node whose memory is not given back but used again, so that a reader who comes too late finds
/// out.
struct Node {
    /// Another one in each life.
    stamp: AtomicU64,
}

const DEAD: u64 = 0;

/// Threads that replace nodes, beside threads that look at them for a while: nobody sees a node die
/// or get another life.
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
    domain.collect();
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

//! Owned guards, which pin without a thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use super::{defer_count, in_a_thread};
use crate::epoch::Domain;

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

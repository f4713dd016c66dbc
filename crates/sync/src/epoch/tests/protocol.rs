//! The protocol alone, played by one thread.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::epoch::core::Core;
use crate::epoch::deferred::Deferred;

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

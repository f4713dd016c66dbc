//! A deferred call that panics takes nothing else with it. In a process of its own: any thread might have been hit.

#![cfg(not(loom))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use timberline_sync::epoch::{collect, is_pinned, pin};

#[test]
fn a_call_that_panics_unpins_and_leaves_the_rest_for_later() {
    let done = Arc::new(AtomicUsize::new(0));
    let guard = pin();
    for call in 0..10 {
        let done = done.clone();
        guard.defer(move || {
            assert_ne!(call, 4, "as the test wants");
            done.fetch_add(1, Relaxed);
        });
    }
    drop(guard);
    let caught = catch_unwind(AssertUnwindSafe(collect));
    assert!(caught.is_err());
    assert!(!is_pinned());
    assert_eq!(done.load(Relaxed), 4);
    collect();
    assert_eq!(done.load(Relaxed), 9);
}

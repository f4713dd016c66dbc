//! Epochs, without chance where one thread can play all; then with real threads.

mod calls;
mod owned_guards;
mod protocol;
mod readers;
mod threads;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use super::Domain;

/// Runs a thread to its very end: a scope alone does not wait for the destructors of its threads.
fn in_a_thread(run: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(run).join().unwrap());
}

/// Has a call deferred that counts.
fn defer_count(domain: &Domain, count: &Arc<AtomicUsize>) {
    let count = count.clone();
    domain.pin().defer(move || count.fetch_add(1, Relaxed));
}

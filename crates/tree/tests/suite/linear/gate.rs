//! Where threads wait for one another between rounds, awake for a while: rounds last microseconds,
//! and a thread that sleeps misses most of one.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{sleep, yield_now};
use std::time::Duration;

/// For this many threads.
pub struct Gate {
    threads: usize,
    here: AtomicUsize,
    passages: AtomicUsize,
    broken: AtomicBool,
}

impl Gate {
    pub fn new(threads: usize) -> Gate {
        Gate {
            threads,
            here: AtomicUsize::new(0),
            passages: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Waits until all are here. Panics if one of them did.
    pub fn pass(&self) {
        let passages = self.passages.load(SeqCst);
        if self.here.fetch_add(1, SeqCst) + 1 == self.threads {
            self.here.store(0, SeqCst);
            self.passages.store(passages + 1, SeqCst);
            return;
        }
        wait_until(|| {
            assert!(!self.broken.load(SeqCst), "another thread panicked");
            self.passages.load(SeqCst) > passages
        });
    }

    /// Frees the others if the thread that holds the value panics.
    pub fn held(&self) -> impl Drop {
        struct BreakOnPanic<'a>(&'a Gate);
        impl Drop for BreakOnPanic<'_> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.broken.store(true, SeqCst);
                }
            }
        }
        BreakOnPanic(self)
    }
}

/// Waits awake for a while, then less and less so: on a busy machine the others may need this core
/// to get there at all.
pub fn wait_until(mut done: impl FnMut() -> bool) {
    for attempt in 0u64.. {
        if done() {
            return;
        }
        match attempt {
            ..64 => spin_loop(),
            64..256 => yield_now(),
            _ => sleep(Duration::from_micros(20)),
        }
    }
}

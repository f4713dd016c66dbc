//! The atomics that protocol code is written against: the standard library's, or loom's when a
//! model checker runs it (`--cfg loom`).
//!
//! With the feature `shuttle`, threads that shuttle started change over at the lock's steps, and
//! nowhere else. They all run on one thread of the system, so the real atomics serve, and what
//! shuttle explores is interleavings, not reorderings.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};
#[cfg(not(loom))]
pub use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};
#[cfg(loom)]
pub use loom::sync::{Mutex, MutexGuard};

#[cfg(feature = "shuttle")]
pub use shuttle;

/// A step of the lock's protocol: what another thread does may come in before it.
#[inline(always)]
pub fn step() {
    #[cfg(feature = "shuttle")]
    if is_shuttled() {
        // Any of shuttle's operations is where it may change over.
        shuttle::sync::atomic::AtomicBool::new(false).load(std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(feature = "shuttle")]
fn is_shuttled() -> bool {
    !std::thread::panicking() && shuttle::current::try_get_current_task().is_some()
}

/// Lets another thread go first, after `attempt` fruitless tries.
#[inline]
pub fn pause(attempt: u32) {
    #[cfg(loom)]
    {
        let _ = attempt;
        loom::thread::yield_now();
    }
    #[cfg(feature = "shuttle")]
    if is_shuttled() {
        return shuttle::thread::yield_now();
    }
    #[cfg(not(loom))]
    if attempt < 6 {
        for _ in 0..1 << attempt {
            std::hint::spin_loop();
        }
    } else {
        // The holder may have lost its core; on few cores spinning only keeps it waiting.
        std::thread::yield_now();
    }
}

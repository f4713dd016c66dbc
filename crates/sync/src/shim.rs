//! The atomics that protocol code is written against: the standard library's, or loom's when a
//! model checker runs it (`--cfg loom`).

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};
#[cfg(not(loom))]
pub use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};
#[cfg(loom)]
pub use loom::sync::{Mutex, MutexGuard};

/// Lets another thread go first, after `attempt` fruitless tries.
#[inline]
pub fn pause(attempt: u32) {
    #[cfg(loom)]
    {
        let _ = attempt;
        loom::thread::yield_now();
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

//! The asymmetric barrier: nearly free on the side of every operation, a system call on the side
//! that runs once for many freed nodes.
//!
//! A [`light`] and a [`heavy`] barrier order accesses like two `fence(SeqCst)`: one of them comes
//! first, and the thread that comes second sees everything that was written before the first. (Two
//! light ones order nothing.) On Linux, `light` only keeps the compiler from reordering. `heavy`
//! has the kernel run a full barrier on every CPU that runs a thread of this process,
//! [`membarrier(2)`](https://man7.org/linux/man-pages/man2/membarrier.2.html): wherever a thread is
//! interrupted, its earlier writes are then visible, and its later reads are yet to come. A thread
//! that isn't running crossed a barrier when it stopped, and crosses one to run again.
//!
//! If the kernel refuses (older than 4.14, or a sandbox), both are `fence(SeqCst)`. This is decided
//! once.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::SeqCst;

use crate::shim::fence;

/// Whether readers may use [`light`]; otherwise they cross [`full`].
pub fn is_asymmetric() -> bool {
    kernel::offers()
}

/// The reader's side, if [`is_asymmetric`].
#[inline(always)]
pub fn light() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(SeqCst);
    #[cfg(loom)]
    full();
}

/// The reader's side on any kernel.
#[inline]
pub fn full() {
    fence(SeqCst);
}

/// The reclaimer's side. Returns whether it took effect; if not, the epoch must not advance.
#[must_use]
pub fn heavy() -> bool {
    // Pairs with `full`, and with the barrier that the kernel runs in place of a `light`.
    fence(SeqCst);
    !is_asymmetric() || kernel::run_on_all()
}

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod kernel {
    use std::sync::OnceLock;

    use libc::{MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED};

    /// Whether the kernel offers the barrier. It is asked once.
    pub fn offers() -> bool {
        static OFFERS: OnceLock<bool> = OnceLock::new();
        *OFFERS.get_or_init(|| membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
    }

    /// False only if a sandbox closed over a running process and left readers without a barrier.
    pub fn run_on_all() -> bool {
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    #[expect(clippy::disallowed_methods, reason = "it is about no memory of a tier")]
    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes two integers (no flags) and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
    }
}

#[cfg(not(all(target_os = "linux", not(loom), not(miri))))]
mod kernel {
    pub fn offers() -> bool {
        false
    }

    pub fn run_on_all() -> bool {
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
    use std::thread;

    use super::*;

    /// Both sides write their own word and then read the other's, at the same moment, again and
    /// again. With a barrier in between, at least one sees the other's write. Without it, stores
    /// that wait in a CPU's buffer let both miss it.
    ///
    /// Before that, each loads the other's word into its own cache: so the store has to wait for
    /// the line, and the load doesn't.
    fn one_side_sees_the_other(light: impl Fn() + Sync) {
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
        #[derive(Default)]
        #[repr(align(128))]
        struct Word(AtomicUsize);
        let words = |_| <[Word; 2]>::default();
        let written: Vec<_> = (0..ROUNDS).map(words).collect();
        let arrived = AtomicUsize::new(0);
        let side = |mine: usize, barrier: &dyn Fn()| -> Vec<bool> {
            let round = |(round, words): (usize, &[Word; 2])| {
                words[1 - mine].0.store(0, Relaxed);
                arrived.fetch_add(1, AcqRel);
                let mut waited = 0_u32;
                while arrived.load(Acquire) < 2 * (round + 1) {
                    waited += 1;
                    if waited > 1000 {
                        thread::yield_now();
                    }
                }
                words[mine].0.store(1, Relaxed);
                barrier();
                words[1 - mine].0.load(Relaxed) == 1
            };
            written.iter().enumerate().map(round).collect()
        };
        let (reader, reclaimer) = thread::scope(|scope| {
            let reader = scope.spawn(|| side(0, &light));
            let reclaimer = side(1, &|| assert!(heavy()));
            (reader.join().unwrap(), reclaimer)
        });
        let blind = reader.iter().zip(&reclaimer);
        let blind = blind.filter(|(reader, reclaimer)| !**reader && !**reclaimer);
        assert_eq!(blind.count(), 0, "of {ROUNDS} rounds");
    }

    #[test]
    fn a_heavy_barrier_pairs_with_what_readers_cross() {
        if is_asymmetric() {
            one_side_sees_the_other(light);
        }
        one_side_sees_the_other(full);
    }
}

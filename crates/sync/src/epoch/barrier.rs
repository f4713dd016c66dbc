//! The asymmetric barrier: next to nothing on the side that is crossed by every operation, a system
//! call on the side that is crossed once for many nodes given back.
//!
//! Between them, [`light`] and [`heavy`] do what two `fence(SeqCst)` would: of a light one and a
//! heavy one, one comes first, and the thread that comes second sees everything that was written
//! before the first. (Two light ones order nothing.) On Linux, `light` keeps only the compiler from
//! reordering, and `heavy` has the kernel run a full barrier on every CPU that runs a thread of
//! this process, [`membarrier(2)`](https://man7.org/linux/man-pages/man2/membarrier.2.html):
//! wherever a thread was interrupted, what came before in its program is then visible, and what
//! comes after is yet to be read. A thread that isn't running has gone through a barrier to stop,
//! and goes through one to run again.
//!
//! Where the kernel refuses (older than 4.14, or a sandbox), both are `fence(SeqCst)`. Which it is,
//! is decided once.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::SeqCst;

use crate::shim::fence;

/// Whether readers may do with [`light`]; if not, they cross [`full`].
pub fn is_asymmetric() -> bool {
    kernel::offers()
}

/// A reader's side, if [`is_asymmetric`].
#[inline(always)]
pub fn light() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(SeqCst);
    #[cfg(loom)]
    full();
}

/// A reader's side anywhere.
#[inline]
pub fn full() {
    fence(SeqCst);
}

/// The reclaimer's side. Whether it took effect; if not, the epoch must stay where it is.
#[must_use]
pub fn heavy() -> bool {
    // Pairs with `full`, and is what a reader's `light` gets turned into.
    fence(SeqCst);
    !is_asymmetric() || kernel::run_on_all()
}

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod kernel {
    use std::sync::OnceLock;

    use libc::{MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED};

    /// Whether the kernel offers the barrier: asked once, and the answer stands.
    pub fn offers() -> bool {
        static OFFERS: OnceLock<bool> = OnceLock::new();
        *OFFERS.get_or_init(|| membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
    }

    /// False only where a sandbox closed over a running process and left readers without a barrier.
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

    /// Each side writes its own word and then reads the other's, in the same moment and over and
    /// over: with a barrier in between, at least one sees what the other wrote. Without, stores
    /// that wait in a CPU's buffer let both see nothing.
    ///
    /// Before that, each takes the other's word into its own cache: so the store has to wait for
    /// it, and the load doesn't.
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

//! The asymmetric barrier: next to nothing on the side that is crossed by every operation, a system call on the side that
//! is crossed once for many nodes given back.
//!
//! Between them, [`light`] and [`heavy`] do what two `fence(SeqCst)` would: of a light one and a heavy one, one comes
//! first, and who comes second sees everything that was written before the first. (Two light ones order nothing.)
//! On Linux, `light` keeps only the compiler from reordering, and `heavy` has the kernel run a full barrier on every CPU
//! that runs a thread of this process, [`membarrier(2)`](https://man7.org/linux/man-pages/man2/membarrier.2.html):
//! wherever a thread was interrupted, what came before in its program is then visible, and what comes after is yet to be
//! read. A thread that isn't running has gone through a barrier to stop, and goes through one to run again.
//!
//! Where the kernel refuses (older than 4.14, or a sandbox), both are `fence(SeqCst)`. Which it is, is decided once.
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

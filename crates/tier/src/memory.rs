//! The seam to memory: what a tree may ask of it.
//!
//! A tree is generic over a [`Memory`]. [`Native`] is the memory of this machine, and its hooks
//! compile to nothing. The emulator implements the same trait and charges each access with what it
//! would have cost on the profile's hardware. Everything that is not charged (allocation, budgets,
//! which tier an address is in) belongs to the [`Arenas`], the same for both.

use crate::arenas::Arenas;

/// Memory that nodes live in: [`Native`] or [`Emulated`](crate::emulator::Emulated).
///
/// Sealed, because unsafe code relies on it: trees follow addresses that they compute from
/// [`arenas`](Self::arenas), which must be the same arenas at every call.
pub trait Memory: sealed::Sealed + Send + Sync + 'static {
    /// Whether it charges accesses. Where it doesn't, trees read nothing only to tell it.
    const CHARGES: bool = false;

    /// The arenas of all tiers.
    fn arenas(&self) -> &Arenas;

    /// A thread begins to read a node: `bytes` bytes from `address` on, all of whose lines it
    /// loads at once. The first missing line costs the tier's latency, further ones its bandwidth.
    #[inline(always)]
    fn charge_access(&self, address: usize, bytes: usize) {
        let _ = (address, bytes);
    }

    /// The same access reads `bytes` more bytes at `address`: bandwidth only, unless it missed no
    /// line so far.
    #[inline(always)]
    fn charge_lines(&self, address: usize, bytes: usize) {
        let _ = (address, bytes);
    }

    /// Prefetches `bytes` bytes from `address` on, to be read after other work.
    #[inline(always)]
    fn prefetch(&self, address: usize, bytes: usize) {
        crate::hint::prefetch(address, bytes);
    }

    /// The caller has prefetched lines by [`hint`](crate::hint): of the 64 lines from `address`
    /// on, those whose bit is set in `lines`. They are one request, as by
    /// [`prefetch`](Self::prefetch), but need not be contiguous.
    #[inline(always)]
    fn charge_prefetch(&self, address: usize, lines: u64) {
        let _ = (address, lines);
    }
}

pub(crate) mod sealed {
    /// Keeps [`Memory`](super::Memory) to this crate.
    pub trait Sealed {}
}

/// This machine's own memory.
pub struct Native(pub Arenas);

impl sealed::Sealed for Native {}

impl Memory for Native {
    #[inline(always)]
    fn arenas(&self) -> &Arenas {
        &self.0
    }
}

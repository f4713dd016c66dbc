//! The seam to memory: what a tree may ask of it.
//!
//! A tree is generic over a [`Memory`]. [`Native`] is the memory of this machine, and its hooks
//! compile to nothing; the emulator implements the same trait and charges each visit with what
//! it would have cost on the profile's hardware. Everything that is not charged (allocation,
//! budgets, which tier an address is in) is the [`Arenas`]', the same for both.

use crate::arenas::Arenas;

/// Memory that nodes live in.
pub trait Memory: Send + Sync + 'static {
    /// Whether there is a choice of tiers. Where there is none, trees keep no heat, and the code
    /// for it is compiled out.
    const TIERED: bool = true;

    /// The arenas of all tiers.
    fn arenas(&self) -> &Arenas;

    /// A thread begins a visit: it will read `bytes` bytes from `address` on, all of whose lines
    /// it asked for at once. The first missing line costs the tier's latency, further ones
    /// its bandwidth.
    #[inline(always)]
    fn visit(&self, address: usize, bytes: usize) {
        let _ = (address, bytes);
    }

    /// The same visit reads `bytes` more at `address`: bandwidth only, unless it missed nothing so far.
    #[inline(always)]
    fn touch(&self, address: usize, bytes: usize) {
        let _ = (address, bytes);
    }

    /// Asks for `bytes` bytes from `address` on, to be visited later: other work fits in between.
    #[inline(always)]
    fn prefetch(&self, address: usize, bytes: usize) {
        crate::hint::prefetch(address, bytes);
    }

    /// Those of the 64 lines from `address` on that have their bit in `lines` have been asked for (by
    /// [`hint`](crate::hint)), to be visited later: one request, as by [`prefetch`](Self::prefetch), whose lines
    /// need not follow one another.
    #[inline(always)]
    fn asked_for(&self, address: usize, lines: u64) {
        let _ = (address, lines);
    }
}

/// This machine's own memory.
pub struct Native(pub Arenas);

impl Memory for Native {
    #[inline(always)]
    fn arenas(&self) -> &Arenas {
        &self.0
    }
}

/// This machine's own memory where it is all of one kind: no tiers, so no heat.
pub struct Plain(pub Arenas);

impl Memory for Plain {
    const TIERED: bool = false;

    #[inline(always)]
    fn arenas(&self) -> &Arenas {
        &self.0
    }
}

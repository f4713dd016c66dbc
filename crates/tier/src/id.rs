//! The name of a tier.

/// One tier of memory; 0 is the fastest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct TierId(pub u8);

impl TierId {
    /// Tier 0, the one with a budget worth fighting for.
    pub const FAST: TierId = TierId(0);
    /// Tier 1.
    pub const SLOW: TierId = TierId(1);

    /// The tier as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this is the fastest tier.
    pub const fn is_fast(self) -> bool {
        self.0 == 0
    }
}

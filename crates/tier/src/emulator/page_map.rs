//! Which tier each page of the arenas is in, for schemes that move pages and not nodes.
//!
//! A page is in the tier of its arena until somebody says otherwise. What was said holds for the
//! page's addresses, whatever is allocated there later.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::{Arenas, TierId};

/// Bytes in a page.
pub const PAGE: usize = 4096;

/// Lines in a page, as a shift.
const PAGE_LINES: u32 = (PAGE / crate::hint::LINE).trailing_zeros();

/// One byte for each page of the arenas' range: 256 KiB for each GiB.
pub struct PageMap(Box<[AtomicU8]>);

impl PageMap {
    /// Every page in the tier of its arena.
    pub fn of(arenas: &Arenas) -> PageMap {
        let pages = arenas.range().step_by(PAGE);
        PageMap(
            pages
                .map(|page| AtomicU8::new(arenas.tier_of(page).0))
                .collect(),
        )
    }

    /// The tier of a line, counted from the start of the range.
    #[inline(always)]
    pub fn tier_of_line(&self, line: u64) -> TierId {
        TierId(self.0[(line >> PAGE_LINES) as usize].load(Relaxed))
    }

    /// Puts the page with this byte, counted from the start of the range, into `tier`.
    pub fn set(&self, offset: usize, tier: TierId) {
        self.0[offset / PAGE].store(tier.0, Relaxed);
    }
}

//! The tier of each page of the arenas, for schemes that move pages instead of nodes, and the marks
//! of such schemes.
//!
//! A page is in the tier of its arena until a scheme moves it. Its tier belongs to the
//! page's addresses, whatever is allocated there later.
//!
//! A page's byte has its tier and three marks. Only missing lines read it, so a mark models an
//! entry of a page table that the processor reads at each cache miss:
//!
//! | mark | the next missing line of the page | as |
//! |---|---|---|
//! | armed | is reported to the [`PageWatch`](super::PageWatch), once | a hint page fault |
//! | unseen | clears it | a cleared *accessed* bit |
//! | counted | counts down to the thread's next reported sample | sampling of misses (PEBS) |
//!
//! A fast page without marks is a byte of 0, so its lines cost the same as without marks; marks are
//! checked only where a line is slow anyway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use super::watch::ChargingClock;
use crate::{Arenas, TierId};

/// Bytes in a page.
pub const PAGE: usize = 4096;

/// Lines in a page, as a shift.
const PAGE_LINES: u32 = (PAGE / crate::hint::LINE).trailing_zeros();

const TIER: u8 = COUNTED - 1;
const COUNTED: u8 = 1 << 5;
const UNSEEN: u8 = 1 << 6;
const ARMED: u8 = 1 << 7;

/// One byte for each page of the arenas' range: 256 KiB for each GiB. A page's number is that
/// of its [`PAGE`](super::PAGE) bytes from the start of the range. Clones are handles to the same
/// map, and outlive the memory.
#[derive(Clone)]
pub struct PageMap {
    pages: Arc<[AtomicU8]>,
    sample_every: Arc<AtomicU32>,
    clock: ChargingClock,
    tiers: u8,
}

/// The byte of a page at one moment.
#[derive(Clone, Copy)]
pub(super) struct PageState(u8);

impl PageState {
    /// Whether the page is in tier 0 without marks.
    #[inline(always)]
    pub fn is_plain_fast(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub fn has_marks(self) -> bool {
        self.0 > TIER
    }

    #[inline(always)]
    pub fn tier(self) -> TierId {
        TierId(self.0 & TIER)
    }

    pub fn is_counted(self) -> bool {
        self.0 & COUNTED != 0
    }
}

impl PageMap {
    /// Every page in the tier of its arena, without marks.
    pub(super) fn of(arenas: &Arenas, clock: ChargingClock) -> PageMap {
        let tiers = arenas.tiers() as u8;
        assert!(tiers <= TIER, "{tiers} tiers");
        let pages = arenas.range().step_by(PAGE);
        PageMap {
            pages: pages
                .map(|page| AtomicU8::new(arenas.tier_of(page).0))
                .collect(),
            sample_every: Arc::new(AtomicU32::new(u32::MAX)),
            clock,
            tiers,
        }
    }

    /// The page of a line, counted from the start of the range.
    #[inline(always)]
    pub(super) fn page_of_line(line: u64) -> usize {
        (line >> PAGE_LINES) as usize
    }

    #[inline(always)]
    pub(super) fn state(&self, page: usize) -> PageState {
        PageState(self.pages[page].load(Relaxed))
    }

    /// Records that a line of this page missed: marks the page as seen and disarms it. Returns
    /// whether it was armed.
    pub(super) fn set_accessed(&self, page: usize) -> bool {
        let before = self.pages[page].fetch_and(!(UNSEEN | ARMED), Relaxed);
        before & ARMED != 0
    }

    /// The number of pages.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The tier of a page.
    pub fn tier(&self, page: usize) -> TierId {
        self.state(page).tier()
    }

    /// Moves a page to `tier`. Its marks stay.
    ///
    /// # Panics
    /// If there is no such tier.
    pub fn set_tier(&self, page: usize, tier: TierId) {
        assert!(tier.0 < self.tiers, "there is no tier {}", tier.0);
        let moved = |entry: u8| Some(entry & !TIER | tier.0);
        // This never fails: there is always a value to write.
        let _ = self.pages[page].fetch_update(Relaxed, Relaxed, moved);
    }

    /// Arms a page, so that its next missing line is reported, once; or disarms it.
    pub fn arm(&self, page: usize, armed: bool) {
        self.mark(page, ARMED, armed);
    }

    /// Starts or stops counting missing lines of a page towards samples.
    pub fn count(&self, page: usize, counted: bool) {
        self.mark(page, COUNTED, counted);
    }

    /// Whether a line of a page missed since the last call; true at the first call.
    pub fn take_accessed(&self, page: usize) -> bool {
        self.pages[page].fetch_or(UNSEEN, Relaxed) & UNSEEN == 0
    }

    /// Reports one in `lines` missing lines of counted pages from now on, in each thread. At first,
    /// none is reported.
    pub fn sample_every(&self, lines: u32) {
        self.sample_every.store(lines.max(1), Relaxed);
    }

    pub(super) fn sample_interval(&self) -> u32 {
        self.sample_every.load(Relaxed)
    }

    /// The time for which accesses to this memory have been charged. This clock stops while
    /// charging is off.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    fn mark(&self, page: usize, mark: u8, on: bool) {
        match on {
            true => self.pages[page].fetch_or(mark, Relaxed),
            false => self.pages[page].fetch_and(!mark, Relaxed),
        };
    }
}

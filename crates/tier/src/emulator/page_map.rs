//! Which tier each page of the arenas is in, for schemes that move pages and not nodes, and what
//! such a scheme may mark a page with.
//!
//! A page is in the tier of its arena until a scheme moves it. Its tier belongs to the
//! page's addresses, whatever is allocated there later.
//!
//! A page's byte is its tier and three marks. Only missing lines look at it, so a mark is what an
//! entry of a page table would be if the processor looked there at each miss of its cache:
//!
//! | mark | the next missing line of the page | as |
//! |---|---|---|
//! | armed | is reported to the [`PageWatch`](super::PageWatch), once | a hint page fault |
//! | unseen | clears it | a cleared *accessed* bit |
//! | counted | counts down to the thread's next reported sample | sampling of misses (PEBS) |
//!
//! A fast page without marks is a byte of 0, so a line of it costs what it did without marks; they
//! are looked at where a line is slow anyway.

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

/// What the map says of a page at one moment.
#[derive(Clone, Copy)]
pub(super) struct PageState(u8);

impl PageState {
    /// Whether it is of tier 0 and has no mark.
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

    /// A line of this page was missing: it is seen, and no longer armed. Whether it was armed.
    pub(super) fn touch(&self, page: usize) -> bool {
        let before = self.pages[page].fetch_and(!(UNSEEN | ARMED), Relaxed);
        before & ARMED != 0
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The tier of a page.
    pub fn tier(&self, page: usize) -> TierId {
        self.state(page).tier()
    }

    /// Puts a page into `tier`. Its marks stay.
    ///
    /// # Panics
    /// If there is no such tier.
    pub fn set_tier(&self, page: usize, tier: TierId) {
        assert!(tier.0 < self.tiers, "there is no tier {}", tier.0);
        let moved = |entry: u8| Some(entry & !TIER | tier.0);
        // It never fails: there is always something to write.
        let _ = self.pages[page].fetch_update(Relaxed, Relaxed, moved);
    }

    /// From now on the next missing line of a page is reported, once; or is not.
    pub fn arm(&self, page: usize, armed: bool) {
        self.mark(page, ARMED, armed);
    }

    /// From now on missing lines of a page count down to samples; or do not.
    pub fn count(&self, page: usize, counted: bool) {
        self.mark(page, COUNTED, counted);
    }

    /// Whether a line of a page was missing since this was last asked; true at the first time.
    pub fn take_accessed(&self, page: usize) -> bool {
        self.pages[page].fetch_or(UNSEEN, Relaxed) & UNSEEN == 0
    }

    /// From now on, one in `lines` missing lines of counted pages is reported, in each thread. None
    /// is at first.
    pub fn sample_every(&self, lines: u32) {
        self.sample_every.store(lines.max(1), Relaxed);
    }

    pub(super) fn sample_interval(&self) -> u32 {
        self.sample_every.load(Relaxed)
    }

    /// For how long accesses to this memory have been charged so far. This clock stops while
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

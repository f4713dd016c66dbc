//! An emulator of slower memory, for machines with one kind of memory.
//!
//! [`Emulated`] is a [`Memory`] whose tiers from 1 on are as slow as a [`Profile`] says. Nothing
//! but time and counts differs from [`Native`](crate::Native): nodes are in the same arenas.
//!
//! *Which lines are charged.* Each thread has a modelled cache, which decides which lines of an
//! access miss; the page map gives their tier. Lines of tier 0 are counted and cost no extra time.
//! An access starts with [`charge_access`](Memory::charge_access), and
//! [`charge_lines`](Memory::charge_lines) continues it. Its first missing line of a slower tier
//! costs that tier's extra latency, and each further one its extra line cost.
//!
//! *Prefetch.* A prefetch of missing lines starts a timer with the full latency of its slowest
//! line, and the first access to any of them waits for the rest of it. A prefetched line is counted
//! once, when it is prefetched, with its tier then. The profile limits the prefetches in flight;
//! one more waits for the oldest. A prefetch whose lines are never read ends after a fixed number
//! of accesses, and its lines are counted as unvisited.
//!
//! *Pages.* The page map's tier of a page decides what its lines are charged, whichever arena they
//! are in. A page can be marked, so that its next missing line is reported to a [`PageWatch`];
//! unmarked pages cost nothing extra.
//!
//! *Overlap.* A thread's requests wait for one another, as the fences around a charge make them,
//! or overlap within a limit that the thread is given ([`set_thread_overlap`]).
//!
//! *Bandwidth.* The threads of a run share each slower tier's bandwidth. A thread accounts for its
//! missing lines 64 at a time, and waits where the tier has not yet transferred them.
//!
//! *Counts and time.* [`thread_counts`] are exact: the lines read from each tier, and their charge
//! by definition. The charged time is also spun, so that clocks see it; time spun is noisy.
//!
//! *What is not modelled:* write-backs, the limit on lines in flight within one access, and the
//! difference between the real cache and the modelled one: a line that misses in the model may hit
//! in the real cache. Then it is charged only the difference between the tiers.

mod base;
mod cache;
mod channel;
mod charging;
mod chase;
mod counts;
mod in_flight;
mod overlap;
mod page_map;
mod profile;
mod random;
mod stream;
mod thread;
mod tsc;
mod watch;
mod ways;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

pub use base::{Base, Calibration, MeasureError};
pub use cache::{BadCacheSize, CacheSize};
pub use chase::{Chase, Race, Spread, Walker, race};
pub use counts::LineCounts;
pub use page_map::{PAGE, PageMap};
pub use profile::{Cost, Extra, Profile, Slowness, UnknownProfile};
pub use watch::{PageEvent, PageWatch, spend};

use crate::hint::{self, LINE};
use crate::{Arenas, Memory, TierId};
use cache::SPAN_LINES;
use channel::{BATCH, Channel};
use in_flight::PIECE;
use overlap::Overlap;
use tsc::Tsc;
use watch::ChargingClock;

/// Line numbers of the next emulated memory; see [`SPAN_LINES`].
static NEXT_SPAN: AtomicU64 = AtomicU64::new(SPAN_LINES);

/// Memory whose tiers from 1 on are slower than real. See the [module's text](self).
pub struct Emulated {
    /// The first address of the arenas, and their length in bytes.
    start: usize,
    bytes: usize,
    /// The number of the first line in every thread's cache.
    span: u64,
    charging: AtomicBool,
    clock: ChargingClock,
    pages: PageMap,
    watch: OnceLock<Arc<dyn PageWatch>>,
    /// By tier: the extra cost of a missing line, and its whole cost.
    extras: Box<[Extra]>,
    totals: Box<[Extra]>,
    /// By tier: the bandwidth that all threads share.
    channels: Box<[Channel]>,
    base_line_ps: u64,
    in_flight: usize,
    tsc: Tsc,
    arenas: Arenas,
    profile: Profile,
    base: Base,
}

/// The reads of this thread through emulated memories since the thread started.
pub fn thread_counts() -> LineCounts {
    thread::with(|thread| LineCounts {
        unvisited: thread.in_flight.unvisited(),
        ..thread.counts
    })
    .unwrap_or_default()
}

/// Gives this thread an empty modelled cache of this size, and drops its prefetches and debts. A
/// run that is to repeat to the digit starts with this. Counts are not reset.
pub fn set_thread_cache(size: CacheSize) {
    thread::with(|thread| {
        thread.cache = cache::LineCache::new(size);
        thread.in_flight.clear();
        thread.debt_ps = 0;
        thread.until_sample = u32::MAX;
        thread.read = Default::default();
    });
}

/// Lets up to `limit` requests of this thread overlap from now on; with 0, the default, each charge
/// is spun before the thread continues. A thread that overlaps ends its requests by
/// [`end_request`]. Only time depends on it, counts don't.
pub fn set_thread_overlap(limit: usize) {
    thread::with(|thread| thread.overlap = Overlap::new(limit));
}

/// Ends a request of a thread whose requests overlap. Waits until the next one may start. Returns
/// how many nanoseconds after this call the lines of the ended one arrive. Without overlap it does
/// nothing, and returns 0.
pub fn end_request() -> u64 {
    let late = thread::with(|thread| {
        if !thread.overlap.is_on() {
            return 0;
        }
        let tsc = Tsc::get();
        let now = tsc.unordered();
        let (end, next) = thread.overlap.end(now);
        if next > now {
            tsc.wait_until(next);
        }
        tsc.duration(end - now).as_nanos() as u64
    });
    late.unwrap_or_default()
}

impl Emulated {
    /// The memory of these arenas: tier 0 costs `base`, and `profile` derives the other tiers'
    /// costs from it. The first one in a process takes some 30 ms to calibrate the clock.
    pub fn new(arenas: Arenas, profile: Profile, base: Base) -> Emulated {
        let range = arenas.range();
        let lines = (range.len() / LINE) as u64;
        let tsc = Tsc::get();
        let clock = ChargingClock::new(tsc);
        let mut memory = Emulated {
            start: range.start,
            bytes: range.len(),
            span: NEXT_SPAN.fetch_add(lines.next_multiple_of(SPAN_LINES), Relaxed),
            charging: AtomicBool::new(true),
            pages: PageMap::of(&arenas, clock.clone()),
            clock,
            watch: OnceLock::new(),
            totals: Box::default(),
            channels: Box::default(),
            extras: Box::default(),
            base_line_ps: 0,
            in_flight: profile.in_flight(),
            tsc,
            arenas,
            profile,
            base,
        };
        memory.set_base(base);
        memory
    }

    /// Changes the costs of tier 0, on which those of the others are based.
    fn set_base(&mut self, base: Base) {
        let tiers = (0..self.arenas.tiers()).map(|tier| TierId(tier as u8));
        self.extras = tiers.map(|tier| self.profile.extra(tier, base)).collect();
        self.base_line_ps = (base.line_ns * 1000.0) as u64;
        let total = |extra: &Extra| Extra {
            latency_ps: extra.latency_ps + (base.latency_ns * 1000.0) as u64,
            line_ps: extra.line_ps + self.base_line_ps,
        };
        self.totals = self.extras.iter().map(total).collect();
        let tiers = (0..self.arenas.tiers()).map(|tier| TierId(tier as u8));
        let batch_ps = |tier| f64::from(BATCH) * self.profile.shared_line_ns(tier, base) * 1000.0;
        let batches = tiers.map(|tier| self.tsc.ticks(batch_ps(tier) as u64));
        self.channels = batches.map(Channel::new).collect();
        self.base = base;
    }

    /// The profile that is emulated.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The costs of tier 0.
    pub fn base(&self) -> Base {
        self.base
    }

    /// The cost of a tier's lines.
    ///
    /// # Panics
    /// If the arenas have no such tier.
    pub fn extra(&self, tier: TierId) -> Extra {
        self.extras[tier.index()]
    }

    /// Switches charging and counting on or off: off while data is loaded that is then measured. It
    /// is on at first.
    pub fn set_charging(&self, charging: bool) {
        self.clock.run(charging);
        self.charging.store(charging, Relaxed);
    }

    /// Whether accesses are charged.
    #[inline(always)]
    pub fn is_charging(&self) -> bool {
        self.charging.load(Relaxed)
    }

    /// The lines of these bytes, counted from the start of the arenas. Bytes outside them are left
    /// out (the address may come from a read that is about to fail its validation).
    #[inline(always)]
    fn lines(&self, address: usize, bytes: usize) -> (u64, u64) {
        let offset = address.wrapping_sub(self.start);
        if offset >= self.bytes || bytes == 0 {
            return (0, 0);
        }
        let end = offset.saturating_add(bytes).min(self.bytes);
        ((offset / LINE) as u64, end.div_ceil(LINE) as u64)
    }
}

impl crate::memory::sealed::Sealed for Emulated {}

impl Memory for Emulated {
    const CHARGES: bool = true;

    #[inline(always)]
    fn arenas(&self) -> &Arenas {
        &self.arenas
    }

    #[inline(always)]
    fn charge_access(&self, address: usize, bytes: usize) {
        if self.is_charging() {
            self.read(address, bytes, true);
        }
    }

    #[inline(always)]
    fn charge_lines(&self, address: usize, bytes: usize) {
        if self.is_charging() {
            self.read(address, bytes, false);
        }
    }

    #[inline]
    fn prefetch(&self, address: usize, bytes: usize) {
        let (first, end) = self.lines(address, bytes);
        if first < end {
            hint::prefetch(
                self.start + first as usize * LINE,
                (end - first) as usize * LINE,
            );
        }
        if self.is_charging() {
            self.with_thread(|thread| {
                for first in (first..end).step_by(PIECE as usize) {
                    self.request(thread, first, u64::MAX >> (PIECE - PIECE.min(end - first)));
                }
            });
        }
    }

    #[inline]
    fn charge_prefetch(&self, address: usize, lines: u64) {
        let (first, end) = self.lines(address, PIECE as usize * LINE);
        if first < end && self.is_charging() {
            let lines = lines & (u64::MAX >> (PIECE - PIECE.min(end - first)));
            self.with_thread(|thread| self.request(thread, first, lines));
        }
    }
}

#[cfg(test)]
mod tests;

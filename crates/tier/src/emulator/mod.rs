//! An emulator of slower memory, for machines that have one kind only.
//!
//! [`Emulated`] is a [`Memory`] whose tiers from 1 on are as slow as a [`Profile`] says. Nothing
//! but time and counts differs from [`Native`](crate::Native): nodes are in the same arenas.
//!
//! *Which lines are charged.* A modelled cache, one for each thread, decides which lines of an
//! access have to come from memory; the page map says from which tier. Lines of tier 0 are counted
//! and cost what they cost. An access begins with [`charge_access`](Memory::charge_access), and
//! [`charge_lines`](Memory::charge_lines) continues it. Its first missing line of a slower tier
//! costs that tier's extra latency, and each further one its extra line cost.
//!
//! *Prefetch.* A prefetch of missing lines starts a timer with the full latency of its slowest
//! line, and the first access to any of them waits for what is left of it. A line that was
//! prefetched is counted then, as what it was then, and not again when it is read. As many
//! prefetches can be in flight as the profile says; one more waits for the oldest. A prefetch
//! whose lines nobody reads ends after a fixed number of accesses, and its lines are counted as
//! unvisited.
//!
//! *Pages.* The page map's tier of a page is what its lines are charged as, whichever arena they
//! are in. A page can also be marked, so that a [`PageWatch`] hears of it when a line of it is
//! missing; nothing else pays for that.
//!
//! *Overlap.* A thread's requests wait for one another, as the fences around a charge make them,
//! or overlap within a limit that the thread is given ([`set_thread_overlap`]).
//!
//! *Bandwidth.* The threads of a run share each slower tier's bandwidth. A thread accounts for its
//! missing lines 64 at a time, and waits where the tier has not yet transferred them.
//!
//! *Counts and time.* [`thread_counts`] are exact: what was read from where, and what that is
//! charged by definition. The charged time is also spun, so that clocks see it; time spun is noisy.
//!
//! *What is not modelled:* writes going back, the limit on lines in flight within one visit, and
//! that the real machine's cache is not the modelled one: a line that the model misses may be a
//! real hit, which is then charged the difference between tiers only.

mod base;
mod cache;
mod channel;
mod chase;
mod counts;
mod in_flight;
mod overlap;
mod page_map;
mod profile;
mod stream;
mod thread;
mod tsc;
mod watch;
mod ways;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

pub use base::{Base, Calibration, MeasureError};
pub use cache::{BadCacheSize, CacheSize};
pub use chase::{Chase, Race, Spread, race};
pub use counts::LineCounts;
pub use page_map::{PAGE, PageMap};
pub use profile::{Cost, Extra, Profile, Slowness, UnknownProfile};
pub use watch::{PageWatch, Touch, spend};

use crate::hint::{self, LINE};
use crate::{Arenas, Memory, TierId};
use cache::SPAN_LINES;
use channel::{BATCH, Channel};
use in_flight::PIECE;
use overlap::Overlap;
use thread::Thread;
use tsc::Tsc;
use watch::ChargingClock;

/// Debts below this are kept until there is more to spin for: reading the clock takes as long.
const SPIN_FROM_PS: i64 = 40_000;

/// The most that a late end of a spin is compensated for. Beyond this it was not the spin but
/// another thread on this CPU.
const MOST_CREDIT_PS: i64 = 40_000;

/// Line numbers of the next emulated memory; see [`SPAN_LINES`].
static NEXT_SPAN: AtomicU64 = AtomicU64::new(SPAN_LINES);

/// Memory whose tiers from 1 on are slower than they are. See the [module's text](self).
pub struct Emulated {
    /// The first address of the arenas, and how many bytes they are.
    start: usize,
    bytes: usize,
    /// The number of the first line in every thread's cache.
    span: u64,
    charging: AtomicBool,
    clock: ChargingClock,
    pages: PageMap,
    watch: OnceLock<Arc<dyn PageWatch>>,
    /// By tier: what a missing line adds, and in all costs.
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

/// The charge for one visit.
#[derive(Default)]
struct Bill {
    extra_ps: u64,
    /// When it began to wait for its first slow line, so that the model's work on further lines
    /// falls into the wait; 0 if it has none to wait for.
    since: u64,
    /// Slow lines after the first one.
    further: u64,
}

/// The reads of this thread through emulated memories since it began.
pub fn thread_counts() -> LineCounts {
    thread::with(|thread| LineCounts {
        unvisited: thread.in_flight.unvisited(),
        ..thread.counts
    })
    .unwrap_or_default()
}

/// Gives this thread an empty modelled cache of this size, and forgets its prefetches and debts.
/// A run that is to repeat to the digit starts with this. Counts go on.
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
/// is spun before the thread goes on. A thread that overlaps says where a request ends by
/// [`end_request`]. Counts do not depend on it, only time does.
pub fn set_thread_overlap(limit: usize) {
    thread::with(|thread| thread.overlap = Overlap::new(limit));
}

/// Ends a request of a thread whose requests overlap. Waits until the next one may begin, and
/// returns for how much longer than until this call the ended one has to wait for its lines, in
/// nanoseconds. Without overlap it does nothing, and returns 0.
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
    /// The memory of these arenas, tier 0 costing `base` and the others what `profile` makes of
    /// it. The first one made takes some 30 ms to calibrate the clock.
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

    /// Charges by other costs of tier 0 from now on.
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

    /// Charges and counts visits, or lets them pass for nothing, as when data is loaded that a
    /// run is then measured on. Charging is on at first.
    pub fn set_charging(&self, charging: bool) {
        self.clock.run(charging);
        self.charging.store(charging, Relaxed);
    }

    /// Whether visits are charged.
    #[inline(always)]
    pub fn is_charging(&self) -> bool {
        self.charging.load(Relaxed)
    }

    /// The lines of these bytes, counted from the start of the arenas. What is outside them (the
    /// address may come from a read that is about to fail its validation) is left out.
    #[inline(always)]
    fn lines(&self, address: usize, bytes: usize) -> (u64, u64) {
        let offset = address.wrapping_sub(self.start);
        if offset >= self.bytes || bytes == 0 {
            return (0, 0);
        }
        let end = offset.saturating_add(bytes).min(self.bytes);
        ((offset / LINE) as u64, end.div_ceil(LINE) as u64)
    }

    /// Not inlined: a tree has many visits, and its code should not grow by this at each.
    #[inline(never)]
    fn read(&self, address: usize, bytes: usize, begins: bool) {
        self.with_thread(|thread| {
            thread.latency_due |= begins;
            thread.in_flight.count_visit(begins);
            self.read_by(thread, address, bytes);
        });
    }

    /// Lets `work` use this thread's part, and then tells of the pages that it noted.
    #[inline(always)]
    fn with_thread(&self, work: impl FnOnce(&mut Thread)) {
        let noted = thread::with(|thread| {
            work(thread);
            !thread.touches.is_empty()
        });
        if noted == Some(true) {
            self.report();
        }
    }

    #[inline(always)]
    fn read_by(&self, thread: &mut Thread, address: usize, bytes: usize) {
        let (first, end) = self.lines(address, bytes);
        let mut bill = Bill::default();
        if thread.in_flight.may_hold(self.span + first, end - first) {
            self.read_awaited(thread, first, end, &mut bill);
        } else {
            for line in first..end {
                self.read_line(thread, line, &mut bill);
            }
        }
        if bill.extra_ps > 0 {
            self.charge(thread, bill);
        }
    }

    /// Reads a line and puts what it costs on the bill.
    #[inline(always)]
    fn read_line(&self, thread: &mut Thread, line: u64, bill: &mut Bill) {
        if thread.cache.read(self.span, line) {
            thread.counts.cached += 1;
            return;
        }
        let tier = self.missing(thread, line);
        if tier.is_fast() {
            thread.counts.fast += 1;
            return;
        }
        thread.counts.slow += 1;
        self.account(thread, tier);
        let extra = &self.extras[tier.index()];
        if thread.latency_due {
            thread.latency_due = false;
            bill.extra_ps += extra.latency_ps;
            // Reading the clock takes as long as a memory that hits the real cache.
            let is_spun = thread.debt_ps + bill.extra_ps as i64 >= SPIN_FROM_PS;
            if is_spun && !thread.overlap.is_on() {
                bill.since = self.tsc.now();
            }
        } else {
            bill.extra_ps += extra.line_ps;
            bill.further += 1;
        }
    }

    /// The tier of a missing line. If its page has marks, this is noted.
    #[inline(always)]
    fn missing(&self, thread: &mut Thread, line: u64) -> TierId {
        let page = PageMap::page_of_line(line);
        let state = self.pages.state(page);
        if state.is_plain_fast() {
            return TierId::FAST;
        }
        if state.has_marks() {
            self.note(thread, page);
        }
        state.tier()
    }

    /// As [`read_line`](Self::read_line) for several, some of which may be under way.
    #[inline(never)]
    fn read_awaited(&self, thread: &mut Thread, first: u64, end: u64, bill: &mut Bill) {
        for first in (first..end).step_by(PIECE as usize) {
            let count = PIECE.min(end - first);
            let arrival = thread.in_flight.claim(self.span + first, count);
            self.wait(thread, arrival.ready);
            for line in 0..count {
                let awaited = arrival.lines >> line & 1 == 1;
                // A line that was thrown out before its first use is missing once more.
                if !(awaited && thread.cache.holds(self.span, first + line)) {
                    self.read_line(thread, first + line, bill);
                }
            }
        }
    }

    /// Asks for those of the [`PIECE`] lines from `first` on that have their bit in `lines`.
    fn request(&self, thread: &mut Thread, first: u64, lines: u64) {
        let mut missing = 0;
        let mut latency_ps = 0;
        let mut lines_ps = 0;
        let mut left = lines;
        while left != 0 {
            let line = u64::from(left.trailing_zeros());
            left &= left - 1;
            if thread.cache.fetch(self.span, first + line) {
                continue;
            }
            missing |= 1 << line;
            let tier = self.missing(thread, first + line);
            if tier.is_fast() {
                thread.counts.fast += 1;
            } else {
                thread.counts.slow += 1;
                self.account(thread, tier);
                let total = &self.totals[tier.index()];
                // The first line's own cost is in the latency.
                lines_ps += if latency_ps == 0 { 0 } else { total.line_ps };
                latency_ps = latency_ps.max(total.latency_ps);
            }
        }
        if missing == 0 {
            return;
        }
        let ready = thread.in_flight.make_room(self.in_flight);
        self.wait(thread, ready);
        // Lines of tier 0 take the time that they take; the real prefetch is under way.
        let ready = match latency_ps {
            0 => 0,
            _ => self.begin(thread) + self.tsc.ticks(latency_ps + lines_ps),
        };
        thread.in_flight.start(self.span + first, missing, ready);
    }

    /// When an access of this thread begins.
    fn begin(&self, thread: &Thread) -> u64 {
        match thread.overlap.is_on() {
            false => self.tsc.now(),
            true => thread.overlap.begin(self.tsc.unordered()),
        }
    }

    /// Waits until `ready`, unless that is 0.
    #[inline(always)]
    fn wait(&self, thread: &mut Thread, ready: u64) {
        if ready == 0 {
        } else if thread.overlap.is_on() {
            thread.overlap.wait(ready);
        } else {
            thread.counts.waited_ps += self.tsc.wait_until(ready);
        }
    }

    /// Accounts for the bandwidth of one line of a slower tier.
    #[inline(always)]
    fn account(&self, thread: &mut Thread, tier: TierId) {
        let read = &mut thread.read[tier.index() % thread::TIERS];
        *read += 1;
        if *read == BATCH {
            *read = 0;
            self.transfer(thread, tier);
        }
    }

    #[cold]
    #[inline(never)]
    fn transfer(&self, thread: &mut Thread, tier: TierId) {
        let now = self.tsc.unordered();
        let end = self.channels[tier.index()].transfer(now);
        if end > now {
            self.wait(thread, end);
        }
    }

    #[inline]
    fn charge(&self, thread: &mut Thread, bill: Bill) {
        thread.counts.charged_ps += bill.extra_ps;
        if thread.overlap.is_on() {
            let ticks = self.tsc.ticks(bill.extra_ps);
            return thread.overlap.access(self.tsc.unordered(), ticks);
        }
        thread.debt_ps += bill.extra_ps as i64;
        if bill.since != 0 {
            // The real memory brings the further lines while this spins for the first one. What
            // they take is to come after, so the spin is longer by it.
            thread.debt_ps += (bill.further * self.base_line_ps) as i64;
        }
        if thread.debt_ps >= SPIN_FROM_PS {
            let start = if bill.since == 0 {
                self.tsc.now()
            } else {
                bill.since
            };
            let spun = self.tsc.spin(start, thread.debt_ps as u64) as i64;
            thread.debt_ps = (thread.debt_ps - spun).max(-MOST_CREDIT_PS);
        }
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

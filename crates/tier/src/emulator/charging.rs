//! What an access costs: which of its lines miss, their charge, and the time to wait for it.

use super::Emulated;
use super::channel::BATCH;
use super::in_flight::PIECE;
use super::page_map::PageMap;
use super::thread::{self, Thread};
use crate::TierId;

/// Smaller debts are kept until there is more to spin: reading the clock takes as long.
const SPIN_FROM_PS: i64 = 40_000;

/// The longest overrun of a spin that is compensated. A longer one was caused by another thread on
/// this CPU, not by the spin.
const MOST_CREDIT_PS: i64 = 40_000;

/// The charge for one access.
#[derive(Default)]
pub(super) struct Bill {
    pub extra_ps: u64,
    /// The start of the wait for its first slow line, so that the model's work on further lines
    /// falls into the wait; 0 without a slow line.
    pub since: u64,
    /// Slow lines after the first one.
    pub further: u64,
}

impl Emulated {
    /// Not inlined: a tree has many accesses, and each would grow its code.
    #[inline(never)]
    pub(super) fn read(&self, address: usize, bytes: usize, begins: bool) {
        self.with_thread(|thread| {
            thread.latency_due |= begins;
            thread.in_flight.count_access(begins);
            self.read_by(thread, address, bytes);
        });
    }

    /// Runs `work` on this thread's state, then reports the pages that it noted.
    #[inline(always)]
    pub(super) fn with_thread(&self, work: impl FnOnce(&mut Thread)) {
        let noted = thread::with(|thread| {
            work(thread);
            !thread.events.is_empty()
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

    /// Reads a line and adds its cost to the bill.
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

    /// The tier of a missing line. Notes the page if it has marks.
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

    /// As [`read_line`](Self::read_line) for several lines, some of which may be in flight.
    #[inline(never)]
    fn read_awaited(&self, thread: &mut Thread, first: u64, end: u64, bill: &mut Bill) {
        for first in (first..end).step_by(PIECE as usize) {
            let count = PIECE.min(end - first);
            let arrival = thread.in_flight.claim(self.span + first, count);
            self.wait(thread, arrival.ready);
            for line in 0..count {
                let awaited = arrival.lines >> line & 1 == 1;
                // A line that was evicted before its first use misses again.
                if !(awaited && thread.cache.holds(self.span, first + line)) {
                    self.read_line(thread, first + line, bill);
                }
            }
        }
    }

    /// Prefetches those of the [`PIECE`] lines from `first` on whose bit in `lines` is set.
    pub(super) fn request(&self, thread: &mut Thread, first: u64, lines: u64) {
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
        // Lines of tier 0 take real time; the real prefetch is in flight.
        let ready = match latency_ps {
            0 => 0,
            _ => self.begin(thread) + self.tsc.ticks(latency_ps + lines_ps),
        };
        thread.in_flight.start(self.span + first, missing, ready);
    }

    /// Called at the start of an access of this thread.
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
    pub(super) fn charge(&self, thread: &mut Thread, bill: Bill) {
        thread.counts.charged_ps += bill.extra_ps;
        if thread.overlap.is_on() {
            let ticks = self.tsc.ticks(bill.extra_ps);
            return thread.overlap.access(self.tsc.unordered(), ticks);
        }
        thread.debt_ps += bill.extra_ps as i64;
        if bill.since != 0 {
            // The real memory delivers the further lines while this spins for the first one. Their
            // time has to come after it, so the spin is longer by it.
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

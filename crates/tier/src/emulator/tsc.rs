//! The clock that charged time is spun by: the CPU's time stamp counter on x86-64, the system's
//! monotonic clock elsewhere.
//!
//! *Reading it in order.* The counter may be read long before an earlier load has its data: a
//! processor that predicts a miss would then start to spin while the load before it, whose
//! result is the address to be charged, is still on its way, and the two latencies would overlap.
//! [`Tsc::now`] therefore waits for all earlier loads. Likewise nothing after a spin may start
//! before its end: a processor that has learned how often the loop turns would leave it early in
//! speculation and ask for the next line. The reads inside the spin need no such care.
//!
//! *What spinning itself costs* (the wait for earlier loads, the mispredicted end of the loop) is
//! measured once and taken off each spin; a spin that ends late hands its surplus back to be
//! taken off the next.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The calibrated clock; small and copied into whatever needs it.
#[derive(Clone, Copy, Debug)]
pub struct Tsc {
    ticks_per_ps: f64,
    /// How much longer than requested a spin takes, in ticks.
    overhead: u64,
}

impl Tsc {
    /// The clock of this machine. The first call takes some 30 ms to calibrate it.
    pub fn get() -> Tsc {
        static TSC: OnceLock<Tsc> = OnceLock::new();
        *TSC.get_or_init(calibrate)
    }

    /// The time in ticks, after every load before this call.
    #[inline(always)]
    pub fn now(self) -> u64 {
        fence();
        ticks()
    }

    /// The time in ticks, which may be read before earlier loads have their data.
    #[inline(always)]
    pub fn unordered(self) -> u64 {
        ticks()
    }

    /// A duration in ticks.
    #[inline(always)]
    pub fn ticks(self, ps: u64) -> u64 {
        (ps as f64 * self.ticks_per_ps) as u64
    }

    /// Spins until `ps` picoseconds have passed since `start`, a time from [`Tsc::now`]. Returns
    /// how long after `start` that was in truth, in picoseconds, overhead included.
    #[inline]
    pub fn spin(self, start: u64, ps: u64) -> u64 {
        let end = (start + self.ticks(ps)).saturating_sub(self.overhead);
        self.ps(wait(end) - start + self.overhead)
    }

    /// Waits until a time. Returns for how long, in picoseconds.
    pub fn wait_until(self, ready: u64) -> u64 {
        let start = self.now();
        if start >= ready {
            return 0;
        }
        self.ps(wait(ready) - start)
    }

    /// Ticks as a duration.
    pub fn duration(self, ticks: u64) -> Duration {
        Duration::from_nanos(self.ps(ticks) / 1000)
    }

    fn ps(self, ticks: u64) -> u64 {
        (ticks as f64 / self.ticks_per_ps) as u64
    }
}

/// Spins to `end` and returns the time then. Nothing after it starts before.
#[inline(always)]
fn wait(end: u64) -> u64 {
    let mut now = ticks();
    while now < end {
        now = ticks();
    }
    fence();
    now
}

fn calibrate() -> Tsc {
    let (started, first) = paired();
    while started.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    let (ended, last) = paired();
    let ps = (ended - started).as_nanos() as f64 * 1000.0;
    let tsc = Tsc {
        ticks_per_ps: (last - first) as f64 / ps,
        overhead: 0,
    };
    Tsc {
        overhead: overhead(tsc),
        ..tsc
    }
}

/// The same moment on both clocks: of several tries the one whose two readings are closest.
fn paired() -> (Instant, u64) {
    let attempt = || {
        let before = ticks();
        let instant = Instant::now();
        let after = ticks();
        (after - before, instant, before + (after - before) / 2)
    };
    let tries = (0..16).map(|_| attempt());
    let best = tries.min_by_key(|&(width, ..)| width);
    let (_, instant, ticks) = best.unwrap_or_else(attempt);
    (instant, ticks)
}

/// How much longer a series of spins takes than they themselves think, for each: the median.
fn overhead(tsc: Tsc) -> u64 {
    const SPINS: u64 = 500;
    let series = || {
        let start = tsc.now();
        let spun: u64 = (0..SPINS)
            .map(|_| tsc.ticks(tsc.spin(tsc.now(), 200_000)))
            .sum();
        (tsc.now() - start).saturating_sub(spun) / SPINS
    };
    let mut beyond: Vec<u64> = (0..9).map(|_| series()).collect();
    beyond.sort_unstable();
    // More than this is not the spin but another thread on this CPU.
    beyond[beyond.len() / 2].min(tsc.ticks(50_000))
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: reading the counter touches no memory, and every x86-64 has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fence() {
    // SAFETY: SSE2, of which this is a part, belongs to x86-64; it orders loads and nothing else.
    unsafe { core::arch::x86_64::_mm_lfence() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(not(target_arch = "x86_64"))]
fn fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spin_takes_at_least_what_it_was_asked_for() {
        let tsc = Tsc::get();
        for ps in [0, 100_000, 2_000_000] {
            assert!(tsc.spin(tsc.now(), ps) + 1000 >= ps, "to the nanosecond");
        }
    }

    #[test]
    fn a_time_that_has_passed_is_not_waited_for() {
        let tsc = Tsc::get();
        assert_eq!(tsc.wait_until(tsc.now()), 0);
        assert_eq!(tsc.wait_until(0), 0);
    }
}

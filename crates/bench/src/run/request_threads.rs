//! The request threads: run requests on one map for a slice of time, and count.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use timberline_tier::emulator::{
    CacheSize, LineCounts, end_request, set_thread_cache, set_thread_overlap, thread_counts,
};

use super::index::Index;
use super::schedule::{Due, Schedule, Since, SliceClock};
use super::source::Source;
use super::threads::side_by_side;
use crate::report::latencies;
use crate::workload::{Op, Request};
use timberline_placement::workers::thread_cpu_time;

/// Interval of checks of the clock and the stop flag, in requests.
const BLOCK: u64 = 64;
/// Interval at which requests are timed; reading the clock costs about a tenth of a request.
const TIMED: u64 = 16;
/// How often a sample of the run is taken.
pub const TICK: Duration = Duration::from_millis(100);

/// The result of a slice.
pub struct Slice {
    /// Requests completed.
    pub ops: u64,
    /// Its length, s.
    pub seconds: f64,
    /// CPU time of the request threads, s.
    pub cpu_seconds: f64,
    /// Lines accessed by the request threads.
    pub lines: LineCounts,
    /// Latencies of the timed requests, ns. On a trace's schedule, all requests are timed, from
    /// when they were due.
    pub latencies: Histogram<u64>,
    /// Requests of a trace that were due but not executed by the end.
    pub unanswered: u64,
    /// Reads of loaded keys that found nothing: 0, or the map is broken.
    pub lost: u64,
    /// Inserts and updates refused because memory was full.
    pub refused: u64,
}

/// A thread sleeps until this long before a request is due, and then spins: waking up takes time
/// that is not the map's.
const EARLY: Duration = Duration::from_micros(120);

/// The clock of a slice, which the stop flag ends.
struct Wall<'a> {
    start: Instant,
    stop: &'a AtomicBool,
}

impl SliceClock for Wall<'_> {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait_until(&self, due: Duration) -> bool {
        loop {
            let left = due.saturating_sub(self.now());
            if left.is_zero() || self.is_over() {
                return left.is_zero();
            }
            match left.checked_sub(EARLY) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(TICK / 10)),
                _ => std::hint::spin_loop(),
            }
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

/// A thread's counters so far, for observers.
#[derive(Default)]
#[repr(align(128))]
struct Meter {
    ops: AtomicU64,
    fast: AtomicU64,
    slow: AtomicU64,
}

/// A snapshot of a running slice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glance {
    /// Time since the start, s.
    pub at: f64,
    /// Requests so far.
    pub ops: u64,
    /// Fast lines so far.
    pub fast: u64,
    /// Slow lines so far.
    pub slow: u64,
}

/// Runs the sources, one a thread, for `length` or until `interrupted`, but at least a few
/// requests. Each thread gets a modelled `cache`, and up to `overlap` of its requests overlap in
/// emulated memory; none at 0. Calls `glance` every [`TICK`], and at least once.
///
/// # Errors
/// One line: the system refuses a thread.
pub fn slice(
    map: &impl Index,
    sources: &mut [Source<'_>],
    (cache, overlap): (CacheSize, usize),
    length: Duration,
    interrupted: &AtomicBool,
    mut glance: impl FnMut(Glance),
) -> Result<Slice, String> {
    let stop = AtomicBool::new(false);
    let meters: Vec<Meter> = sources.iter().map(|_| Meter::default()).collect();
    // The trace's current position: in the previous slice all threads ended at almost the same
    // time.
    let origin = sources.iter().filter_map(Source::due).min();
    let start = Instant::now();
    let request = |(source, meter): (&mut Source<'_>, &Meter)| {
        set_thread_cache(cache);
        set_thread_overlap(overlap);
        let overlaps = overlap > 0;
        match origin {
            None => work(map, source, overlaps, meter, &stop),
            Some(origin) => {
                let clock = Wall { start, stop: &stop };
                let schedule = Schedule::new(Since { source, origin }, &clock);
                work_to_schedule(map, schedule, overlaps, meter)
            }
        }
    };
    let observe = || {
        loop {
            let left = length.saturating_sub(start.elapsed());
            std::thread::sleep(TICK.min(left));
            let sum = |field: fn(&Meter) -> &AtomicU64| {
                meters.iter().map(|meter| field(meter).load(Relaxed)).sum()
            };
            glance(Glance {
                at: start.elapsed().as_secs_f64(),
                ops: sum(|m| &m.ops),
                fast: sum(|m| &m.fast),
                slow: sum(|m| &m.slow),
            });
            if left <= TICK || interrupted.load(Relaxed) {
                break;
            }
        }
        stop.store(true, Relaxed);
    };
    let parts = side_by_side(sources.iter_mut().zip(&meters), &stop, request, observe)?;
    let mut whole = Slice::nothing();
    for part in parts {
        whole.seconds = whole.seconds.max(part.seconds);
        whole.add(&part);
    }
    Ok(whole)
}

/// Makes `passes` requests of the sources without writing: the same accesses, but the map stays
/// unchanged.
///
/// # Errors
/// One line: the system refuses a thread.
pub fn rehearse(
    map: &impl Index,
    sources: &mut [Source<'_>],
    cache: CacheSize,
    passes: u64,
    interrupted: &AtomicBool,
) -> Result<(), String> {
    let share = passes / sources.len().max(1) as u64;
    let refused = AtomicBool::new(false);
    let request = |source: &mut Source<'_>| {
        set_thread_cache(cache);
        for pass in 0..share {
            let is_over = || interrupted.load(Relaxed) || refused.load(Relaxed);
            if pass % 4096 == 0 && is_over() {
                break;
            }
            let Request { op, key } = source.next();
            match op {
                Op::Insert => {}
                Op::Scan(records) => {
                    black_box(map.scan(key, records.into()));
                }
                Op::Read | Op::Update | Op::ReadModifyWrite => {
                    black_box(map.get(key));
                }
            }
        }
    };
    side_by_side(sources, &refused, request, || {}).map(|_| ())
}

fn work(
    map: &impl Index,
    source: &mut Source<'_>,
    overlaps: bool,
    meter: &Meter,
    stop: &AtomicBool,
) -> Slice {
    let mut slice = Slice::nothing();
    let (start, cpu, lines) = (Instant::now(), thread_cpu_time(), thread_counts());
    // At least once: a thread may start only after the slice's time.
    loop {
        for number in 0..BLOCK {
            let request = source.next();
            if number % TIMED == 0 {
                let begin = Instant::now();
                slice.execute(map, request);
                let nanos = begin.elapsed().as_nanos() as u64 + late(overlaps);
                slice.latencies.saturating_record(nanos.max(1));
            } else {
                slice.execute(map, request);
                late(overlaps);
            }
        }
        slice.ops += BLOCK;
        slice.lines = thread_counts() - lines;
        meter.show(&slice);
        if stop.load(Relaxed) {
            break;
        }
    }
    slice.seconds = start.elapsed().as_secs_f64();
    slice.cpu_seconds = (thread_cpu_time() - cpu).as_secs_f64();
    slice
}

fn work_to_schedule(
    map: &impl Index,
    mut schedule: Schedule<'_, Since<'_, '_>, Wall<'_>>,
    overlaps: bool,
    meter: &Meter,
) -> Slice {
    let mut slice = Slice::nothing();
    let (start, cpu, lines) = (Instant::now(), thread_cpu_time(), thread_counts());
    while let Some(turn) = schedule.next() {
        let latency = match turn {
            Due::Make(request, due) => {
                slice.execute(map, request);
                slice.ops += 1;
                slice.lines = thread_counts() - lines;
                meter.show(&slice);
                let since = schedule.since(due);
                since + Duration::from_nanos(late(overlaps))
            }
            Due::Missed(waited) => {
                slice.unanswered += 1;
                waited
            }
        };
        let nanos = latency.as_nanos() as u64;
        slice.latencies.saturating_record(nanos.max(1));
    }
    slice.seconds = start.elapsed().as_secs_f64();
    slice.cpu_seconds = (thread_cpu_time() - cpu).as_secs_f64();
    slice
}

/// Nanoseconds until the lines of the request that just ended are there, if requests overlap.
#[inline(always)]
fn late(overlaps: bool) -> u64 {
    if overlaps { end_request() } else { 0 }
}

impl Meter {
    fn show(&self, slice: &Slice) {
        self.ops.store(slice.ops, Relaxed);
        self.fast.store(slice.lines.fast, Relaxed);
        self.slow.store(slice.lines.slow, Relaxed);
    }
}

impl Slice {
    pub fn nothing() -> Slice {
        Slice {
            ops: 0,
            seconds: 0.0,
            cpu_seconds: 0.0,
            lines: LineCounts::default(),
            latencies: latencies(),
            unanswered: 0,
            lost: 0,
            refused: 0,
        }
    }

    /// Adds all counters but the length.
    pub fn add(&mut self, other: &Slice) {
        self.ops += other.ops;
        self.cpu_seconds += other.cpu_seconds;
        self.lines += other.lines;
        self.latencies.add(&other.latencies).expect("same bounds");
        self.unanswered += other.unanswered;
        self.lost += other.lost;
        self.refused += other.refused;
    }

    #[inline(always)]
    fn execute(&mut self, map: &impl Index, Request { op, key }: Request) {
        let found = match op {
            Op::Read => map.get(key).is_some(),
            Op::Update => self.updated(map.update(key, key)),
            Op::Insert => {
                self.refused += u64::from(map.insert(key, key).is_err());
                true
            }
            Op::Scan(records) => {
                let (seen, sum) = map.scan(key, records.into());
                black_box(sum);
                seen > 0
            }
            Op::ReadModifyWrite => match map.get(key) {
                Some(value) => self.updated(map.update(key, value.wrapping_add(1))),
                None => false,
            },
        };
        self.lost += u64::from(!found);
    }

    /// Whether an update found its record; unknown if memory was full.
    #[inline(always)]
    fn updated(&mut self, outcome: Result<bool, String>) -> bool {
        outcome.unwrap_or_else(|_full| {
            self.refused += 1;
            true
        })
    }
}

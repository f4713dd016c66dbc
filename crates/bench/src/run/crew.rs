//! The request threads: run one map for a while and count.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use timberline_tier::emulator::{LineCounts, thread_counts};

use super::index::Index;
use super::source::Source;
use crate::workload::{Op, Request};

/// How often the clock and the stop flag are looked at.
const BLOCK: u64 = 64;
/// One request in so many is timed; reading the clock costs about a tenth of a request.
const TIMED: u64 = 16;
/// How often a sample of the run is taken.
pub const TICK: Duration = Duration::from_millis(100);

/// What a slice came to.
pub struct Slice {
    /// Requests done.
    pub ops: u64,
    /// For how long, s.
    pub seconds: f64,
    /// Lines touched by the request threads.
    pub lines: LineCounts,
    /// Latencies of the timed requests, ns.
    pub latencies: Histogram<u64>,
    /// Reads of loaded keys that found nothing: 0, or the map is broken.
    pub lost: u64,
    /// Inserts refused because memory was full.
    pub refused: u64,
}

/// What a thread has done so far, for others to look at.
#[derive(Default)]
#[repr(align(128))]
struct Meter {
    ops: AtomicU64,
    fast: AtomicU64,
    slow: AtomicU64,
}

/// A look at a slice while it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Glance {
    /// Time since its start, s.
    pub at: f64,
    /// Requests so far.
    pub ops: u64,
    /// Fast lines so far.
    pub fast: u64,
    /// Slow lines so far.
    pub slow: u64,
}

/// Runs the sources, one a thread, for `length` or until `interrupted`. `glance` is called every [`TICK`].
pub fn slice(
    map: &impl Index,
    sources: &mut [Source<'_>],
    length: Duration,
    interrupted: &AtomicBool,
    mut glance: impl FnMut(Glance),
) -> Slice {
    let stop = AtomicBool::new(false);
    let meters: Vec<Meter> = sources.iter().map(|_| Meter::default()).collect();
    let start = Instant::now();
    let parts: Vec<Slice> = std::thread::scope(|scope| {
        let threads: Vec<_> = sources
            .iter_mut()
            .zip(&meters)
            .map(|(source, meter)| scope.spawn(|| work(map, source, meter, &stop)))
            .collect();
        loop {
            let at = start.elapsed();
            if at >= length || interrupted.load(Relaxed) {
                break;
            }
            std::thread::sleep(TICK.min(length - at));
            let sum = |field: fn(&Meter) -> &AtomicU64| {
                meters.iter().map(|meter| field(meter).load(Relaxed)).sum()
            };
            glance(Glance {
                at: start.elapsed().as_secs_f64(),
                ops: sum(|m| &m.ops),
                fast: sum(|m| &m.fast),
                slow: sum(|m| &m.slow),
            });
        }
        stop.store(true, Relaxed);
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a request thread"))
            .collect()
    });
    let mut whole = Slice::nothing();
    for part in parts {
        whole.add(part);
    }
    whole
}

/// Makes `passes` requests of the sources without writing anything: the accesses are as they will be, and the map stays as it is.
pub fn rehearse(
    map: &impl Index,
    sources: &mut [Source<'_>],
    passes: u64,
    interrupted: &AtomicBool,
) {
    let share = passes / sources.len().max(1) as u64;
    std::thread::scope(|scope| {
        for source in sources {
            scope.spawn(move || {
                for pass in 0..share {
                    if pass % 4096 == 0 && interrupted.load(Relaxed) {
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
            });
        }
    });
}

fn work(map: &impl Index, source: &mut Source<'_>, meter: &Meter, stop: &AtomicBool) -> Slice {
    let mut slice = Slice::nothing();
    let (start, lines) = (Instant::now(), thread_counts());
    while !stop.load(Relaxed) {
        for number in 0..BLOCK {
            let request = source.next();
            if number % TIMED == 0 {
                let begin = Instant::now();
                slice.execute(map, request);
                let nanos = begin.elapsed().as_nanos() as u64;
                slice.latencies.saturating_record(nanos.max(1));
            } else {
                slice.execute(map, request);
            }
        }
        slice.ops += BLOCK;
        slice.lines = thread_counts() - lines;
        meter.ops.store(slice.ops, Relaxed);
        meter.fast.store(slice.lines.fast, Relaxed);
        meter.slow.store(slice.lines.slow, Relaxed);
    }
    slice.seconds = start.elapsed().as_secs_f64();
    slice
}

impl Slice {
    fn nothing() -> Slice {
        Slice {
            ops: 0,
            seconds: 0.0,
            lines: LineCounts::default(),
            latencies: Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("constant bounds"),
            lost: 0,
            refused: 0,
        }
    }

    /// Adds what another thread did at the same time.
    fn add(&mut self, other: Slice) {
        self.ops += other.ops;
        self.seconds = self.seconds.max(other.seconds);
        self.lines += other.lines;
        self.latencies.add(&other.latencies).expect("same bounds");
        self.lost += other.lost;
        self.refused += other.refused;
    }

    #[inline(always)]
    fn execute(&mut self, map: &impl Index, Request { op, key }: Request) {
        let found = match op {
            Op::Read => map.get(key).is_some(),
            Op::Update => map.update(key, key),
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
                Some(value) => map.update(key, value.wrapping_add(1)),
                None => false,
            },
        };
        self.lost += u64::from(!found);
    }
}

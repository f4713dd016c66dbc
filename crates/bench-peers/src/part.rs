//! One thread's part of a turn: executes requests and times them.

use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;
use timberline_bench::workload::Op;

use crate::index::Index;
use crate::keys::Block;

/// Interval at which single requests are timed, for the percentiles.
const TIMED: usize = 64;
/// One thread's part of a turn.
pub struct Part {
    /// Requests in the measured time.
    pub ops: u64,
    /// The time they took, s.
    pub seconds: f64,
    /// Latencies of the individually timed requests, ns.
    pub latencies: Histogram<u64>,
    /// Reads and updates of existing records that found nothing.
    pub lost: u64,
    /// Inserts that the map refused.
    pub refused: u64,
}

impl Part {
    /// An empty part.
    pub fn new() -> Part {
        Part {
            ops: 0,
            seconds: 0.0,
            latencies: nanos(),
            lost: 0,
            refused: 0,
        }
    }

    /// Executes prepared requests under the clock; `keys` holds the key of each.
    #[inline]
    pub fn execute<I: Index<K>, K: ?Sized>(
        &mut self,
        index: &I,
        requests: &[(Op, u64)],
        keys: &impl Block<K>,
        measured: bool,
    ) {
        let begin = Instant::now();
        for (at, &(op, id)) in requests.iter().enumerate() {
            let key = keys.key(at);
            if at % TIMED == 0 {
                let begin = Instant::now();
                self.one(index, op, key, id);
                if measured {
                    let nanos = begin.elapsed().as_nanos() as u64;
                    self.latencies.saturating_record(nanos.max(1));
                }
            } else {
                self.one(index, op, key, id);
            }
        }
        if measured {
            self.seconds += begin.elapsed().as_secs_f64();
            self.ops += requests.len() as u64;
        }
    }

    #[inline(always)]
    fn one<I: Index<K>, K: ?Sized>(&mut self, index: &I, op: Op, key: &K, id: u64) {
        let found = match op {
            Op::Read => black_box(index.get(key)).is_some(),
            Op::Update => index.update(key, id),
            Op::Insert => {
                self.refused += u64::from(!index.insert(key, id));
                true
            }
            Op::Scan(records) => black_box(index.scan(key, records.into())).count > 0,
            Op::ReadModifyWrite => match index.get(key) {
                Some(value) => index.update(key, value.wrapping_add(1)),
                None => false,
            },
        };
        self.lost += u64::from(!found);
    }
}

/// An empty histogram of latencies up to 10 s.
pub fn nanos() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("constant bounds")
}

/// The merged latencies of all parts.
pub fn together(parts: &[Part]) -> Histogram<u64> {
    let mut latencies = nanos();
    for part in parts {
        latencies.add(&part.latencies).expect("same bounds");
    }
    latencies
}

//! One map with its keys and its requests: the contents of a child process.
//!
//! Only the map's work is timed. A request thread prepares [`BLOCK`] requests with their keys, then
//! executes them between two clock reads. Drawing a Zipf rank and making a key cost as much as a
//! quarter of a lookup; that cost is in no figure and dilutes no ratio.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use timberline_bench::workload::{LoadOrder, Op, load_order};

use crate::allocator::flush;
use crate::case::{Case, Numbered};
use crate::check::check;
use crate::footprint::Footprint;
use crate::index::{Index, Setting};
use crate::keys::{Block, Keys};
use crate::part::{Part, nanos, together};

/// Requests prepared at once.
const BLOCK: usize = 128;
/// Capacity for records inserted while measuring: a fraction of the loaded ones, and a minimum.
const GROWTH: (u64, u64) = (2, 20_000_000);

/// The result of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Requests in the measured time.
    pub ops: u64,
    /// Requests a second, summed over all threads, by the time spent in the map.
    pub ops_per_s: f64,
    /// The longest of the threads' times, s.
    pub seconds: f64,
    /// 50th, 90th, 99th and 99.9th percentile of the latency so far in this case, ns.
    pub percentiles_ns: [u64; 4],
    /// Records at the end of the turn.
    pub records: u64,
    /// Bytes allocated and committed at the end, above those before the map was created.
    pub bytes: u64,
    /// Resident bytes of the process at the end, above those before the map was created.
    pub resident: u64,
}

/// The setup of a contender.
pub struct Setup<T> {
    /// The kind of its keys.
    pub keys: T,
    /// Records to load.
    pub records: u64,
    /// Request threads.
    pub threads: usize,
    /// Seed of the requests.
    pub seed: u64,
    /// Whether our own arenas ask for 2 MiB pages.
    pub huge_pages: bool,
}

/// A contender, whatever the type of its map.
pub trait Contender {
    /// Checks a fresh map of this type.
    ///
    /// # Errors
    /// One line: the first wrong answer.
    fn check(&self) -> Result<(), String>;

    /// Loads `count` more records, or all that remain.
    ///
    /// # Errors
    /// The map refused a record.
    fn load(&mut self, count: u64, rest: bool) -> Result<Turn, String>;

    /// Runs requests: unmeasured for `warm`, then measured for `length`. Continues the request
    /// streams of the previous turn if that ran the same case.
    ///
    /// # Errors
    /// The map lost or refused a record.
    fn turn(&mut self, case: &Case, warm: Duration, length: Duration) -> Result<Turn, String>;
}

/// A contender with a map of type `I`.
pub struct Held<I, T: Keys> {
    index: I,
    keys: Arc<T>,
    seed: u64,
    /// The number of loaded ids; those of inserts follow.
    loads: u64,
    orders: Vec<LoadOrder>,
    records: u64,
    /// Insert ids used so far.
    inserted: u64,
    current: Option<Running>,
    before: Footprint,
}

/// The current case.
struct Running {
    case: Case,
    streams: Vec<Numbered>,
    latencies: Histogram<u64>,
}

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

impl<I: Index<T::Key>, T: Keys> Held<I, T> {
    /// An empty map.
    ///
    /// # Errors
    /// One line that says why there is none.
    pub fn make(setup: Setup<T>) -> Result<Box<dyn Contender>, String> {
        let before = Footprint::now();
        let growth = (setup.records / GROWTH.0).max(GROWTH.1);
        let setting = Setting {
            records: setup.records + growth,
            longest_key: setup.keys.longest(),
            huge_pages: setup.huge_pages,
        };
        let threads = setup.threads as u64;
        let order = |thread| load_order(setup.records, setup.seed, thread, threads);
        Ok(Box::new(Held {
            index: I::new(&setting)?,
            keys: Arc::new(setup.keys),
            seed: setup.seed,
            loads: setup.records,
            orders: (0..threads).map(order).collect(),
            records: 0,
            inserted: 0,
            current: None,
            before,
        }))
    }

    /// Sums up a turn. Subtracts the benchmark's own allocations.
    fn turn_of(
        &self,
        parts: Vec<Part>,
        latencies: Option<&Histogram<u64>>,
    ) -> Result<Turn, String> {
        let sum = |field: fn(&Part) -> u64| parts.iter().map(field).sum::<u64>();
        let (lost, refused) = (sum(|part| part.lost), sum(|part| part.refused));
        if lost + refused > 0 {
            return Err(format!(
                "answered wrongly: {lost} records were missing, {refused} inserts were refused"
            ));
        }
        let rates = parts.iter().filter(|part| part.seconds > 0.0);
        let percentiles = |latencies: &Histogram<u64>| {
            [0.5, 0.9, 0.99, 0.999].map(|q| latencies.value_at_quantile(q))
        };
        let mut turn = Turn {
            ops: sum(|part| part.ops),
            ops_per_s: rates.map(|part| part.ops as f64 / part.seconds).sum(),
            seconds: parts.iter().map(|part| part.seconds).fold(0.0, f64::max),
            percentiles_ns: match latencies {
                Some(latencies) => percentiles(latencies),
                None => percentiles(&together(&parts)),
            },
            records: self.records,
            ..Turn::default()
        };
        drop(parts);
        let now = Footprint::now();
        turn.bytes = now.heap.saturating_sub(self.before.heap) + self.index.committed();
        turn.resident = now.resident.saturating_sub(self.before.resident);
        Ok(turn)
    }
}

impl<I: Index<T::Key>, T: Keys> Contender for Held<I, T> {
    fn check(&self) -> Result<(), String> {
        check::<I, T>(&self.keys, self.seed)
    }

    fn load(&mut self, count: u64, rest: bool) -> Result<Turn, String> {
        let threads = self.orders.len();
        let work = |index: I, order: &mut LoadOrder, share: usize| {
            let (mut part, mut keys) = (Part::new(), T::Block::default());
            let mut requests = Vec::with_capacity(BLOCK);
            let mut ids = order.take(share);
            loop {
                keys.clear();
                requests.clear();
                for id in ids.by_ref().take(BLOCK) {
                    self.keys.push(&mut keys, id);
                    requests.push((Op::Insert, id));
                }
                if requests.is_empty() {
                    flush();
                    return part;
                }
                part.execute(&index, &requests, &keys, true);
            }
        };
        let parts: Vec<Part> = std::thread::scope(|scope| {
            let shares = self.orders.iter_mut().enumerate().map(|(thread, order)| {
                let share = (count as usize + threads - 1 - thread) / threads;
                let share = if rest { usize::MAX } else { share };
                let (index, work) = (self.index.clone(), &work);
                scope.spawn(move || work(index, order, share))
            });
            let shares: Vec<_> = shares.collect();
            let join =
                |share: std::thread::ScopedJoinHandle<'_, Part>| share.join().expect("a loader");
            shares.into_iter().map(join).collect()
        });
        self.records += parts.iter().map(|part| part.ops).sum::<u64>();
        self.turn_of(parts, None)
    }

    fn turn(&mut self, case: &Case, warm: Duration, length: Duration) -> Result<Turn, String> {
        let mut running = match self.current.take() {
            Some(running) if running.case == *case => running,
            _ => self.begin(case)?,
        };
        let made = |running: &Running| -> u64 {
            running.streams.iter().map(|stream| stream.inserts).sum()
        };
        let made_before = made(&running);
        let phase = AtomicU8::new(WARMING);
        let work = |index: I, stream: &mut Numbered| {
            let (mut part, mut keys) = (Part::new(), T::Block::default());
            let mut requests = Vec::with_capacity(BLOCK);
            loop {
                let phase = phase.load(Relaxed);
                // Each thread measures at least one block, however short the turn and busy the
                // machine.
                if phase == OVER && part.ops > 0 {
                    flush();
                    return part;
                }
                keys.clear();
                requests.clear();
                for _ in 0..BLOCK {
                    let (op, id) = stream.next();
                    self.keys.push(&mut keys, id);
                    requests.push((op, id));
                }
                part.execute(&index, &requests, &keys, phase != WARMING);
            }
        };
        let parts: Vec<Part> = std::thread::scope(|scope| {
            let threads: Vec<_> = running
                .streams
                .iter_mut()
                .map(|stream| {
                    let (index, work) = (self.index.clone(), &work);
                    scope.spawn(move || work(index, stream))
                })
                .collect();
            std::thread::sleep(warm);
            phase.store(MEASURING, Relaxed);
            std::thread::sleep(length);
            phase.store(OVER, Relaxed);
            let join = |thread: std::thread::ScopedJoinHandle<'_, Part>| {
                thread.join().expect("a request thread")
            };
            threads.into_iter().map(join).collect()
        });
        let added = running.latencies.add(together(&parts));
        added.expect("same bounds");
        self.records += made(&running) - made_before;
        let threads = running.streams.len() as u64;
        let used = running.streams.iter().map(|stream| stream.inserts).max();
        self.inserted = running.streams[0].base + used.unwrap_or(0) * threads;
        let turn = self.turn_of(parts, Some(&running.latencies));
        self.current = Some(running);
        turn
    }
}

impl<I: Index<T::Key>, T: Keys> Held<I, T> {
    fn begin(&self, case: &Case) -> Result<Running, String> {
        let threads = self.orders.len() as u64;
        let map = (self.loads, self.inserted);
        let requests = |thread| Numbered::new(case, map, self.seed, (thread, threads));
        Ok(Running {
            case: case.clone(),
            streams: (0..threads).map(requests).collect::<Result<_, _>>()?,
            latencies: nanos(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Spread;
    use crate::keys::{Lines, Words};
    use crate::peers::locked;

    fn setup<T>(keys: T, threads: usize) -> Setup<T> {
        Setup {
            keys,
            records: 1001,
            threads,
            seed: 7,
            huge_pages: false,
        }
    }

    fn case(workload: &str, spread: Spread) -> Case {
        Case {
            workload: workload.into(),
            spread,
        }
    }

    /// Fails the turn unless every read finds its record and every insert is new.
    fn run_all(mut contender: Box<dyn Contender>) {
        assert_eq!(contender.load(500, false).unwrap().records, 500);
        let loaded = contender.load(501, true).unwrap();
        assert_eq!((loaded.records, loaded.ops), (1001, 501));
        let mut records = 1001;
        for workload in ["ycsb-a", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-d", "ycsb-f"] {
            for spread in [Spread::Uniform, Spread::Zipf] {
                for _ in 0..2 {
                    let (warm, length) = (Duration::from_millis(1), Duration::from_millis(5));
                    let turn = contender.turn(&case(workload, spread), warm, length);
                    let turn = turn.unwrap();
                    assert!(turn.records >= records && turn.percentiles_ns[0] > 0);
                    records = turn.records;
                }
            }
        }
        assert!(records > 1001);
    }

    #[test]
    fn requests_find_what_was_loaded_and_inserted_by_cases_before() {
        for threads in [1, 2] {
            run_all(Held::<locked::Words, _>::make(setup(Words::Random, threads)).unwrap());
            let lines = Lines::of(b"one\ntwo\nthree\n");
            run_all(Held::<locked::Bytes, _>::make(setup(lines, threads)).unwrap());
        }
    }
}

//! One map with its keys and its requests: the contents of a child process.
//!
//! Only the map's work is timed. A request thread prepares [`BLOCK`] requests with their keys and
//! values, then executes them between two clock reads. Drawing a Zipf rank and making a key cost as
//! much as a quarter of a lookup; that cost is in no figure and dilutes no ratio.
//!
//! Every answer is checked: a value is the scattered id, but for its lowest byte, which updates
//! change.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use timberline_bench::have_ready;
use timberline_bench::report::{latencies, percentiles};
use timberline_bench::workload::{KeySpace, Op, load_order};

use crate::check::check;
use crate::index::{Index, Setting};
use crate::keys::{Block, Keys, scatter};
use crate::memory::Resident;
use crate::rows::workload;

/// Requests prepared at once.
const BLOCK: usize = 128;
/// Interval at which single requests are timed, for the percentiles.
const TIMED: usize = 64;
/// Memory that is made ready for each record to load, bytes: what most maps take.
const RECORD: usize = 100;
/// The bits of a value that updates change.
const CHANGED: u64 = 0xff;

/// The figures of a step: loading, or a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests a second: all records over the time of the slowest thread for loading; else the sum
    /// over the threads. Time is that spent in the map.
    pub ops_per_s: f64,
    /// The longest of the threads' times, s.
    pub seconds: f64,
    /// 50th, 90th, 99th and 99.9th percentile of the latency, ns.
    pub percentiles_ns: [u64; 4],
    /// After loading: resident bytes above those before the map was made.
    pub resident: u64,
    /// Those of them that lie in 2 MiB pages.
    pub in_huge_pages: u64,
}

pub struct Setup<T> {
    pub keys: T,
    pub records: u64,
    pub threads: u64,
    pub seed: u64,
}

impl<T: Keys> Setup<T> {
    fn setting(&self) -> Setting {
        Setting {
            longest_key: self.keys.longest(),
        }
    }
}

/// A subject, whatever the type of its map.
pub trait Subject {
    /// Checks a fresh map of this type.
    ///
    /// # Errors
    /// One line: the first wrong answer.
    fn check(&self) -> Result<(), String>;

    /// Loads all records.
    ///
    /// # Errors
    /// The map refused a record.
    fn load(&mut self) -> Result<Step, String>;

    /// Loads all records into another map, many a call where the map has such a call.
    ///
    /// # Errors
    /// The map refused a record, or there is none.
    fn load_many(&self) -> Result<Step, String>;

    /// Runs a workload: unmeasured for `warm`, then measured for `length`.
    ///
    /// # Errors
    /// The workload is unknown; or the map lost or refused a record, or gave a wrong value.
    fn run(&mut self, name: &str, warm: Duration, length: Duration) -> Result<Step, String>;
}

/// A subject with a map of type `I`.
pub struct PeerMap<I, T> {
    index: I,
    setup: Setup<T>,
    /// Ids in use: those loaded, then those inserted.
    ids: u64,
    before: Resident,
}

/// How a thread executes the requests of a block.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Single,
    /// All are inserts, which are one call.
    Together,
}

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const OVER: u8 = 2;

impl<I: Index<T::Key>, T: Keys> PeerMap<I, T> {
    /// An empty map.
    ///
    /// # Errors
    /// One line that says why there is none.
    pub fn make(setup: Setup<T>) -> Result<Box<dyn Subject>, String> {
        let before = Resident::now();
        Ok(Box::new(PeerMap {
            index: I::new(&setup.setting())?,
            ids: setup.records,
            setup,
            before,
        }))
    }

    /// Loads all records into an empty map.
    fn load_into(&self, index: &I, way: Way) -> Result<Step, String> {
        let Setup {
            records,
            threads,
            seed,
            ..
        } = self.setup;
        let source = |thread| {
            let mut order = load_order(records, seed, thread, threads);
            move || order.next().map(|id| (Op::Insert, id))
        };
        let sources = (0..threads).map(source).collect();
        have_ready(records as usize * RECORD);
        let parts = self.execute(index, way, sources, &AtomicU8::new(MEASURING), || ())?;
        let step = Step::of(&parts);
        Ok(Step {
            ops_per_s: records as f64 / step.seconds,
            ..step
        })
    }

    /// Runs `next` of each thread in blocks until it gives no request; `phase` tells what to time.
    fn execute<S: FnMut() -> Option<(Op, u64)> + Send>(
        &self,
        index: &I,
        way: Way,
        sources: Vec<S>,
        phase: &AtomicU8,
        meanwhile: impl FnOnce(),
    ) -> Result<Vec<Part>, String> {
        let start = Barrier::new(sources.len() + 1);
        let all_keys = &self.setup.keys;
        let work = |index: I, mut next: S| {
            let (mut part, mut keys) = (Part::new(), T::Block::default());
            let mut requests = Vec::with_capacity(BLOCK);
            start.wait();
            loop {
                // Each thread measures at least one block, however short the time.
                let phase = phase.load(Relaxed);
                if phase == OVER && part.ops > 0 {
                    return part;
                }
                keys.clear();
                requests.clear();
                while requests.len() < BLOCK
                    && let Some((op, id)) = next()
                {
                    all_keys.push(&mut keys, id);
                    requests.push((op, scatter(id)));
                }
                if requests.is_empty() {
                    return part;
                }
                match way {
                    Way::Single => part.block(&index, &requests, &keys, phase != WARMING),
                    Way::Together => part.inserts(&index, &requests, &keys),
                }
            }
        };
        let parts: Vec<Part> = std::thread::scope(|scope| {
            let threads = sources.into_iter().map(|next| {
                let (index, work) = (index.clone(), &work);
                scope.spawn(move || work(index, next))
            });
            let threads: Vec<_> = threads.collect();
            start.wait();
            meanwhile();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|part| part.expect("a request thread")).collect()
        });
        let wrong: u64 = parts.iter().map(|part| part.wrong).sum();
        match wrong {
            0 => Ok(parts),
            _ => Err(format!(
                "answered wrongly {wrong} times: a record was missing or refused, or had another value"
            )),
        }
    }
}

impl<I: Index<T::Key>, T: Keys> Subject for PeerMap<I, T> {
    fn check(&self) -> Result<(), String> {
        check::<I, T>(&self.setup.keys, self.setup.seed)
    }

    fn load(&mut self) -> Result<Step, String> {
        let mut step = self.load_into(&self.index, Way::Single)?;
        let resident = Resident::now().since(self.before);
        (step.resident, step.in_huge_pages) = (resident.bytes, resident.in_huge_pages);
        Ok(step)
    }

    fn load_many(&self) -> Result<Step, String> {
        self.load_into(&I::new(&self.setup.setting())?, Way::Together)
    }

    fn run(&mut self, name: &str, warm: Duration, length: Duration) -> Result<Step, String> {
        let Setup {
            records,
            threads,
            seed,
            ..
        } = self.setup;
        let workload = workload(name)?;
        let space = KeySpace::dense(records).map_err(|error| error.to_string())?;
        // Inserts of a stream start behind the records; earlier workloads have inserted there.
        let (base, last) = (
            self.ids - records,
            std::sync::atomic::AtomicU64::new(self.ids),
        );
        let source = |thread| {
            let mut stream = workload.stream(&space, seed, thread, threads);
            let last = &last;
            move || {
                let request = stream.next();
                let id = match request.key >= records {
                    true => request.key + base,
                    false => request.key,
                };
                if request.op == Op::Insert {
                    last.fetch_max(id + 1, Relaxed);
                }
                Some((request.op, id))
            }
        };
        let phase = AtomicU8::new(WARMING);
        let sources = (0..threads).map(source).collect();
        let parts = self.execute(&self.index, Way::Single, sources, &phase, || {
            std::thread::sleep(warm);
            phase.store(MEASURING, Relaxed);
            std::thread::sleep(length);
            phase.store(OVER, Relaxed);
        })?;
        self.ids = last.into_inner();
        Ok(Step::of(&parts))
    }
}

impl Step {
    fn of(parts: &[Part]) -> Step {
        let mut all = latencies();
        for part in parts {
            all.add(&part.latencies).expect("same bounds");
        }
        let rates = parts.iter().filter(|part| part.seconds > 0.0);
        Step {
            ops_per_s: rates.map(|part| part.ops as f64 / part.seconds).sum(),
            seconds: parts.iter().map(|part| part.seconds).fold(0.0, f64::max),
            percentiles_ns: percentiles(&all),
            ..Step::default()
        }
    }
}

/// One thread's part of a step.
struct Part {
    /// Requests in the measured time.
    ops: u64,
    /// The time they took, s.
    seconds: f64,
    /// Latencies of the individually timed requests, ns.
    latencies: Histogram<u64>,
    /// Reads and updates that found nothing or another value, and inserts that the map refused.
    wrong: u64,
}

impl Part {
    fn new() -> Part {
        Part {
            ops: 0,
            seconds: 0.0,
            latencies: latencies(),
            wrong: 0,
        }
    }

    /// Executes prepared requests, each with its value, under the clock; `keys` holds their keys.
    #[inline]
    fn block<I: Index<K>, K: ?Sized>(
        &mut self,
        index: &I,
        requests: &[(Op, u64)],
        keys: &impl Block<K>,
        measured: bool,
    ) {
        let begin = Instant::now();
        for (at, &(op, value)) in requests.iter().enumerate() {
            let key = keys.key(at);
            if at % TIMED == 0 {
                let begin = Instant::now();
                self.one(index, op, key, value);
                if measured {
                    let nanos = begin.elapsed().as_nanos() as u64;
                    self.latencies.saturating_record(nanos.max(1));
                }
            } else {
                self.one(index, op, key, value);
            }
        }
        if measured {
            self.seconds += begin.elapsed().as_secs_f64();
            self.ops += requests.len() as u64;
        }
    }

    /// Inserts prepared records by one call, under the clock. Their latencies are those of the
    /// call, shared out.
    fn inserts<I: Index<K>, K: ?Sized>(
        &mut self,
        index: &I,
        requests: &[(Op, u64)],
        keys: &impl Block<K>,
    ) {
        let records = requests.iter().enumerate();
        let records = records.map(|(at, &(_, value))| (keys.key(at), value));
        let begin = Instant::now();
        let inserted = index.insert_many(records);
        let taken = begin.elapsed();
        let each = taken.as_nanos() as u64 / requests.len() as u64;
        self.latencies.saturating_record(each.max(1));
        self.seconds += taken.as_secs_f64();
        self.ops += requests.len() as u64;
        self.wrong += u64::from(!inserted);
    }

    #[inline(always)]
    fn one<I: Index<K>, K: ?Sized>(&mut self, index: &I, op: Op, key: &K, value: u64) {
        let is_right = |found: u64| !I::STORES || (found ^ value) & !CHANGED == 0;
        let right = match op {
            Op::Read => black_box(index.get(key)).is_some_and(is_right),
            Op::Update => index.update(key, value ^ self.ops & CHANGED),
            Op::Insert => index.insert(key, value),
            Op::Scan(records) => {
                let scanned = black_box(index.scan(key, records.into()));
                scanned.count > 0 && is_right(scanned.first)
            }
            Op::ReadModifyWrite => match index.get(key) {
                Some(found) => is_right(found) && index.update(key, found ^ CHANGED),
                None => false,
            },
        };
        self.wrong += u64::from(!right);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use parking_lot::RwLock;

    use super::*;
    use crate::index::Scanned;
    use crate::keys::{Kind, Strings, Words};
    use crate::peers::Locked;

    const TIME: Duration = Duration::from_millis(2);

    fn setup<T>(keys: T, threads: u64) -> Setup<T> {
        Setup {
            keys,
            records: 1001,
            threads,
            seed: 7,
        }
    }

    /// Every read finds its record, and every insert is new, also after workloads that inserted.
    fn run_all(mut subject: Box<dyn Subject>) {
        assert!(subject.load().unwrap().ops_per_s > 0.0);
        assert!(subject.load_many().unwrap().ops_per_s > 0.0);
        for name in [
            "updates", "zipf", "latest", "uniform", "scans", "latest", "ycsb-f",
        ] {
            let step = subject.run(name, TIME, TIME).unwrap();
            assert!(step.ops_per_s > 0.0 && step.percentiles_ns[0] > 0, "{name}");
        }
        assert!(subject.run("gets", TIME, TIME).is_err());
    }

    #[test]
    fn requests_find_what_was_loaded_and_inserted_before() {
        for threads in [1, 2] {
            run_all(
                PeerMap::<Locked<u64>, _>::make(setup(Words { dense: false }, threads)).unwrap(),
            );
            run_all(
                PeerMap::<Locked<Vec<u8>>, _>::make(setup(
                    Strings::of(Kind::Urls, None).unwrap(),
                    threads,
                ))
                .unwrap(),
            );
        }
    }

    /// Answers every read with the value of another record.
    #[derive(Clone)]
    struct Mixed(Arc<RwLock<BTreeMap<u64, u64>>>);

    impl Index<u64> for Mixed {
        fn new(_: &Setting) -> Result<Self, String> {
            Ok(Mixed(Arc::default()))
        }

        fn insert(&self, key: &u64, value: u64) -> bool {
            self.0.insert(key, value)
        }

        fn get(&self, _: &u64) -> Option<u64> {
            self.0.get(&7)
        }

        fn update(&self, key: &u64, value: u64) -> bool {
            self.0.update(key, value)
        }

        fn scan(&self, from: &u64, limit: usize) -> Scanned {
            self.0.scan(&(from / 2), limit)
        }
    }

    #[test]
    fn wrong_values_are_found_out() {
        for name in ["uniform", "scans"] {
            let mut subject = PeerMap::<Mixed, _>::make(setup(Words { dense: true }, 1)).unwrap();
            subject.load().unwrap();
            subject.run("updates", TIME, TIME).unwrap_err();
            let said = subject.run(name, TIME, TIME).unwrap_err();
            assert!(said.starts_with("answered wrongly"), "{said}");
        }
    }
}

//! A store on disk under load, beside the disk's own random reads in the same run.
//!
//! One thread drives the disk and keeps a number of requests in flight, another one maintains the
//! store, and others may share the gets. It loads all records, closes and opens the store, and then
//! takes turns: reads of the disk alone, gets of random keys, gets by Zipf's law. At last it
//! overwrites random records until the space is in its steady state, measures that, and gets beside
//! it; leaves the store as it is, as a kill would, and opens it once more.

mod as_text;
mod engine;
mod in_slow_memory;
mod maintained;
mod others;
mod outcome;
mod overwrites;
mod process;
mod raw;
mod record;
mod requests;
mod slow_memory;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use serde::{Deserialize, Serialize};
use timberline_io::{BLOCK, Disk, Driver, Kind};
use timberline_store::{Durability, IndexMap, IndexMemory, Options, Stats, Store, join};

pub use crate::rounds::Rounds;
use crate::workload::{Permutation, Rng, Zipf};
pub use engine::{Engine, Open, measure_engine};
pub use in_slow_memory::{
    InMemory, Load, SlowPart, SlowSetting, Turn, measure_beside_dram, measure_in_slow_memory,
};
use maintained::Maintained;
use others::{Draw, Gets, Others};
use outcome::Measured;
pub use outcome::{Figure, Outcome, Row};
use process::{Usage, peak_memory, reset_peak_memory};
use raw::{first_segment, read_block};
pub use record::KEY_BYTES;
use record::{get, put};
use requests::{Latencies, in_flight};
pub use slow_memory::SlowMemory;

/// Live bytes ÷ the space that segments may take.
const FILLED: f64 = 0.8;
/// θ of the skewed gets.
const SKEW: f64 = 0.99;
/// Bytes of the program that are not the store's: its code, stacks, and what the bench keeps.
const PROGRAM: u64 = 24 << 20;
/// Bytes of a record beside key and value.
const RECORD: u64 = 24;

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Where the store is made; removed at the end. Nothing may be there.
    pub folder: PathBuf,
    /// Records.
    pub records: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of memory for all of the process.
    pub memory_bytes: u64,
    /// Which map the index is.
    #[serde(with = "as_text")]
    pub index_map: IndexMap,
    /// Requests in flight.
    pub in_flight: usize,
    /// Threads that share the gets where there is nothing else; the first does all others.
    pub threads: usize,
    /// Gets of Zipf 0.99 before the first that is measured. A cache takes long to have what it
    /// will: of 5 million records that of rank 500,000 is wanted once in 8 million gets.
    pub warm: u64,
    /// Length of each measurement.
    pub slice: Duration,
    /// Turns of the measurements that take turns.
    pub rounds: usize,
    /// Of all requests.
    pub seed: u64,
    /// How files are read and written; `None` is io_uring where it is allowed, otherwise threads.
    #[serde(skip)]
    pub files: Option<Kind>,
}

impl Setting {
    /// Bytes of a record on the disk.
    fn record_bytes(&self) -> u64 {
        (RECORD + (KEY_BYTES + self.value_bytes) as u64).next_multiple_of(8)
    }

    fn live_bytes(&self) -> u64 {
        self.records * self.record_bytes()
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// One line: too little memory, a folder that has something in it, or more threads than
    /// requests in flight.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=self.in_flight).contains(&self.threads) {
            return Err(format!(
                "{} threads for {} requests in flight: give from 1 to {}",
                self.threads, self.in_flight, self.in_flight
            ));
        }
        let least = PROGRAM + Options::LEAST_MEMORY;
        if self.memory_bytes < least {
            return Err(format!(
                "{} bytes of memory: a store and this program take at least {least}",
                self.memory_bytes
            ));
        }
        match std::fs::read_dir(&self.folder).map(|mut it| it.next().is_none()) {
            Ok(false) => Err(format!(
                "{}: something is there; name a folder that is new or empty",
                self.folder.display()
            )),
            _ => Ok(()),
        }
    }

    /// Whether requests that go on for so long are enough.
    fn for_a_slice(&self) -> impl FnMut(u64, Duration) -> bool + use<> {
        let slice = self.slice;
        move |_, elapsed| elapsed >= slice
    }

    /// Bytes of the disk of which the records fill as much as they are to.
    fn space(&self) -> u64 {
        (self.live_bytes() as f64 / FILLED) as u64
    }

    /// Overwrites from which on cleaning is in its steady state: they fill the free space once, and
    /// replace all records once more.
    fn steady_after(&self) -> u64 {
        (self.records as f64 * (1.0 / FILLED)) as u64
    }

    /// How the store is set up for it.
    pub fn options(&self) -> Options {
        // Those that are written, cleaned and in reserve are to be a small part of all; a record
        // takes an eighth of one at most.
        let small = (self.space() / 256).max(8 * self.record_bytes());
        self.options_with(small.next_power_of_two().clamp(1 << 20, 16 << 20))
    }

    /// The same with segments of so many bytes.
    fn options_with(&self, segment_bytes: u64) -> Options {
        let options = Options {
            segment_bytes,
            ..Options::default()
        };
        let segments = self.space().div_ceil(options.segment_bytes).max(10);
        Options {
            durability: Durability::Interval(Duration::from_secs(1)),
            capacity: segments * options.segment_bytes,
            memory_bytes: self.memory_bytes - PROGRAM,
            cache_bytes: u64::MAX,
            index: IndexMemory::plain(self.index_map),
            ..options
        }
    }
}

/// Runs everything, with a setting that [can be](Setting::check), or what there is time for until
/// `is_over`, which then stays true.
///
/// # Errors
/// One line: a disk that fails, or a record that is not what was put.
pub fn measure(setting: &Setting, is_over: &dyn Fn() -> bool) -> Result<Outcome, String> {
    reset_peak_memory();
    let mut outcome = measured(setting, is_over, |run, driver| {
        run.all(driver, &setting.options())
    })?;
    if let Some(peak) = peak_memory() {
        let ratio = peak as f64 / setting.memory_bytes as f64;
        outcome.figures.push(Figure {
            name: "memory at its peak ÷ the limit".into(),
            values: Rounds::new(&[ratio]),
        });
    }
    Ok(outcome)
}

/// What `measure` leaves in a run, whose folder is removed at the end.
fn measured<'a>(
    setting: &'a Setting,
    is_over: &'a dyn Fn() -> bool,
    measure: impl FnOnce(&mut Run<'a>, &mut Driver) -> Result<(), String>,
) -> Result<Outcome, String> {
    let opened = Disk::open_by(setting.files, setting.in_flight.max(64));
    let (disk, mut driver) = opened.map_err(|error| format!("io_uring: {error}"))?;
    let folder = Made(setting.folder.clone());
    let mut run = Run {
        setting,
        disk,
        is_over,
        latencies: Latencies::default(),
        rows: Vec::new(),
        figures: Vec::new(),
    };
    let done = measure(&mut run, &mut driver);
    drop(driver);
    drop(folder);
    done?;
    Ok(Outcome {
        disk: run.disk.kind().to_string(),
        rows: run.rows,
        figures: run.figures,
    })
}

/// A folder that is removed at the end.
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Run<'a> {
    setting: &'a Setting,
    disk: Disk,
    is_over: &'a dyn Fn() -> bool,
    latencies: Latencies,
    rows: Vec<Row>,
    figures: Vec<Figure>,
}

impl Run<'_> {
    fn figure(&mut self, name: impl Into<String>, values: &[f64]) {
        let (name, values) = (name.into(), Rounds::new(values));
        self.figures.push(Figure { name, values });
    }

    fn all(&mut self, driver: &mut Driver, options: &Options) -> Result<(), String> {
        let setting = self.setting;
        let (loaded, stats) = self.load(driver, &setting.folder, options)?;
        self.rows.push(Row::new("puts of new keys", &[loaded]));
        let index = stats.index_bytes as f64 / setting.records as f64;
        self.figure("bytes of the index a record", &[index]);
        // A load that was cut short has not put all that the gets expect.
        if (self.is_over)() {
            return Ok(());
        }
        let store = self.open_timed(driver, options, "seconds to open it after a stop")?;
        let maintained = Maintained::begin(&store)?;
        driver.block_on(async {
            let measured = async {
                self.reads(&store).await?;
                self.overwrites(&store).await
            };
            // It ends without a close.
            match select(pin!(measured), maintained).await {
                Either::Left((measured, _)) => measured,
                Either::Right((ended, measured)) => {
                    let measured = measured.await;
                    ended.map_err(one_line).and(measured)
                }
            }
        })?;
        drop(store);
        if (self.is_over)() {
            return Ok(());
        }
        let store = self.open_timed(driver, options, "seconds to open it after a kill")?;
        store.close();
        driver.block_on(store.maintain()).map_err(one_line)
    }

    /// Opens the store, and says under this name how long that took.
    fn open_timed(
        &mut self,
        driver: &mut Driver,
        options: &Options,
        name: &str,
    ) -> Result<Store, String> {
        let start = Instant::now();
        let store = self.open(driver, &self.setting.folder, options)?;
        self.figure(name, &[start.elapsed().as_secs_f64()]);
        Ok(store)
    }

    /// Runs requests for a slice, or until `is_enough`; commits each second.
    async fn run<F: Future<Output = Result<(), String>>>(
        &mut self,
        store: Option<&Store>,
        make: impl FnMut() -> F,
        is_enough: impl FnMut(u64, Duration) -> bool,
    ) -> Result<Measured, String> {
        let depth = self.setting.in_flight;
        self.run_beside(None, depth, store, make, is_enough).await
    }

    /// The same beside other threads, with so many in flight on this one.
    async fn run_beside<F: Future<Output = Result<(), String>>>(
        &mut self,
        others: Option<Others>,
        depth: usize,
        store: Option<&Store>,
        make: impl FnMut() -> F,
        mut is_enough: impl FnMut(u64, Duration) -> bool,
    ) -> Result<Measured, String> {
        let mut committed = Instant::now();
        self.latencies.clear();
        let usage = Usage::now();
        let start = Instant::now();
        let mut over = false;
        let is_over = self.is_over;
        let done = in_flight(depth, &mut self.latencies, make, |done| {
            if let Some(store) = store
                && committed.elapsed() >= Duration::from_secs(1)
            {
                store.begin_commit();
                committed = Instant::now();
            }
            over = over || is_enough(done, start.elapsed()) || is_over();
            over
        });
        let own = done.await;
        let more = match others {
            Some(others) => others.end(&mut self.latencies).await?,
            None => 0,
        };
        let done = own? + more;
        let elapsed = start.elapsed().as_secs_f64();
        Ok(Measured {
            done,
            per_s: done as f64 / elapsed,
            usage: Usage::now().since(&usage),
            p50_us: self.latencies.p50_us(),
            p99_us: self.latencies.p99_us(),
        })
    }

    fn open(&self, driver: &mut Driver, folder: &Path, options: &Options) -> Result<Store, String> {
        let opened = driver.block_on(Store::open_on(&self.disk, folder, options.clone()));
        opened.map(|(store, _)| store).map_err(one_line)
    }

    /// Makes a store of all records in a folder, and closes it.
    fn load(
        &mut self,
        driver: &mut Driver,
        folder: &Path,
        options: &Options,
    ) -> Result<(Measured, Stats), String> {
        let setting = self.setting;
        let store = self.open(driver, folder, options)?;
        let order = Permutation::new(setting.records, Rng::new(setting.seed, 1));
        let mut next = 0;
        let make = || {
            let id = order.at(next % setting.records);
            next += 1;
            put(store.clone(), id, setting.value_bytes)
        };
        let slots = setting.in_flight as u64;
        let enough = |done: u64, _| done + slots > setting.records;
        let loaded = async {
            let loaded = self.run(Some(&store), make, enough).await;
            let stats = store.stats();
            store.close();
            Ok((loaded?, stats))
        };
        let maintained = Maintained::begin(&store)?;
        let (loaded, maintained) = driver.block_on(join(loaded, maintained));
        maintained.map_err(one_line).and(loaded)
    }

    async fn reads(&mut self, store: &Store) -> Result<(), String> {
        let setting = self.setting;
        let file = first_segment(&self.disk, &setting.folder)?;
        let blocks = file.len().map_err(one_line)? / BLOCK as u64;
        let records = setting.records;
        let zipf = Zipf::new(records, SKEW);
        let scattered = Permutation::new(records, Rng::new(setting.seed, 2));
        let any: Draw = Arc::new(move |rng| rng.below(records));
        let some: Draw = Arc::new(move |rng| scattered.at(zipf.rank(rng)));
        let mut rng = Rng::new(setting.seed, 3);
        let [mut raw, mut uniform, mut skewed] = [(); 3].map(|()| Vec::new());
        let warm = |done, _| done >= setting.warm;
        self.gets_until(store, (&some, &mut rng), setting.threads, warm)
            .await?;
        for round in 0..=setting.rounds {
            let read = || read_block(file.clone(), rng.below(blocks));
            let read = self.run(None, read, setting.for_a_slice()).await?;
            let of_any = self.gets(store, (&any, &mut rng), setting.threads).await?;
            let of_some = self.gets(store, (&some, &mut rng), setting.threads).await?;
            // The first round fills the cache.
            if round > 0 {
                raw.push(read);
                uniform.push(of_any);
                skewed.push(of_some);
            }
        }
        let ratios: Vec<f64> = { uniform.iter().zip(&raw) }
            .map(|(gets, reads)| gets.per_s / reads.per_s)
            .collect();
        self.rows.push(Row::new("the disk's own reads", &raw));
        self.rows.push(Row::new("gets, uniform", &uniform));
        self.rows.push(Row::new("gets, Zipf 0.99", &skewed));
        self.figure("uniform gets ÷ the disk's own reads", &ratios);
        Ok(())
    }

    /// Gets of the drawn records by some threads, for a slice.
    async fn gets(
        &mut self,
        store: &Store,
        drawn: (&Draw, &mut Rng),
        threads: usize,
    ) -> Result<Measured, String> {
        let slice = self.setting.for_a_slice();
        self.gets_until(store, drawn, threads, slice).await
    }

    /// The same until this says that those of this thread are enough.
    async fn gets_until(
        &mut self,
        store: &Store,
        (draw, rng): (&Draw, &mut Rng),
        threads: usize,
        is_enough: impl FnMut(u64, Duration) -> bool,
    ) -> Result<Measured, String> {
        let setting = self.setting;
        let gets = Gets {
            store,
            draw,
            value_bytes: setting.value_bytes,
            depth: setting.in_flight / threads,
        };
        let others = (threads > 1).then(|| Others::begin(threads - 1, &gets, rng));
        let make = || get(store.clone(), draw(rng), setting.value_bytes);
        // What is left, where they can't be shared evenly.
        let depth = setting.in_flight - (threads - 1) * gets.depth;
        self.run_beside(others, depth, None, make, is_enough).await
    }
}

fn one_line(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn setting(name: &str, records: u64, value_bytes: usize) -> Setting {
        let name = format!("timberline-store-{}-{name}", std::process::id());
        Setting {
            folder: std::env::temp_dir().join(name),
            records,
            value_bytes,
            memory_bytes: 1 << 30,
            index_map: IndexMap::default(),
            in_flight: 8,
            threads: 2,
            warm: 1_000,
            slice: Duration::from_millis(20),
            rounds: 1,
            seed: 1,
            files: None,
        }
    }

    #[test]
    fn segments_are_a_small_part_of_the_space() {
        for (records, value_bytes, segment) in [
            (3_000_000, 8, 1 << 20),
            (3_000_000, 300, 8 << 20),
            (5_000_000, 1_000, 16 << 20),
            (1_000, 1 << 20, 16 << 20),
        ] {
            let setting = setting("options", records, value_bytes);
            let options = setting.options();
            assert_eq!(options.segment_bytes, segment);
            let filled = setting.live_bytes() as f64 / options.capacity as f64;
            assert!((0.79..=FILLED).contains(&filled), "{filled}");
        }
    }

    /// Runs it until `is_over` was asked so often.
    fn interrupted_after(requests: u64) -> Outcome {
        let setting = setting(&requests.to_string(), 20_000, 10);
        let asked = Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > requests
        };
        let outcome = measure(&setting, &is_over).unwrap();
        assert!(!setting.folder.exists(), "the folder is removed");
        outcome
    }

    #[test]
    fn an_interrupted_load_loses_nothing_that_was_put() {
        for requests in [0, 500] {
            let outcome = interrupted_after(requests);
            let names: Vec<_> = outcome.rows.iter().map(|it| &*it.name).collect();
            assert_eq!(names, ["puts of new keys"]);
        }
        // In the gets, when all records are there.
        let outcome = interrupted_after(20_100);
        assert!(outcome.rows.len() > 1);
    }
}

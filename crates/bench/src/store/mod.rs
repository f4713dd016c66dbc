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
mod load;
mod maintained;
mod others;
mod outcome;
mod overwrites;
mod popularity;
mod process;
mod raw;
mod record;
mod requests;
mod setting;
mod slow_memory;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use timberline_io::{BLOCK, Disk, Driver, File};
use timberline_store::{Options, Stats, Store, join};
use timberline_tier::emulator::thread_counts;

pub use crate::rounds::Rounds;
use crate::workload::{Permutation, Rng};
pub use engine::{Engine, Open, measure_engine};
pub use in_slow_memory::{
    InMemory, SlowPart, SlowSetting, Turn, measure_beside_dram, measure_in_slow_memory,
};
pub use load::Load;
use load::{Requests, Target};
use maintained::Maintained;
use others::{Done, Others, Share, Threads};
use outcome::Measured;
pub use outcome::{Figure, Outcome, Row};
pub use popularity::Popularity;
use process::{Usage, peak_memory, reset_peak_memory};
use raw::{first_segment, read_block};
pub use record::Key;
use requests::{Latencies, in_flight};
pub use setting::{Cached, Setting};
pub use slow_memory::SlowMemory;

/// How often each record is wanted: by one kind of gets, and by the other.
const GOT: [Popularity; 2] = [Popularity::Uniform, Popularity::Zipf(0.99)];

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
        let index = stats.index_bytes as f64 / stats.keys as f64;
        self.figure("bytes of the index a record", &[index]);
        // A load that was cut short has not put all that the gets expect.
        if (self.is_over)() {
            return Ok(());
        }
        let store = self.open_timed(driver, options, "seconds to open it after a stop")?;
        let maintained = Maintained::begin(&store)?;
        driver.block_on(async {
            let to = self.target(&store);
            let measured = async {
                self.reads(&to).await?;
                self.overwrites(&to).await
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

    fn target(&self, store: &Store) -> Target {
        Target::new(store, self.setting.sizes(), self.setting.evict)
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

    /// The same beside other threads, which have begun, with so many in flight on this one.
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
        let lines = thread_counts();
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
        let lines = thread_counts() - lines;
        let more = match others {
            Some(others) => others.end().await?,
            None => Done::default(),
        };
        self.latencies.add(&more.latencies);
        let done = own? + more.requests;
        let elapsed = start.elapsed().as_secs_f64();
        Ok(Measured {
            done,
            per_s: done as f64 / elapsed,
            usage: Usage::now().since(&usage),
            p50_us: self.latencies.p50_us(),
            p99_us: self.latencies.p99_us(),
            found_part: 1.0,
            lines: lines + more.lines,
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
        let to = self.target(&store);
        let order = Permutation::new(setting.records, Rng::new(setting.seed, 1));
        let mut next = 0;
        let make = || {
            let id = order.at(next % setting.records);
            next += 1;
            to.clone().put(id)
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

    async fn reads(&mut self, to: &Target) -> Result<(), String> {
        let setting = self.setting;
        // Of a cache, the first segment may go meanwhile.
        let file = match setting.evict {
            true => None,
            false => Some(first_segment(&self.disk, &setting.folder)?),
        };
        let [any, some] = GOT.map(|it| Requests {
            to: to.clone(),
            draw: it.draw(setting.records, setting.seed),
            writes: 0.0,
        });
        let mut rng = Rng::new(setting.seed, 3);
        let [mut raw, mut uniform, mut skewed] = [(); 3].map(|()| Vec::new());
        let threads = Threads {
            number: setting.threads,
            modelled: None,
        };
        let warm = |done, _| done >= setting.warm;
        self.requests_until(&some, &mut rng, threads, warm).await?;
        for round in 0..=setting.rounds {
            let read = match &file {
                Some(file) => Some(self.raw_reads(file, &mut rng).await?),
                None => None,
            };
            let of_any = self.requests(&any, &mut rng, threads).await?;
            let of_some = self.requests(&some, &mut rng, threads).await?;
            // The first round fills the cache.
            if round > 0 {
                raw.extend(read);
                uniform.push(of_any);
                skewed.push(of_some);
            }
        }
        let ratios: Vec<f64> = { uniform.iter().zip(&raw) }
            .map(|(gets, reads)| gets.per_s / reads.per_s)
            .collect();
        if file.is_some() {
            self.rows.push(Row::new("the disk's own reads", &raw));
            self.figure("uniform gets ÷ the disk's own reads", &ratios);
        }
        for (popularity, gets) in GOT.iter().zip([&uniform, &skewed]) {
            self.rows
                .push(Row::new(&format!("gets, {popularity}"), gets));
            self.found(&popularity.to_string(), gets);
        }
        Ok(())
    }

    /// Says which part of these gets found a record, if the store is a cache.
    fn found(&mut self, name: &str, gets: &[Measured]) {
        if self.setting.evict {
            let found: Vec<f64> = gets.iter().map(|it| it.found_part).collect();
            self.figure(
                format!("part of the gets that found a record, {name}"),
                &found,
            );
        }
    }

    /// Reads of random blocks of a file, for a slice.
    async fn raw_reads(&mut self, file: &File, rng: &mut Rng) -> Result<Measured, String> {
        let blocks = file.len().map_err(one_line)? / BLOCK as u64;
        let read = || read_block(file.clone(), rng.below(blocks));
        self.run(None, read, self.setting.for_a_slice()).await
    }

    /// Requests by some threads, for a slice.
    async fn requests(
        &mut self,
        requests: &Requests,
        rng: &mut Rng,
        threads: Threads,
    ) -> Result<Measured, String> {
        let slice = self.setting.for_a_slice();
        self.requests_until(requests, rng, threads, slice).await
    }

    /// The same until this says that those of this thread are enough.
    async fn requests_until(
        &mut self,
        requests: &Requests,
        rng: &mut Rng,
        threads: Threads,
        is_enough: impl FnMut(u64, Duration) -> bool,
    ) -> Result<Measured, String> {
        let in_flight = self.setting.in_flight;
        let number = threads.number;
        let share = Share {
            requests: requests.clone(),
            depth: in_flight / number,
            modelled: threads.modelled,
        };
        let others = (number > 1).then(|| Others::start(number - 1, &share, rng));
        // What is left, where they can't be shared evenly.
        let depth = in_flight - (number - 1) * share.depth;
        if let Some(others) = &others {
            others.begin().await;
        }
        // Those before were not measured.
        requests.to.take_missed();
        let store = Some(&requests.to.store);
        let make = || requests.next(rng);
        let measured = self.run_beside(others, depth, store, make, is_enough);
        let measured = measured.await?;
        let missed = requests.to.take_missed() as f64;
        // As they are drawn.
        let gets = measured.done as f64 * (1.0 - requests.writes);
        Ok(Measured {
            found_part: 1.0 - missed / gets,
            ..measured
        })
    }
}

fn one_line(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::setting::tests::setting;
    use super::*;

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

//! A store with a part of it in slow memory beside one that has all of it in DRAM, as Bando et al.
//! compare them.
//!
//! With the index there, no value is cached, so each get is a walk through the index and a read of
//! the disk. With the cache there, some gets need no disk. A store for each kind of memory is
//! loaded; then they take turns.

use std::sync::Arc;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use timberline_io::Driver;
use timberline_store::{CacheMemory, Caching, IndexMap, Options, Store, join};
use timberline_tier::emulator::{CacheSize, set_thread_cache};

use super::slow_memory::{InSlowMemory, SlowMemory};
use super::{
    Draw, Measured, Outcome, Row, Run, SKEW, Setting, Threads, get, measured, one_line, put,
};
use crate::workload::{Permutation, Rng, Zipf};

/// Slices of requests in which a placement learns which keys are hot.
const WARMUP: usize = 3;

/// Which requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// θ of their keys; 0 is uniform.
    pub skew: f64,
    /// The part of them that overwrites a record; the others read one.
    pub writes: f64,
}

impl Load {
    const UNIFORM: Load = Load {
        skew: 0.0,
        writes: 0.0,
    };

    fn name(self) -> String {
        match self.skew {
            0.0 => "uniform".into(),
            skew => format!("Zipf {skew}"),
        }
    }
}

/// What of a store is in slow memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum SlowPart {
    /// Its index; nothing is cached.
    Index,
    /// A cache of values, of so many bytes.
    Values(u64),
    /// A cache of blocks, of so many bytes.
    Blocks(u64),
}

impl SlowPart {
    /// How a store that has it in slow memory is set up, and where it is found then; `None` for
    /// DRAM. The index is this map, and takes so many bytes.
    fn place(
        self,
        memory: Option<&SlowMemory>,
        (map, index_bytes): (IndexMap, u64),
        options: &Options,
    ) -> (Options, Option<InSlowMemory>) {
        let mut options = options.clone();
        let (cache_bytes, caching): (u64, fn(CacheMemory) -> Caching) = match self {
            SlowPart::Values(bytes) => (bytes, Caching::ValuesIn),
            SlowPart::Blocks(bytes) => (bytes, Caching::BlocksIn),
            SlowPart::Index => {
                options.cache_bytes = 0;
                let placed = memory.map(|it| it.index(map, index_bytes));
                let found = placed.map(|(index, found)| {
                    options.index = index;
                    found
                });
                return (options, found);
            }
        };
        let (cache, found) = memory.map(|it| it.cache(cache_bytes)).unzip();
        options.cache_bytes = cache_bytes;
        options.caching = caching(cache.unwrap_or_default());
        (options, found)
    }
}

/// A comparison of DRAM with one kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowSetting {
    pub store: Setting,
    pub part: SlowPart,
    pub memory: SlowMemory,
    pub load: Load,
    /// Size of the emulated CPU cache, bytes.
    pub cpu_cache: usize,
}

/// What was measured of a store that had turns with others.
#[derive(Clone, Debug)]
pub struct InMemory {
    /// By load, in the order of the turns.
    pub turns: Vec<Vec<Turn>>,
}

/// Requests of one slice.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub per_s: f64,
    /// Processor time of a request, in microseconds.
    pub core_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Lines of slow memory that a request read.
    pub slow_lines: f64,
    /// Microseconds that the thread waited for slow memory in a request: what nothing else hid.
    pub waited_us: f64,
}

/// Measures a store that is all in DRAM, and one with a part in the setting's memory. Empty if it
/// was over before.
///
/// # Errors
/// As [`measure_in_slow_memory`].
pub fn measure_beside_dram(
    setting: &SlowSetting,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<InMemory>, String> {
    let cache = CacheSize::new(setting.cpu_cache).map_err(one_line)?;
    set_thread_cache(cache);
    let _reset = Reset;
    let mut all = Vec::new();
    measured(&setting.store, is_over, |run, driver| {
        let kinds = std::slice::from_ref(&setting.memory);
        let subjects = run.stores_in_turns(driver, setting.part, kinds, &[setting.load], cache)?;
        let turns = |subject: &Subject| {
            let turns = |it: &Vec<Measured>| it.iter().map(Measured::turn).collect();
            subject.requests.iter().map(turns).collect()
        };
        let in_memory = |subject: &Subject| InMemory {
            turns: turns(subject),
        };
        all = subjects.iter().map(in_memory).collect();
        Ok(())
    })?;
    Ok(all)
}

/// Gives the thread the usual modelled cache back, for whatever is measured next.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        set_thread_cache(CacheSize::default());
    }
}

/// Measures gets from stores whose index is in DRAM, and in each of these kinds of memory, or what
/// there is time for until `is_over`, which then stays true.
///
/// # Errors
/// One line: a disk that fails, no memory, or a record that is not what was put.
pub fn measure_in_slow_memory(
    setting: &Setting,
    kinds: &[SlowMemory],
    is_over: &dyn Fn() -> bool,
) -> Result<Outcome, String> {
    measured(setting, is_over, |run, driver| {
        let skewed = Load {
            skew: SKEW,
            ..Load::UNIFORM
        };
        let loads = [Load::UNIFORM, skewed];
        let cache = CacheSize::default();
        let subjects = run.stores_in_turns(driver, SlowPart::Index, kinds, &loads, cache)?;
        run.compare(&loads, &subjects);
        Ok(())
    })
}

/// A store that has turns with others.
struct Subject {
    name: String,
    store: Store,
    /// `None`: all in DRAM.
    slow: Option<InSlowMemory>,
    /// The part of what is there that was in fast memory at the end.
    fast_part: Option<f64>,
    /// By load.
    requests: Vec<Vec<Measured>>,
}

impl Subject {
    fn new(name: String, store: Store, slow: Option<InSlowMemory>) -> Subject {
        Subject {
            name,
            store,
            slow,
            fast_part: None,
            requests: Vec::new(),
        }
    }
}

impl Measured {
    fn turn(&self) -> Turn {
        Turn {
            per_s: self.per_s,
            core_us: self.of_each(self.usage.cpu.as_secs_f64() * 1e6),
            p50_us: self.p50_us,
            p99_us: self.p99_us,
            slow_lines: self.slow_lines(),
            waited_us: self.waited_us(),
        }
    }

    fn slow_lines(&self) -> f64 {
        self.of_each(self.lines.slow as f64)
    }

    fn waited_us(&self) -> f64 {
        let ps = self.lines.waited_ps + self.lines.charged_ps;
        self.of_each(ps as f64 / 1e6)
    }
}

impl Run<'_> {
    /// Loads a store that is all in DRAM, and one with a part in each of these kinds of memory, and
    /// has them serve these loads in turns; `cache` is the modelled one of each thread. None, if it
    /// was over before all were loaded.
    fn stores_in_turns(
        &mut self,
        driver: &mut Driver,
        part: SlowPart,
        kinds: &[SlowMemory],
        loads: &[Load],
        cache: CacheSize,
    ) -> Result<Vec<Subject>, String> {
        let setting = self.setting;
        let map = setting.index_map;
        // A record takes an eighth of a segment at most.
        let segment = (8 * setting.record_bytes()).next_multiple_of(2 << 20);
        let usual = setting.options_with(segment);
        let (options, _) = part.place(None, (map, 0), &usual);
        let folder = setting.folder.join("dram");
        let (_, stats) = self.load(driver, &folder, &options)?;
        let store = self.open(driver, &folder, &options)?;
        let mut subjects = vec![Subject::new("DRAM".into(), store, None)];
        for (nth, kind) in kinds.iter().enumerate() {
            if (self.is_over)() {
                return Ok(Vec::new());
            }
            let folder = setting.folder.join(format!("slow {nth}"));
            let (options, slow) = part.place(Some(kind), (map, stats.index_bytes), &usual);
            self.load(driver, &folder, &options)?;
            let store = self.open(driver, &folder, &options)?;
            subjects.push(Subject::new(kind.to_string(), store, slow));
        }
        let stores: Vec<Store> = subjects.iter().map(|it| it.store.clone()).collect();
        let turns = async {
            let done = self.turns(&mut subjects, loads, cache).await;
            for subject in &mut subjects {
                subject.fast_part = subject.slow.as_ref().map(InSlowMemory::fast_part);
                subject.store.close();
            }
            done
        };
        let maintained = try_join_all(stores.iter().map(Store::maintain));
        let (done, maintained) = driver.block_on(join(turns, maintained));
        done.and(maintained.map(|_| ()).map_err(one_line))?;
        Ok(subjects)
    }

    async fn turns(
        &mut self,
        subjects: &mut [Subject],
        loads: &[Load],
        cache: CacheSize,
    ) -> Result<(), String> {
        let setting = self.setting;
        let threads = Threads {
            number: setting.threads,
            modelled: Some(cache),
        };
        let mut rng = Rng::new(setting.seed, 3);
        for load in loads {
            let zipf = Zipf::new(setting.records, load.skew);
            let scattered = Permutation::new(setting.records, Rng::new(setting.seed, 2));
            let draw: Draw = Arc::new(move |rng| scattered.at(zipf.rank(rng)));
            subjects.iter_mut().for_each(|it| it.requests.push(vec![]));
            for turn in 0..WARMUP + setting.rounds {
                for subject in &mut *subjects {
                    let drawn = (&draw, &mut rng);
                    // What a store has left to do, it does in others' turns, on the same thread.
                    let charge = |on| subject.slow.iter().for_each(|it| it.charge(on));
                    charge(true);
                    let measured = match load.writes > 0.0 {
                        true => self.mixed(&subject.store, drawn, load.writes).await,
                        false => self.gets(&subject.store, drawn, threads).await,
                    };
                    charge(false);
                    let measured = measured?;
                    if turn >= WARMUP
                        && let Some(requests) = subject.requests.last_mut()
                    {
                        requests.push(measured);
                    }
                }
            }
        }
        Ok(())
    }

    /// Requests of drawn records for a slice, this part of which are puts: by this thread alone.
    async fn mixed(
        &mut self,
        store: &Store,
        (draw, rng): (&Draw, &mut Rng),
        writes: f64,
    ) -> Result<Measured, String> {
        let setting = self.setting;
        let make = || {
            let (store, id) = (store.clone(), draw(rng));
            let is_put = rng.unit() < writes;
            async move {
                match is_put {
                    true => put(store, id, setting.value_bytes).await,
                    false => get(store, id, setting.value_bytes).await,
                }
            }
        };
        self.run(Some(store), make, setting.for_a_slice()).await
    }

    fn compare(&mut self, loads: &[Load], subjects: &[Subject]) {
        let Some((dram, others)) = subjects.split_first() else {
            return;
        };
        for (load, keys) in loads.iter().map(|it| it.name()).enumerate() {
            for subject in subjects {
                let name = format!("{keys}, index in {}", subject.name);
                self.rows.push(Row::new(&name, &subject.requests[load]));
            }
        }
        for (load, keys) in loads.iter().map(|it| it.name()).enumerate() {
            for subject in others {
                let (requests, name) = (&subject.requests[load], &subject.name);
                let ratios: Vec<f64> = { requests.iter().zip(&dram.requests[load]) }
                    .map(|(slow, dram)| slow.per_s / dram.per_s)
                    .collect();
                self.figure(format!("{keys}: {name} ÷ DRAM"), &ratios);
                let lines: Vec<f64> = requests.iter().map(Measured::slow_lines).collect();
                self.figure(format!("{keys}: {name}: slow lines a get"), &lines);
                let waited: Vec<f64> = requests.iter().map(Measured::waited_us).collect();
                self.figure(format!("{keys}: {name}: us waited for them"), &waited);
            }
        }
        for subject in others {
            if let Some(part) = subject.fast_part {
                let name = format!("part of the index in fast memory: {}", subject.name);
                self.figure(name, &[part]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn setting(name: &str) -> SlowSetting {
        let name = format!("timberline-index-{}-{name}", std::process::id());
        SlowSetting {
            store: Setting {
                folder: std::env::temp_dir().join(name),
                // Several segments: of one, cleaning has all records in a head's memory.
                records: 20_000,
                value_bytes: 200,
                memory_bytes: 256 << 20,
                index_map: IndexMap::Art,
                files: None,
                in_flight: 8,
                threads: 1,
                warm: 0,
                slice: Duration::from_millis(10),
                rounds: 2,
                seed: 1,
            },
            part: SlowPart::Index,
            memory: "us1".parse().unwrap(),
            load: Load {
                skew: 0.99,
                writes: 0.2,
            },
            cpu_cache: 64 << 10,
        }
    }

    #[test]
    fn stores_take_turns_with_reads_and_writes() {
        let mut setting = setting("mixed");
        // The cache has a part of the records, which take 5 MB.
        for part in [
            SlowPart::Blocks(400 << 10),
            SlowPart::Values(400 << 10),
            SlowPart::Index,
        ] {
            setting.part = part;
            has_slow_lines(&setting);
        }
        assert!(measure_beside_dram(&setting, &|| true).unwrap().is_empty());
    }

    #[test]
    fn lines_of_all_threads_count() {
        let lines = [1, 4].map(|threads| {
            let mut setting = setting(&format!("threads-{threads}"));
            // Drawn uniformly, so that it matters little how much a cache has.
            setting.load = Load::UNIFORM;
            setting.store.threads = threads;
            has_slow_lines(&setting)
        });
        // Of each get: with those of one thread of four, it would be a fourth.
        assert!(lines[1] > 0.4 * lines[0], "{lines:?}");
    }

    /// Checks a run, and returns the slow lines of a get, of the least of its turns.
    fn has_slow_lines(setting: &SlowSetting) -> f64 {
        let all = measure_beside_dram(setting, &|| false).unwrap();
        let [dram, slow] = &all[..] else {
            panic!("two stores");
        };
        let lines = |it: &InMemory| it.turns[0].iter().map(|it| it.slow_lines).sum::<f64>();
        assert_eq!([dram.turns[0].len(), slow.turns[0].len()], [2, 2]);
        assert_eq!(lines(dram), 0.0);
        // In the modelled cache there is room for a part of an index of 20,000 records.
        assert!(lines(slow) > 0.0, "{:?}: {slow:?}", setting.part);
        assert!(
            slow.turns[0]
                .iter()
                .all(|it| it.per_s > 0.0 && it.p50_us <= it.p99_us)
        );
        assert!(!setting.store.folder.exists(), "the folder is removed");
        let of_gets = slow.turns[0].iter().map(|it| it.slow_lines);
        of_gets.fold(f64::INFINITY, f64::min)
    }
}

//! A store with a part of it in slow memory beside one that has all of it in DRAM, as Bando et al.
//! compare them.
//!
//! With the index there, no value is cached, so each get is a walk through the index and a read of
//! the disk. With the cache there, some gets need no disk. A store for each kind of memory is
//! loaded; then they take turns.

use std::fmt;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use timberline_io::Driver;
use timberline_store::{IndexMap, IndexMemory, Options, Store, join};
use timberline_tier::emulator::{CacheSize, set_thread_cache};
use timberline_tree::BTree;

use super::slow_memory::{InSlowMemory, SlowMemory};
use super::{
    GOT, Load, Measured, Outcome, Requests, Row, Run, Setting, Threads, measured, one_line,
};
use crate::workload::Rng;

/// Slices of requests in which a placement learns which keys are hot.
const WARMUP: usize = 3;

/// What of a store is in slow memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlowPart {
    /// Its index; nothing is cached.
    Index,
    /// Its cache.
    Cache,
}

impl SlowPart {
    /// How a store that has it in slow memory is set up, and where it is found then; `None` for
    /// DRAM. The index takes so many bytes.
    fn place(
        self,
        setting: &Setting,
        memory: Option<&SlowMemory>,
        index_bytes: u64,
        options: &Options,
    ) -> (Options, Option<InSlowMemory>) {
        let mut options = options.clone();
        let found = match self {
            SlowPart::Index => {
                options.cache_bytes = 0;
                if setting.index_map == IndexMap::BTree {
                    // Of strings alone, as the one in slow memory is.
                    options.index = IndexMemory::of(|| BTree::<[u8], u64>::builder().build());
                }
                memory.map(|it| {
                    let (index, found) = it.index(setting.index_map, index_bytes);
                    options.index = index;
                    found
                })
            }
            SlowPart::Cache => {
                let third = setting.live_bytes() / 3;
                options.cache_bytes = setting.cache_bytes.unwrap_or(third);
                let (cache, found) = memory.map(|it| it.cache(options.cache_bytes)).unzip();
                options.caching = setting.cached.in_memory(cache.unwrap_or_default());
                found
            }
        };
        (options, found)
    }
}

impl fmt::Display for SlowPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SlowPart::Index => "index",
            SlowPart::Cache => "cache",
        })
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
    /// The part of the gets that found a record: less than 1 in a cache.
    pub found_part: f64,
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

/// Measures gets from stores that have this part in DRAM, and in each of these kinds of memory, or
/// what there is time for until `is_over`, which then stays true.
///
/// # Errors
/// One line: a disk that fails, no memory, or a record that is not what was put.
pub fn measure_in_slow_memory(
    setting: &Setting,
    part: SlowPart,
    kinds: &[SlowMemory],
    is_over: &dyn Fn() -> bool,
) -> Result<Outcome, String> {
    measured(setting, is_over, |run, driver| {
        let loads = GOT.map(Load::reads);
        let cache = CacheSize::default();
        let subjects = run.stores_in_turns(driver, part, kinds, &loads, cache)?;
        run.compare(part, &loads, &subjects);
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
            found_part: self.found_part,
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
        let usual = setting.options_with(setting.segment_bytes_in_turns());
        let (options, _) = part.place(setting, None, 0, &usual);
        let folder = setting.folder.join("dram");
        let (_, stats) = self.load(driver, &folder, &options)?;
        let store = self.open(driver, &folder, &options)?;
        let mut subjects = vec![Subject::new("DRAM".into(), store, None)];
        for (nth, kind) in kinds.iter().enumerate() {
            if (self.is_over)() {
                return Ok(Vec::new());
            }
            let folder = setting.folder.join(format!("slow {nth}"));
            let (options, slow) = part.place(setting, Some(kind), stats.index_bytes, &usual);
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
            let draw = load.popularity.draw(setting.records, setting.seed);
            subjects.iter_mut().for_each(|it| it.requests.push(vec![]));
            for turn in 0..WARMUP + setting.rounds {
                for subject in &mut *subjects {
                    let requests = Requests {
                        to: self.target(&subject.store),
                        draw: draw.clone(),
                        writes: load.writes,
                    };
                    // What a store has left to do, it does in others' turns, on the same thread.
                    let charge = |on| subject.slow.iter().for_each(|it| it.charge(on));
                    charge(true);
                    let measured = self.requests(&requests, &mut rng, threads).await;
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

    fn compare(&mut self, part: SlowPart, loads: &[Load], subjects: &[Subject]) {
        let Some((dram, others)) = subjects.split_first() else {
            return;
        };
        for (load, keys) in loads.iter().map(|it| it.popularity).enumerate() {
            for subject in subjects {
                let name = format!("{keys}, {part} in {}", subject.name);
                self.rows.push(Row::new(&name, &subject.requests[load]));
                self.found(&name, &subject.requests[load]);
            }
        }
        for (load, keys) in loads.iter().map(|it| it.popularity).enumerate() {
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
            if let Some(fast) = subject.fast_part {
                let name = format!("part of the {part} in fast memory: {}", subject.name);
                self.figure(name, &[fast]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::setting::tests::setting as usual;
    use super::super::{Cached, Popularity};
    use super::*;

    fn setting(name: &str) -> SlowSetting {
        SlowSetting {
            store: Setting {
                index_map: IndexMap::Art,
                memory_bytes: 256 << 20,
                threads: 1,
                warm: 0,
                slice: Duration::from_millis(10),
                rounds: 2,
                // Several segments: of one, cleaning has all records in a head's memory.
                ..usual(&format!("slow-{name}"), 20_000, 200)
            },
            part: SlowPart::Index,
            memory: "us1".parse().unwrap(),
            load: Load {
                popularity: Popularity::Zipf(0.99),
                writes: 0.2,
            },
            cpu_cache: 64 << 10,
        }
    }

    #[test]
    fn stores_take_turns_with_reads_and_writes() {
        let mut setting = setting("mixed");
        // The cache has a part of the records, which take 5 MB.
        setting.store.cache_bytes = Some(400 << 10);
        for (part, cached) in [
            (SlowPart::Cache, Cached::Blocks),
            (SlowPart::Cache, Cached::Values),
            (SlowPart::Index, Cached::Values),
        ] {
            setting.part = part;
            setting.store.cached = cached;
            has_slow_lines(&setting);
        }
        assert!(measure_beside_dram(&setting, &|| true).unwrap().is_empty());
    }

    #[test]
    fn a_cache_that_evicts_answers_a_part_of_the_gets() {
        let mut setting = setting("evicts");
        setting.part = SlowPart::Cache;
        // 32 MB of records.
        setting.store.records = 100_000;
        setting.store.capacity = Some(22 << 20);
        setting.store.evict = true;
        for threads in [1, 2] {
            setting.store.threads = threads;
            let all = measure_beside_dram(&setting, &|| false).unwrap();
            for found in all
                .iter()
                .flat_map(|it| &it.turns[0])
                .map(|it| it.found_part)
            {
                assert!((0.3..1.0).contains(&found), "{threads}: {all:?}");
            }
        }
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

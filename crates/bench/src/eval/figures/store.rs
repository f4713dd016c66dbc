//! A store whose index or cache is in memory of microseconds (Bando et al., section 4.2).

use std::time::Duration;

use timberline_store::IndexMap;

use super::{Run, Scale, run};
use crate::eval::setting::Setting as Any;
use crate::store::{Cached, Load, Popularity, Setting, SlowMemory, SlowPart, SlowSetting};

/// The store as one of the authors' three, with the load that theirs has by default (their
/// Table 5), of fewer records.
#[derive(Clone, Copy)]
enum Like {
    /// The index is a tree in slow memory; nothing is cached.
    Aerospike,
    /// A cache of blocks in slow memory. It has a third of the bytes of all records; theirs answers
    /// 67 % of the reads.
    RocksDb,
    /// A cache in two tiers: values in slow memory, a third of the bytes of all records, and five
    /// quarters of these on the disk, of which the oldest go. What is missing is put. Theirs has
    /// about the same, and finds 82 %.
    CacheLib,
}

impl Like {
    const ALL: [Like; 3] = [Like::Aerospike, Like::RocksDb, Like::CacheLib];

    fn panel(self) -> &'static str {
        match self {
            Like::Aerospike => "tree index",
            Like::RocksDb => "blocks",
            Like::CacheLib => "two tiers",
        }
    }

    /// Bytes of keys and of values, and the load.
    fn usual(self) -> (usize, usize, Load) {
        let load = |popularity, writes| Load { popularity, writes };
        match self {
            Like::Aerospike => (20, 1500, Load::UNIFORM),
            Like::RocksDb => (20, 400, load(Popularity::Zipf(0.99), 0.0)),
            Like::CacheLib => (12, 250, load(Popularity::Gaussian, THIRD)),
        }
    }

    fn setting(self, scale: &Scale, latency_us: u32) -> SlowSetting {
        let (key_bytes, value_bytes, load) = self.usual();
        self.with(scale, latency_us, key_bytes, value_bytes, load)
    }

    fn with(
        self,
        scale: &Scale,
        latency_us: u32,
        key_bytes: usize,
        value_bytes: usize,
        load: Load,
    ) -> SlowSetting {
        let (records, milliseconds, rounds) = match (scale.is_quick, self) {
            // Enough for several segments.
            (true, Like::CacheLib) => (70_000, 25, 3),
            (true, _) => (20_000, 25, 3),
            (false, _) => (200_000, 400, 7),
        };
        let is_cache = matches!(self, Like::CacheLib);
        let bytes = records * (key_bytes + value_bytes) as u64;
        SlowSetting {
            store: Setting {
                // In the evaluation's folder.
                folder: "store".into(),
                records,
                key_bytes,
                value_bytes,
                capacity: is_cache.then_some(bytes / 4 * 5),
                evict: is_cache,
                cached: match self {
                    Like::RocksDb => Cached::Blocks,
                    Like::Aerospike | Like::CacheLib => Cached::Values,
                },
                cache_bytes: Some(bytes / 3),
                memory_bytes: 512 << 20,
                index_map: IndexMap::Art,
                files: None,
                in_flight: IN_FLIGHT,
                threads: 1,
                warm: 0,
                slice: Duration::from_millis(milliseconds),
                rounds,
                seed: scale.seed,
            },
            part: match self {
                Like::Aerospike => SlowPart::Index,
                Like::RocksDb | Like::CacheLib => SlowPart::Cache,
            },
            memory: SlowMemory::of_latency(latency_us),
            load,
            cpu_cache: scale.cpu_cache,
        }
    }
}

/// Of the requests: two reads, a write.
const THIRD: f64 = 1.0 / 3.0;
/// Requests in flight. The authors take the number with the best throughput; here that is reached
/// with so many, with which what slow memory adds to a request's time is no less throughput
/// (Figure 16).
const IN_FLIGHT: usize = 128;

fn of(panel: &str, category: impl Into<String>, setting: SlowSetting) -> Run {
    run(panel, category, Any::Store(setting))
}

/// The latency of the memory, for these.
fn by_latency(scale: &Scale, likes: &[Like]) -> Vec<Run> {
    let latencies = scale.pick(&[1, 2, 5, 10], &[10]);
    let runs = likes.iter().flat_map(|like| {
        let at = |&us| of(like.panel(), microseconds(us), like.setting(scale, us));
        latencies.iter().map(at)
    });
    runs.collect()
}

fn microseconds(us: u32) -> String {
    format!("{us} µs")
}

/// The latency of the index's memory.
pub fn index(scale: &Scale) -> Vec<Run> {
    by_latency(scale, &[Like::Aerospike])
}

/// The latency of the cache's memory.
pub fn caches(scale: &Scale) -> Vec<Run> {
    by_latency(scale, &[Like::RocksDb, Like::CacheLib])
}

/// The latency of both.
pub fn latencies(scale: &Scale) -> Vec<Run> {
    by_latency(scale, &Like::ALL)
}

/// Cores, at 5 µs: 1, 2 and so on, as many as the evaluation has threads, at most 16 as published;
/// and the latency with the most of them. Each core has as many requests in flight as one alone.
pub fn cores(scale: &Scale) -> Vec<Run> {
    let most = scale.threads.clamp(2, 16);
    let powers = (0..).map(|power| 1 << power);
    let counts: Vec<usize> = powers.take_while(|&cores| cores <= most).collect();
    let most = counts[counts.len() - 1];
    let at = |like: Like, cores: usize, us| {
        let mut setting = like.setting(scale, us);
        setting.store.threads = cores;
        setting.store.in_flight *= cores;
        setting
    };
    let mut runs = Vec::new();
    for like in Like::ALL {
        let panel = format!("{}, cores", like.panel());
        let by_cores = |&cores: &usize| of(&panel, cores.to_string(), at(like, cores, 5));
        runs.extend(counts.iter().map(by_cores));
    }
    for like in Like::ALL {
        let panel = format!("{}, most cores", like.panel());
        let by_latency = |&us: &u32| of(&panel, microseconds(us), at(like, most, us));
        runs.extend(scale.pick(&[1, 2, 5, 10], &[5]).iter().map(by_latency));
    }
    runs
}

/// What is stored, and what is asked for, at 5 µs: the settings of the authors' Table 5. Of a
/// range of sizes, which each of their records of a cache has another one of, its middle; keys of 8
/// bytes for theirs of 4 to 8.
pub fn variations(scale: &Scale) -> Vec<Run> {
    use Like::{Aerospike, CacheLib, RocksDb};
    use Popularity::{Gaussian, GraphLeader, Uniform, Zipf};
    // Bytes of keys and of values, how often each record is wanted, and the part of writes.
    let all = [
        (Aerospike, "reads", "1 kB", 20, 1000, Uniform, 0.0),
        (Aerospike, "reads", "1.5 kB", 20, 1500, Uniform, 0.0),
        (Aerospike, "reads", "2.25 kB", 20, 2250, Uniform, 0.0),
        (Aerospike, "reads", "Zipf 1.1", 20, 1500, Zipf(1.1), 0.0),
        (Aerospike, "writes", "2:1", 20, 1500, Uniform, THIRD),
        (Aerospike, "writes", "1:1, 1 kB", 20, 1000, Uniform, 0.5),
        (Aerospike, "writes", "1:1", 20, 1500, Uniform, 0.5),
        (
            Aerospike,
            "writes",
            "1:1, Zipf 1.1",
            20,
            1500,
            Zipf(1.1),
            0.5,
        ),
        (RocksDb, "reads", "usual", 20, 400, Zipf(0.99), 0.0),
        (RocksDb, "reads", "keys 10", 10, 400, Zipf(0.99), 0.0),
        (RocksDb, "reads", "keys 40", 40, 400, Zipf(0.99), 0.0),
        (RocksDb, "reads", "200 B", 20, 200, Zipf(0.99), 0.0),
        (RocksDb, "reads", "800 B", 20, 800, Zipf(0.99), 0.0),
        (RocksDb, "reads", "Zipf 0.8", 20, 400, Zipf(0.8), 0.0),
        (RocksDb, "writes", "2:1", 20, 400, Zipf(0.99), THIRD),
        (RocksDb, "writes", "1:1", 20, 400, Zipf(0.99), 0.5),
        (RocksDb, "writes", "1:1, 200 B", 20, 200, Zipf(0.99), 0.5),
        (RocksDb, "writes", "1:1, 800 B", 20, 800, Zipf(0.99), 0.5),
        (RocksDb, "writes", "1:1, Zipf 0.8", 20, 400, Zipf(0.8), 0.5),
        (CacheLib, "writes", "2:1", 12, 250, Gaussian, THIRD),
        (CacheLib, "writes", "keys 8", 8, 250, Gaussian, THIRD),
        (CacheLib, "writes", "keys 24", 24, 250, Gaussian, THIRD),
        (CacheLib, "writes", "125 B", 12, 125, Gaussian, THIRD),
        (CacheLib, "writes", "375 B", 12, 375, Gaussian, THIRD),
        (
            CacheLib,
            "writes",
            "graph leader",
            12,
            250,
            GraphLeader,
            THIRD,
        ),
        (CacheLib, "writes", "1:1", 12, 250, Gaussian, 0.5),
    ];
    let few = [all[1], all[6], all[8], all[15], all[24]];
    let made = scale.pick(&all, &few).iter();
    let at = |&(like, kind, category, key_bytes, value_bytes, popularity, writes)| {
        let like: Like = like;
        let load = Load { popularity, writes };
        let setting = like.with(scale, 5, key_bytes, value_bytes, load);
        of(&format!("{}, {kind}", like.panel()), category, setting)
    };
    made.map(at).collect()
}

/// Requests in flight, at 5 µs. They take the place of user-level threads.
pub fn in_flight(scale: &Scale) -> Vec<Run> {
    let depths = scale.pick(&[1, 4, 16, 64, 128, 256], &[16, IN_FLIGHT]);
    let runs = Like::ALL.into_iter().flat_map(|like| {
        depths.iter().map(move |&depth| {
            let mut setting = like.setting(scale, 5);
            setting.store.in_flight = depth;
            of(like.panel(), depth.to_string(), setting)
        })
    });
    runs.collect()
}

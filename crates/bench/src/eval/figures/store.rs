//! A store whose index or cache is in memory of microseconds (Bando et al., section 4.2).

use std::time::Duration;

use timberline_store::IndexMap;

use super::{Run, Scale, run};
use crate::eval::setting::Setting as Any;
use crate::store::{Load, Setting, SlowMemory, SlowPart, SlowSetting};

/// The authors' Aerospike: values of 1.5 kB, keys drawn uniformly, reads alone; fewer records.
fn setting(scale: &Scale, latency_us: u32) -> SlowSetting {
    let (records, milliseconds, rounds) = match scale.is_quick {
        true => (20_000, 50, 3),
        false => (200_000, 400, 7),
    };
    SlowSetting {
        store: Setting {
            // In the evaluation's folder.
            folder: "store".into(),
            records,
            value_bytes: 1500,
            memory_bytes: 512 << 20,
            index_map: IndexMap::Art,
            files: None,
            in_flight: 64,
            threads: 1,
            warm: 0,
            slice: Duration::from_millis(milliseconds),
            rounds,
            seed: scale.seed,
        },
        part: SlowPart::Index,
        memory: SlowMemory::of_latency(latency_us),
        load: Load {
            skew: 0.0,
            writes: 0.0,
        },
        cpu_cache: scale.cpu_cache,
    }
}

fn of(panel: &str, category: impl Into<String>, setting: SlowSetting) -> Run {
    run(panel, category, Any::Store(setting))
}

/// The latency of the index's memory.
pub fn latencies(scale: &Scale) -> Vec<Run> {
    let all = scale.pick(&[1, 2, 5, 10], &[1, 5, 10]).iter();
    let at = |&us: &u32| of("", format!("{us} µs"), setting(scale, us));
    all.map(at).collect()
}

/// The latency of the cache's memory: of blocks as in the authors' RocksDB, of values as in the
/// first tier of their CacheLib, with values and reads like theirs. The cache has a third of the
/// bytes of all records.
pub fn caches(scale: &Scale) -> Vec<Run> {
    let at = |us: u32, panel: &str, bytes: usize, writes: f64| {
        let mut setting = setting(scale, us);
        let cached = setting.store.records * bytes as u64 / 3;
        setting.part = match panel {
            "blocks" => SlowPart::Blocks(cached),
            _ => SlowPart::Values(cached),
        };
        setting.store.value_bytes = bytes;
        setting.load = Load { skew: 0.99, writes };
        of(panel, format!("{us} µs"), setting)
    };
    let latencies = scale.pick(&[1, 2, 5, 10], &[1, 10]).iter();
    let both =
        latencies.flat_map(|&us| [at(us, "blocks", 400, 0.0), at(us, "values", 250, 1.0 / 3.0)]);
    both.collect()
}

/// Cores, at 5 µs: 1, 2 and so on, as many as the evaluation has threads, at most 16 as published.
/// Each has as many gets in flight as one alone.
pub fn cores(scale: &Scale) -> Vec<Run> {
    let most = scale.threads.clamp(2, 16);
    let powers = (0..).map(|power| 1 << power);
    let counts = powers.take_while(|&cores: &usize| cores <= most);
    let at = |cores: usize| {
        let mut setting = setting(scale, 5);
        setting.store.threads = cores;
        setting.store.in_flight *= cores;
        of("", cores.to_string(), setting)
    };
    counts.map(at).collect()
}

/// What is stored, and what is asked for, at 5 µs.
pub fn variations(scale: &Scale) -> Vec<Run> {
    // Bytes of values, θ, and the part of writes.
    let all = [
        ("reads", "1 kB", 1000, 0.0, 0.0),
        ("reads", "1.5 kB", 1500, 0.0, 0.0),
        ("reads", "2.5 kB", 2500, 0.0, 0.0),
        ("reads", "Zipf 1.1", 1500, 1.1, 0.0),
        ("writes", "2:1, 1.5 kB", 1500, 0.0, 1.0 / 3.0),
        ("writes", "1:1, 1 kB", 1000, 0.0, 0.5),
        ("writes", "1:1, 1.5 kB", 1500, 0.0, 0.5),
        ("writes", "1:1, Zipf 1.1", 1500, 1.1, 0.5),
    ];
    let few = [all[0], all[1], all[3], all[6]];
    let made = scale.pick(&all, &few).iter();
    let at = |&(panel, category, bytes, skew, writes): &(&str, &str, usize, f64, f64)| {
        let mut setting = setting(scale, 5);
        setting.store.value_bytes = bytes;
        setting.load = Load { skew, writes };
        of(panel, category, setting)
    };
    made.map(at).collect()
}

/// Requests in flight, at 5 µs. They take the place of user-level threads.
pub fn in_flight(scale: &Scale) -> Vec<Run> {
    let all = scale.pick(&[1, 4, 16, 64, 128, 256], &[4, 64]).iter();
    let at = |&depth: &usize| {
        let mut setting = setting(scale, 5);
        setting.store.in_flight = depth;
        of("", depth.to_string(), setting)
    };
    all.map(at).collect()
}

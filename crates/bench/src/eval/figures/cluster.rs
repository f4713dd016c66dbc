//! The tree over memory servers (Lu et al.: "DEX", VLDB 2024, section 8), on a simulated cluster.

use super::{Run, Scale};
use crate::eval::setting::Setting as Any;
use crate::remote::{Design, Setting, Workload};

/// The authors' cluster, with fewer records and requests. Four servers of each kind, 36 threads on
/// each compute server, 100 Gb/s; caches are given as parts of all records' bytes.
fn setting(scale: &Scale, workload: Workload, designs: &[Design]) -> Setting {
    let (records, requests) = match scale.is_quick {
        true => (200_000, 30_000),
        false => (2_000_000, 300_000),
    };
    Setting {
        records,
        compute_servers: 4,
        memory_servers: 4,
        threads: 36,
        cache: 0.08,
        skew: 0.99,
        warmup: requests,
        requests,
        designs: designs.to_vec(),
        workloads: vec![workload],
        latency_ns: 2_000,
        gigabits: 100.0,
        local_ns: 400,
        finders: 4,
        seed: scale.seed,
    }
}

/// The least cache that all designs have room in: 1 % of the records, which is what the figures on
/// small caches have, unless there are few.
fn small_cache(scale: &Scale) -> f64 {
    match scale.is_quick {
        true => 0.05,
        false => 0.01,
    }
}

fn run(panel: &str, category: impl Into<String>, setting: Setting) -> Run {
    super::run(panel, category, Any::Cluster(setting))
}

/// One thing at a time: partitions, the cache, offloading.
pub fn steps(scale: &Scale) -> Vec<Run> {
    let designs = [
        Design::Baseline,
        Design::Partitioned,
        Design::Dex,
        Design::DexOffload,
        Design::CopiesOffload,
    ];
    let mut runs = Vec::new();
    for (panel, skew) in [("skewed", 0.99), ("uniform", 0.0)] {
        for threads in [1, 36] {
            let setting = Setting {
                threads,
                skew,
                cache: small_cache(scale),
                compute_servers: if threads == 1 { 2 } else { 4 },
                ..setting(scale, Workload::WriteIntensive, &designs)
            };
            let all = threads * usize::from(setting.compute_servers);
            runs.push(run(panel, format!("{all} threads"), setting));
        }
    }
    runs
}

/// Every leaf admitted, one in ten, or those that were fetched lately, too.
pub fn admission(scale: &Scale) -> Vec<Run> {
    let designs = [
        Design::DexEager,
        Design::Dex,
        Design::DexAdaptive,
        Design::Copies,
    ];
    let all = [(0.02, "64 MB"), (0.08, "256 MB")];
    let caches = scale.pick(&all, &all[1..]).iter();
    let of = |&(cache, name): &(f64, &str)| {
        let setting = Setting {
            cache,
            ..setting(scale, Workload::ReadIntensive, &designs)
        };
        run("", name, setting)
    };
    caches.map(of).collect()
}

/// A compute server more, by sizes of the caches.
pub fn scale_out(scale: &Scale) -> Vec<Run> {
    let all = [(0.08, "256 MB"), (0.16, "512 MB"), (0.32, "1024 MB")];
    let caches = scale.pick(&all, &all[2..]).iter();
    let of = |&(cache, name): &(f64, &str)| {
        let designs = [Design::Dex, Design::Copies];
        let setting = setting(scale, Workload::WriteIntensive, &designs);
        let setting = Setting {
            cache,
            requests: 4 * setting.requests,
            ..setting
        };
        super::run("", name, Any::ScaleOut(setting))
    };
    caches.map(of).collect()
}

/// Sizes of the cache.
pub fn caches(scale: &Scale) -> Vec<Run> {
    let designs = [
        Design::Dex,
        Design::Copies,
        Design::ShermanLike,
        Design::SmartLike,
    ];
    let all = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32];
    let parts = scale.pick(&all, &[0.05, 0.08, 0.32]);
    let of_panel = |panel, workload, parts: &[f64]| {
        let of = |&cache: &f64| {
            let setting = Setting {
                cache,
                ..setting(scale, workload, &designs)
            };
            run(panel, format!("{:.0} %", 100.0 * cache), setting)
        };
        parts.iter().map(of).collect::<Vec<_>>()
    };
    let small = &parts[..parts.iter().take_while(|part| **part <= 0.08).count()];
    let large = &parts[small.len() - 1..];
    let writes = Workload::WriteIntensive;
    [
        of_panel("read-intensive", Workload::ReadIntensive, parts),
        of_panel("write-intensive, up to 8 %", writes, small),
        of_panel("write-intensive, from 8 % on", writes, large),
    ]
    .concat()
}

/// Threads of each memory server that look for leaves.
pub fn finders(scale: &Scale) -> Vec<Run> {
    let designs = [Design::Dex, Design::DexOffload, Design::CopiesOffload];
    let workloads = [Workload::ReadIntensive, Workload::WriteIntensive];
    let mut runs = Vec::new();
    for workload in workloads {
        for &finders in scale.pick(&[1, 2, 4], &[4]) {
            let setting = Setting {
                finders,
                cache: small_cache(scale),
                ..setting(scale, workload, &designs)
            };
            let plural = if finders == 1 { "" } else { "s" };
            let category = format!("{finders} thread{plural}");
            runs.push(run(workload.name(), category, setting));
        }
    }
    runs
}

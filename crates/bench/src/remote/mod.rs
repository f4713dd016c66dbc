//! The B+tree over memory servers on a simulated cluster: what an operation costs.
//!
//! Counts are exact and the same in every run. Throughput is modelled: by the network's latency and
//! bandwidth, and a fixed time that a request takes on its compute server.

mod balance;
mod check;
mod design;
mod optimal;
mod over_tcp;
mod repartition;
mod requests;
mod scale_out;
mod workload;

use std::cell::Cell;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use timberline_remote::fabric::{Counts, Network, Simulation, Tasks};
use timberline_remote::{Layout, Options, RemoteTree, Result, load};

use crate::workload::Rng;
pub use balance::{Balanced, HOT, PARTS, PLACES, measure_balance};
pub use design::Design;
pub use optimal::optimal_reads;
pub use over_tcp::{Echo, PoolOutcome, PoolRow, measure_pool};
pub use repartition::{Handover, measure_handover};
use requests::Requests;
pub use scale_out::{ScaledOut, measure_scale_out};
pub use workload::Workload;

/// Bytes of a record: a key and a value.
pub const RECORD_BYTES: u64 = 16;
/// Of a node's entries, those that loading uses. Nodes of 1 KiB, so bytes of a loaded record.
const POOL_BYTES_A_RECORD: u64 = 32;
/// Room on each memory server beside records.
const SPARE: u64 = 64 << 20;

const ALONE: &str = "one task at a time can always go on";

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Records.
    pub records: u64,
    /// Compute servers, each with the same share of the keys.
    pub compute_servers: u16,
    /// Memory servers.
    pub memory_servers: u16,
    /// Requests under way at a time on each compute server.
    pub threads: usize,
    /// Of each compute server's cache, as a part of all records' bytes.
    pub cache: f64,
    /// θ of the requests' keys; 0 is uniform.
    pub skew: f64,
    /// Requests before counting begins, and while counting.
    pub warmup: u64,
    /// Requests that are counted.
    pub requests: u64,
    /// What is compared.
    pub designs: Vec<Design>,
    /// Table 1's workloads.
    pub workloads: Vec<Workload>,
    /// From start to completion of a small operation, in nanoseconds.
    pub latency_ns: u64,
    /// Of each server's port, in Gb/s.
    pub gigabits: f64,
    /// What a request takes on its compute server beside the network, in nanoseconds.
    pub local_ns: u64,
    /// Threads of each memory server that look for leaves, where a design has them do that.
    pub finders: u16,
    /// Of everything left to chance.
    pub seed: u64,
}

/// What one design did under one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The design.
    pub design: Design,
    /// The workload.
    pub workload: Workload,
    /// Operations a request.
    #[serde(flatten)]
    pub each: Each,
    /// Millions of requests a second of virtual time, of all compute servers.
    pub modelled_mops: f64,
}

/// Operations of the network a request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Each {
    /// One-sided reads.
    pub reads: f64,
    /// One-sided writes.
    pub writes: f64,
    /// Atomic operations.
    pub atomics: f64,
    /// Calls of memory servers.
    pub calls: f64,
    /// Bytes of data in both directions.
    pub bytes: f64,
}

impl Each {
    fn of(counts: Counts, requests: u64) -> Each {
        let each = |count: u64| count as f64 / requests as f64;
        Each {
            reads: each(counts.reads),
            writes: each(counts.writes),
            atomics: each(counts.atomics),
            calls: each(counts.calls),
            bytes: each(counts.bytes),
        }
    }
}

impl Setting {
    /// Bytes of a compute server's cache.
    pub fn cache_bytes(&self) -> usize {
        (self.records as f64 * RECORD_BYTES as f64 * self.cache) as usize
    }

    /// What each compute server is given.
    fn options(&self, design: Design) -> Options {
        Options {
            cache_bytes: self.cache_bytes(),
            seed: self.seed,
            ..design.options()
        }
    }

    /// A simulated cluster's memory servers, with the records.
    fn loaded_simulation(&self, design: Design) -> Result<Simulation> {
        let network = Network {
            latency_ns: self.latency_ns,
            bits_per_ns: self.gigabits,
            find_threads: self.finders,
            deadline_ns: self.deadline_ns(),
            ..Network::default()
        };
        let pool = self.pool_bytes_each() as usize;
        let simulation = Simulation::new(self.seed, network, self.memory_servers, pool)?;
        let boundaries = (1..self.compute_servers).map(|it| *self.partition(it).start());
        let layout = match design.is_partitioned() {
            true => Layout {
                boundaries: boundaries.collect(),
                ..Layout::default()
            },
            false => Layout {
                shared_leaves: true,
                ..Layout::default()
            },
        };
        let loaded = load(simulation.client(), layout, self.loaded());
        simulation.block_on(loaded).expect(ALONE)?;
        Ok(simulation)
    }

    /// The records that are loaded.
    fn loaded(&self) -> impl Iterator<Item = (u64, u64)> {
        let stride = self.stride();
        (0..self.records).map(move |number| (number * stride, number))
    }

    /// The distance of loaded keys. They are spread over all that there are.
    fn stride(&self) -> u64 {
        u64::MAX / self.records
    }

    /// The keys that a compute server is asked for.
    fn keys_of(&self, design: Design, server: u16) -> RangeInclusive<u64> {
        match design.is_partitioned() {
            true => self.partition(server),
            false => 0..=u64::MAX,
        }
    }

    /// The keys of a compute server that has its own.
    fn partition(&self, server: u16) -> RangeInclusive<u64> {
        let servers = u64::from(self.compute_servers);
        let boundary = |number: u64| number * (u64::MAX / servers);
        let last = u64::from(server) + 1 == servers;
        let upper = match last {
            true => u64::MAX,
            false => boundary(u64::from(server) + 1) - 1,
        };
        boundary(server.into())..=upper
    }
}

/// Runs every design under every workload.
///
/// # Errors
/// The cache is too small, or the pool.
pub fn measure(setting: &Setting, is_over: &dyn Fn() -> bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &workload in &setting.workloads {
        for &design in &setting.designs {
            if is_over() {
                return Ok(rows);
            }
            rows.push(run(setting, design, workload, is_over)?);
        }
    }
    Ok(rows)
}

fn run(
    setting: &Setting,
    design: Design,
    workload: Workload,
    is_over: &dyn Fn() -> bool,
) -> Result<Row> {
    let simulation = setting.loaded_simulation(design)?;
    let open = |server| {
        let options = Options {
            partition: setting.keys_of(design, server),
            seed: setting.seed.wrapping_add(server.into()),
            ..setting.options(design)
        };
        let opened = RemoteTree::open(simulation.client(), options);
        simulation.block_on(opened).expect(ALONE)
    };
    let trees: Vec<RemoteTree> = (0..setting.compute_servers)
        .map(open)
        .collect::<Result<_>>()?;
    let cluster = Cluster {
        setting,
        design,
        requests: Requests::new(setting, workload),
        simulation: &simulation,
        trees: &trees,
        is_over,
    };
    cluster.serve(setting.warmup, 0)?;
    let (begin_ns, before) = (simulation.now_ns(), cluster.counts());
    cluster.serve(setting.requests, 1)?;
    let (ns, counts) = (simulation.now_ns() - begin_ns, cluster.counts() - before);
    Ok(Row {
        design,
        workload,
        each: Each::of(counts, setting.requests),
        modelled_mops: setting.requests as f64 * 1e3 / ns as f64,
    })
}

struct Cluster<'a> {
    setting: &'a Setting,
    design: Design,
    requests: Requests,
    simulation: &'a Simulation,
    trees: &'a [RemoteTree],
    is_over: &'a dyn Fn() -> bool,
}

impl Cluster<'_> {
    /// Serves so many requests, by all threads of all servers together.
    fn serve(&self, requests: u64, phase: u64) -> Result<()> {
        let left = Cell::new(requests);
        let failed = Cell::new(None);
        let mut tasks = Tasks::default();
        for (server, tree) in self.trees.iter().enumerate() {
            for thread in 0..self.setting.threads {
                let lane = (phase << 32) + ((server as u64) << 16) + thread as u64;
                let mut draws = Rng::new(self.setting.seed, lane);
                let partition = self.setting.keys_of(self.design, server as u16);
                let (left, failed) = (&left, &failed);
                tasks.add(async move {
                    while left.get() > 0 && !(self.is_over)() {
                        left.set(left.get() - 1);
                        self.simulation.sleep(self.setting.local_ns).await;
                        if let Err(error) = self.requests.make(tree, &partition, &mut draws).await {
                            failed.set(Some(error));
                            left.set(0);
                        }
                    }
                });
            }
        }
        while tasks.left() > 0 {
            self.simulation.run(&mut tasks).expect("somebody can go on");
        }
        drop(tasks);
        failed.take().map_or(Ok(()), Err)
    }

    fn counts(&self) -> Counts {
        let counts = self.trees.iter().map(RemoteTree::counts);
        counts.sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A cluster in which nodes go and come.
    pub fn small() -> Setting {
        Setting {
            records: 40_000,
            compute_servers: 2,
            memory_servers: 2,
            threads: 4,
            cache: 0.25,
            skew: 0.99,
            warmup: 20_000,
            requests: 20_000,
            designs: vec![Design::Dex, Design::PShermanLike],
            workloads: Workload::ALL.to_vec(),
            latency_ns: 2_000,
            gigabits: 100.0,
            local_ns: 400,
            finders: 4,
            seed: 1,
        }
    }

    #[test]
    fn caching_leaves_saves_reads() {
        let rows = measure(&small(), &|| false).unwrap();
        assert_eq!(rows.len(), 10);
        let row = |design, workload| {
            let is = |row: &&Row| row.design == design && row.workload == workload;
            rows.iter().find(is).unwrap()
        };
        let without = row(Design::PShermanLike, Workload::ReadOnly);
        // Requests that wait for another one's read of a leaf need none.
        assert!((0.7..=1.0).contains(&without.each.reads), "{without:?}");
        let with = row(Design::Dex, Workload::ReadOnly);
        assert!(with.each.reads < 0.7 * without.each.reads, "{with:?}");
        assert_eq!(with.each.writes + with.each.atomics, 0.0, "{with:?}");
        assert!(with.modelled_mops > 1.2 * without.modelled_mops);
        let writes = row(Design::Dex, Workload::WriteIntensive);
        assert!(
            writes.each.writes > 0.1 && writes.each.atomics == 0.0,
            "{writes:?}"
        );
        let inserts = row(Design::Dex, Workload::InsertIntensive);
        assert!(inserts.each.atomics > 0.0, "it splits: {inserts:?}");
    }

    #[test]
    fn the_same_setting_gives_the_same_counts() {
        let setting = Setting {
            workloads: vec![Workload::WriteIntensive],
            requests: 5_000,
            ..small()
        };
        let json = || serde_json::to_string(&measure(&setting, &|| false).unwrap()).unwrap();
        assert_eq!(json(), json());
    }
}

//! The B+tree over memory servers on a simulated cluster: what an operation costs.
//!
//! Counts are exact and the same in every run. Throughput is modelled: by the network's latency and
//! bandwidth, and a fixed time that a request takes on its compute server.

mod design;
mod workload;

use std::cell::Cell;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use timberline_remote::fabric::{Counts, Network, Simulation, Tasks};
use timberline_remote::{Layout, Options, RemoteTree, Result, load};

use crate::workload::{Permutation, Rng, Zipf};
pub use design::Design;
pub use workload::Workload;

/// Bytes of a record: a key and a value.
pub const RECORD_BYTES: u64 = 16;
/// Records that a scan reads.
const SCANNED: usize = 100;
/// Of a node's entries, those that loading uses. Nodes of 1 KiB, so bytes of a loaded record.
const POOL_BYTES_A_RECORD: u64 = 32;
/// Room in the pool beside loaded records.
const SPARE: u64 = 64 << 20;

/// What is to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// One-sided reads a request.
    pub reads: f64,
    /// One-sided writes a request.
    pub writes: f64,
    /// Atomic operations a request.
    pub atomics: f64,
    /// Calls of memory servers a request.
    pub calls: f64,
    /// Bytes over the network a request.
    pub bytes: f64,
    /// Millions of requests a second of virtual time, of all compute servers.
    pub modelled_mops: f64,
}

impl Setting {
    /// Bytes of a compute server's cache.
    pub fn cache_bytes(&self) -> usize {
        (self.records as f64 * RECORD_BYTES as f64 * self.cache) as usize
    }

    /// The distance of loaded keys. They are spread over all that there are.
    fn stride(&self) -> u64 {
        u64::MAX / self.records
    }

    /// The keys of a compute server.
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
/// One line: the cache is too small, or the pool.
pub fn measure(
    setting: &Setting,
    is_over: &dyn Fn() -> bool,
) -> std::result::Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for &workload in &setting.workloads {
        for &design in &setting.designs {
            if is_over() {
                return Ok(rows);
            }
            let row = run(setting, design, workload, is_over).map_err(|it| it.to_string())?;
            rows.push(row);
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
    let network = Network {
        latency_ns: setting.latency_ns,
        bits_per_ns: setting.gigabits,
        ..Network::default()
    };
    let pool = setting.records * POOL_BYTES_A_RECORD / u64::from(setting.memory_servers) + SPARE;
    let simulation = Simulation::new(setting.seed, network, setting.memory_servers, pool as usize)?;
    let layout = Layout {
        boundaries: (1..setting.compute_servers)
            .map(|server| *setting.partition(server).start())
            .collect(),
        ..Layout::default()
    };
    let records = (0..setting.records).map(|number| (number * setting.stride(), number));
    let alone = "one task at a time can always go on";
    let loaded = load(simulation.client(), layout, records);
    simulation.block_on(loaded).expect(alone)?;
    let open = |server| {
        let options = Options {
            partition: setting.partition(server),
            id: server,
            seed: setting.seed + u64::from(server),
            cache_bytes: setting.cache_bytes(),
            ..design.options()
        };
        let opened = RemoteTree::open(simulation.client(), options);
        simulation.block_on(opened).expect(alone)
    };
    let trees: Vec<RemoteTree> = (0..setting.compute_servers)
        .map(open)
        .collect::<Result<_>>()?;
    let cluster = Cluster {
        setting,
        workload,
        simulation: &simulation,
        trees: &trees,
        zipf: Zipf::new(setting.records, setting.skew),
        permutation: Permutation::new(setting.records, Rng::new(setting.seed, u64::MAX)),
        is_over,
    };
    cluster.serve(setting.warmup, 0)?;
    let (begin_ns, before) = (simulation.now_ns(), cluster.counts());
    cluster.serve(setting.requests, 1)?;
    let (ns, counts) = (simulation.now_ns() - begin_ns, cluster.counts() - before);
    let each = |count: u64| count as f64 / setting.requests as f64;
    Ok(Row {
        design,
        workload,
        reads: each(counts.reads),
        writes: each(counts.writes),
        atomics: each(counts.atomics),
        calls: each(counts.calls),
        bytes: each(counts.bytes),
        modelled_mops: setting.requests as f64 * 1e3 / ns as f64,
    })
}

struct Cluster<'a> {
    setting: &'a Setting,
    workload: Workload,
    simulation: &'a Simulation,
    trees: &'a [RemoteTree],
    zipf: Zipf,
    permutation: Permutation,
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
                let (left, failed) = (&left, &failed);
                tasks.add(async move {
                    while left.get() > 0 && !(self.is_over)() {
                        left.set(left.get() - 1);
                        self.simulation.sleep(self.setting.local_ns).await;
                        if let Err(error) = self.request(tree, &mut draws).await {
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

    async fn request(&self, tree: &RemoteTree, draws: &mut Rng) -> Result<()> {
        let partition = tree.partition();
        // Requests reach the server that has their key.
        let key = loop {
            let key = self.permutation.at(self.zipf.rank(draws)) * self.setting.stride();
            if partition.contains(&key) {
                break key;
            }
        };
        match self.workload.draw(draws) {
            workload::Kind::Get => {
                let found = tree.get(key).await?;
                assert!(found.is_some(), "key {key} was loaded");
            }
            workload::Kind::Update => {
                tree.update(key, draws.bits()).await?;
            }
            workload::Kind::Insert => {
                let between = 1 + draws.below(self.setting.stride() - 1);
                let new = key.saturating_add(between).min(*partition.end());
                tree.insert(new, between).await?;
            }
            workload::Kind::Scan => {
                let mut scan = tree.scan(key..=*partition.end())?.limit(SCANNED);
                while scan.next().await?.is_some() {}
            }
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        let counts = self.trees.iter().map(RemoteTree::counts);
        counts.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster in which nodes go and come.
    fn small() -> Setting {
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
        assert!((without.reads - 1.0).abs() < 0.05, "{without:?}");
        let with = row(Design::Dex, Workload::ReadOnly);
        assert!(with.reads < 0.7 * without.reads, "{with:?}");
        assert_eq!(with.writes + with.atomics, 0.0, "{with:?}");
        assert!(with.modelled_mops > 1.2 * without.modelled_mops);
        let writes = row(Design::Dex, Workload::WriteIntensive);
        assert!(writes.writes > 0.1 && writes.atomics == 0.0, "{writes:?}");
        let inserts = row(Design::Dex, Workload::InsertIntensive);
        assert!(inserts.atomics > 0.0, "it splits: {inserts:?}");
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

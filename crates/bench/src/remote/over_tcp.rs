//! The B+tree over memory servers that are processes: requests a second, beside a bare echo.
//!
//! The echo reads as many bytes as a node has from the same servers, as many at a time, and does
//! nothing with them. It and the designs take turns, so each round has ratios of its own.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use timberline_remote::fabric::{Connection, Fabric};
use timberline_remote::{Address, Error, Layout, RemoteTree, Result, ServerId, load};

use super::{Design, Each, Requests, Setting, Workload};
use crate::rounds::Rounds;
use crate::workload::Rng;

/// Rounds in which all take their turns.
const ROUNDS: u64 = 5;
/// What the echo reads at a time: a node.
const ECHO_WORDS: usize = 128;

/// All that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolOutcome {
    /// The bare echo.
    pub echo: Echo,
    /// Each design under each workload.
    pub rows: Vec<PoolRow>,
}

/// Reads that nothing is done with.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Echo {
    /// Thousands a second.
    pub kops: Rounds,
}

/// What one design did under one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolRow {
    /// The design.
    pub design: Design,
    /// The workload.
    pub workload: Workload,
    /// Operations a request.
    #[serde(flatten)]
    pub each: Each,
    /// Thousands of requests a second.
    pub kops: Rounds,
    /// Reads a second, to those of the echo in the same round.
    pub of_echo: Rounds,
}

/// Loads a tree into these memory servers, and runs every design under every workload, on this
/// thread. `None`: it was over before.
///
/// # Errors
/// The servers have a tree already, or too little memory; one does not answer; or the cache is too
/// small.
pub async fn measure_pool(
    setting: &Setting,
    fabric: Arc<dyn Fabric>,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<PoolOutcome>> {
    load(Arc::clone(&fabric), Layout::default(), setting.loaded()).await?;
    let bench = Bench {
        setting,
        is_over,
        echo: Connection::new(Arc::clone(&fabric)),
        used: used(&fabric).await?,
    };
    let mut echo = Vec::new();
    let mut rows = Vec::new();
    for &workload in &setting.workloads {
        for &design in &setting.designs {
            let tree = RemoteTree::open(Arc::clone(&fabric), setting.options(design)).await?;
            let requests = Requests::new(setting, workload);
            bench.serve(setting.warmup, 0, &tree, &requests).await?;
            let before = tree.counts();
            let (mut kops, mut of_echo) = (Vec::new(), Vec::new());
            for round in 1..=ROUNDS {
                let each = (setting.requests / ROUNDS).max(1);
                let echo_kops = bench.read(each, round).await?;
                let reads = tree.counts().reads;
                let served = bench.serve(each, round, &tree, &requests).await?;
                let reads = (tree.counts().reads - reads) as f64 / each as f64;
                echo.push(echo_kops);
                kops.push(served);
                of_echo.push(served * reads / echo_kops);
                if is_over() {
                    return Ok(None);
                }
            }
            let counts = tree.counts() - before;
            tree.flush().await?;
            rows.push(PoolRow {
                design,
                workload,
                each: Each::of(counts, (setting.requests / ROUNDS).max(1) * ROUNDS),
                kops: Rounds::new(&kops),
                of_echo: Rounds::new(&of_echo),
            });
        }
    }
    let echo = Echo {
        kops: Rounds::new(&echo),
    };
    Ok(Some(PoolOutcome { echo, rows }))
}

/// Bytes of each server that nodes are in.
async fn used(fabric: &Arc<dyn Fabric>) -> Result<Vec<u64>> {
    let connection = Connection::new(Arc::clone(fabric));
    let mut used = Vec::new();
    for server in 0..connection.servers() {
        used.push(connection.load(server).await?.allocated_bytes);
    }
    Ok(used)
}

struct Bench<'a> {
    setting: &'a Setting,
    is_over: &'a dyn Fn() -> bool,
    echo: Connection,
    used: Vec<u64>,
}

impl Bench<'_> {
    /// Makes so many requests. Returns thousands a second.
    async fn serve(
        &self,
        requests: u64,
        round: u64,
        tree: &RemoteTree,
        of: &Requests,
    ) -> Result<f64> {
        self.together(requests, round, async |draws| {
            of.make(tree, &(0..=u64::MAX), draws).await
        })
        .await
    }

    /// Makes so many bare reads. Returns thousands a second.
    async fn read(&self, reads: u64, round: u64) -> Result<f64> {
        self.together(reads, round, async |draws| {
            let server = draws.below(self.used.len() as u64);
            let nodes = self.used[server as usize] / (8 * ECHO_WORDS as u64);
            let offset = draws.below(nodes) * 8 * ECHO_WORDS as u64;
            let at = Address::new(server as ServerId, offset);
            self.echo.read(at, ECHO_WORDS).await.map(|_| ())
        })
        .await
    }

    /// Does something so many times, with as many under way as the setting says.
    async fn together(
        &self,
        times: u64,
        round: u64,
        work: impl AsyncFn(&mut Rng) -> Result<()>,
    ) -> Result<f64> {
        let start = Instant::now();
        let left = Cell::new(times);
        let lanes = (0..self.setting.threads as u64).map(async |lane| {
            let mut draws = Rng::new(self.setting.seed, (round << 32) + lane);
            while left.get() > 0 && !(self.is_over)() {
                left.set(left.get() - 1);
                work(&mut draws).await?;
            }
            Ok::<(), Error>(())
        });
        let mut lanes: FuturesUnordered<_> = lanes.collect();
        while let Some(ended) = lanes.next().await {
            ended?;
        }
        Ok(times as f64 / 1e3 / start.elapsed().as_secs_f64())
    }
}

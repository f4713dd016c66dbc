//! A compute server joins a simulated cluster, and is given half of another one's keys while
//! requests go on (Lu et al.: "DEX", VLDB 2024, section 8.3).
//!
//! Each compute server makes requests for keys of its own, as many at a time as the setting says.
//! So the cluster serves more once the new one has keys, and both caches fill again.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timberline_remote::fabric::{Counts, Simulation, Tasks};
use timberline_remote::{Error, Member, Options, Result};

use super::{ALONE, Design, Requests, Setting, Workload};
use crate::workload::Rng;

/// Of each member. Virtual time is dear, so it is short beside what clusters have.
const LEASE: Duration = Duration::from_millis(2);
/// How long throughput is averaged, in nanoseconds of virtual time.
const SLICE_NS: u64 = 100_000;
/// After which somebody without keys, or who waits for something, looks again.
const LOOK_NS: u64 = 10_000;

/// What came of it, by the simulation's clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScaledOut {
    pub design: Design,
    /// When it began.
    pub begin_ns: u64,
    /// Until the giver had written what only its cache had, and the pool said whose the keys are.
    pub given_ns: u64,
    /// Until the taker answered; so long nobody did.
    pub taken_ns: u64,
    /// Writes of the giver until then, its requests' own among them.
    pub writes: u64,
    /// Bytes that it sent and received until then.
    pub bytes: u64,
    /// Requests that found that their key had just been given away.
    pub refused: u64,
    /// Millions of requests a second, before, and over the last quarter of the requests.
    pub mops: [f64; 2],
    /// Each slice's end, in nanoseconds, and its millions of requests a second.
    pub slices: Vec<(u64, f64)>,
}

/// Runs each design under the first workload: all but one of the compute servers have the keys at
/// first, and after a quarter of the requests the last one gets half of the first one's. `None`: it
/// was over before.
///
/// # Errors
/// The cache is too small, or the pool.
pub fn measure_scale_out(
    setting: &Setting,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<Vec<ScaledOut>>> {
    let mut outcomes = Vec::new();
    for &design in &setting.designs {
        outcomes.push(run(setting, design, is_over)?);
    }
    Ok((!is_over()).then_some(outcomes))
}

fn run(setting: &Setting, design: Design, is_over: &dyn Fn() -> bool) -> Result<ScaledOut> {
    let loaded = Setting {
        compute_servers: setting.compute_servers - 1,
        ..setting.clone()
    };
    let simulation = loaded.loaded_simulation(design)?;
    let join = |server: u16| {
        let options = Options {
            seed: setting.seed.wrapping_add(server.into()),
            ..setting.options(design)
        };
        let joined = async {
            let member = Member::join(simulation.client(), options, LEASE).await?;
            if server < loaded.compute_servers {
                member.claim(&loaded.partition(server)).await?;
            }
            Ok(member)
        };
        simulation.block_on(joined).expect(ALONE)
    };
    let members: Vec<Member> = (0..setting.compute_servers)
        .map(join)
        .collect::<Result<_>>()?;
    let workload = setting.workloads.first().copied();
    let cluster = Cluster {
        setting,
        requests: Requests::new(setting, workload.unwrap_or(Workload::WriteIntensive)),
        simulation: &simulation,
        members: &members,
        made: Cell::new(0),
        refused: Cell::new(0),
        failed: Cell::new(None),
        slices: RefCell::default(),
        is_over,
    };
    cluster.serve(setting.warmup, None)?;
    let begun_ns = simulation.now_ns();
    let times = Times::default();
    cluster.serve(setting.requests, Some(&times))?;
    let begin_ns = times.begin.get();
    let slices: Vec<_> = { cluster.slices.take().into_iter() }
        .map(|(end, mops)| (end - begun_ns, mops))
        .collect();
    let before = slices.iter().filter(|it| it.0 + begun_ns <= begin_ns);
    let last = slices.len() - slices.len() / 4;
    Ok(ScaledOut {
        design,
        begin_ns: begin_ns - begun_ns,
        given_ns: times.given.get() - begin_ns,
        taken_ns: times.taken.get() - begin_ns,
        writes: times.counts.get().writes,
        bytes: times.counts.get().bytes,
        refused: cluster.refused.get(),
        mops: [mean(before), mean(slices[last..].iter())],
        slices,
    })
}

fn mean<'a>(slices: impl Iterator<Item = &'a (u64, f64)>) -> f64 {
    let all: Vec<f64> = slices.map(|it| it.1).collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// When the keys changed hands, and what that took.
#[derive(Default)]
struct Times {
    begin: Cell<u64>,
    given: Cell<u64>,
    taken: Cell<u64>,
    counts: Cell<Counts>,
}

struct Cluster<'a> {
    setting: &'a Setting,
    requests: Requests,
    simulation: &'a Simulation,
    members: &'a [Member],
    /// Requests of this phase so far.
    made: Cell<u64>,
    refused: Cell<u64>,
    failed: Cell<Option<Error>>,
    slices: RefCell<Vec<(u64, f64)>>,
    is_over: &'a dyn Fn() -> bool,
}

impl Cluster<'_> {
    /// Has so many requests made; with `times`, keys change hands after a quarter of them.
    fn serve(&self, requests: u64, times: Option<&Times>) -> Result<()> {
        self.made.set(0);
        let mut tasks = Tasks::default();
        for (server, member) in self.members.iter().enumerate() {
            for thread in 0..self.setting.threads {
                let lane = ((server as u64) << 16) + thread as u64;
                let mut draws = Rng::new(self.setting.seed ^ requests, lane);
                tasks.add(async move {
                    while self.goes_on(requests) {
                        self.step(member, &mut draws).await;
                    }
                });
            }
        }
        if let Some(times) = times {
            tasks.add(self.watch(requests));
            tasks.add(async move {
                if let Err(error) = self.change_hands(requests, times).await {
                    self.fail(error);
                }
            });
        }
        // What members do as long as they live comes last, and has no end.
        for member in self.members {
            let sleep = async |time: Duration| self.sleep(time.as_nanos() as u64).await;
            tasks.add(async move { member.keep(sleep).await });
        }
        while tasks.left() > self.members.len() {
            self.simulation.run(&mut tasks).expect("somebody can go on");
        }
        drop(tasks);
        self.failed.take().map_or(Ok(()), Err)
    }

    fn goes_on(&self, requests: u64) -> bool {
        self.made.get() < requests && !(self.is_over)()
    }

    fn fail(&self, error: Error) {
        self.failed.set(Some(error));
        self.made.set(u64::MAX);
    }

    async fn sleep(&self, ns: u64) {
        self.simulation.sleep(ns).await;
    }

    /// Makes a request for a key of this member, if it has any.
    async fn step(&self, member: &Member, draws: &mut Rng) {
        let tree = member.tree();
        let Some(keys) = tree.partitions().first().cloned() else {
            return self.sleep(LOOK_NS).await;
        };
        self.sleep(self.setting.local_ns).await;
        match self.requests.make(tree, &keys, draws).await {
            Ok(()) => self.made.set(self.made.get().saturating_add(1)),
            Err(Error::NotOwned(_)) => self.refused.set(self.refused.get() + 1),
            Err(error) => self.fail(error),
        }
    }

    /// Notes each slice's throughput.
    async fn watch(&self, requests: u64) {
        while self.goes_on(requests) {
            let (before, begin_ns) = (self.made.get(), self.simulation.now_ns());
            self.sleep(SLICE_NS).await;
            let now_ns = self.simulation.now_ns();
            let made = self.made.get() - before;
            let mops = made as f64 * 1e3 / (now_ns - begin_ns) as f64;
            self.slices.borrow_mut().push((now_ns, mops));
        }
        // The last slice is of the time after the last request, too.
        self.slices.borrow_mut().pop();
    }

    async fn change_hands(&self, requests: u64, times: &Times) -> Result<()> {
        while self.made.get() < requests / 4 && self.goes_on(requests) {
            self.sleep(LOOK_NS).await;
        }
        let (Some(giver), Some(taker)) = (self.members.first(), self.members.last()) else {
            return Ok(());
        };
        let Some(keys) = giver.tree().partitions().first().cloned() else {
            return Ok(());
        };
        times.begin.set(self.simulation.now_ns());
        let before = giver.tree().counts();
        let half = keys.start() + (keys.end() - keys.start()) / 2;
        giver.hand_over(half..=*keys.end(), taker.compute()).await?;
        times.given.set(self.simulation.now_ns());
        times.counts.set(giver.tree().counts() - before);
        taker.sync().await?;
        times.taken.set(self.simulation.now_ns());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::tests::small;

    #[test]
    fn a_cluster_serves_more_once_the_new_server_has_keys() {
        let setting = Setting {
            compute_servers: 3,
            requests: 100_000,
            designs: vec![Design::Dex],
            workloads: vec![Workload::WriteIntensive],
            ..small()
        };
        let outcomes = measure_scale_out(&setting, &|| false).unwrap().unwrap();
        let [outcome] = &outcomes[..] else {
            panic!("one design");
        };
        assert!(0 < outcome.given_ns && outcome.given_ns < outcome.taken_ns);
        assert!(outcome.writes > 0, "changes are written");
        assert!(outcome.slices.len() > 4, "{outcome:?}");
        let [before, after] = outcome.mops;
        assert!(after > 1.2 * before, "{before} {after}");
        let json = serde_json::to_string(&outcomes).unwrap();
        let again = measure_scale_out(&setting, &|| false).unwrap();
        assert_eq!(serde_json::to_string(&again.unwrap()).unwrap(), json);
    }

    #[test]
    fn an_interrupted_run_has_no_outcome() {
        let asked = Cell::new(0);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > 30_000
        };
        assert!(measure_scale_out(&small(), &is_over).unwrap().is_none());
    }
}

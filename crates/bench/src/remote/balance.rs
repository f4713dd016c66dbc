//! What it gains that keys follow the load: a hot spot that moves, on a simulated cluster.
//!
//! Each compute server has its share of the keys, and serves as many requests at a time as the
//! setting says; clients wait for one that has their key. So the server of the hot spot is what
//! limits the cluster, unless it gives keys away.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::task::{Poll, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timberline_remote::fabric::{Counts, Simulation, Tasks};
use timberline_remote::{Balancing, Error, Member, Options, Result};

use super::{ALONE, Design, Each, Setting};
use crate::workload::Rng;

/// What the compute servers are.
pub(super) const DESIGN: Design = Design::Copies;
/// Places of the hot spot, each for as many requests.
pub const PLACES: u64 = 4;
/// Parts of a run whose throughput is shown.
pub const PARTS: u64 = 40;
/// Of all keys, the part that is hot, and of all requests, the part that asks for these.
pub const HOT: [f64; 2] = [0.05, 0.9];
/// Of each member. Virtual time is dear, so it is short beside what clusters have.
const LEASE: Duration = Duration::from_millis(2);
/// Between two looks at the loads.
const PERIOD: Duration = Duration::from_millis(2);
/// After which a client asks again for a key that nobody has.
const AGAIN_NS: u64 = 50_000;

/// What a run did, with keys that stay or with keys that follow the load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Balanced {
    /// Whether keys followed the load.
    pub is_on: bool,
    /// Millions of requests a second of virtual time.
    pub modelled_mops: f64,
    /// The same of each fortieth of the requests.
    pub parts: Vec<f64>,
    /// What the busiest server served, to the mean, of each fortieth.
    pub busiest: Vec<f64>,
    /// Times that a server gave keys away.
    pub moves: u64,
    /// Partitions at the end.
    pub partitions: usize,
    /// Requests that found no server with their key, and were made again.
    pub refused: u64,
    /// Operations a request.
    #[serde(flatten)]
    pub each: Each,
}

/// Runs a load of gets and updates, half of each, whose hot spot moves: with keys that stay, and
/// with keys that follow. `None`: it was over before.
///
/// # Errors
/// The cache is too small, or the pool.
pub fn measure_balance(
    setting: &Setting,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<[Balanced; 2]>> {
    let mut outcomes = Vec::new();
    for is_on in [false, true] {
        outcomes.push(run(setting, is_on, is_over)?);
    }
    let both = (!is_over()).then_some(outcomes);
    Ok(both.and_then(|outcomes| outcomes.try_into().ok()))
}

/// What a member is given.
pub(super) fn options(setting: &Setting, is_on: bool) -> Options {
    let balancing = Balancing {
        period: PERIOD,
        ..Balancing::default()
    };
    Options {
        balancing: is_on.then_some(balancing),
        ..setting.options(DESIGN)
    }
}

fn run(setting: &Setting, is_on: bool, is_over: &dyn Fn() -> bool) -> Result<Balanced> {
    let simulation = setting.loaded_simulation(DESIGN)?;
    let join = |server: u16| {
        let options = Options {
            seed: setting.seed.wrapping_add(server.into()),
            ..options(setting, is_on)
        };
        let joined = async {
            let member = Member::join(simulation.client(), options, LEASE).await?;
            member.claim(&setting.partition(server)).await?;
            Ok(member)
        };
        simulation.block_on(joined).expect(ALONE)
    };
    let members: Vec<Member> = (0..setting.compute_servers)
        .map(join)
        .collect::<Result<_>>()?;
    let cluster = Cluster {
        setting,
        simulation: &simulation,
        servers: members
            .iter()
            .map(|member| Server::new(member, setting))
            .collect(),
        routes: RefCell::default(),
        made: Cell::new(0),
        refused: Cell::new(0),
        failed: Cell::new(None),
        parts: RefCell::default(),
        part_began: Cell::new(0),
    };
    cluster.serve(setting.warmup, is_over)?;
    let (begin_ns, before) = (simulation.now_ns(), cluster.counts());
    cluster.refused.set(0);
    cluster.serve(setting.requests, is_over)?;
    let ns = simulation.now_ns() - begin_ns;
    let (parts, busiest) = cluster.parts.take().into_iter().unzip();
    let held = members
        .iter()
        .map(|member| member.tree().partitions().len());
    Ok(Balanced {
        is_on,
        modelled_mops: setting.requests as f64 * 1e3 / ns as f64,
        parts,
        busiest,
        moves: members.iter().map(Member::moves).sum(),
        partitions: held.sum(),
        refused: cluster.refused.get(),
        each: Each::of(cluster.counts() - before, setting.requests),
    })
}

struct Cluster<'a> {
    setting: &'a Setting,
    simulation: &'a Simulation,
    servers: Vec<Server<'a>>,
    /// Who has which keys, as clients know.
    routes: RefCell<Vec<(RangeInclusive<u64>, usize)>>,
    /// Requests of this phase so far.
    made: Cell<u64>,
    refused: Cell<u64>,
    failed: Cell<Option<Error>>,
    /// Throughput, and the busiest server, of each part so far.
    parts: RefCell<Vec<(f64, f64)>>,
    part_began: Cell<u64>,
}

/// A compute server, and the requests that it can serve at a time.
struct Server<'a> {
    member: &'a Member,
    free: Cell<usize>,
    waiting: RefCell<VecDeque<Waker>>,
    /// Requests of this part.
    served: Cell<u64>,
}

impl<'a> Server<'a> {
    fn new(member: &'a Member, setting: &Setting) -> Server<'a> {
        Server {
            member,
            free: Cell::new(setting.threads),
            waiting: RefCell::default(),
            served: Cell::new(0),
        }
    }

    /// Waits until a request more can be served.
    async fn enter(&self) {
        poll_fn(|context| match self.free.get() {
            0 => {
                self.waiting.borrow_mut().push_back(context.waker().clone());
                Poll::Pending
            }
            free => {
                self.free.set(free - 1);
                Poll::Ready(())
            }
        })
        .await;
    }

    fn leave(&self) {
        self.free.set(self.free.get() + 1);
        let next = self.waiting.borrow_mut().pop_front();
        if let Some(next) = next {
            next.wake();
        }
    }
}

impl Cluster<'_> {
    /// Has clients make so many requests, below the members' duties.
    fn serve(&self, requests: u64, is_over: &dyn Fn() -> bool) -> Result<()> {
        self.made.set(0);
        self.parts.borrow_mut().clear();
        self.part_began.set(self.simulation.now_ns());
        let mut tasks = Tasks::default();
        let clients = self.servers.len() * self.setting.threads;
        let begun = tasks.left();
        for client in 0..clients as u64 {
            let mut draws = Rng::new(self.setting.seed ^ requests, client);
            tasks.add(async move {
                while self.made.get() < requests && !is_over() {
                    let number = self.made.replace(self.made.get() + 1);
                    let key = self.key(number * PLACES / requests, &mut draws);
                    let new = (draws.below(2) == 0).then(|| draws.bits());
                    if let Err(error) = self.ask(key, new).await {
                        self.failed.set(Some(error));
                        self.made.set(requests);
                    }
                    self.note(number + 1, requests);
                }
            });
        }
        let simulation = self.simulation;
        for server in &self.servers {
            let sleep = async |time: Duration| simulation.sleep(time.as_nanos() as u64).await;
            tasks.add(async move { server.member.keep(sleep).await });
        }
        let duties = self.servers.len();
        while tasks.left() > begun + duties {
            simulation.run(&mut tasks).expect("somebody can go on");
        }
        drop(tasks);
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Draws a loaded key, while the hot spot is at this place.
    fn key(&self, place: u64, draws: &mut Rng) -> u64 {
        let records = self.setting.records;
        let [hot_keys, hot_requests] = HOT;
        let number = match draws.unit() < hot_requests {
            true => {
                let hot = (records as f64 * hot_keys) as u64;
                // In the middle of a server's keys, then in another's.
                let servers = self.servers.len() as u64;
                let first = records / servers * (place % servers) + records / servers / 2;
                (first + draws.below(hot)) % records
            }
            false => draws.below(records),
        };
        number * self.setting.stride()
    }

    /// A get, or an update, by the server that has the key.
    async fn ask(&self, key: u64, new: Option<u64>) -> Result<()> {
        loop {
            let Some(server) = self.server_of(key) else {
                self.refuse().await;
                continue;
            };
            server.enter().await;
            self.simulation.sleep(self.setting.local_ns).await;
            let tree = server.member.tree();
            let made = match new {
                Some(new) => tree.update(key, new).await,
                None => tree.get(key).await,
            };
            server.leave();
            match made {
                Err(Error::NotOwned(_)) => self.refuse().await,
                made => {
                    assert!(made?.is_some(), "key {key} was loaded");
                    server.served.set(server.served.get() + 1);
                    return Ok(());
                }
            }
        }
    }

    /// Nobody has a key, as far as clients know: they look again a while later.
    async fn refuse(&self) {
        self.refused.set(self.refused.get() + 1);
        self.simulation.sleep(AGAIN_NS).await;
        let ranges = |(number, server): (usize, &Server<'_>)| {
            let held = server.member.tree().partitions().into_iter();
            held.map(move |keys| (keys, number)).collect::<Vec<_>>()
        };
        let mut routes: Vec<_> = self.servers.iter().enumerate().flat_map(ranges).collect();
        routes.sort_by_key(|(keys, _)| *keys.start());
        self.routes.replace(routes);
    }

    fn server_of(&self, key: u64) -> Option<&Server<'_>> {
        let routes = self.routes.borrow();
        let after = routes.partition_point(|(keys, _)| *keys.start() <= key);
        let (keys, number) = routes.get(after.checked_sub(1)?)?;
        keys.contains(&key).then(|| &self.servers[*number])
    }

    /// Ends a part, if so many requests do.
    fn note(&self, made: u64, requests: u64) {
        if made * PARTS / requests == (made - 1) * PARTS / requests {
            return;
        }
        let now = self.simulation.now_ns();
        let ns = now - self.part_began.replace(now);
        let served: Vec<u64> = self.servers.iter().map(|it| it.served.take()).collect();
        let all: u64 = served.iter().sum();
        let most = served.iter().max().copied().unwrap_or(0);
        let mean = (all as f64 / served.len() as f64).max(1.0);
        let part = (all as f64 * 1e3 / ns.max(1) as f64, most as f64 / mean);
        self.parts.borrow_mut().push(part);
    }

    fn counts(&self) -> Counts {
        self.servers
            .iter()
            .map(|it| it.member.tree().counts())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::tests::small;

    #[test]
    fn keys_that_follow_a_hot_spot_spread_it() {
        let setting = Setting {
            compute_servers: 4,
            warmup: 20_000,
            requests: 1_200_000,
            cache: 0.5,
            ..small()
        };
        let [off, on] = measure_balance(&setting, &|| false).unwrap().unwrap();
        assert_eq!((off.moves, off.partitions), (0, 4));
        assert!(on.moves > 3, "{} moves", on.moves);
        assert_eq!([off.parts.len(), on.parts.len()], [PARTS as usize; 2]);
        // At the end of each place of the hot spot.
        let late = |run: &Balanced| {
            let parts = run.busiest.chunks(run.busiest.len() / PLACES as usize);
            parts
                .map(|parts| parts[parts.len() - 1])
                .collect::<Vec<f64>>()
        };
        assert!(late(&off).iter().all(|it| *it > 3.0), "{off:?}");
        assert!(late(&on).iter().all(|it| *it < 2.0), "{on:?}");
        assert!(on.modelled_mops > 1.3 * off.modelled_mops, "{on:?} {off:?}");
    }
}

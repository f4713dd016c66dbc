//! Members that balance their load by themselves, in a simulated cluster under a skewed load.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use timberline_remote::fabric::{Network, Simulation, Tasks};
use timberline_remote::{Balancing, Error, Layout, Member, Options, Result, load};

const MEMBERS: u64 = 4;
const KEYS: u64 = 20_000;
/// Spreads keys over all of them.
const STRIDE: u64 = u64::MAX / KEYS;
const LEASE: Duration = Duration::from_micros(400);
const PERIOD: Duration = Duration::from_micros(500);
/// The part of the keys that most requests go to.
const HOT: u64 = KEYS / 20;
const CLIENTS: u64 = 16;

/// What clients know of the cluster.
struct Cluster<'a> {
    simulation: &'a Simulation,
    members: Vec<Member>,
    /// The last value of each key; `None` while a request for it is under way.
    values: RefCell<Vec<Option<u64>>>,
    /// The first of the hot keys.
    hot: Cell<u64>,
    served: Vec<Cell<u64>>,
    is_over: Cell<bool>,
}

impl Cluster<'_> {
    fn new(simulation: &Simulation, seed: u64, balancing: Option<Balancing>) -> Cluster<'_> {
        let quarter = u64::MAX / MEMBERS + 1;
        let layout = Layout {
            boundaries: (1..MEMBERS).map(|number| number * quarter).collect(),
            ..Layout::default()
        };
        let records = (0..KEYS).map(|index| (index * STRIDE, index));
        let loaded = simulation.block_on(load(simulation.client(), layout, records));
        loaded.unwrap().unwrap();
        let join = |number: u64| {
            let options = Options {
                cache_bytes: 250 << 10,
                balancing,
                seed: seed * MEMBERS + number,
                ..Options::default()
            };
            let joined = Member::join(simulation.client(), options, LEASE);
            let member = simulation.block_on(joined).unwrap().unwrap();
            let first = number * quarter;
            let keys = first..=first + (quarter - 1);
            let claimed = simulation.block_on(member.claim(&keys));
            claimed.unwrap().unwrap();
            member
        };
        Cluster {
            simulation,
            members: (0..MEMBERS).map(join).collect(),
            values: RefCell::new((0..KEYS).map(Some).collect()),
            hot: Cell::new(0),
            served: (0..MEMBERS).map(|_| Cell::new(0)).collect(),
            is_over: Cell::new(false),
        }
    }

    /// Requests of a client, each by the member that has the key.
    async fn ask(&self, mut draws: fastrand::Rng) {
        while !self.is_over.get() {
            let index = match draws.u8(0..10) {
                0 => draws.u64(0..KEYS),
                _ => (self.hot.get() + draws.u64(0..HOT)) % KEYS,
            };
            let before = self.values.borrow_mut()[index as usize].take();
            let Some(before) = before else {
                self.simulation.sleep(500).await;
                continue;
            };
            let new = draws.bool().then(|| draws.u64(..));
            let found = self.request(index, new).await.unwrap();
            if let Some(found) = found {
                assert_eq!(found, Some(before), "record {index}");
            }
            let after = found.and(new).unwrap_or(before);
            self.values.borrow_mut()[index as usize] = Some(after);
            self.simulation.sleep(draws.u64(1..2_000)).await;
        }
    }

    /// Gets or updates a record. `None`: nobody has the key just now.
    async fn request(&self, index: u64, new: Option<u64>) -> Result<Option<Option<u64>>> {
        let key = index * STRIDE;
        for (member, served) in self.members.iter().zip(&self.served) {
            let made = match new {
                Some(new) => member.tree().update(key, new).await,
                None => member.tree().get(key).await,
            };
            match made {
                Err(Error::NotOwned(_)) => {}
                made => {
                    served.set(served.get() + 1);
                    return made.map(Some);
                }
            }
        }
        Ok(None)
    }

    /// Lets so many periods pass. Returns the part of the requests that the busiest member served,
    /// to the mean.
    async fn imbalance(&self, periods: u64) -> f64 {
        self.served.iter().for_each(|it| it.set(0));
        let ns = PERIOD.as_nanos() as u64 * periods;
        self.simulation.sleep(ns).await;
        let served = self.served.iter().map(Cell::get);
        let (most, all) = (served.clone().max().unwrap(), served.sum::<u64>());
        (most * MEMBERS) as f64 / all as f64
    }

    fn moves(&self) -> u64 {
        self.members.iter().map(Member::moves).sum()
    }

    /// Runs something below requests and the members' duties, and then reads all records.
    fn run(&self, seed: u64, script: impl AsyncFn(&Self)) {
        let simulation = self.simulation;
        let mut tasks = Tasks::default();
        let end = tasks.add(async {
            script(self).await;
            self.is_over.set(true);
            simulation.sleep(4 * PERIOD.as_nanos() as u64).await;
            for index in 0..KEYS {
                let value = self.values.borrow()[index as usize];
                // Keys move below these requests, too.
                let mut found = None;
                for _ in 0..100 {
                    found = self.request(index, None).await.unwrap();
                    if found.is_some() {
                        break;
                    }
                    simulation.sleep(LEASE.as_nanos() as u64 / 10).await;
                }
                assert_eq!(found, Some(value), "seed {seed}, record {index}");
            }
        });
        for client in 0..CLIENTS {
            let draws = fastrand::Rng::with_seed(seed * CLIENTS + client);
            tasks.add(self.ask(draws));
        }
        for member in &self.members {
            let sleep = async |time: Duration| simulation.sleep(time.as_nanos() as u64).await;
            tasks.add(async move { member.keep(sleep).await });
        }
        while simulation.run(&mut tasks).expect("somebody can go on") != end {}
    }
}

fn balancing() -> Option<Balancing> {
    Some(Balancing {
        period: PERIOD,
        sampled: 4,
        ..Balancing::default()
    })
}

fn seeds() -> std::ops::Range<u64> {
    0..if cfg!(debug_assertions) { 3 } else { 20 }
}

fn simulation(seed: u64) -> Simulation {
    let network = Network {
        jitter: 1.0,
        ..Network::default()
    };
    Simulation::new(seed, network, 2, 16 << 20).unwrap()
}

/// A hot spot is spread over all members, wherever it goes; then nothing moves any more.
#[test]
fn a_skewed_load_is_spread_and_then_nothing_moves() {
    for seed in seeds() {
        let simulation = simulation(seed);
        let cluster = Cluster::new(&simulation, seed, balancing());
        cluster.run(seed, async |cluster| {
            for place in 0..3 {
                // Within one member's keys, and over the boundary of two.
                cluster.hot.set((seed + place) * (KEYS / 5 + 100) % KEYS);
                let before = cluster.moves();
                cluster.imbalance(30).await;
                let spread = cluster.imbalance(10).await;
                assert!(spread < 1.6, "seed {seed}, {place}: {spread:.2}");
                let moves = cluster.moves();
                assert!(moves - before <= 10, "seed {seed}: {moves} moves");
                cluster.imbalance(40).await;
                let later = cluster.moves() - moves;
                assert!(later <= 1, "seed {seed}, {place}: {later} moves more");
            }
            assert!(cluster.moves() > 0);
        });
    }
}

/// Without the option nothing moves.
#[test]
fn it_is_off_unless_it_is_asked_for() {
    let simulation = simulation(1);
    let cluster = Cluster::new(&simulation, 1, None);
    cluster.run(1, async |cluster| {
        let imbalance = cluster.imbalance(40).await;
        assert!(imbalance > 3.0, "{imbalance:.2}");
        assert_eq!(cluster.moves(), 0);
    });
}

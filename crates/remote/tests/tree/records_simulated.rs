//! Records of bytes on a simulated network: members hand places over, die, and lose answers; what
//! was acknowledged is read back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use timberline_remote::fabric::{Network, Simulation, Tasks};
use timberline_remote::pool::Origin;
use timberline_remote::records::Records;
use timberline_remote::{ComputeId, Error, Layout, LeafAdmission, Options, load_if_empty};

const LEASE: Duration = Duration::from_micros(400);
/// Keys, several of which share a place.
const KEYS: usize = 600;
const PLACES: u64 = 400;
const WORKERS: usize = 4;

/// A key, as those see it who use it.
#[derive(Default)]
struct Key {
    /// Numbers that its value may have; `None`: it may not be there.
    possible: BTreeSet<Option<u64>>,
    /// The member that has an operation on it under way.
    busy: Option<ComputeId>,
}

fn place_of(index: usize) -> u64 {
    (index as u64 % PLACES) * (u64::MAX / PLACES)
}

/// A value that only this number has; of any length.
fn value_of(number: u64) -> Vec<u8> {
    let length = [8, 40, 900, 1_500, 9_000][number as usize % 5];
    let number = number.to_le_bytes();
    number.iter().copied().cycle().take(length).collect()
}

fn number_of(value: &[u8]) -> u64 {
    let number = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert_eq!(value, value_of(number), "it is whole");
    number
}

struct Server {
    records: Arc<Records>,
    /// Operations wait while places are handed over, and the other way round.
    under_way: Rc<Cell<usize>>,
    is_closed: Rc<Cell<bool>>,
    tasks: Vec<usize>,
}

struct World<'a> {
    simulation: &'a Simulation,
    seed: u64,
    draws: fastrand::Rng,
    keys: Rc<RefCell<Vec<Key>>>,
    servers: Vec<Server>,
    tasks: Tasks<'a>,
    is_over: Rc<Cell<bool>>,
}

#[test]
fn what_was_acknowledged_is_read_back() {
    let first = crate::first_seed();
    let clusters = if cfg!(debug_assertions) { 20 } else { 400 };
    for seed in first..first + clusters {
        println!("TIMBERLINE_SEED={seed}");
        let network = Network {
            jitter: 2.0,
            deadline_ns: 50_000,
            ..Network::default()
        };
        let simulation = Simulation::new(seed, network, 3, 16 << 20).unwrap();
        let layout = Layout {
            boundaries: (1..4).map(|number| number << 62).collect(),
            ..Layout::default()
        };
        let origin = Origin { data: 1, base: 0 };
        let made = simulation.block_on(load_if_empty(simulation.client(), layout, origin));
        assert!(made.unwrap().unwrap());
        if seed % 3 == 1 {
            simulation.set_network(Network {
                lost: 0.001,
                unanswered: 0.001,
                ..network
            });
        }
        let mut world = World {
            simulation: &simulation,
            seed,
            draws: fastrand::Rng::with_seed(seed),
            keys: Rc::default(),
            servers: Vec::new(),
            tasks: Tasks::default(),
            is_over: Rc::default(),
        };
        let key = || Key {
            possible: [None].into(),
            busy: None,
        };
        world.keys.borrow_mut().extend((0..KEYS).map(|_| key()));
        world.join();
        world.join();
        for _ in 0..12 {
            world.act();
        }
        simulation.set_network(Network::default());
        world.check();
    }
}

impl World<'_> {
    fn act(&mut self) {
        match self.draws.u8(0..6) {
            0..3 => self.hand_over(),
            3 if self.servers.len() > 1 => self.die(),
            _ if self.servers.len() < 3 => self.join(),
            _ => {}
        }
        let ns = self.draws.u64(100_000..600_000);
        self.pass(ns);
    }

    fn pass(&mut self, ns: u64) {
        let timer = self.tasks.add(self.simulation.sleep(ns));
        loop {
            let ended = self.simulation.run(&mut self.tasks);
            let ended = ended.unwrap_or_else(|_| panic!("seed {}: stuck", self.seed));
            if ended == timer {
                return;
            }
            // A member's first task ends when it was taken for dead.
            if let Some(at) = self.servers.iter().position(|it| it.tasks[0] == ended) {
                self.bury(at);
            }
        }
    }

    /// The result of something that a member does.
    fn result_of<T: 'static>(&mut self, work: impl Future<Output = T> + 'static) -> Option<T> {
        let result = Rc::new(RefCell::new(None));
        let put = Rc::clone(&result);
        let task = self
            .tasks
            .add(async move { *put.borrow_mut() = Some(work.await) });
        for _ in 0..2_000 {
            self.pass(10_000);
            if result.borrow().is_some() {
                break;
            }
        }
        self.tasks.kill(task);
        result.take()
    }

    fn join(&mut self) {
        let options = Options {
            cache_bytes: [190 << 10, 800 << 10][self.seed as usize % 2],
            leaf_admission: [LeafAdmission::Chance(0.1), LeafAdmission::Chance(1.0)]
                [self.seed as usize / 2 % 2],
            seed: self.draws.u64(..),
            ..Options::default()
        };
        let fabric = self.simulation.client();
        let records = match self.result_of(Records::join(fabric, options, LEASE)) {
            Some(Ok(records)) => Arc::new(records),
            // An answer was lost.
            Some(Err(Error::TimedOut(_))) => return,
            other => panic!("seed {}: {:?}", self.seed, other.map(|it| it.err())),
        };
        let server = Server {
            under_way: Rc::default(),
            is_closed: Rc::default(),
            tasks: Vec::new(),
            records,
        };
        let simulation = self.simulation;
        let keep = {
            let records = Arc::clone(&server.records);
            async move {
                let sleep = async |time: Duration| simulation.sleep(time.as_nanos() as u64).await;
                records.member().keep(sleep).await;
            }
        };
        let claim = {
            let records = Arc::clone(&server.records);
            async move {
                let _ = records.member().claim(&(0..=u64::MAX)).await;
            }
        };
        let mut tasks = vec![self.tasks.add(keep), self.tasks.add(claim)];
        for _ in 0..WORKERS {
            let seed = self.draws.u64(..);
            tasks.push(self.tasks.add(work(
                simulation,
                Arc::clone(&server.records),
                Rc::clone(&server.under_way),
                Rc::clone(&server.is_closed),
                Rc::clone(&self.keys),
                fastrand::Rng::with_seed(seed),
                Rc::clone(&self.is_over),
            )));
        }
        self.servers.push(Server { tasks, ..server });
    }

    fn hand_over(&mut self) {
        let count = self.servers.len();
        let (from, to) = (self.draws.usize(0..count), self.draws.usize(0..count));
        let owned = self.servers[from].records.member().tree().partitions();
        if from == to || owned.is_empty() {
            return;
        }
        let all = owned[self.draws.usize(0..owned.len())].clone();
        let (a, b) = (self.draws.u64(all.clone()), self.draws.u64(all));
        let to = self.servers[to].records.member().compute();
        let (records, simulation) = (Arc::clone(&self.servers[from].records), self.simulation);
        let under_way = Rc::clone(&self.servers[from].under_way);
        let is_closed = Rc::clone(&self.servers[from].is_closed);
        let task = self.tasks.add(async move {
            if is_closed.replace(true) {
                return;
            }
            while under_way.get() > 0 {
                simulation.sleep(1_000).await;
            }
            // It may fail: then the places are where the pool says.
            let _ = records.member().hand_over(a.min(b)..=a.max(b), to).await;
            is_closed.set(false);
        });
        self.servers[from].tasks.push(task);
    }

    fn die(&mut self) {
        let at = self.draws.usize(0..self.servers.len());
        self.bury(at);
    }

    fn bury(&mut self, at: usize) {
        let server = self.servers.remove(at);
        for task in server.tasks {
            self.tasks.kill(task);
        }
        let gone = Some(server.records.member().compute());
        for key in self.keys.borrow_mut().iter_mut() {
            key.busy = key.busy.filter(|_| key.busy != gone);
        }
    }

    /// All keys have a value that they may have.
    fn check(&mut self) {
        self.is_over.set(true);
        self.join();
        for index in 0..KEYS {
            let key = format!("key {index}").into_bytes();
            let found = loop {
                let owner = self.servers.iter().find(|it| {
                    let owned = it.records.member().tree().partitions();
                    owned.iter().any(|places| places.contains(&place_of(index)))
                });
                let Some(records) = owner.map(|it| Arc::clone(&it.records)) else {
                    self.pass(LEASE.as_nanos() as u64);
                    continue;
                };
                let key = key.clone();
                let found = self.result_of(async move { records.get(place_of(index), &key).await });
                if let Some(Ok(found)) = found {
                    break found;
                }
            };
            let number = found.map(|it| number_of(&it));
            let possible = &self.keys.borrow()[index].possible;
            let seed = self.seed;
            assert!(
                possible.contains(&number),
                "seed {seed}: {index}: {number:?}, {possible:?}"
            );
        }
    }
}

/// Operations of a member on keys whose places it has.
async fn work(
    simulation: &Simulation,
    records: Arc<Records>,
    under_way: Rc<Cell<usize>>,
    is_closed: Rc<Cell<bool>>,
    keys: Rc<RefCell<Vec<Key>>>,
    mut draws: fastrand::Rng,
    is_over: Rc<Cell<bool>>,
) {
    let me = Some(records.member().compute());
    while !is_over.get() {
        simulation.sleep(draws.u64(0..4_000)).await;
        let index = draws.usize(0..KEYS);
        let (place, name) = (place_of(index), format!("key {index}").into_bytes());
        let owned = records.member().tree().partitions();
        let is_mine = owned.iter().any(|places| places.contains(&place));
        if !is_mine || is_closed.get() || keys.borrow()[index].busy.is_some() {
            continue;
        }
        let value = match draws.u8(0..4) {
            0 => {
                under_way.set(under_way.get() + 1);
                keys.borrow_mut()[index].busy = me;
                let found = records.get(place, &name).await;
                under_way.set(under_way.get() - 1);
                let key = &mut keys.borrow_mut()[index];
                key.busy = None;
                if let Ok(found) = found {
                    let number = found.map(|it| number_of(&it));
                    assert!(key.possible.contains(&number), "{index}: {number:?}");
                }
                continue;
            }
            1 => None,
            _ => Some(draws.u64(..)),
        };
        under_way.set(under_way.get() + 1);
        let before = {
            let key = &mut keys.borrow_mut()[index];
            key.busy = me;
            key.possible.insert(value);
            key.possible.clone()
        };
        let bytes = value.map(value_of);
        let changed = records
            .update(place, &name, |_| bytes.map(|it| (it, false)))
            .await;
        under_way.set(under_way.get() - 1);
        let key = &mut keys.borrow_mut()[index];
        key.busy = None;
        if let Ok(old) = changed {
            let old = old.map(|it| number_of(&it));
            assert!(before.contains(&old), "{index}: {old:?}, {before:?}");
            key.possible = [value].into();
        }
    }
}

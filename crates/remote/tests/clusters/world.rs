//! A cluster under way: its members, what happens to them, and what its keys may have.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::pending;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use timberline_remote::fabric::{Network, Simulation, Tasks};
use timberline_remote::{
    Balancing, Error, LOAD_FILL, Layout, LeafAdmission, Member, Options, Result, load,
};

use super::histories::{self, HOT, History, key_of};
use super::requests::{Key, Known, work};
use crate::linear::Op;

const LEASE: Duration = Duration::from_micros(400);
/// Between two looks at the loads, where keys follow them.
const PERIOD: Duration = Duration::from_micros(250);

pub const KEYS: u64 = 20_000;
/// Spreads keys over all of them.
pub const STRIDE: u64 = u64::MAX / KEYS;
const WORKERS: usize = 4;

pub struct Server {
    pub member: Arc<Member>,
    tasks: Vec<usize>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    Stopped,
    Gone,
}

pub struct World<'a> {
    simulation: &'a Simulation,
    seed: u64,
    through: bool,
    /// Of what is asked for, if that is to be judged.
    history: Option<Rc<History>>,
    draws: fastrand::Rng,
    pub known: Rc<Known>,
    pub servers: Vec<Server>,
    tasks: Tasks<'a>,
}

impl World<'_> {
    /// A cluster with records and no member. With a history, its keys are asked for by many at the
    /// same time, and nothing happens by which what was acknowledged could be lost.
    pub fn new(simulation: &Simulation, seed: u64, history: Option<Rc<History>>) -> World<'_> {
        let layout = Layout {
            boundaries: (1..4).map(|number| number << 62).collect(),
            // Nodes that are small from the start are soon merged, inner ones too.
            fill: [LOAD_FILL, 0.1][usize::from(seed % 8 == 3)],
            ..Layout::default()
        };
        // Some begin with inner nodes of two levels.
        let is_loaded = seed % 4 == 3;
        let records = (0..KEYS)
            .filter(|_| is_loaded)
            .map(|index| (index * STRIDE, index));
        let loaded = simulation.block_on(load(simulation.client(), layout, records));
        loaded.unwrap().unwrap();
        let key = |index: u64| Key {
            possible: [is_loaded.then_some(index)].into(),
            past: [is_loaded.then_some(index)].into(),
            busy: None,
        };
        let known = Known::default();
        known.keys.borrow_mut().extend((0..KEYS).map(key));
        World {
            simulation,
            seed,
            through: seed.is_multiple_of(2),
            history,
            draws: fastrand::Rng::with_seed(seed),
            known: Rc::new(known),
            servers: Vec::new(),
            tasks: Tasks::default(),
        }
    }

    /// A key on which an operation is under way.
    pub fn busy(&self) -> Option<usize> {
        let keys = self.known.keys.borrow();
        keys.iter().position(|key| key.busy.is_some())
    }

    fn able(&self, state: State) -> Vec<usize> {
        let able = |&number: &usize| self.servers[number].state == state;
        (0..self.servers.len()).filter(able).collect()
    }

    fn choose(&mut self, state: State) -> Option<usize> {
        let able = self.able(state);
        let at = self.draws.usize(0..able.len().max(1));
        able.get(at).copied()
    }

    /// Something happens, and some time passes.
    pub fn act(&mut self) {
        let works = self.able(State::Works).len();
        let may_lose = self.through || self.history.is_none();
        match self.draws.u8(0..10) {
            0..4 => self.hand_over(),
            4 if works > 1 && may_lose => self.die(),
            5 if works > 1 && may_lose && self.able(State::Stopped).is_empty() => self.stop(),
            6 | 7 => self.resume(),
            8 if works > 1 => self.leave(),
            _ if works < 4 => self.join(),
            _ => {}
        }
        let ns = self.draws.u64(10_000..500_000);
        self.pass(ns);
    }

    /// Lets time pass.
    pub fn pass(&mut self, ns: u64) {
        let simulation = self.simulation;
        let timer = self.tasks.add(simulation.sleep(ns));
        loop {
            let ended = simulation.run(&mut self.tasks);
            let ended = ended.unwrap_or_else(|_| panic!("seed {}: stuck", self.seed));
            if ended == timer {
                return;
            }
            // Tasks that keep a member alive end when it was taken for dead.
            let keeps = |it: &Server| it.tasks.first() == Some(&ended);
            if let Some(number) = self.servers.iter().position(keeps) {
                self.bury(number);
            }
        }
    }

    pub fn join(&mut self) {
        let rate = 0.85 + 0.3 * self.draws.f64();
        let options = Options {
            // Little more than the least, so nodes come and go; or all of them.
            cache_bytes: [190 << 10, 800 << 10][self.seed as usize / 4 % 2],
            // So few that they are in each other's way; or many.
            copies: [0.02, 0.5][self.seed as usize / 8 % 2],
            write_through: self.through,
            offloading: self.seed % 5 < 2,
            balancing: (self.seed % 7 < 4).then_some(Balancing {
                period: PERIOD,
                imbalance: 1.1,
                gain: 0.02,
                sampled: 1,
                ..Balancing::default()
            }),
            leaf_admission: [
                LeafAdmission::Chance(0.1),
                LeafAdmission::Chance(1.0),
                LeafAdmission::Adaptive,
            ][self.seed as usize % 3],
            seed: self.draws.u64(..),
            ..Options::default()
        };
        let fabric = self.simulation.client_with_clock(rate);
        let joined = Rc::new(RefCell::new(None));
        let result = Rc::clone(&joined);
        let task = self.tasks.add(async move {
            *result.borrow_mut() = Some(Member::join(fabric, options, LEASE).await);
        });
        for _ in 0..1_000 {
            self.pass(10_000);
            if joined.borrow().is_some() {
                break;
            }
        }
        self.tasks.kill(task);
        let joined = joined
            .borrow_mut()
            .take()
            .unwrap_or_else(|| panic!("seed {}: it takes for ever", self.seed));
        let member = match joined {
            Ok(member) => Arc::new(member),
            // An answer was lost.
            Err(Error::TimedOut(_)) => return,
            Err(error) => panic!("seed {}: {error}", self.seed),
        };
        let number = self.servers.len();
        let simulation = self.simulation;
        let keep = {
            let (member, known) = (Arc::clone(&member), Rc::clone(&self.known));
            async move {
                let sleep = async |time: Duration| {
                    if time == PERIOD && known.is_over.get() {
                        // Keys stay where they are while they are compared.
                        pending::<()>().await;
                    }
                    let ns = time.div_f64(rate).as_nanos() as u64;
                    simulation.sleep(ns).await;
                };
                member.keep(sleep).await;
            }
        };
        let claims = {
            let member = Arc::clone(&member);
            async move {
                // If it fails, others have the keys, or will have them.
                let _ = member.claim(&(0..=u64::MAX)).await;
            }
        };
        let mut tasks = vec![self.tasks.add(keep), self.tasks.add(claims)];
        for _ in 0..WORKERS {
            let draws = fastrand::Rng::with_seed(self.draws.u64(..));
            let (member, known) = (Arc::clone(&member), Rc::clone(&self.known));
            let task = match self.history.clone() {
                Some(history) => {
                    let works = histories::work(simulation, member, known, history, draws);
                    self.tasks.add(works)
                }
                None => {
                    let works = work(simulation, member, number, known, draws, self.seed);
                    self.tasks.add(works)
                }
            };
            tasks.push(task);
        }
        self.servers.push(Server {
            member,
            tasks,
            state: State::Works,
        });
    }

    fn hand_over(&mut self) {
        let (Some(from), Some(to)) = (self.choose(State::Works), self.choose(State::Works)) else {
            return;
        };
        let member = Arc::clone(&self.servers[from].member);
        let owned = member.tree().partitions();
        if from == to || owned.is_empty() {
            return;
        }
        let all = owned[self.draws.usize(0..owned.len())].clone();
        let (a, b) = (self.draws.u64(all.clone()), self.draws.u64(all.clone()));
        let keys = if self.draws.bool() {
            all
        } else {
            a.min(b)..=a.max(b)
        };
        let to = self.servers[to].member.compute();
        let task = self.tasks.add(async move {
            // It may fail: then the keys are where the pool says.
            let _ = member.hand_over(keys, to).await;
        });
        self.servers[from].tasks.push(task);
    }

    /// What only this member's cache has may be lost from now on.
    fn expect_loss(&mut self, number: usize) {
        if self.through {
            return;
        }
        let member = &self.servers[number].member;
        // Keys that it is just giving away are no more in its own partitions.
        let mut lost = member.tree().partitions();
        let had = member.partitions().into_iter();
        lost.extend(
            had.filter(|it| it.1 == Some(member.compute()))
                .map(|it| it.0),
        );
        for (index, key) in self.known.keys.borrow_mut().iter_mut().enumerate() {
            let at = index as u64 * STRIDE;
            if lost.iter().any(|keys| keys.contains(&at)) {
                key.possible.extend(&key.past);
            }
        }
    }

    fn die(&mut self) {
        if let Some(number) = self.choose(State::Works) {
            self.expect_loss(number);
            self.bury(number);
        }
    }

    fn bury(&mut self, number: usize) {
        for task in std::mem::take(&mut self.servers[number].tasks) {
            self.tasks.kill(task);
        }
        self.servers[number].state = State::Gone;
        for key in self.known.keys.borrow_mut().iter_mut() {
            if key.busy == Some(number) {
                key.busy = None;
            }
        }
    }

    fn stop(&mut self) {
        if let Some(number) = self.choose(State::Works) {
            self.expect_loss(number);
            for &task in &self.servers[number].tasks {
                self.tasks.stop(task);
            }
            self.servers[number].state = State::Stopped;
        }
    }

    pub fn resume(&mut self) {
        if let Some(number) = self.choose(State::Stopped) {
            for &task in &self.servers[number].tasks {
                self.tasks.resume(task);
            }
            self.servers[number].state = State::Works;
        }
    }

    fn leave(&mut self) {
        let Some(number) = self.choose(State::Works) else {
            return;
        };
        let member = Arc::clone(&self.servers[number].member);
        let left = Rc::new(RefCell::new(None));
        let result = Rc::clone(&left);
        let task = self.tasks.add(async move {
            *result.borrow_mut() = Some(member.leave().await);
        });
        self.servers[number].tasks.push(task);
        for _ in 0..100 {
            self.pass(10_000);
            if left.borrow().is_some() {
                break;
            }
        }
        if !matches!(*left.borrow(), Some(Ok(()))) {
            // An answer was lost, or it was taken for dead meanwhile.
            self.expect_loss(number);
        }
        self.bury(number);
    }

    /// Waits until every key has a member that works.
    pub fn settle(&mut self) {
        let network = Network::default();
        self.simulation.set_network(network);
        self.resume();
        self.join();
        self.wait_for_owners();
        self.known.is_over.set(true);
        self.pass(1_000_000);
        self.wait_for_owners();
    }

    fn wait_for_owners(&mut self) {
        for _ in 0..200 {
            self.pass(LEASE.as_nanos() as u64);
            let works = self.able(State::Works);
            let has = |key: u64| {
                let owns = |&number: &usize| {
                    let owned = self.servers[number].member.tree().partitions();
                    owned.iter().any(|keys| keys.contains(&key))
                };
                works.iter().any(owns)
            };
            if (0..KEYS).all(|index| has(index * STRIDE)) {
                return;
            }
        }
        panic!("seed {}: some keys are nobody's", self.seed);
    }

    /// What a task returns, while the others go on.
    fn wait_for<T: 'static>(&mut self, task: impl Future<Output = T> + 'static) -> T {
        let returned = Rc::new(RefCell::new(None));
        let result = Rc::clone(&returned);
        self.tasks.add(async move {
            *result.borrow_mut() = Some(task.await);
        });
        while returned.borrow().is_none() {
            self.pass(10_000);
        }
        returned.take().expect("it is there")
    }

    /// Reads the keys of the history once more, by whoever has them now.
    pub fn read_all(&mut self) {
        let history = self.history.clone().expect("the world has a history");
        for hot in 0..HOT {
            let key = key_of(hot);
            let at = history.begin(key, Op::Get, self.simulation.now_ns());
            let works = self.able(State::Works).into_iter();
            let mut members = works.map(|number| Arc::clone(&self.servers[number].member));
            let owner = members.find(|it| {
                let owned = it.tree().partitions();
                owned.iter().any(|keys| keys.contains(&key))
            });
            let owner = owner.unwrap_or_else(|| panic!("seed {}: nobody has {key}", self.seed));
            let found = self.wait_for(async move { owner.tree().get(key).await });
            let found = found.unwrap();
            history.end(at, found, self.simulation.now_ns());
        }
    }

    /// All keys have one member each, and a value that they may have.
    pub fn check(&mut self) {
        let mut found = BTreeMap::new();
        for number in self.able(State::Works) {
            let member = Arc::clone(&self.servers[number].member);
            let records = self.wait_for(async move { all(&member).await }).unwrap();
            for (keys, records) in records {
                let has = (0..KEYS).filter(|index| keys.contains(&(index * STRIDE)));
                let mut records: BTreeMap<u64, u64> = records.into_iter().collect();
                for index in has {
                    let value = records.remove(&(index * STRIDE));
                    let before = found.insert(index, value);
                    assert_eq!(before, None, "seed {}: two have {index}", self.seed);
                }
                assert_eq!(records, BTreeMap::new(), "seed {}", self.seed);
            }
        }
        assert_eq!(
            found.len() as u64,
            KEYS,
            "seed {}: some are nobody's",
            self.seed
        );
        for (index, key) in self.known.keys.borrow().iter().enumerate() {
            let (value, possible) = (found[&(index as u64)], &key.possible);
            let fits = possible.contains(&value);
            assert!(
                fits,
                "seed {}: {index} is {value:?}, not {possible:?}",
                self.seed
            );
        }
    }
}

/// All records of a member, by its partitions.
async fn all(member: &Member) -> Result<Vec<(RangeInclusive<u64>, Vec<(u64, u64)>)>> {
    let mut all = Vec::new();
    for keys in member.tree().partitions() {
        let mut scan = member.tree().scan(keys.clone())?;
        let mut records = Vec::new();
        while let Some(record) = scan.next().await? {
            records.push(record);
        }
        assert!(records.is_sorted_by(|a, b| a.0 < b.0));
        all.push((keys, records));
    }
    Ok(all)
}

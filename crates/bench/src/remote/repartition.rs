//! Half of the keys change hands while requests go on: by command, or because of the load.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::{select, try_join_all};
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use timberline_io::wait_for;
use timberline_remote::fabric::{Counts, Fabric};
use timberline_remote::{Balancing, Error, Etcd, Layout, Member, Options, Result, load};

use super::{Design, Requests, Setting, Workload};
use crate::workload::Rng;

/// What changes hands.
const HALF: RangeInclusive<u64> = 1 << 63..=u64::MAX;
/// What the two compute servers are.
pub(super) const DESIGN: Design = Design::Copies;
/// Of each member.
const LEASE: Duration = Duration::from_secs(2);
/// Between two looks at the loads: longer than a quarter of the lease.
const PERIOD: Duration = Duration::from_secs(1);
/// A part of the time series.
const SLICE: Duration = Duration::from_millis(100);
/// How long requests go on before and after, beside the warm-up.
const AROUND: Duration = Duration::from_secs(1);
/// How often a thread that waits looks again.
const LOOK: Duration = Duration::from_millis(1);

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handover {
    /// Until the giver had written what only its cache had, and the pool said whose the keys are.
    pub given_ms: f64,
    /// Until the taker answered; so long nobody did.
    pub unserved_ms: f64,
    /// Writes of the giver meanwhile, requests' own among them.
    pub writes: u64,
    /// Bytes that went over the network meanwhile.
    pub bytes: u64,
    /// Requests that were refused because nobody had their keys.
    pub refused: u64,
    /// Thousands of requests a second, of each tenth of a second.
    pub kops: Vec<f64>,
    /// The number of the part in which the hand-over began.
    pub begin: usize,
    /// Acknowledged changes that were read back afterwards.
    pub checked: u64,
    /// Of all values that were read, those that were not the last ones acknowledged.
    pub lost: u64,
}

/// Loads a tree, and has one compute server serve gets and updates until its cache is full of
/// changes. Then a second one comes, with a connection of its own, and gets half of the keys: by
/// command, or, if partitions are balanced, because the first one finds that it has nothing to do.
/// `None`: it was over before.
///
/// # Errors
/// The servers have a tree already, or too little memory; one does not answer; or the cache is too
/// small.
pub fn measure_handover(
    setting: &Setting,
    fabrics: [Arc<dyn Fabric>; 2],
    is_balanced: bool,
    etcd: Option<Etcd>,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Handover>> {
    let loaded = load(Arc::clone(&fabrics[0]), Layout::default(), setting.loaded());
    wait_for(loaded)?;
    let options = Options {
        etcd,
        ..options(setting, is_balanced)
    };
    let join = |fabric| wait_for(Member::join(fabric, options.clone(), LEASE));
    let [one, other] = fabrics;
    let giver = join(one)?;
    let requests = Requests::new(setting, Workload::WriteIntensive);
    let bench = Bench {
        setting,
        requests,
        giver: &giver,
        taker: OnceLock::new(),
        is_balanced,
        is_over,
        is_quiet: AtomicBool::new(false),
        ends: AtomicBool::new(false),
        served: AtomicU64::new(0),
        ticker: Ticker::default(),
    };
    thread::scope(|scope| {
        let _ends = Ends(&bench.ends);
        scope.spawn(|| bench.tick());
        scope.spawn(|| bench.keep(&giver));
        wait_for(giver.claim(&(0..=u64::MAX)))?;
        let serving = scope.spawn(|| wait_for(bench.serve()));
        let mut handover = None;
        // If requests fail, the reason is found below.
        if bench.waits(|| serving.is_finished() || bench.served() >= setting.warmup) {
            let mut parts = Parts::default();
            parts.watch(&bench, AROUND);
            let joined = join(other)?;
            let taker = bench.taker.get_or_init(|| joined);
            scope.spawn(|| bench.keep(taker));
            handover = bench.change_hands(taker, parts, || serving.is_finished())?;
        }
        bench.is_quiet.store(true, Relaxed);
        let seen = serving.join().expect("requests end")?;
        match handover {
            Some(handover) => wait_for(bench.check(handover, seen)),
            None => Ok(None),
        }
    })
}

/// What each compute server is given.
pub(super) fn options(setting: &Setting, is_balanced: bool) -> Options {
    let balancing = Balancing {
        period: PERIOD,
        ..Balancing::default()
    };
    Options {
        balancing: is_balanced.then_some(balancing),
        ..setting.options(DESIGN)
    }
}

/// Thousands of requests a second so far, and when each part ended.
#[derive(Default)]
struct Parts(Vec<(Instant, f64)>);

impl Parts {
    /// Watches for so long.
    fn watch(&mut self, bench: &Bench<'_>, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let (start, before) = (Instant::now(), bench.served());
            thread::sleep(SLICE);
            let served = (bench.served() - before) as f64 / 1e3;
            let kops = served / start.elapsed().as_secs_f64();
            self.0.push((Instant::now(), kops));
        }
    }
}

/// Ends all threads when the one that began them ends, for whatever reason.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

struct Bench<'a> {
    setting: &'a Setting,
    requests: Requests,
    giver: &'a Member,
    /// It comes later.
    taker: OnceLock<Member>,
    is_balanced: bool,
    is_over: &'a (dyn Fn() -> bool + Sync),
    /// No more requests are made.
    is_quiet: AtomicBool,
    /// No thread does anything more.
    ends: AtomicBool,
    /// Requests so far.
    served: AtomicU64,
    ticker: Ticker,
}

/// What those who make requests know.
#[derive(Default)]
struct Seen {
    /// The last value of each key that was changed.
    acknowledged: RefCell<HashMap<u64, u64>>,
    /// Keys with requests under way.
    busy: RefCell<HashSet<u64>>,
    refused: Cell<u64>,
    wrong: Cell<u64>,
}

impl Bench<'_> {
    fn served(&self) -> u64 {
        self.served.load(Relaxed)
    }

    /// Waits until something is so. Says `false` if the whole run is over before.
    fn waits(&self, is_so: impl Fn() -> bool) -> bool {
        while !is_so() {
            if (self.is_over)() {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// Wakes what waits, on a thread of its own.
    fn tick(&self) {
        while !self.ends.load(Relaxed) {
            thread::sleep(LOOK);
            self.ticker.tick();
        }
        self.ticker.tick();
    }

    /// Keeps a member alive, on a thread of its own.
    fn keep(&self, member: &Member) {
        let sleep = async |time: Duration| {
            let end = Instant::now() + time;
            self.ticker.until(|| Instant::now() >= end).await;
        };
        let ended = self.ticker.until(|| self.ends.load(Relaxed));
        wait_for(select(pin!(member.keep(sleep)), pin!(ended)));
    }

    /// Makes requests until the end, as many at a time as the setting says.
    async fn serve(&self) -> Result<Seen> {
        let seen = Seen::default();
        let lanes = (0..self.setting.threads as u64).map(|lane| self.serve_lane(lane, &seen));
        let mut lanes: FuturesUnordered<_> = lanes.collect();
        let mut result = Ok(());
        while let Some(ended) = lanes.next().await {
            if ended.is_err() {
                self.is_quiet.store(true, Relaxed);
            }
            result = result.and(ended);
        }
        drop(lanes);
        result.map(|()| seen)
    }

    async fn serve_lane(&self, lane: u64, seen: &Seen) -> Result<()> {
        let mut draws = Rng::new(self.setting.seed, lane);
        while !self.is_quiet.load(Relaxed) && !self.ends.load(Relaxed) {
            let key = self.requests.key(&(0..=u64::MAX), &mut draws);
            // So it is known which change of a key was the last.
            if !seen.busy.borrow_mut().insert(key) {
                continue;
            }
            let new = draws.bits();
            let is_update = draws.below(2) == 0;
            let made = self.make(key, is_update.then_some(new)).await;
            seen.busy.borrow_mut().remove(&key);
            let Some(found) = made? else {
                seen.refused.set(seen.refused.get() + 1);
                continue;
            };
            let mut acknowledged = seen.acknowledged.borrow_mut();
            if found != Some(self.expected(key, &acknowledged)) {
                seen.wrong.set(seen.wrong.get() + 1);
            }
            if is_update {
                acknowledged.insert(key, new);
            }
            self.served.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// A get, or an update, by the member that has the key. `None`: nobody has it.
    async fn make(&self, key: u64, new: Option<u64>) -> Result<Option<Option<u64>>> {
        for member in [self.giver].into_iter().chain(self.taker.get()) {
            let tree = member.tree();
            let made = match new {
                Some(new) => tree.update(key, new).await,
                None => tree.get(key).await,
            };
            match made {
                Err(Error::NotOwned(_)) => {}
                result => return result.map(Some),
            }
        }
        Ok(None)
    }

    /// A get that waits while nobody has the key: keys may follow the load again.
    async fn get(&self, key: u64) -> Result<Option<u64>> {
        loop {
            if let Some(found) = self.make(key, None).await? {
                return Ok(found);
            }
            let again = Instant::now() + LOOK;
            self.ticker.until(|| Instant::now() >= again).await;
        }
    }

    /// The last value of a key.
    fn expected(&self, key: u64, acknowledged: &HashMap<u64, u64>) -> u64 {
        let loaded = key / self.setting.stride();
        acknowledged.get(&key).copied().unwrap_or(loaded)
    }

    /// Has keys change hands, and waits a while after. `None`: it was over before.
    fn change_hands(
        &self,
        taker: &Member,
        mut parts: Parts,
        is_finished: impl Fn() -> bool + Sync,
    ) -> Result<Option<Handover>> {
        let before = counts(self.giver);
        let times = thread::scope(|scope| {
            let changing = scope.spawn(|| match self.is_balanced {
                true => Ok(self.is_given(taker, &is_finished)),
                false => self.give(taker).map(Some),
            });
            while !changing.is_finished() {
                parts.watch(self, SLICE);
            }
            changing.join().expect("it ends")
        })?;
        let counts = counts(self.giver) - before;
        parts.watch(self, AROUND);
        let times = times.filter(|_| !is_finished() && !(self.is_over)());
        Ok(times.map(|[start, given, taken]| Handover {
            given_ms: ms(given - start),
            unserved_ms: ms(taken - start),
            writes: counts.writes,
            bytes: counts.bytes,
            refused: 0,
            begin: parts.0.iter().filter(|part| part.0 <= start).count(),
            kops: parts.0.into_iter().map(|part| part.1).collect(),
            checked: 0,
            lost: 0,
        }))
    }

    /// Gives half of the keys away. Returns when that began, when they were given, and when they
    /// were taken.
    fn give(&self, taker: &Member) -> Result<[Instant; 3]> {
        let start = Instant::now();
        wait_for(self.giver.hand_over(HALF, taker.compute()))?;
        let given = Instant::now();
        wait_for(taker.sync())?;
        Ok([start, given, Instant::now()])
    }

    /// Waits until the giver does so by itself. `None`: it was over before.
    fn is_given(&self, taker: &Member, is_finished: &impl Fn() -> bool) -> Option<[Instant; 3]> {
        let has_all = || self.giver.tree().partitions() == [0..=u64::MAX];
        let when = |is_so: &dyn Fn() -> bool| {
            let is_so = self.waits(|| is_so() || is_finished());
            (is_so && !is_finished()).then(Instant::now)
        };
        Some([
            when(&|| !has_all())?,
            when(&|| self.giver.moves() > 0)?,
            when(&|| !taker.tree().partitions().is_empty())?,
        ])
    }

    /// Reads back what was acknowledged.
    async fn check(&self, mut handover: Handover, seen: Seen) -> Result<Option<Handover>> {
        handover.refused = seen.refused.get();
        handover.lost = seen.wrong.get();
        let acknowledged: Vec<_> = seen.acknowledged.into_inner().into_iter().collect();
        for some in acknowledged.chunks(self.setting.threads) {
            if (self.is_over)() {
                return Ok(None);
            }
            let found = try_join_all(some.iter().map(|&(key, _)| self.get(key))).await?;
            let pairs = found.iter().zip(some);
            let lost = pairs.filter(|(found, (_, value))| **found != Some(*value));
            handover.lost += lost.count() as u64;
            handover.checked += some.len() as u64;
        }
        Ok(Some(handover))
    }
}

/// Wakes tasks that wait for what wakes nobody, again and again.
#[derive(Default)]
struct Ticker(Mutex<Vec<Waker>>);

impl Ticker {
    fn tick(&self) {
        let wakers = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends when something is so.
    async fn until(&self, is_so: impl Fn() -> bool) {
        poll_fn(|context| {
            // Held for the question, too: the last tick comes after the last change.
            let mut wakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if is_so() {
                return Poll::Ready(());
            }
            wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

fn counts(member: &Member) -> Counts {
    member.tree().counts()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

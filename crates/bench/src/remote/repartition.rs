//! Half of the keys change hands while requests go on.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::{select, try_join_all};
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use timberline_io::wait_for;
use timberline_remote::fabric::{Counts, Fabric};
use timberline_remote::{Error, Layout, Member, Result, load};

use super::{Design, Requests, Setting, Workload};
use crate::workload::Rng;

/// What changes hands.
const HALF: RangeInclusive<u64> = 1 << 63..=u64::MAX;
/// What the two compute servers are.
pub(super) const HANDOVER: Design = Design::Copies;
/// Of each member.
const LEASE: Duration = Duration::from_secs(2);
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
/// changes. Then it gives half of the keys to a second one, with a connection of its own. `None`:
/// it was over before.
///
/// # Errors
/// The servers have a tree already, or too little memory; one does not answer; or the cache is too
/// small.
pub fn measure_handover(
    setting: &Setting,
    fabrics: [Arc<dyn Fabric>; 2],
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Handover>> {
    let loaded = load(Arc::clone(&fabrics[0]), Layout::default(), setting.loaded());
    wait_for(loaded)?;
    let join = |fabric| wait_for(Member::join(fabric, setting.options(HANDOVER), LEASE));
    let [one, other] = fabrics;
    let members = [join(one)?, join(other)?];
    let requests = Requests::new(setting, Workload::WriteIntensive);
    let bench = Bench {
        setting,
        requests,
        members: &members,
        is_over,
        is_quiet: AtomicBool::new(false),
        ends: AtomicBool::new(false),
        served: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let _ends = Ends(&bench.ends);
        for member in &members {
            scope.spawn(|| bench.keep(member));
        }
        wait_for(members[0].claim(&(0..=u64::MAX)))?;
        let serving = scope.spawn(|| wait_for(bench.serve()));
        let mut handover = None;
        // If requests fail, the reason is found below.
        if bench.waits(|| serving.is_finished() || bench.served() >= setting.warmup) {
            handover = bench.change_hands(|| serving.is_finished())?;
        }
        bench.is_quiet.store(true, Relaxed);
        let seen = serving.join().expect("requests end")?;
        match handover {
            Some(handover) => wait_for(bench.check(handover, seen)),
            None => Ok(None),
        }
    })
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
    members: &'a [Member; 2],
    is_over: &'a (dyn Fn() -> bool + Sync),
    /// No more requests are made.
    is_quiet: AtomicBool,
    /// No thread does anything more.
    ends: AtomicBool,
    /// Requests so far.
    served: AtomicU64,
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

    /// Keeps a member alive, on a thread of its own.
    fn keep(&self, member: &Member) {
        let sleep = async |time: Duration| {
            let end = Instant::now() + time;
            until(|| Instant::now() >= end).await;
        };
        let ended = until(|| self.ends.load(Relaxed));
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
        for member in self.members {
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

    /// The last value of a key.
    fn expected(&self, key: u64, acknowledged: &HashMap<u64, u64>) -> u64 {
        let loaded = key / self.setting.stride();
        acknowledged.get(&key).copied().unwrap_or(loaded)
    }

    /// Gives keys away, and waits a while before and after. `None`: it was over before.
    fn change_hands(&self, is_finished: impl Fn() -> bool + Sync) -> Result<Option<Handover>> {
        let [giver, taker] = self.members;
        let kops = &RefCell::new(Vec::new());
        let part = |times: usize| {
            for _ in 0..times {
                let (start, before) = (Instant::now(), self.served());
                thread::sleep(SLICE);
                let served = (self.served() - before) as f64 / 1e3;
                kops.borrow_mut()
                    .push(served / start.elapsed().as_secs_f64());
            }
        };
        let around = AROUND.as_millis() / SLICE.as_millis();
        part(around as usize);
        let begin = kops.borrow().len();
        let before = counts(giver);
        let (given_ms, unserved_ms) = thread::scope(|scope| {
            let changing = scope.spawn(|| {
                let start = Instant::now();
                wait_for(giver.hand_over(HALF, taker.compute()))?;
                let given = start.elapsed();
                wait_for(taker.sync())?;
                Ok::<_, Error>((ms(given), ms(start.elapsed())))
            });
            while !changing.is_finished() {
                part(1);
            }
            changing.join().expect("it ends")
        })?;
        let counts = counts(giver) - before;
        part(around as usize);
        if is_finished() || (self.is_over)() {
            return Ok(None);
        }
        Ok(Some(Handover {
            given_ms,
            unserved_ms,
            writes: counts.writes,
            bytes: counts.bytes,
            refused: 0,
            kops: kops.take(),
            begin,
            checked: 0,
            lost: 0,
        }))
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
            let found = try_join_all(some.iter().map(|&(key, _)| self.make(key, None))).await?;
            let pairs = found.iter().zip(some);
            let lost = pairs.filter(|(found, (_, value))| **found != Some(Some(*value)));
            handover.lost += lost.count() as u64;
            handover.checked += some.len() as u64;
        }
        Ok(Some(handover))
    }
}

/// Ends when something is so. The thread that waits does nothing else, so it may sleep.
async fn until(is_so: impl Fn() -> bool) {
    poll_fn(|context| match is_so() {
        true => Poll::Ready(()),
        false => {
            thread::sleep(LOOK);
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

fn counts(member: &Member) -> Counts {
    member.tree().counts()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

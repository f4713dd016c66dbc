//! Lookups that a memory server does the rest of.
//!
//! When a node is not in the cache, the nodes below it are not either, as a rule. A memory server
//! that has them all can find the record, and sends a few words in place of as many nodes. It has
//! few cores, so it is asked only while that costs less time: of reads and of such calls the
//! compute server knows how long they took lately (Lu et al.: "DEX", VLDB 2024, section 6).
//!
//! DEX asks while a call takes less time than the reads. Then a memory server is asked until its
//! queue is so long that a call takes as long as the reads, and nothing is gained. So what a call
//! waits counts twice here: it holds up others for as long.
//!
//! **What was found is used if the leaf has not changed meanwhile.** The memory server reads the
//! leaf while this compute server may be writing it, or has a newer one in its cache. DEX keeps
//! the nodes below from being used until the answer is there. Here the answer is checked: once the
//! leaf's flight has begun, the leaf must not be in the cache, and no write to it may have ended
//! since the call began. Nobody else writes it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use super::RemoteTree;
use super::walk::{Found, Missing};
use crate::address::{Address, ServerId};
use crate::cache::Flight;
use crate::error::Result;
use crate::fabric::{Connection, Find};

/// Nodes of this height and those below them lie on one server, if the tree was loaded with the
/// usual layout.
const HIGHEST: u8 = 2;

/// One decision in so many is for the slower way, so that the times of both stay known.
const CONTRARY: usize = 100;

/// So much of an average is the latest sample: one part in so many.
const SAMPLES: u64 = 50;

/// So much of the difference to a sample is added to the least time.
const FORGETTING: u64 = 4096;

/// What tells leaves that were written since a moment. More leaves than slots share them.
const SLOTS: usize = 1024;

/// A way to what is on a memory server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Reading nodes.
    Read,
    /// Asking for a leaf.
    Call,
}

/// What is needed to decide, and to check answers. Without offloading it is empty.
pub(super) struct Offloading {
    /// Of each memory server, by ways.
    latencies: Box<[[Latency; 2]]>,
    /// Writes that ended.
    writes: AtomicU64,
    /// The number of the last one by addresses' hashes.
    last: Box<[AtomicU64]>,
    /// The last at which all leaves may have changed.
    floor: AtomicU64,
}

/// How long operations of one kind take at one memory server, in nanoseconds.
#[derive(Default)]
struct Latency {
    /// Lately, a moving average.
    average: AtomicU64,
    /// At the least, without others in the way, times [`FORGETTING`].
    least: AtomicU64,
}

/// A leaf where a memory server has found it. It is not in the cache, and nobody else fetches or
/// writes it as long as this lives.
pub(super) struct Located<'a> {
    pub address: Address,
    /// The place of the key's entry, and its value.
    pub entry: Option<(usize, u64)>,
    pub flight: Flight<'a>,
}

/// A write that ends when this is dropped.
pub(super) struct Noted<'a>(&'a Offloading, Address);

impl Offloading {
    pub fn new(is_on: bool, servers: ServerId) -> Offloading {
        let (servers, slots) = sizes(is_on, servers);
        let numbers = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Offloading {
            latencies: (0..servers).map(|_| Default::default()).collect(),
            writes: AtomicU64::new(0),
            last: numbers(slots),
            floor: AtomicU64::new(0),
        }
    }

    /// What this takes of the cache.
    pub fn bytes(is_on: bool, servers: ServerId) -> usize {
        let (servers, slots) = sizes(is_on, servers);
        servers * size_of::<[Latency; 2]>() + slots * size_of::<AtomicU64>()
    }

    fn is_on(&self) -> bool {
        !self.last.is_empty()
    }

    /// Begins a write to a node.
    pub fn note(&self, at: Address) -> Noted<'_> {
        Noted(self, at)
    }

    /// From now on all leaves may have changed.
    pub fn note_all(&self) {
        let number = self.writes.fetch_add(1, SeqCst) + 1;
        self.floor.fetch_max(number, SeqCst);
    }

    /// Whether no write to a node has ended since the one of this number.
    fn is_same_since(&self, number: u64, node: Address) -> bool {
        let last = self.slot(node).load(SeqCst);
        last.max(self.floor.load(SeqCst)) <= number
    }

    fn slot(&self, at: Address) -> &AtomicU64 {
        // Fibonacci hashing: nodes lie at multiples of 1 KiB.
        let hash = (at.word() >> 10).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.last[(hash as usize * self.last.len()) >> 32]
    }

    /// Carries an operation out, and learns how long it takes.
    pub async fn timed<T>(
        &self,
        way: Way,
        at: Address,
        connection: &Connection,
        operation: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(latencies) = self.latencies.get(usize::from(at.server())) else {
            return operation.await;
        };
        let begin = connection.now();
        let result = operation.await?;
        let time = connection.now().saturating_sub(begin);
        latencies[way as usize].learn(time);
        Ok(result)
    }

    /// Whether asking a memory server costs less time than reading so many nodes of it.
    fn is_cheaper(&self, server: ServerId, nodes: u64) -> bool {
        let latencies = &self.latencies[usize::from(server)];
        let cost = |way: Way| latencies[way as usize].cost();
        cost(Way::Call) < nodes * cost(Way::Read)
    }
}

impl Latency {
    /// Adds a sample. One that is added meanwhile by another thread may be lost.
    fn learn(&self, sample: Duration) {
        let sample = (sample.as_nanos() as u64).max(1);
        let average = toward(&self.average, sample, SAMPLES);
        self.average.store(average, Relaxed);
        // It grows slowly, as a server or a network may have become slower.
        let sample = sample * FORGETTING;
        let least = sample.min(toward(&self.least, sample, FORGETTING));
        self.least.store(least, Relaxed);
    }

    /// What one more operation costs: the time that it takes, and that for which it holds up
    /// others, about as long as others hold it up.
    fn cost(&self) -> u64 {
        let average = self.average.load(Relaxed);
        average + average.saturating_sub(self.least.load(Relaxed) / FORGETTING)
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let Noted(offloading, at) = self;
        if offloading.is_on() {
            let number = offloading.writes.fetch_add(1, SeqCst) + 1;
            offloading.slot(*at).fetch_max(number, SeqCst);
        }
    }
}

/// How many memory servers' latencies are kept, and slots of writes.
fn sizes(is_on: bool, servers: ServerId) -> (usize, usize) {
    match is_on {
        true => (servers.into(), SLOTS),
        false => (0, 0),
    }
}

/// A moving average with one more sample, of so many.
fn toward(average: &AtomicU64, sample: u64, samples: u64) -> u64 {
    match average.load(Relaxed) {
        0 => sample,
        before => before.saturating_add_signed((sample as i64 - before as i64) / samples as i64),
    }
}

impl RemoteTree {
    /// Has a memory server find the leaf of a key below a node that a walk missed. `None`: it is
    /// better fetched, or may have changed meanwhile.
    ///
    /// # Errors
    /// The key is not this server's, or the memory server does not answer.
    pub(super) async fn locate(&self, key: u64, missing: Missing) -> Result<Option<Located<'_>>> {
        if !self.is_worth_asking(missing) {
            return Ok(None);
        }
        let offloading = &self.offloading;
        let writes = offloading.writes.load(SeqCst);
        let Missing {
            address: from,
            height,
            ..
        } = missing;
        let find = self.connection.find(Find { from, height, key });
        let answer = offloading.timed(Way::Call, from, &self.connection, find);
        let Some(found) = answer.await? else {
            return Ok(None);
        };
        let Some(flight) = self.cache.flights.try_begin(found.leaf) else {
            return Ok(None);
        };
        // As in `fetch`: who gives keys away waits for flights that began before.
        self.check_owned(key)?;
        // A leaf that is not below a hot node is not hot itself.
        let is_missing = matches!(self.walk(key, height), Ok(Found::Missing(it)) if it == missing);
        let is_latest = is_missing
            && self.cooling(found.leaf).is_none()
            && offloading.is_same_since(writes, found.leaf);
        Ok(is_latest.then_some(Located {
            address: found.leaf,
            entry: found.entry,
            flight,
        }))
    }

    fn is_worth_asking(&self, missing: Missing) -> bool {
        if !self.offloading.is_on() || missing.height > HIGHEST {
            return false;
        }
        let nodes = u64::from(missing.height) + 1;
        let is_cheaper = self.offloading.is_cheaper(missing.address.server(), nodes);
        let is_contrary = self.cache.draw(CONTRARY) == 0;
        is_cheaper != is_contrary
    }
}

//! A node: a compute server of the pool that has slots.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use timberline_remote::fabric::{Fabric, TransportOptions};
use timberline_remote::pool::Origin;
use timberline_remote::records::Records;
use timberline_remote::{Balancing, ComputeId, Error, Layout, Member, Result, load_if_empty};
use tokio::sync::RwLockReadGuard;

use super::keys::COUNT_BITS;
use super::map::Map;
use super::slot::{HASH_BITS, Places, SLOTS, places_of, slot_at};
use super::{Balance, ClusterOptions, either, news};
use crate::shared::Stop;

/// How long a command waits for a slot that nobody has.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks for nodes that came or went, and slots that moved.
const LOOK: Duration = Duration::from_millis(500);
/// Slots whose records lie in leaves of their own at first, on one memory server after the other.
const TOGETHER: u16 = 64;

/// The number of data that are being reloaded.
pub const NOT_LOADED: u64 = 0;

/// The slot of a command, which nobody gives away while this is held.
pub type Held<'a> = RwLockReadGuard<'a, ()>;

/// The name of a node: 40 hexadecimal digits, of which clients expect so many.
pub fn name_of(node: ComputeId) -> String {
    format!("{:040x}", node.number())
}

/// Why a node does not run a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Another node has the slot.
    Moved(u16, SocketAddr),
    /// Nobody has the slot, for this reason.
    NotServed(u16, String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Moved(slot, address) => write!(f, "MOVED {slot} {address}"),
            Refused::NotServed(slot, reason) => {
                write!(f, "CLUSTERDOWN Hash slot {slot} not served: {reason}")
            }
        }
    }
}

/// Why a node whose lease has ended serves nothing.
fn unrenewed(error: &Error) -> String {
    let why = match error {
        // What is said of it is about operations of clients.
        Error::TimedOut(server) | Error::Lost(server) => {
            format!("memory server {server} does not answer")
        }
        error => error.to_string(),
    };
    format!("this node's lease has ended: {why}")
}

/// Connects a compute server to a cluster's memory servers.
///
/// # Errors
/// One cannot be reached, or has another key.
pub fn connect(options: &ClusterOptions) -> Result<Arc<dyn Fabric>> {
    let transport = TransportOptions {
        key: options.key.clone(),
        deadline: options.deadline,
    };
    options.fabric.connect(&options.servers, &transport)
}

/// How a cluster's tree is made.
pub fn layout() -> Layout {
    let first = |number: u16| *places_of(&(number * TOGETHER..=number * TOGETHER)).start();
    Layout {
        boundaries: (1..SLOTS / TOGETHER).map(first).collect(),
        subtree_height: 0,
        ..Layout::default()
    }
}

/// A node of a cluster. It keeps its lease until it [leaves](Self::leave), or others take it for
/// dead.
pub struct Node {
    records: Records,
    origin: Origin,
    places: Places,
    /// Which slots move by themselves.
    pub balance: Balance,
    map: RwLock<Arc<Map>>,
    /// Held by commands, and by whoever gives the slot away.
    slots: Box<[tokio::sync::RwLock<()>]>,
    /// What came of the last look at the table.
    refreshing: tokio::sync::Mutex<Result<()>>,
    /// How often the table was read so far.
    refreshes: AtomicU64,
    changes: AtomicU64,
    is_dead: AtomicBool,
    /// Whether it ended because it could write nothing any more.
    is_stuck: AtomicBool,
    /// It was taken for dead, is stuck, or has left.
    pub stop: Stop,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Node {
    /// Joins the cluster of these memory servers. Without any data in them it makes an empty one,
    /// unless `data` says which data they have to have.
    ///
    /// # Errors
    /// A memory server or etcd cannot be reached, or the key is another one; the pool has no data,
    /// is in use for something else, or has its owners elsewhere; or there is no thread.
    pub async fn join(
        options: &ClusterOptions,
        address: SocketAddr,
        data: Option<u64>,
    ) -> Result<Arc<Node>> {
        let fabric = connect(options)?;
        if let Some(etcd) = &options.etcd {
            etcd.check().await?;
        }
        if data.is_none() {
            let origin = Origin {
                data: fastrand::u64(1..),
                base: 0,
            };
            load_if_empty(fabric.clone(), layout(), origin).await?;
        }
        let tree = timberline_remote::Options {
            cache_bytes: options.cache_bytes,
            etcd: options.etcd.clone(),
            balancing: match options.balance {
                Balance::Load(balancing) => Some(Balancing {
                    aligned_bits: HASH_BITS,
                    ..balancing
                }),
                Balance::Off | Balance::Slots => None,
            },
            seed: fastrand::u64(..),
            ..Default::default()
        };
        let records = Records::join(fabric, tree, options.lease).await?;
        let member = records.member();
        member.announce(address).await?;
        let origin = member.origin().await?;
        if origin.data == NOT_LOADED {
            records.leave().await?;
            let reason = "its data were not reloaded to the end; start the memory servers anew";
            return Err(Error::NoTree(reason.into()));
        }
        if data.is_none_or(|it| it == origin.data) {
            member.claim(&(0..=u64::MAX)).await?;
        }
        let map = Map::of(member, member.contacts().await?);
        let node = Arc::new(Node {
            places: Places::new(origin.data),
            origin,
            balance: options.balance,
            map: RwLock::new(Arc::new(map)),
            slots: (0..SLOTS).map(|_| tokio::sync::RwLock::default()).collect(),
            refreshing: tokio::sync::Mutex::new(Ok(())),
            refreshes: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            is_dead: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            stop: Stop::default(),
            thread: Mutex::default(),
            records,
        });
        let thread = std::thread::Builder::new().name("timberline-node".into());
        let (kept, pause) = (Arc::clone(&node), LOOK.min(options.lease / 4));
        let thread = thread.spawn(move || kept.keep(pause));
        let thread = thread.map_err(|error| Error::Unreachable(0, error.to_string()))?;
        *node.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(node)
    }

    /// Renews the lease, looks after the others, and knows who has which slots, until the node
    /// stops. It has a thread of its own, which no command delays.
    fn keep(&self, pause: Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let Ok(runtime) = runtime else {
            self.is_dead.store(true, SeqCst);
            return self.stop.stop();
        };
        let kept = async {
            self.member().keep_place(tokio::time::sleep).await;
            self.is_dead.store(true, SeqCst);
        };
        let look = async {
            loop {
                tokio::time::sleep(pause).await;
                // A memory server that does not answer may do so the next time.
                let _ = self.refresh(true).await;
                // It serves reads as long as a memory server is gone.
                if self.member().is_stuck().await {
                    self.is_stuck.store(true, SeqCst);
                    self.is_dead.store(true, SeqCst);
                    break;
                }
            }
        };
        runtime.block_on(either(either(kept, look), self.stop.wait()));
        self.stop.stop();
    }

    /// Reads who has which slots, and takes those that were given to this node. What is known
    /// afterwards is at least as new as the call. `nodes`: also looks for nodes that came or went.
    ///
    /// # Errors
    /// A memory server does not answer, or this node was taken for dead.
    pub async fn refresh(&self, nodes: bool) -> Result<()> {
        let seen = self.refreshes.load(SeqCst);
        let mut last = self.refreshing.lock().await;
        // One that began after the call has ended.
        if self.refreshes.load(SeqCst) == seen || nodes {
            self.refreshes.fetch_add(1, SeqCst);
            *last = self.look(nodes).await;
        }
        last.clone()
    }

    /// The same. One caller at a time.
    async fn look(&self, nodes: bool) -> Result<()> {
        self.member().sync().await?;
        let before = self.map();
        let mut map = Map::of(self.member(), before.nodes.clone());
        let is_known = |(_, owner): (_, ComputeId)| before.address(owner).is_some();
        if nodes || !map.ranges().into_iter().all(is_known) {
            map = Map::of(self.member(), self.member().contacts().await?);
        }
        news::tell(&before, &map, self.id());
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
        Ok(())
    }

    /// Waits until this node has a slot, or another one. Nobody gives it away while the result is
    /// held.
    ///
    /// # Errors
    /// Another node has it, or nobody.
    pub async fn hold(&self, slot: u16) -> std::result::Result<Held<'_>, Refused> {
        let begun = Instant::now();
        loop {
            let held = self.slots[usize::from(slot)].read().await;
            let is_mine = || self.map().owner(slot) == Some(self.id());
            let not_served = |reason: &str| Err(Refused::NotServed(slot, reason.into()));
            if self.is_dead() {
                return not_served("this node was taken for dead");
            }
            if is_mine() {
                return match self.member().check_lease() {
                    Ok(()) => Ok(held),
                    Err(error) => not_served(&unrenewed(&error)),
                };
            }
            drop(held);
            if let Err(error) = self.refresh(false).await {
                // Whoever was last known to have it may have given it away.
                return not_served(&error.to_string());
            }
            let map = self.map();
            match map.owner(slot) {
                Some(owner) if owner == self.id() => continue,
                Some(owner) => {
                    if let Some(address) = map.address(owner) {
                        return Err(Refused::Moved(slot, address));
                    }
                }
                None => {}
            }
            if begun.elapsed() > PATIENCE {
                return not_served("its node is gone, and no other has taken it yet");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Gives slots to another node. Commands on them wait until that is done.
    ///
    /// # Errors
    /// As [`Member::hand_over`].
    pub async fn hand_over(&self, slots: &RangeInclusive<u16>, to: ComputeId) -> Result<()> {
        let mut held = Vec::with_capacity(slots.len());
        for slot in slots.clone() {
            held.push(self.slots[usize::from(slot)].write().await);
        }
        let given = self.member().hand_over(places_of(slots), to).await;
        // Whoever waits learns from this who has them now.
        let looked = self.refresh(false).await;
        given.and(looked)
    }

    /// Ends a period of [`Balance::Load`]: gives slots away if this node is asked for most and that
    /// would help. Returns which it gave, or tried to, and to whom; and what came of it, with the
    /// errors of [`Member::balance`].
    pub async fn follow_load(&self) -> (Option<(RangeInclusive<u16>, ComputeId)>, Result<()>) {
        let tried = Mutex::new(None);
        let hand_over = async |places: RangeInclusive<u64>, to| {
            let slots = slot_at(*places.start())..=slot_at(*places.end());
            debug_assert_eq!(places, places_of(&slots));
            *tried.lock().unwrap_or_else(PoisonError::into_inner) = Some((slots.clone(), to));
            self.hand_over(&slots, to).await
        };
        let balanced = self.member().balance_by(hand_over).await;
        (
            tried.into_inner().unwrap_or_else(PoisonError::into_inner),
            balanced,
        )
    }

    /// How often this node gave slots away because of the load.
    pub fn moves(&self) -> u64 {
        self.member().moves()
    }

    /// Gives all slots to the other nodes, and leaves.
    ///
    /// # Errors
    /// A memory server does not answer. Others take this node for dead later.
    pub async fn leave(&self) -> Result<()> {
        let _ = self.refresh(true).await;
        let map = self.map();
        let others = map
            .nodes
            .iter()
            .map(|it| it.0)
            .filter(|it| *it != self.id());
        let others: Vec<ComputeId> = others.collect();
        if !others.is_empty() {
            for slots in map.ranges_of(self.id()) {
                let share = slots.len().div_ceil(others.len());
                let firsts = slots.clone().step_by(share);
                for (first, to) in firsts.zip(&others) {
                    let last = first.saturating_add(share as u16 - 1).min(*slots.end());
                    // If that fails, the others take them when this node is gone.
                    let _ = self.hand_over(&(first..=last), *to).await;
                }
            }
        }
        self.is_dead.store(true, SeqCst);
        let left = self.records.leave().await;
        self.end_thread();
        left
    }

    fn end_thread(&self) {
        self.stop.stop();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// A number for a change of a record, above those of all changes before of records of this
    /// node's slots.
    pub fn next_version(&self) -> u64 {
        let table = self.origin.base + self.member().table_version();
        table << COUNT_BITS | self.changes.fetch_add(1, Relaxed)
    }

    /// Whether it ended because it could write nothing any more. Others take its slots, and it can
    /// be started again.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(SeqCst)
    }

    /// Whether it was taken for dead, is stuck, or has left: it serves nothing any more.
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(SeqCst)
    }

    /// Its number.
    pub fn id(&self) -> ComputeId {
        self.member().compute()
    }

    /// Its name for clients.
    pub fn name(&self) -> String {
        name_of(self.id())
    }

    /// Which data the pool has.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Who has which slots, when it last looked.
    pub fn map(&self) -> Arc<Map> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The records of the pool.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The place of a key.
    pub fn place_of(&self, key: &[u8]) -> u64 {
        self.places.place_of(key)
    }

    fn member(&self) -> &Member {
        self.records.member()
    }
}

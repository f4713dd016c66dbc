//! Compute servers that share a tree: each has keys of its own, and gets those of one that dies.

mod balance;
mod registry;

use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::select;

use crate::address::ComputeId;
use crate::error::{Error, Result};
use crate::fabric::{Connection, Fabric};
use crate::key_ranges::KeyRanges;
use crate::pool::Origin;
use crate::pool::contacts;
use crate::pool::directory::{MEMBERS, PARTITIONS, Partitions, Place};
use crate::pool::reports::Report;
use crate::tree::{Options, RemoteTree};
use balance::Meter;
pub use registry::Etcd;
use registry::{Registry, Renewed};

/// A compute server that shares a tree with others.
///
/// The pool has a table of who has which keys. Keys change hands without being copied: who gives
/// them away writes what only its cache has of them, then the table says who has them next.
///
/// **Leases.** Each member renews its lease ([`keep`](Self::keep)), and answers nothing after the
/// lease has ended ([`Error::LeaseExpired`]). A member whose lease nobody has seen renewed for one
/// and a half times its length is taken for dead by the others: all memory servers are told to
/// carry out nothing more for it, then its keys are distributed. So it writes nothing more from
/// then on, whatever its clock says. Clocks need not agree on the time, but their rates must not
/// differ by more than a third: a member whose clock is slower than that may answer from its cache
/// what is no longer so.
///
/// What a dead member had changed and not written is lost, unless its
/// [`Options::write_through`] was set.
pub struct Member {
    tree: RemoteTree,
    /// Who else there is, and who has which keys.
    registry: Registry,
    lease: Duration,
    /// The number of its place in the pool.
    number: usize,
    state: Mutex<State>,
    /// Of this member's load.
    meter: Mutex<Meter>,
    /// Times that keys were given away because of it, and whether some are just now.
    moves: AtomicU64,
    is_giving: AtomicBool,
}

struct State {
    place: Place,
    partitions: Partitions,
    /// Why the lease was not renewed when that was last tried.
    unrenewed: Option<Error>,
    /// When this member last saw all places.
    looked: Duration,
    /// What was last seen of others, by their places, and when it was new.
    seen: HashMap<usize, (Place, Duration)>,
}

impl Member {
    /// Joins those who share a tree, without any keys. [`Options::partition`] has no meaning here.
    ///
    /// After that, [`keep`](Self::keep) has to run.
    ///
    /// # Errors
    /// As [`RemoteTree::open`]; or there are too many members; or [`Options::direct`] is set.
    pub async fn join(
        fabric: Arc<dyn Fabric>,
        options: Options,
        lease: Duration,
    ) -> Result<Member> {
        if options.direct.is_some() {
            return Err(Error::DirectMember);
        }
        let tree = RemoteTree::open_without_keys(fabric, options).await?;
        let connection = tree.connection();
        let etcd = tree.options().etcd.as_ref();
        let registry = Registry::open(connection, etcd, lease).await?;
        let partitions = registry.partitions(connection).await?;
        let (number, place) = registry.take_place(connection).await?;
        let member = Member {
            registry,
            number,
            lease,
            state: Mutex::new(State {
                place,
                partitions,
                unrenewed: None,
                looked: Duration::ZERO,
                seen: HashMap::new(),
            }),
            meter: Mutex::default(),
            moves: AtomicU64::new(0),
            is_giving: AtomicBool::new(false),
            tree,
        };
        // Who had the place before may have reported there.
        Report::write(None, member.connection(), number).await?;
        member.renew().await?;
        Ok(member)
    }

    /// The tree. An operation on a key of another member fails with [`Error::NotOwned`].
    pub fn tree(&self) -> &RemoteTree {
        &self.tree
    }

    /// The number of this compute server.
    pub fn compute(&self) -> ComputeId {
        self.connection().compute()
    }

    /// Who had a key when the table was last read; a [`sync`](Self::sync) reads it.
    pub fn owner(&self, key: u64) -> Option<ComputeId> {
        self.state().partitions.owner(key)
    }

    /// All partitions, as they were when the table was last read.
    pub fn partitions(&self) -> Vec<(RangeInclusive<u64>, Option<ComputeId>)> {
        self.state().partitions.ranges().collect()
    }

    /// The members that nobody has taken for dead.
    ///
    /// # Errors
    /// Memory server 0 does not answer.
    pub async fn members(&self) -> Result<Vec<ComputeId>> {
        self.registry.members(self.connection()).await
    }

    /// Lets others know where this member can be asked ([`contacts`](Self::contacts)).
    ///
    /// # Errors
    /// Memory server 0 does not answer.
    pub async fn announce(&self, address: SocketAddr) -> Result<()> {
        contacts::write(self.connection(), self.number, address).await
    }

    /// The members that nobody has taken for dead, and where they can be asked if they have said.
    ///
    /// # Errors
    /// As [`announce`](Self::announce).
    pub async fn contacts(&self) -> Result<Vec<(ComputeId, Option<SocketAddr>)>> {
        let said: HashMap<_, _> = contacts::read(self.connection())
            .await?
            .into_iter()
            .collect();
        let members = self.members().await?.into_iter();
        Ok(members.map(|it| (it, said.get(&it).copied())).collect())
    }

    /// Which data the pool has.
    ///
    /// # Errors
    /// As [`announce`](Self::announce).
    pub async fn origin(&self) -> Result<Origin> {
        Origin::read(self.connection()).await
    }

    /// Sets which data the pool has. Nobody else may do so at the same time.
    ///
    /// # Errors
    /// As [`announce`](Self::announce); it may be set.
    pub async fn set_origin(&self, origin: Origin) -> Result<()> {
        origin.write(self.connection()).await
    }

    /// How often the table of partitions was changed when it was last read. Whoever gets keys reads
    /// a higher number than those before have read while they had them.
    pub fn table_version(&self) -> u64 {
        self.state().partitions.version()
    }

    /// Renews the lease and looks after the other members four times a lease, until this member
    /// was taken for dead: then nothing it does has an effect any more. With
    /// [`Options::balancing`], keys follow the load meanwhile. While memory servers do not answer
    /// it tries again.
    pub async fn keep(&self, sleep: impl AsyncFn(Duration)) {
        let balances = async {
            match self.tree.options().balancing {
                Some(it) => often(&sleep, it.period, async || self.balance().await).await,
                None => pending().await,
            }
        };
        let (keeps, balances) = (pin!(self.keep_place(&sleep)), pin!(balances));
        select(keeps, balances).await;
    }

    /// The same, but keys follow the load only if the caller sees to that, by
    /// [`balance_by`](Self::balance_by) once a period.
    pub async fn keep_place(&self, sleep: impl AsyncFn(Duration)) {
        // None waits for another: taking keys may take longer than a lease, and one member may wait
        // for a lock of another one that has died.
        let tick = self.lease / 4;
        let renews = often(&sleep, tick, async || self.renew().await);
        let watches = often(&sleep, tick, async || self.watch().await);
        let tends = often(&sleep, tick, async || self.tend().await);
        let (renews, watches, tends) = (pin!(renews), pin!(watches), pin!(tends));
        select(select(renews, watches), tends).await;
    }

    /// Takes the keys that are given to this member, and distributes those of members that were
    /// taken for dead.
    ///
    /// # Errors
    /// [`Error::Fenced`]: this member was taken for dead. Or a memory server does not answer: the
    /// next call tries again.
    pub async fn tend(&self) -> Result<()> {
        for (number, place) in self.registry.places(self.connection()).await? {
            if place.is_dead() {
                self.bury(number, place).await?;
            }
        }
        self.sync().await
    }

    /// Reads who has which keys, and takes those that are given to this member.
    ///
    /// # Errors
    /// As [`tend`](Self::tend).
    pub async fn sync(&self) -> Result<()> {
        let _turn = self.tree.flights().begin(PARTITIONS).await;
        let partitions = self.registry.partitions(self.connection()).await?;
        let (version, mine) = (partitions.version(), partitions.keys_of(self.compute()));
        self.state().partitions = partitions;
        let had: KeyRanges = self.tree.partitions().into_iter().collect();
        if had.without(&mine).iter().next().is_some() {
            return Err(self.is_dead());
        }
        for keys in mine.without(&had).iter() {
            self.tree.acquire(&keys).await?;
        }
        self.begin_period(version);
        Ok(())
    }

    /// Takes the partitions within these keys that nobody has.
    /// [`Layout::boundaries`](crate::Layout::boundaries) is where they begin at first.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub async fn claim(&self, keys: &RangeInclusive<u64>) -> Result<()> {
        let is_wanted =
            |it: &RangeInclusive<u64>| keys.contains(it.start()) && keys.contains(it.end());
        let turn = self.tree.flights().begin(PARTITIONS).await;
        self.change_partitions(async |partitions, _| {
            let free: Vec<_> = partitions.ranges_of(None).filter(is_wanted).collect();
            for keys in free {
                partitions.assign(&keys, Some(self.compute()));
            }
            Ok(())
        })
        .await?;
        drop(turn);
        self.sync().await
    }

    /// Gives keys of this member to another one, which has them from its next
    /// [`sync`](Self::sync) on. Operations on them fail meanwhile with [`Error::NotOwned`].
    ///
    /// # Errors
    /// Some of the keys are not this member's; the other is none, or dead; there are too many
    /// partitions; or a memory server does not answer. The next [`sync`](Self::sync) finds out
    /// whose the keys are then.
    pub async fn hand_over(&self, keys: RangeInclusive<u64>, to: ComputeId) -> Result<()> {
        let _turn = self.tree.flights().begin(PARTITIONS).await;
        let owned: KeyRanges = self.tree.partitions().into_iter().collect();
        if let Some(key) = owned.first_outside(&keys) {
            return Err(Error::NotOwned(key));
        }
        if !self.members().await?.contains(&to) {
            return Err(Error::NoMember(to));
        }
        self.tree.release(&keys).await?;
        self.change_partitions(async |partitions, members| {
            match members.contains(&to) {
                true => partitions.assign(&keys, Some(to)),
                false => return Err(Error::NoMember(to)),
            }
            Ok(())
        })
        .await
    }

    /// Leaves: writes what only its cache has. The other members distribute its keys when they next
    /// [`tend`](Self::tend) to that; without any, one that joins does.
    ///
    /// # Errors
    /// A memory server does not answer. Some of the keys may be this member's still, others
    /// nobody's until the next [`sync`](Self::sync).
    pub async fn leave(&self) -> Result<()> {
        let _turn = self.tree.flights().begin(PARTITIONS).await;
        for keys in self.tree.partitions() {
            self.tree.release(&keys).await?;
        }
        self.tree.give_space_back().await;
        // It has nothing left to lose, so it declares itself dead.
        let _renewal = self.tree.flights().begin(MEMBERS).await;
        let place = self.state().place;
        self.registry
            .leave(self.connection(), self.number, place)
            .await?;
        self.tree.set_lease(Duration::ZERO);
        Ok(())
    }

    /// Makes sure that this member may answer: its lease has not ended.
    ///
    /// # Errors
    /// Why it was not renewed, or [`Error::LeaseExpired`] if that is not known.
    pub fn check_lease(&self) -> Result<()> {
        let reason = || self.state().unrenewed.clone();
        let checked = self.tree.check_lease();
        checked.map_err(|expired| reason().unwrap_or(expired))
    }

    /// Whether this member can write nothing any more, though all memory servers answer: one was
    /// silent for so long that a split or merge is only in the cache. Who joins anew can write.
    pub async fn is_stuck(&self) -> bool {
        let connection = self.connection();
        if self.tree.check_whole().is_ok() {
            return false;
        }
        for server in 0..connection.servers() {
            if connection.load(server).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Adds to the heartbeat, and so renews the lease.
    ///
    /// # Errors
    /// As [`tend`](Self::tend).
    pub async fn renew(&self) -> Result<()> {
        let renewed = self.renew_now().await;
        self.state().unrenewed = renewed.clone().err();
        renewed
    }

    async fn renew_now(&self) -> Result<()> {
        let _turn = self.tree.flights().begin(MEMBERS).await;
        let connection = self.connection();
        loop {
            let begin = connection.now();
            let place = self.state().place;
            match self.registry.renew(connection, self.number, place).await? {
                Renewed::Now(place) => {
                    self.state().place = place;
                    self.tree.set_lease(begin + self.lease);
                    return Ok(());
                }
                // That heartbeat is older than this attempt, so the lease must not begin here.
                Renewed::Before(place) => self.state().place = place,
                Renewed::Not => return Err(self.is_dead()),
            }
        }
    }

    /// Takes members for dead that have not renewed their leases for too long: from then on they
    /// write nothing more.
    ///
    /// # Errors
    /// As [`tend`](Self::tend).
    pub async fn watch(&self) -> Result<()> {
        let connection = self.connection();
        let before = connection.now();
        let places = self.registry.places(connection).await?;
        let after = connection.now();
        // Who could not look for so long does not know who would have renewed its lease: that was
        // as impossible for the others, if memory server 0 or etcd did not answer.
        let last = std::mem::replace(&mut self.state().looked, after);
        let was_blind = before.saturating_sub(last) > self.lease;
        for (number, place) in places.into_iter().filter(|it| it.0 != self.number) {
            let since = {
                let mut state = self.state();
                let seen = state.seen.entry(number).or_insert((place, after));
                if seen.0 != place || was_blind {
                    *seen = (place, after);
                }
                seen.1
            };
            let is_late = before.saturating_sub(since) > self.lease * 3 / 2;
            // Who buries one dead member may wait for a lock of another one.
            if place.is_dead()
                || (is_late
                    && self
                        .registry
                        .declare_dead(connection, number, place)
                        .await?)
            {
                connection.fence(place.compute).await?;
            }
        }
        Ok(())
    }

    /// Distributes the keys of a dead member, after it can do nothing more. Several members may do
    /// that at a time, and one may go on where another one died.
    async fn bury(&self, number: usize, dead: Place) -> Result<()> {
        let connection = self.connection();
        let _turn = self.tree.flights().begin(PARTITIONS).await;
        // Who took it for dead may have died before all memory servers knew.
        connection.fence(dead.compute).await?;
        self.registry.bury(connection, number, dead).await
    }

    /// Changes the table, if there is something to change; the change gets the members, too, and
    /// may be made several times. It may only give keys to those who are members when the table is
    /// written. The caller has this member's turn.
    async fn change_partitions(
        &self,
        change: impl AsyncFn(&mut Partitions, &[ComputeId]) -> Result<()>,
    ) -> Result<()> {
        let changed = async |partitions: &mut Partitions, members: &[ComputeId]| match members
            .contains(&self.compute())
        {
            true => change(partitions, members).await,
            false => Err(self.is_dead()),
        };
        self.registry.change(self.connection(), changed).await
    }

    /// Others have this member's keys.
    fn is_dead(&self) -> Error {
        self.tree.set_lease(Duration::ZERO);
        Error::Fenced
    }

    fn connection(&self) -> &Connection {
        self.tree.connection()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does something again and again, until this member was taken for dead.
async fn often(
    sleep: &impl AsyncFn(Duration),
    pause: Duration,
    duty: impl AsyncFn() -> Result<()>,
) {
    while duty().await != Err(Error::Fenced) {
        sleep(pause).await;
    }
}

//! Who the members are, and who has which keys: in the pool, or in etcd.
//!
//! | file | noun |
//! |---|---|
//! | `in_pool.rs` | the table in the first chunk of memory server 0, and heartbeats there |
//! | `etcd.rs` | the same as keys of etcd, with its leases |
//! | `urls.rs` | where etcd is |
//! | `gateway.rs` | its JSON gateway over HTTP |
//!
//! A word in the pool says which of both it is, so that no two members believe in different ones.

mod etcd;
mod gateway;
mod in_pool;
mod urls;

use std::time::Duration;

use crate::address::ComputeId;
use crate::error::{Error, Result};
use crate::fabric::Connection;
use crate::pool::directory::{self, KEEPER, KEPT_HERE, Partitions, Place};
use etcd::InEtcd;
pub use urls::Etcd;

/// Members and owners of keys.
pub(super) enum Registry {
    /// In the pool.
    Pool,
    /// In etcd.
    Etcd(InEtcd),
}

/// What came of renewing a lease.
pub(super) enum Renewed {
    /// It is: it begins when the attempt did.
    Now(Place),
    /// An earlier attempt had done it.
    Before(Place),
    /// The member was taken for dead.
    Not,
}

impl Registry {
    /// That of a tree, or a new one if no member has joined before.
    ///
    /// # Errors
    /// It is another one than is asked for; or memory server 0 or etcd does not answer.
    pub async fn open(
        connection: &Connection,
        etcd: Option<&Etcd>,
        lease: Duration,
    ) -> Result<Registry> {
        if let Some(etcd) = etcd {
            let registry = InEtcd::open(connection, etcd, lease).await?;
            return Ok(Registry::Etcd(registry));
        }
        match keep(connection, KEPT_HERE).await? {
            KEPT_HERE => Ok(Registry::Pool),
            _ => Err(Error::OwnersElsewhere { in_etcd: true }),
        }
    }

    /// Who has which keys. The caller has the member's turn.
    pub async fn partitions(&self, connection: &Connection) -> Result<Partitions> {
        match self {
            Registry::Pool => Partitions::read(connection).await,
            Registry::Etcd(etcd) => etcd.partitions().await,
        }
    }

    /// All members, with the numbers of their places; some may be dead.
    pub async fn places(&self, connection: &Connection) -> Result<Vec<(usize, Place)>> {
        match self {
            Registry::Pool => directory::places(connection).await,
            Registry::Etcd(etcd) => Ok(etcd.read().await?.places),
        }
    }

    /// The members that nobody has taken for dead.
    pub async fn members(&self, connection: &Connection) -> Result<Vec<ComputeId>> {
        Ok(live(&self.places(connection).await?))
    }

    /// Takes a place for the connection's compute server.
    pub async fn take_place(&self, connection: &Connection) -> Result<(usize, Place)> {
        match self {
            Registry::Pool => directory::take_place(connection).await,
            Registry::Etcd(etcd) => etcd.take_place(connection.compute()).await,
        }
    }

    /// Renews the lease of a place.
    pub async fn renew(
        &self,
        connection: &Connection,
        number: usize,
        place: Place,
    ) -> Result<Renewed> {
        match self {
            Registry::Pool => in_pool::renew(connection, number, place).await,
            Registry::Etcd(etcd) => Ok(match etcd.keep_alive().await? {
                true => Renewed::Now(place),
                false => Renewed::Not,
            }),
        }
    }

    /// Takes a member for dead that has not renewed its lease, as the caller believes. Says whether
    /// it is dead then.
    pub async fn declare_dead(
        &self,
        connection: &Connection,
        number: usize,
        place: Place,
    ) -> Result<bool> {
        match self {
            Registry::Pool => in_pool::declare_dead(connection, number, place).await,
            // It says so itself when a lease has ended.
            Registry::Etcd(_) => Ok(false),
        }
    }

    /// Ends the lease of a place that is the caller's own.
    pub async fn leave(&self, connection: &Connection, number: usize, place: Place) -> Result<()> {
        match self {
            Registry::Pool => in_pool::leave(connection, number, place).await,
            Registry::Etcd(etcd) => etcd.leave().await,
        }
    }

    /// Distributes the keys of a dead member, which was fenced, and frees its place.
    pub async fn bury(&self, connection: &Connection, number: usize, dead: Place) -> Result<()> {
        match self {
            Registry::Pool => in_pool::bury(connection, number, dead).await,
            Registry::Etcd(etcd) => etcd.bury(number, dead).await,
        }
    }

    /// Changes the table, if there is something to change. The change may be made several times.
    pub async fn change(
        &self,
        connection: &Connection,
        change: impl AsyncFn(&mut Partitions, &[ComputeId]) -> Result<()>,
    ) -> Result<()> {
        match self {
            Registry::Pool => in_pool::change(connection, change).await,
            Registry::Etcd(etcd) => etcd.change(change).await,
        }
    }
}

/// Those of these members that are not dead.
fn live(places: &[(usize, Place)]) -> Vec<ComputeId> {
    let live = places.iter().filter(|(_, place)| !place.is_dead());
    live.map(|(_, place)| place.compute).collect()
}

/// Says in the pool where owners are written, unless that was said before. Returns what it says.
async fn keep(connection: &Connection, keeper: u64) -> Result<u64> {
    let attempt = async || connection.compare_exchange(KEEPER, 0, keeper).await;
    Ok(match connection.insist(attempt).await? {
        0 => keeper,
        found => found,
    })
}

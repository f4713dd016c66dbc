//! A server that is a node of a cluster: its keys are in the memory of other servers
//! (`docs/design/cluster.md`).
//!
//! | file | noun |
//! |---|---|
//! | `bus.rs` | messages for subscribers of other nodes |
//! | `slot.rs` | slots of keys, and the places of slots in the tree |
//! | `map.rs` | who has which slots; who is to give some away |
//! | `news.rs` | what changed in the map, for the log |
//! | `node.rs` | this server as one that has slots |
//! | `keys.rs` | keys in the pool |
//! | `log.rs` | what a node changed, in its store |
//! | `reload.rs` | the pool's keys, from logs |
//! | `tasks.rs` | what a node does beside commands: keys expire, slots are given away |

mod bus;
mod keys;
mod log;
mod map;
mod news;
mod node;
mod reload;
mod slot;
mod tasks;

use std::net::SocketAddr;
use std::time::Duration;

use timberline_remote::fabric::{FabricKind, Key};
use timberline_remote::{Balancing, Etcd};

pub(crate) use bus::Bus;
pub(crate) use bus::run as run_bus;
pub(crate) use keys::{Change, MapChange, PoolKeys, map_of, record_of};
pub(crate) use log::About;
pub(crate) use map::Map;
pub(crate) use node::{Held, Node, name_of};
pub use reload::{Reloaded, reload};
pub(crate) use slot::{SLOTS, places_of, slot_of};
pub(crate) use tasks::{balance, expire, follow_load, moved};

/// Waits for the first of two futures.
pub(crate) async fn either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|context| {
        match a.as_mut().poll(context).is_ready() || b.as_mut().poll(context).is_ready() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

/// Which slots move by themselves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Balance {
    /// None, but those of a node that leaves or dies.
    Off,
    /// So many that all nodes have about as many.
    Slots,
    /// So many that all nodes have about as much to do. A node that has none gets its share first.
    /// Slots are moved as a whole, whatever [`Balancing::aligned_bits`] says.
    Load(Balancing),
}

impl Balance {
    /// As INFO calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Balance::Off => "off",
            Balance::Slots => "slots",
            Balance::Load(_) => "load",
        }
    }
}

/// How a server is a node of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The memory servers, in an order that is the same for all nodes.
    pub servers: Vec<SocketAddr>,
    /// How they are reached.
    pub fabric: FabricKind,
    /// The key that they have, if they have one.
    pub key: Option<Key>,
    /// The etcd that has the owners of slots and the nodes' leases. `None`: memory server 0 has
    /// them. All nodes of a cluster have to say the same.
    pub etcd: Option<Etcd>,
    /// Where clients and other nodes reach this one. `None`: where it listens first.
    pub announce: Option<SocketAddr>,
    /// How long a node may go without renewing its lease. One and a half times later others take
    /// its slots.
    pub lease: Duration,
    /// The longest that an operation on a memory server takes.
    pub deadline: Duration,
    /// Which slots move by themselves. All nodes of a cluster should have the same.
    pub balance: Balance,
    /// Whether the store is a log of what this node changes. Without one, what a memory server
    /// loses is lost.
    pub logs: bool,
    /// Bytes for a cache of the tree's nodes and records.
    pub cache_bytes: usize,
}

impl ClusterOptions {
    /// These memory servers over TCP, a lease of 3 s, a deadline of 1 s, a log, and 64 MiB for the
    /// cache; slots move by themselves.
    pub fn new(servers: Vec<SocketAddr>) -> ClusterOptions {
        ClusterOptions {
            servers,
            fabric: FabricKind::Tcp,
            key: None,
            etcd: None,
            announce: None,
            lease: Duration::from_secs(3),
            deadline: Duration::from_secs(1),
            balance: Balance::Slots,
            logs: true,
            cache_bytes: 64 << 20,
        }
    }
}

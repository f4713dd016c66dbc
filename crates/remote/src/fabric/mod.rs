//! The one seam to memory on other machines.
//!
//! A [`Fabric`] carries [`Operation`]s to memory servers. One-sided operations (reads, writes,
//! atomics) need no processor there; calls do. An operation has begun when [`Fabric::start`]
//! returns, so several that are started before the first is awaited are under way together.
//!
//! - [`InProcess`]: memory servers within this process. Every operation is complete at once.
//! - [`Tcp`](tcp::Tcp): memory servers on other machines, which run [`TcpServer`](tcp::TcpServer).
//! - `Libfabric`, with the feature `libfabric`: the same, by network cards that read and write a
//!   memory server's memory without its processors.
//! - [`Simulation`]: a network with latency, bandwidth, loss, reordering and deaths, deterministic
//!   for a seed.
//!
//! A [`Connection`] is a compute server's end of a fabric: its operations as functions, counted.

mod completion;
mod connection;
mod counts;
mod handshake;
mod in_process;
mod kind;
#[cfg(feature = "libfabric")]
pub mod libfabric;
mod listener;
mod operation;
mod pending;
mod silences;
mod simulation;
mod tasks;
pub mod tcp;
mod transport;
mod wire;

pub(crate) use completion::yield_now;
pub use completion::{Completer, Completion};
pub use connection::Connection;
pub use counts::Counts;
pub use handshake::{Key, ShortKey};
pub use in_process::InProcess;
pub use kind::{FabricKind, PoolServer};
pub use listener::MAX_CONNECTIONS;
pub use operation::{Call, Find, Found, Load, Operation, Reply};
pub use simulation::{Network, Simulation, Stuck};
pub use tasks::Tasks;
pub use transport::TransportOptions;

use std::time::Duration;

use crate::address::{ComputeId, ServerId};

/// A compute server's way to memory servers.
pub trait Fabric: Send + Sync {
    /// How many memory servers there are.
    fn servers(&self) -> ServerId;

    /// The compute server whose operations these are.
    fn compute(&self) -> ComputeId;

    /// The time by this compute server's clock, since any moment. It goes on while the process is
    /// stopped.
    fn now(&self) -> Duration;

    /// Begins an operation. It completes, with [`TimedOut`](crate::Error::TimedOut) if no answer
    /// comes.
    fn start(&self, operation: Operation) -> Completion;
}

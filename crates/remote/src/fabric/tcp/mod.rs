//! Memory servers on other machines, by TCP.
//!
//! Each server has one connection. Requests that begin while others are being written leave in one
//! batch, and so do the replies to requests that arrived together.
//!
//! Every operation ends: with an answer, with [`Error::TimedOut`] at its deadline, or with
//! [`Error::Lost`] when the connection breaks. A broken connection is made again; until then
//! operations fail at once. A server that was started again has lost its memory and stays
//! [`Error::Unreachable`].

mod handshake;
mod link;
mod pending;
mod server;
mod wire;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub use handshake::{Key, ShortKey};
pub use server::{MAX_CONNECTIONS, TcpServer};

use super::{Completion, Fabric, Operation};
use crate::address::{ComputeId, ServerId};
use crate::error::{Error, Result};
use link::Link;
use wire::MAX_WORDS;

/// How a compute server talks to memory servers.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// The key that the servers have, if they have one.
    pub key: Option<Key>,
    /// The longest that an operation takes, up to a quarter more.
    pub deadline: Duration,
}

impl Default for TcpOptions {
    /// No key, one second.
    fn default() -> TcpOptions {
        TcpOptions {
            key: None,
            deadline: Duration::from_secs(1),
        }
    }
}

/// A compute server's connections to all memory servers of a pool.
pub struct Tcp {
    compute: ComputeId,
    begin: Instant,
    links: Vec<Link>,
}

impl Tcp {
    /// Connects a new compute server to the memory servers of a pool, at most 65,535 of them.
    /// Their order is part of the tree's addresses: every compute server has to give the same.
    ///
    /// # Errors
    /// One cannot be reached, speaks another protocol, or has another key; there are too many; or
    /// the system has no random numbers.
    pub fn connect(servers: &[SocketAddr], options: &TcpOptions) -> Result<Tcp> {
        if ServerId::try_from(servers.len()).is_err() {
            return Err(Error::TooManyServers(servers.len()));
        }
        let random = |error: std::io::Error| Error::Unreachable(0, error.to_string());
        let compute = handshake::new_compute().map_err(random)?;
        let links = servers.iter().enumerate().map(|(number, &address)| {
            let server = number as ServerId;
            Link::connect(compute, server, address, options.clone())
        });
        Ok(Tcp {
            compute,
            begin: Instant::now(),
            links: links.collect::<Result<_>>()?,
        })
    }
}

impl Fabric for Tcp {
    fn servers(&self) -> ServerId {
        self.links.len() as ServerId
    }

    fn compute(&self) -> ComputeId {
        self.compute
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn start(&self, operation: Operation) -> Completion {
        let server = operation.server();
        let Some(link) = self.links.get(usize::from(server)) else {
            return Completion::ready(Err(Error::NoServer(server)));
        };
        match operation {
            Operation::Read(at, words) if words > MAX_WORDS => {
                Completion::ready(Err(Error::OutOfRange(at)))
            }
            Operation::Write(at, ref words) if words.len() > MAX_WORDS => {
                Completion::ready(Err(Error::OutOfRange(at)))
            }
            Operation::WriteInOrder(ref writes)
                if operation.written_words() + 2 * writes.len() > MAX_WORDS =>
            {
                Completion::ready(Err(Error::OutOfRange(writes[0].0)))
            }
            operation => link.start(&operation),
        }
    }
}

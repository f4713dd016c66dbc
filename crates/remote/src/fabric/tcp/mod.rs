//! Memory servers on other machines, by TCP.
//!
//! Each server has one connection. Requests that begin while others are being written leave in one
//! batch, and so do the replies to requests that arrived together.
//!
//! Every operation ends: with an answer, with [`Error::TimedOut`](crate::Error::TimedOut) at its
//! deadline, or with [`Error::Lost`](crate::Error::Lost) when the connection breaks. A broken
//! connection is made again; until then operations fail at once. A server that was started again
//! has lost its memory and stays [`Error::Unreachable`](crate::Error::Unreachable).

mod link;
mod server;

use std::net::SocketAddr;

pub use server::TcpServer;

use super::handshake::Protocol;
use super::transport::{Links, TransportOptions};
use crate::error::Result;
use link::Link;

const PROTOCOL: Protocol = *b"tlpool04";

/// A compute server's connections to all memory servers of a pool.
pub type Tcp = Links<Link>;

impl Tcp {
    /// Connects a new compute server to the memory servers of a pool, at most 65,535 of them.
    /// Their order is part of the tree's addresses: every compute server has to give the same.
    ///
    /// # Errors
    /// One cannot be reached, speaks another protocol, or has another key; there are too many; or
    /// the system has no random numbers.
    pub fn connect(servers: &[SocketAddr], options: &TransportOptions) -> Result<Tcp> {
        Links::new(servers, options, Link::new)
    }
}

//! Memory servers on other machines, by libfabric: their memory is read and written by network
//! cards, without their processors.
//!
//! A compute server connects by TCP first, and both sides prove that they have the same key. Then
//! they tell each other the names of an endpoint each, which nobody else uses, and the memory
//! server tells the key of its memory, which is for this compute server alone. The connection
//! stays, as most providers do not say that the other side has died; nothing else goes over it.
//!
//! - Reads, writes and atomic operations are one-sided. A write is complete when it is in the
//!   memory. Writes in order are begun one after the other, each when the one before is complete.
//! - Calls are messages: the request and the reply are those of the TCP fabric.
//! - Every operation has a deadline. libfabric goes on with one that has timed out; until it ends,
//!   nothing new is begun. So it cannot overtake what comes later. If it does not end, the
//!   endpoints are closed, and new ones are made.
//! - To fence a compute server, the memory server closes its endpoint and takes the memory's key
//!   back, and then answers.
//!
//! | file | what |
//! |---|---|
//! | `shim.c`, `library.rs` | libfabric's calls |
//! | `native.rs` | its objects |
//! | `buffers.rs`, `endpoint.rs` | memory that operations use; who owns it |
//! | `greeting.rs` | what both sides say before the first operation |
//! | `session.rs` | operations under way to a memory server |
//! | `link.rs` | a compute server's side, connected again and again |
//! | `server.rs` | the memory server's side |

mod buffers;
mod endpoint;
mod greeting;
mod library;
mod link;
mod native;
mod server;
mod session;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

pub use server::LibfabricServer;

use super::handshake::Protocol;
use super::transport::{Links, TransportOptions};
use crate::error::{Error, Result};
use library::Library;
use link::Link;

#[cfg(target_endian = "big")]
compile_error!("words in the pool are little-endian, and one-sided operations do not swap bytes");

const PROTOCOL: Protocol = *b"tlfabr01";

/// Providers whose network cards have IP addresses.
const WITH_ADDRESSES: [&str; 5] = ["tcp", "verbs", "net", "sockets", "udp"];

/// A provider of libfabric: the code for one kind of network card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provider(String);

impl Provider {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether its network cards have IP addresses.
    fn has_addresses(&self) -> bool {
        let first = self.0.split(';').next();
        first.is_some_and(|name| WITH_ADDRESSES.contains(&name))
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Provider, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-;".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
            return Err("name a provider of libfabric, such as tcp, verbs or efa".into());
        }
        if name.split(';').any(|part| part == "shm") {
            return Err(
                "libfabric's `shm` hangs when the other process dies: take `tcp` on one machine"
                    .into(),
            );
        }
        Ok(Provider(name.into()))
    }
}

/// A compute server's endpoints for all memory servers of a pool.
pub type Libfabric = Links<Link>;

impl Libfabric {
    /// Connects a new compute server to the memory servers of a pool, at most 65,535 of them.
    /// Their order is part of the tree's addresses: every compute server has to give the same.
    ///
    /// # Errors
    /// libfabric is not installed; a memory server cannot be reached, has another key, or another
    /// provider; this machine has no network card of the provider on the way there; or there are
    /// too many memory servers.
    pub fn connect(
        servers: &[SocketAddr],
        provider: &Provider,
        options: &TransportOptions,
    ) -> Result<Libfabric> {
        Library::load().map_err(|failed| Error::NoFabric(failed.to_string()))?;
        Links::new(servers, options, |peer| Link::new(peer, provider.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_has_a_name() {
        for name in ["tcp", "verbs", "efa", "verbs;ofi_rxm"] {
            assert_eq!(name.parse::<Provider>().unwrap().to_string(), name);
        }
        for (name, line) in [
            ("", "name a provider"),
            ("a b", "name a provider"),
            ("tcp\0", "name a provider"),
            ("shm", "hangs when the other process dies"),
        ] {
            let refused = name.parse::<Provider>().unwrap_err();
            assert!(refused.contains(line), "{name}: {refused}");
        }
        assert!("verbs;ofi_rxm".parse::<Provider>().unwrap().has_addresses());
        assert!(!"efa".parse::<Provider>().unwrap().has_addresses());
    }
}

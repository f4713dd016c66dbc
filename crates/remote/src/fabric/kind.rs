//! The fabrics over networks, as a user chooses one: by its name.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use super::Fabric;
use super::handshake::Key;
#[cfg(feature = "libfabric")]
use super::libfabric::{Libfabric, LibfabricServer, Provider};
use super::tcp::{Tcp, TcpServer};
use super::transport::TransportOptions;
use crate::error::Result;
use crate::pool::MemoryServer;

/// A fabric over a network: `tcp`, or with the feature `libfabric`, `libfabric:PROVIDER`. Compute
/// servers and memory servers of a pool have the same.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum FabricKind {
    /// Plain sockets.
    #[default]
    Tcp,
    /// Network cards, by a provider of libfabric.
    #[cfg(feature = "libfabric")]
    Libfabric(Provider),
}

impl fmt::Display for FabricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricKind::Tcp => f.write_str("tcp"),
            #[cfg(feature = "libfabric")]
            FabricKind::Libfabric(provider) => write!(f, "libfabric:{provider}"),
        }
    }
}

impl FromStr for FabricKind {
    type Err = String;

    /// # Errors
    /// There is no such fabric, or not in this build: a line says which.
    fn from_str(name: &str) -> std::result::Result<FabricKind, String> {
        match name.split_once(':') {
            None if name == "tcp" => Ok(FabricKind::Tcp),
            #[cfg(feature = "libfabric")]
            Some(("libfabric", provider)) => provider.parse().map(FabricKind::Libfabric),
            #[cfg(not(feature = "libfabric"))]
            Some(("libfabric", _)) => Err(
                "this build has no libfabric: build it with `--features libfabric`, which needs \
                 the headers of libfabric"
                    .into(),
            ),
            _ => Err("one of tcp and libfabric:PROVIDER, such as libfabric:verbs".into()),
        }
    }
}

impl FabricKind {
    /// Connects a new compute server to the memory servers of a pool, at most 65,535 of them.
    /// Their order is part of the tree's addresses: every compute server has to give the same.
    ///
    /// # Errors
    /// One cannot be reached, has another fabric, or has another key; there are too many; or this
    /// machine cannot have the fabric.
    pub fn connect(
        &self,
        servers: &[SocketAddr],
        options: &TransportOptions,
    ) -> Result<Arc<dyn Fabric>> {
        match self {
            FabricKind::Tcp => Ok(Arc::new(Tcp::connect(servers, options)?)),
            #[cfg(feature = "libfabric")]
            FabricKind::Libfabric(provider) => {
                Ok(Arc::new(Libfabric::connect(servers, provider, options)?))
            }
        }
    }

    /// Listens at an address for compute servers. Without a key, everybody who can connect may read
    /// and write all of the memory.
    ///
    /// # Errors
    /// The address is in use or not this machine's, or this machine cannot have the fabric.
    pub fn bind(
        &self,
        address: SocketAddr,
        memory: MemoryServer,
        key: Option<Key>,
    ) -> io::Result<PoolServer> {
        Ok(PoolServer(match self {
            FabricKind::Tcp => Listening::Tcp(TcpServer::bind(address, memory, key)?),
            #[cfg(feature = "libfabric")]
            FabricKind::Libfabric(provider) => {
                Listening::Libfabric(LibfabricServer::bind(address, provider, memory, key)?)
            }
        }))
    }
}

/// A memory server that listens for compute servers.
pub struct PoolServer(Listening);

enum Listening {
    Tcp(TcpServer),
    #[cfg(feature = "libfabric")]
    Libfabric(LibfabricServer),
}

impl PoolServer {
    /// The address that compute servers connect to.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Listening::Tcp(server) => server.address(),
            #[cfg(feature = "libfabric")]
            Listening::Libfabric(server) => server.address(),
        }
    }

    /// Serves compute servers until the process ends.
    ///
    /// # Errors
    /// Connections can be accepted no more.
    pub fn serve(&self) -> io::Result<()> {
        match &self.0 {
            Listening::Tcp(server) => server.serve(),
            #[cfg(feature = "libfabric")]
            Listening::Libfabric(server) => server.serve(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fabric_has_a_name() {
        assert_eq!("tcp".parse(), Ok(FabricKind::Tcp));
        assert_eq!(FabricKind::default().to_string(), "tcp");
        for name in ["", "udp", "libfabric", "tcp:x"] {
            let refused = name.parse::<FabricKind>().unwrap_err();
            assert!(refused.starts_with("one of tcp and libfabric:PROVIDER"));
        }
    }

    #[cfg(feature = "libfabric")]
    #[test]
    fn libfabric_has_providers() {
        let kind: FabricKind = "libfabric:verbs".parse().unwrap();
        assert_eq!(kind.to_string(), "libfabric:verbs");
        let refused = "libfabric:shm".parse::<FabricKind>().unwrap_err();
        assert!(refused.contains("take `tcp`"), "{refused}");
    }

    #[cfg(not(feature = "libfabric"))]
    #[test]
    fn a_build_without_libfabric_says_so() {
        let refused = "libfabric:tcp".parse::<FabricKind>().unwrap_err();
        assert!(refused.contains("--features libfabric"), "{refused}");
    }
}

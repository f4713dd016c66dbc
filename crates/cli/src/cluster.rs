//! `timberline serve --cluster`: a server that is a node of a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use timberline_remote::fabric::FabricKind;
use timberline_remote::{Balancing, Error as PoolError, Etcd};
use timberline_server::{Balance, ClusterOptions, Error};

use crate::Failure;
use crate::parse::{address, whole};
use crate::pool::key;

#[derive(clap::Args)]
pub struct Node {
    /// Be a node of a cluster: keys are in the memory of servers that run `timberline pool`, and
    /// --dir has a log of them
    #[arg(long, requires = "servers", conflicts_with = "evict")]
    cluster: bool,
    /// The memory servers, in the same order for all nodes
    #[arg(
        long,
        value_delimiter = ',',
        requires = "cluster",
        value_parser = address,
        value_name = "ADDRESS:PORT"
    )]
    servers: Vec<SocketAddr>,
    /// How the memory servers are reached: what they were started with
    #[arg(
        long,
        requires = "cluster",
        default_value_t,
        value_name = "tcp|libfabric:PROVIDER"
    )]
    fabric: FabricKind,
    /// File with the key that the memory servers have
    #[arg(long, requires = "cluster", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Where an etcd serves clients, such as http://127.0.0.1:2379, with commas between several
    /// servers: it has the owners of slots and the nodes' leases, not memory server 0. All nodes
    /// are given the same, or none is
    #[arg(long, requires = "cluster", value_parser = Etcd::new, value_name = "URLS")]
    etcd: Option<Etcd>,
    /// Where clients and other nodes reach this one, if not where it listens first
    #[arg(long, requires = "cluster", value_parser = address, value_name = "ADDRESS:PORT")]
    announce: Option<SocketAddr>,
    /// Milliseconds after which a node that does not answer is given up; one and a half times later
    /// others have its slots
    #[arg(
        long,
        requires = "cluster",
        default_value = "3000",
        value_parser = whole::<u64>(100..=600_000),
        value_name = "MS"
    )]
    lease: u64,
    /// Keep no log in --dir: what a memory server loses is lost, and --memory is for the cache
    #[arg(long, requires = "cluster")]
    no_log: bool,
    /// Slots move by `CLUSTER MIGRATESLOTS` only, not so that all nodes have about as many
    #[arg(long, requires = "cluster")]
    fixed_slots: bool,
    /// Slots move so that all nodes have about as much to do, not about as many of them: the node
    /// that is asked for most gives some away. All nodes are given this, or none is
    #[arg(long, requires = "cluster", conflicts_with = "fixed_slots")]
    balance: bool,
}

impl Node {
    /// How the server is a node, if it is to be one that takes so much memory and listens there.
    pub fn options(
        &self,
        memory: u64,
        listen: &[SocketAddr],
    ) -> Result<Option<ClusterOptions>, Failure> {
        if !self.cluster {
            return Ok(None);
        }
        let mut options = ClusterOptions::new(self.servers.clone());
        options.fabric = self.fabric.clone();
        options.key = self.key_file.as_deref().map(key).transpose()?;
        options.etcd.clone_from(&self.etcd);
        options.announce = self.announce;
        options.lease = Duration::from_millis(self.lease);
        options.balance = match (self.fixed_slots, self.balance) {
            (true, _) => Balance::Off,
            (false, false) => Balance::Slots,
            (false, true) => Balance::Load(Balancing::default()),
        };
        options.logs = !self.no_log;
        // The rest is for clients and the program itself, and three eighths for a log's index.
        let cache = if self.no_log { memory / 2 } else { memory / 4 };
        options.cache_bytes = usize::try_from(cache).map_err(Failure::impossible)?;
        let address = self.announce.or(listen.first().copied());
        if let Some(address) = address.filter(|it| it.ip().is_unspecified()) {
            return Err(Failure::Impossible(format!(
                "--announce: nobody can be sent to {address}; give the address that clients reach"
            )));
        }
        Ok(Some(options))
    }
}

/// Bad input about memory servers, or etcd, that a cluster was to use.
pub fn refused(error: &Error) -> Failure {
    match error {
        Error::Cluster(PoolError::Etcd(_)) => Failure::Impossible(format!("--etcd: {error}")),
        _ => Failure::impossible(error),
    }
}

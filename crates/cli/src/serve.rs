//! `timberline serve`: the store behind Redis' protocol.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use timberline_server::{Durability, Error, INDEX_MAP, Options, Server};
use timberline_store::{CacheMemory, Caching, Error as StoreError, IndexMap, IndexMemory};
use timberline_tier::topology::Topology;
use timberline_tree::{Art, BTree, Builder};

use crate::cached::Cached;
use crate::disk::{self, Files};
use crate::parse::{address, whole};
use crate::tiers::Nodes;
use crate::{Failure, cluster, folder, log, tls};

/// What `--durability` takes.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Promise {
    /// Acknowledge at once; a crash loses what was not on the disk yet
    None,
    /// Acknowledge at once; a crash loses the last second
    Interval,
    /// Acknowledge what is on the disk; a crash loses nothing
    Each,
}

#[derive(clap::Args)]
pub struct Args {
    /// Addresses to listen at; port 0 is a free one
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "127.0.0.1:6379",
        value_parser = address,
        value_name = "ADDRESS:PORT"
    )]
    listen: Vec<SocketAddr>,
    /// Serve figures for Prometheus (/metrics) and /health over HTTP at this address; whoever
    /// reaches it may read them
    #[arg(long, value_parser = address, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Folder of the store; it is made if it is not there
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// How files are read and written: by io_uring where it is allowed, otherwise by threads,
    /// unless it is said
    #[arg(long, value_enum, value_name = "HOW")]
    disk: Option<Files>,
    /// Folder for copies of the store, which `timberline backup ADDRESS:PORT NAME` has made there
    #[arg(long, value_name = "FOLDER")]
    backups: Option<PathBuf>,
    /// Memory for all of the process, such as 512MB or 4GB; beyond it, commands that take memory
    /// are refused
    #[arg(long, default_value = "1GB", value_parser = memory, value_name = "BYTES")]
    memory: u64,
    /// Which map the index is: `art` takes less processor time, `btree` less memory
    #[arg(long, default_value_t = INDEX_MAP, value_name = "MAP")]
    index_map: IndexMap,
    /// Keep no more of the index than this in fast memory, the most used parts; the others are in
    /// the slow memory that this machine has, or that --slow-nodes names
    #[arg(long, value_parser = memory, help_heading = "Memory", value_name = "BYTES")]
    index_fast_memory: Option<u64>,
    /// What is kept in memory of what was read or written
    #[arg(long, value_enum, default_value = "values", value_name = "WHAT")]
    cache: Cached,
    /// Keep no more of that than this in fast memory, what is read most; the rest is in slow
    /// memory, as with --index-fast-memory. Values of more than 64 KiB are not kept then
    #[arg(long, value_parser = memory, help_heading = "Memory", value_name = "BYTES")]
    cache_fast_memory: Option<u64>,
    /// The most bytes on the disk (as much as there is by default)
    #[arg(long, value_parser = size, value_name = "BYTES")]
    capacity: Option<u64>,
    /// Bytes of a segment, a file of the store. Hidden: with small ones, tests come to cleaning and
    /// checkpoints soon
    #[arg(long, value_parser = size, value_name = "BYTES", hide = true)]
    segment: Option<u64>,
    /// Be a cache: when --capacity is used up, the oldest strings go, but for those in memory;
    /// there are strings only
    #[arg(long, requires = "capacity")]
    evict: bool,
    /// When writes are acknowledged
    #[arg(long, value_enum, default_value = "interval", value_name = "WHEN")]
    durability: Promise,
    /// Threads that serve clients (one a core by default)
    #[arg(long, value_parser = whole::<u16>(1..=1024), value_name = "N")]
    threads: Option<u16>,
    /// File with the password that clients have to give; its first line counts
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// File of users and their rights, as `ACL LIST` shows them, a line each; ACL SAVE writes it
    #[arg(long, value_name = "FILE")]
    acl_file: Option<PathBuf>,
    /// Serve clients of other machines although there is no password
    #[arg(long)]
    no_protected_mode: bool,
    /// Connections at a time
    #[arg(
        long,
        default_value = "10000",
        value_parser = whole::<u32>(1..=u32::MAX),
        value_name = "N"
    )]
    max_clients: u32,
    #[command(flatten)]
    tls: tls::Args,
    #[command(flatten)]
    log: log::Args,
    #[command(flatten)]
    nodes: Nodes,
    #[command(flatten)]
    cluster: cluster::Node,
}

fn memory(text: &str) -> Result<u64, String> {
    let bytes = timberline_server::bytes(text).filter(|it| *it >= 16 << 20);
    bytes.ok_or_else(|| "at least 16MB, with a unit: KB, MB, GB or TB".into())
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = timberline_server::bytes(text);
    bytes.ok_or_else(|| "a number with a unit: KB, MB, GB or TB".into())
}

impl Args {
    fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::new(&self.dir);
        options.listen.clone_from(&self.listen);
        options.tls = self.tls.options(&mut options.listen)?;
        options.metrics = self.metrics;
        options.disk = disk::kind(self.disk);
        options.backups.clone_from(&self.backups);
        options.memory = self.memory;
        options.index = self.index()?;
        options.caching = self.caching()?;
        let fast = self.index_fast_memory.or(self.cache_fast_memory);
        if fast.is_none() && self.nodes.are_named() {
            let line = "--fast-nodes and --slow-nodes are for --index-fast-memory and \
                        --cache-fast-memory: give one of these, too";
            return Err(Failure::Impossible(line.into()));
        }
        for (option, path) in [
            ("--dir", Some(&self.dir)),
            ("--backups", self.backups.as_ref()),
        ] {
            if let Some(path) = path {
                folder::there_or_new(path).map_err(|it| it.of(option))?;
            }
        }
        if let Some(bytes) = self.segment {
            options.segment_bytes = bytes;
        }
        options.capacity = self.capacity.unwrap_or(u64::MAX);
        let segments = timberline_store::Options::LEAST_SEGMENTS as u64;
        let least = segments.saturating_mul(options.segment_bytes);
        if options.capacity < least {
            return Err(Failure::Impossible(format!(
                "--capacity: a store has space for {segments} segments of {} MB: give at least \
                 {}MB",
                options.segment_bytes >> 20,
                least.div_ceil(1 << 20)
            )));
        }
        options.evict = self.evict;
        options.durability = match self.durability {
            Promise::None => Durability::None,
            Promise::Interval => Durability::Interval,
            Promise::Each => Durability::Each,
        };
        if let Some(threads) = self.threads {
            options.threads = threads.into();
        }
        options.acl_file.clone_from(&self.acl_file);
        options.protected = !self.no_protected_mode;
        options.max_clients = self.max_clients as usize;
        options.cluster = self.cluster.options(self.memory, &self.listen)?;
        options.password = self.password_file.as_deref().map(password).transpose()?;
        Ok(options)
    }

    /// The option that has the server listen at an address.
    fn option_of(&self, address: &SocketAddr) -> &'static str {
        match (
            self.listen.contains(address),
            self.metrics == Some(*address),
        ) {
            (true, _) => "--listen",
            (false, true) => "--metrics",
            (false, false) => "--tls-port",
        }
    }

    /// The index, in plain memory or in tiers.
    fn index(&self) -> Result<IndexMemory, Failure> {
        let Some(fast) = self.index_fast_memory else {
            return Ok(IndexMemory::plain(self.index_map));
        };
        let tiers = self.tiers("--index-fast-memory", fast)?;
        Ok(match self.index_map {
            IndexMap::Art => IndexMemory::of(move || tiers.of(Art::<[u8], u64>::builder()).build()),
            IndexMap::BTree => {
                IndexMemory::of(move || tiers.of(BTree::<[u8], u64>::builder()).build())
            }
        })
    }

    /// What is cached, and where.
    fn caching(&self) -> Result<Caching, Failure> {
        let memory = match self.cache_fast_memory {
            None => None,
            Some(fast) => {
                let tiers = self.tiers("--cache-fast-memory", fast)?;
                Some(CacheMemory::of(move || tiers.of(Art::builder()).build()))
            }
        };
        Ok(match (self.cache, memory) {
            (Cached::Values, None) => Caching::Values,
            (Cached::Values, Some(memory)) => Caching::ValuesIn(memory),
            (Cached::Blocks, memory) => Caching::BlocksIn(memory.unwrap_or_default()),
        })
    }

    /// So much fast memory, as this option says, and slow memory beside it.
    fn tiers(&self, option: &str, fast: u64) -> Result<Tiers, Failure> {
        let found = Topology::discover(Path::new("/")).map_err(Failure::impossible)?;
        let topology = self.nodes.apply(found)?;
        let [fast_nodes, slow_nodes] = [0, 1].map(|tier| topology.tier_nodes(tier).to_vec());
        if slow_nodes.is_empty() {
            return Err(Failure::Impossible(format!(
                "{option}: this machine has one kind of memory; leave it out, or name NUMA nodes \
                 with --slow-nodes"
            )));
        }
        Ok(Tiers {
            fast: fast as usize,
            slow: self.memory as usize,
            fast_nodes,
            slow_nodes,
        })
    }
}

/// Bytes of memory of two kinds, and the NUMA nodes that have it.
struct Tiers {
    fast: usize,
    slow: usize,
    fast_nodes: Vec<u32>,
    slow_nodes: Vec<u32>,
}

impl Tiers {
    fn of<M>(&self, map: Builder<M>) -> Builder<M> {
        map.fast_memory(self.fast)
            .slow_memory(self.slow)
            .fast_nodes(self.fast_nodes.clone())
            .slow_nodes(self.slow_nodes.clone())
    }
}

/// The password in a file.
pub fn password(path: &Path) -> Result<String, Failure> {
    let said = |reason: &dyn std::fmt::Display| {
        Failure::Impossible(format!("--password-file {}: {reason}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| said(&error))?;
    let password = text.lines().next().filter(|it| !it.is_empty());
    password
        .map(String::from)
        .ok_or_else(|| said(&"its first line is empty"))
}

pub fn run(args: &Args) -> Result<(), Failure> {
    args.log.begin()?;
    timberline_tier::keep_large_blocks_apart();
    let server = Server::open(args.options()?).map_err(|error| match &error {
        Error::Disk(error) => disk::refused(error),
        Error::Cluster(_) => cluster::refused(&error),
        Error::Listen(address, _) => {
            Failure::Impossible(format!("{}: {error}", args.option_of(address)))
        }
        Error::OtherData(_) | Error::Tls(_) | Error::Store(StoreError::Configuration(_)) => {
            Failure::impossible(error)
        }
        Error::Users(..) => Failure::Impossible(format!("--acl-file {error}")),
        Error::Store(StoreError::Disk(..) | StoreError::Format(..) | StoreError::InUse(_)) => {
            Failure::Impossible(format!("--dir {}: {error}", args.dir.display()))
        }
        _ => Failure::failed(error),
    })?;
    let handle = server.handle();
    ctrlc::set_handler(move || handle.shutdown())
        .map_err(|error| Failure::Failed(format!("can't catch signals: {error}")))?;
    let disk = server.disk();
    let reason = disk.reason().map_or(String::new(), |it| format!(" ({it})"));
    args.log
        .tell(format_args!("files by {}{reason}", disk.kind()));
    if let Some(address) = server.metrics_address() {
        args.log
            .tell(format_args!("metrics at http://{address}/metrics"));
    }
    let plain = server.addresses().iter().map(ToString::to_string);
    let with_tls = server
        .tls_addresses()
        .iter()
        .map(|it| format!("{it} (TLS)"));
    let addresses: Vec<String> = plain.chain(with_tls).collect();
    let what = match server.node() {
        Some(name) => format!("node {name}"),
        None => format!("{} keys", server.keys()),
    };
    args.log
        .tell(format_args!("{what}; ready at {}", addresses.join(" and ")));
    server.run().map_err(Failure::failed)?;
    args.log.tell("stopped; all writes are on the disk");
    Ok(())
}

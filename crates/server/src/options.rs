//! How a server is started.

use std::net::SocketAddr;
use std::path::PathBuf;

use timberline_store::{Caching, IndexMap, IndexMemory};

use crate::cluster::ClusterOptions;

/// Which map a server's index is unless [`Options::index`] says otherwise. Commands find most of
/// their records in memory, and the lookup is a good part of what they take then.
pub const INDEX_MAP: IndexMap = IndexMap::Art;

/// When a write is acknowledged, and so what a crash of the machine can lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// At once. A crash loses what was not on the disk yet: up to some megabytes.
    None,
    /// At once. A crash loses the writes of the last second.
    Interval,
    /// When it is on the disk. A crash loses nothing that was acknowledged. All commands that a
    /// client sent at a time share one sync.
    Each,
}

impl Durability {
    /// What comes nearest to it in Redis.
    pub(crate) fn appendfsync(self) -> &'static str {
        match self {
            Durability::None => "no",
            Durability::Interval => "everysec",
            Durability::Each => "always",
        }
    }
}

/// Which clients have to show a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsClients {
    /// All, of one of the authorities.
    All,
    /// Who shows one shows one of the authorities.
    Optional,
    /// None.
    Any,
}

impl TlsClients {
    pub(crate) const ALL: [TlsClients; 3] =
        [TlsClients::All, TlsClients::Optional, TlsClients::Any];

    /// What Redis calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TlsClients::All => "yes",
            TlsClients::Optional => "optional",
            TlsClients::Any => "no",
        }
    }
}

/// How TLS is served; that needs the feature `tls`.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Addresses to listen at with TLS. Port 0 is a free one.
    pub listen: Vec<SocketAddr>,
    /// The server's certificates, its own first, in PEM.
    pub cert_file: PathBuf,
    /// Its private key, in PEM.
    pub key_file: PathBuf,
    /// The authorities of clients' certificates, in PEM.
    pub ca_cert_file: Option<PathBuf>,
    /// Which clients have to show a certificate.
    pub clients: TlsClients,
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses to listen at. Port 0 is a free one.
    pub listen: Vec<SocketAddr>,
    /// TLS, beside the addresses without it.
    pub tls: Option<TlsOptions>,
    /// Where figures for Prometheus (`/metrics`) and `/health` are served over HTTP, without a
    /// password.
    pub metrics: Option<SocketAddr>,
    /// The folder of the store.
    pub dir: PathBuf,
    /// How files are read and written; `None` is io_uring where it is allowed, otherwise threads.
    pub disk: Option<timberline_io::Kind>,
    /// The folder below which `BACKUP` makes copies of the store; `None` makes none.
    pub backups: Option<PathBuf>,
    /// Bytes of memory for all of the process. Beyond them, commands that can take memory are
    /// refused.
    pub memory: u64,
    /// The memory of the store's index.
    pub index: IndexMemory,
    /// What the store's cache keeps.
    pub caching: Caching,
    /// The most bytes on the disk.
    pub capacity: u64,
    /// Bytes of a segment, the file that the store writes and cleans as a whole. One command
    /// changes at most an eighth of it.
    pub segment_bytes: u64,
    /// Whether this is a cache: when the disk's bytes are used up, the oldest strings go. There are
    /// strings only then: of other types a part could go.
    pub evict: bool,
    /// When writes are acknowledged.
    pub durability: Durability,
    /// Threads that serve clients; at least one.
    pub threads: usize,
    /// The password of the default user.
    pub password: Option<String>,
    /// The file of users, a line `user NAME RULES` for each: they are loaded from it at the start
    /// and by `ACL LOAD`, and saved to it by `ACL SAVE`.
    pub acl_file: Option<PathBuf>,
    /// Whether clients of other machines are refused while there is no password.
    pub protected: bool,
    /// Connections at a time.
    pub max_clients: usize,
    /// The cluster that this is a node of: keys are in the memory of its memory servers, and the
    /// store is their log.
    pub cluster: Option<ClusterOptions>,
}

impl Options {
    /// A store in this folder, for this machine's clients: port 6379 of its loopback address, 1 GiB
    /// of memory, as much disk as there is, durable each second, a thread a core, 10,000 clients.
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        Options {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 6379))],
            tls: None,
            metrics: None,
            dir: dir.into(),
            disk: None,
            backups: None,
            memory: 1 << 30,
            index: IndexMemory::plain(INDEX_MAP),
            caching: Caching::default(),
            capacity: u64::MAX,
            segment_bytes: timberline_store::Options::default().segment_bytes,
            evict: false,
            durability: Durability::Interval,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            password: None,
            acl_file: None,
            protected: true,
            max_clients: 10_000,
            cluster: None,
        }
    }
}

impl Options {
    /// What comes nearest in Redis to what becomes of keys when there is no more memory or space.
    /// A cache lets the oldest keys go, but for those in use: their values are in memory.
    pub(crate) fn policy(&self) -> &'static str {
        match self.evict {
            true => "allkeys-lru",
            false => "noeviction",
        }
    }

    /// What the store gets of so much memory for all of the process: the rest is for clients and
    /// the program itself; in a cluster, for its cache too.
    pub(crate) fn store_memory(&self, memory: u64) -> u64 {
        let eighths = match self.cluster {
            Some(_) => 3,
            None => 5,
        };
        (memory / 8 * eighths).max(timberline_store::Options::LEAST_MEMORY)
    }
}

/// A number of bytes with a unit as Redis has them: `k` is 1,000, `kb` is 1,024, and so on; also
/// `KiB`.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|it: char| !it.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" | "kib" => 1 << 10,
        "m" => 1_000_000,
        "mb" | "mib" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" | "gib" => 1 << 30,
        "tb" | "tib" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

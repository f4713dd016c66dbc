//! The server: a store, threads, and sockets.

use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use timberline_io::{Disk, wait_for};
use timberline_store::{Report, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tracing::warn;

use crate::acl::Users;
use crate::certificates::Certificates;
use crate::cluster::{self, About, ClusterOptions, Node, PoolKeys, either};
use crate::config::Config;
use crate::connection;
use crate::files;
use crate::keyspace::Keyspace;
use crate::memory::Memory;
use crate::metrics;
use crate::seldom::Seldom;
use crate::shared::Shared;
use crate::slowlog::Slowlog;
use crate::stream::Acceptor;
use crate::watchman::watch;
use crate::{Durability, Options};

/// The time that a crash of the machine costs by default.
const SECOND: Duration = Duration::from_secs(1);
/// What clients of other machines are told in protected mode.
const DENIED: &str = "DENIED Timberline runs in protected mode: without a password it serves only \
    clients of its own machine. Set one with --password-file or CONFIG SET requirepass, or start \
    it with --no-protected-mode if nobody else can reach it.";
/// A socket that listens, and TLS for its clients, if they speak it.
type Listener = (StdListener, Option<Acceptor>);
/// The same for one client.
type Socket = (StdStream, Option<Acceptor>);
/// Bytes of obsolete records that may stay on the disk, whatever the others are.
const IDLE: u64 = 256 << 20;
/// How long a server waits for its clients' commands when it stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a server could not start, or failed. Its message is one line.
#[derive(Debug)]
pub enum Error {
    /// An address can't be listened at.
    Listen(SocketAddr, io::Error),
    /// The kernel has no io_uring, or forbids it, and nothing else was to be used.
    Disk(io::Error),
    /// The store can't be opened, or failed.
    Store(timberline_store::Error),
    /// The memory servers of the cluster can't be used, or failed.
    Cluster(timberline_remote::Error),
    /// A memory server was silent for so long that this node of a cluster could write nothing more.
    Stuck,
    /// The folder has the log of other data than the memory servers have; the reason in one line.
    OtherData(String),
    /// The file of users can't be read: which, and why.
    Users(PathBuf, String),
    /// TLS can't be served: what is wrong with which option.
    Tls(String),
    /// The system gives no threads or no way to wait for sockets.
    System(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Listen(address, error) => write!(f, "can't listen at {address}: {error}"),
            Error::Disk(error) => write!(f, "io_uring is not available: {error}"),
            Error::Store(error) => write!(f, "{error}"),
            Error::Cluster(error) => write!(f, "{error}"),
            Error::Stuck => f.write_str(
                "a memory server was silent for too long, so this node could write nothing more; \
                 all answer now: start it again",
            ),
            Error::OtherData(reason) | Error::Tls(reason) => f.write_str(reason),
            Error::Users(path, why) => write!(f, "{}: {why}", path.display()),
            Error::System(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<timberline_remote::Error> for Error {
    fn from(error: timberline_remote::Error) -> Error {
        Error::Cluster(error)
    }
}

impl From<crate::keyspace::Error> for Error {
    fn from(error: crate::keyspace::Error) -> Error {
        match error {
            crate::keyspace::Error::Store(error) => Error::Store(error),
            crate::keyspace::Error::Pool(error) => Error::Cluster(error),
            crate::keyspace::Error::NoRoom => Error::Store(timberline_store::Error::OutOfMemory),
        }
    }
}

impl From<timberline_store::Error> for Error {
    fn from(error: timberline_store::Error) -> Error {
        Error::Store(error)
    }
}

/// A server that listens, and serves once it [runs](Self::run).
pub struct Server {
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    metrics: Option<StdListener>,
    addresses: Vec<SocketAddr>,
    tls_addresses: Vec<SocketAddr>,
}

/// Stops a server, from any thread.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Has the server take no more commands and end. Those under way are completed.
    pub fn shutdown(&self) {
        self.0.shutdown();
    }
}

impl Server {
    /// Opens the store, and listens.
    pub fn open(mut options: Options) -> Result<Server, Error> {
        options.threads = options.threads.max(1);
        files::raise_limit();
        let (wanted, most) = (options.max_clients, files::for_clients());
        if wanted > most {
            warn!(wanted, most, "the limit of open files allows fewer clients");
        }
        options.max_clients = wanted.clamp(1, most);
        let users = users(&options)?;
        let mut listeners = Vec::new();
        for address in &mut options.listen {
            listeners.push((listen(address)?, None));
        }
        let mut certificates = None;
        if let Some(tls) = &mut options.tls {
            let acceptor = Acceptor::new(tls).map_err(Error::Tls)?;
            certificates = Some(Certificates::new(acceptor.clone(), tls.clone()));
            for address in &mut tls.listen {
                listeners.push((listen(address)?, Some(acceptor.clone())));
            }
        }
        let metrics = options.metrics.as_mut().map(listen).transpose()?;
        let store_options = timberline_store::Options {
            durability: match options.durability {
                Durability::Interval => timberline_store::Durability::Interval(SECOND),
                // Replies wait for a sync where they have to, a batch of them at a time.
                Durability::None | Durability::Each => timberline_store::Durability::None,
            },
            capacity: options.capacity,
            segment_bytes: options.segment_bytes,
            idle_bytes: IDLE,
            evict: options.evict,
            index: options.index.clone(),
            caching: options.caching.clone(),
            memory_bytes: options.store_memory(options.memory),
            // A log is not read while the node runs.
            cache_bytes: options.cluster.as_ref().map_or(u64::MAX, |_| 0),
            ..Default::default()
        };
        let disk = Disk::open_by(options.disk, Store::DEPTH).map_err(Error::Disk)?;
        let (store, report) = Store::open_threaded(disk, &options.dir, store_options)?;
        tell_losses(&report);
        let pool = match &options.cluster {
            Some(cluster) => Some(wait_for(join(cluster, &options, &store))?),
            None => None,
        };
        let memory = Arc::new(Memory::new(options.memory));
        let keyspace = wait_for(Keyspace::open(store, pool, Arc::clone(&memory)))?;
        let slowlog = Arc::new(Slowlog::default());
        let addresses = options.listen.clone();
        let tls = options.tls.as_ref();
        let tls_addresses = tls.map_or(Vec::new(), |it| it.listen.clone());
        let config = Config::new(options, users, certificates, memory, Arc::clone(&slowlog));
        Ok(Server {
            shared: Arc::new(Shared::new(keyspace, config, slowlog, report)),
            listeners,
            metrics,
            addresses,
            tls_addresses,
        })
    }

    /// Its name as a node of a cluster, if it is one.
    pub fn node(&self) -> Option<String> {
        self.shared.keyspace.node().map(Node::name)
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where it listens with TLS.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// Where its metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.shared.config.options.metrics
    }

    /// What opening the store found.
    pub fn report(&self) -> &Report {
        &self.shared.report
    }

    /// How it reads and writes files.
    pub fn disk(&self) -> &Disk {
        self.shared.keyspace.store().disk()
    }

    /// Keys in the store.
    pub fn keys(&self) -> usize {
        self.shared.keyspace.len()
    }

    /// Stops it.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// Serves clients until it is stopped; then brings all writes to the disk.
    pub fn run(self) -> Result<(), Error> {
        let mut workers = Vec::new();
        let mut others = Vec::new();
        for number in 1..self.shared.config.options.threads {
            let (sender, sockets) = unbounded_channel();
            let shared = Arc::clone(&self.shared);
            let worker = std::thread::Builder::new()
                .name(format!("timberline-serve-{number}"))
                .spawn(move || on_this_thread(&shared, serve_all(Arc::clone(&shared), sockets)));
            workers.push(worker.map_err(Error::System)?);
            others.push(sender);
        }
        let first = lead(
            Arc::clone(&self.shared),
            self.listeners,
            self.metrics,
            others,
        );
        let served = on_this_thread(&self.shared, first);
        // A worker is not to wait for ever where the first one failed.
        self.shared.shutdown();
        for worker in workers {
            let _ = worker.join();
        }
        let fenced = self.shared.keyspace.node().is_some_and(Node::is_dead);
        let left = match self.shared.keyspace.node().filter(|_| !fenced) {
            Some(node) => wait_for(node.leave()),
            None => Ok(()),
        };
        let stopped = self.shared.keyspace.store().stop();
        served.map_err(Error::System)?;
        left?;
        if self.shared.keyspace.node().is_some_and(Node::is_stuck) {
            return Err(Error::Stuck);
        }
        if fenced {
            return Err(Error::Cluster(timberline_remote::Error::Fenced));
        }
        Ok(stopped?)
    }
}

/// Runs a thread's work, and then the connections that it left.
fn on_this_thread(
    shared: &Arc<Shared>,
    work: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let local = LocalSet::new();
    #[cfg(target_os = "linux")]
    local.spawn_local(crate::ring::drive(Arc::clone(shared)));
    let done = local.block_on(&runtime, work);
    let ended = async {
        while shared.client_count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // What does not end in time is dropped with the runtime.
    let _ = local.block_on(&runtime, async {
        tokio::time::timeout(PATIENCE, ended).await
    });
    done
}

/// A thread that serves the sockets that the first one sends it.
async fn serve_all(shared: Arc<Shared>, mut sockets: UnboundedReceiver<Socket>) -> io::Result<()> {
    let receive = async {
        while let Some(socket) = sockets.recv().await {
            admit(&shared, socket);
        }
    };
    either(receive, shared.stop.wait()).await;
    Ok(())
}

/// The first thread: it accepts connections, and does what is to be done at times.
async fn lead(
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    metrics: Option<StdListener>,
    others: Vec<UnboundedSender<Socket>>,
) -> io::Result<()> {
    let others = Arc::new(others);
    let mut accepting = Vec::new();
    for (listener, tls) in listeners {
        let listener = TcpListener::from_std(listener)?;
        let task = accept(Arc::clone(&shared), listener, tls, Arc::clone(&others));
        accepting.push(tokio::task::spawn_local(task));
    }
    if let Some(listener) = metrics {
        let serving = metrics::serve(Arc::clone(&shared), TcpListener::from_std(listener)?);
        accepting.push(tokio::task::spawn_local(serving));
    }
    let ticking = tokio::task::spawn_local(watch(Arc::clone(&shared)));
    let reaped = Arc::clone(&shared);
    // A store that takes no writes can't lose elements either: the next start goes on.
    let reaping = tokio::task::spawn_local(async move {
        let _ = reaped.keyspace.reap().await;
    });
    let timed = Arc::clone(&shared);
    let expiring = tokio::task::spawn_local(async move {
        let _ = timed.keyspace.expire().await;
    });
    let mut beside = vec![ticking, reaping, expiring];
    if let Some(node) = shared.keyspace.node() {
        let expiring = cluster::expire(Arc::clone(&shared));
        let balancing = cluster::balance(Arc::clone(&shared));
        beside.push(tokio::task::spawn_local(expiring));
        beside.push(tokio::task::spawn_local(balancing));
        let following = cluster::follow_load(Arc::clone(&shared));
        beside.push(tokio::task::spawn_local(following));
        let sending = cluster::run_bus(Arc::clone(&shared));
        beside.push(tokio::task::spawn_local(sending));
        either(shared.stop.wait(), node.stop.wait()).await;
    }
    if !shared.keyspace.node().is_some_and(Node::is_dead) {
        shared.stop.wait().await;
    }
    shared.shutdown();
    for task in accepting.into_iter().chain(beside) {
        task.abort();
    }
    Ok(())
}

async fn accept(
    shared: Arc<Shared>,
    listener: TcpListener,
    tls: Option<Acceptor>,
    others: Arc<Vec<UnboundedSender<Socket>>>,
) {
    let mut next = 0;
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let Ok(socket) = socket.into_std() else {
                    continue;
                };
                let socket = (socket, tls.clone());
                match others.get(next) {
                    Some(other) => {
                        let _ = other.send(socket);
                    }
                    None => admit(&shared, socket),
                }
                next = (next + 1) % (others.len() + 1);
            }
            // Too many files are open, for example: that passes.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Begins to serve a connection on this thread, or refuses it.
fn admit(shared: &Arc<Shared>, (socket, tls): Socket) {
    let (Ok(address), Ok(local)) = (socket.peer_addr(), socket.local_addr()) else {
        return;
    };
    if shared.config.refuses(address.ip()) {
        refuse(&socket, &tls, DENIED);
        return;
    }
    let Some(client) = shared.add_client(address, local) else {
        refuse(&socket, &tls, "ERR max number of clients reached");
        return;
    };
    // Without it, replies wait for acknowledgements of those before.
    let _ = socket.set_nodelay(true);
    match TcpStream::from_std(socket) {
        Ok(stream) => {
            tokio::task::spawn_local(connection::serve(Arc::clone(shared), stream, tls, client));
        }
        Err(_) => shared.remove_client(client.id),
    }
}

/// Says why a client is not served, unless it expects TLS. A line fits into an empty socket's
/// buffer.
fn refuse(mut socket: &StdStream, tls: &Option<Acceptor>, why: &str) {
    static EVENTS: Seldom = Seldom::new();
    if let Some(held_back) = EVENTS.pass() {
        let client = socket
            .peer_addr()
            .map_or(String::new(), |it| it.to_string());
        let reason = why.split_once([':', '.']).map_or(why, |it| it.0);
        warn!(client, reason, held_back, "a connection is refused");
    }
    if tls.is_some() {
        return;
    }
    let _ = socket.write(format!("-{why}\r\n").as_bytes());
}

/// Joins a cluster, whose data the store is the log of.
async fn join(
    cluster: &ClusterOptions,
    options: &Options,
    store: &Store,
) -> Result<PoolKeys, Error> {
    let about = About::read(store).await?;
    let address = cluster.announce.unwrap_or(options.listen[0]);
    let dir = options.dir.display();
    let joined = Node::join(cluster, address, about.map(|it| it.data)).await;
    let node = match joined {
        Err(timberline_remote::Error::NoTree(_)) if about.is_some() => {
            return Err(Error::OtherData(format!(
                "the memory servers have no data, but {dir} is the log of some: `timberline reload` \
                 brings it back, another folder begins anew"
            )));
        }
        joined => joined?,
    };
    if about.is_some_and(|it| it.data != node.origin().data) {
        node.leave().await?;
        return Err(Error::OtherData(format!(
            "{dir} is the log of other data than the memory servers have"
        )));
    }
    Ok(PoolKeys::open(node, store, cluster.logs).await?)
}

/// Tells what opening the store could not read.
fn tell_losses(report: &Report) {
    for loss in report.losses(crate::keyspace::key_of) {
        warn!("{loss}");
    }
}

/// The default user, and those of the file of users.
fn users(options: &Options) -> Result<Users, Error> {
    let users = Users::new(options.password.as_deref(), options.acl_file.clone());
    if let Some(path) = &options.acl_file {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let loaded = text.and_then(|text| users.load(&text));
        loaded.map_err(|why| Error::Users(path.clone(), why))?;
    }
    Ok(users)
}

/// Connections that wait to be accepted. One beyond that asks again after a second, and the
/// standard library lets only 128 wait. The system may have a lower limit.
const BACKLOG: i32 = 4_096;

/// Listens at an address, and replaces it by the real one where its port was 0.
fn listen(address: &mut SocketAddr) -> Result<StdListener, Error> {
    let listener = StdListener::bind(*address).and_then(|it| {
        rustix::net::listen(&it, BACKLOG)?;
        it.set_nonblocking(true)?;
        *address = it.local_addr()?;
        Ok(it)
    });
    listener.map_err(|error| Error::Listen(*address, error))
}

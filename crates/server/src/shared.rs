//! What all connections share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use timberline_store::Report;
use timberline_tier::Striped;
use tokio::sync::Notify;
use tracing::info;

use crate::acl::Users;
use crate::channels::Channels;
use crate::client::Client;
use crate::cluster::Bus;
use crate::command::Cursors;
use crate::config::Config;
use crate::keyspace::Keyspace;
use crate::pause::Pause;
use crate::slowlog::Slowlog;

/// What all connections share.
pub(crate) struct Shared {
    pub keyspace: Keyspace,
    pub users: Arc<Users>,
    pub config: Config,
    pub stats: Stats,
    pub slowlog: Arc<Slowlog>,
    pub cursors: Cursors,
    pub pause: Pause,
    pub pubsub: Channels,
    /// To the other nodes of a cluster.
    pub bus: Bus,
    pub started: Instant,
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    next_client: AtomicU64,
    /// Resident bytes of the process, when last looked at.
    pub resident: AtomicU64,
    /// The most of them that was seen.
    pub peak: AtomicU64,
    /// What opening the store found.
    pub report: Report,
    pub stop: Stop,
}

/// What a thread counts for itself: other threads write elsewhere.
#[derive(Default)]
struct Tally {
    commands: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What happened since it was last told to the server.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub commands: u64,
    /// Keys that reading commands looked for and found, and those that were not there.
    pub hits: u64,
    pub misses: u64,
}

/// Numbers that `INFO` shows.
#[derive(Default)]
pub(crate) struct Stats {
    tallies: Striped<Tally>,
    /// Commands a second, of late.
    pub commands_a_second: AtomicU64,
    pub connections: AtomicU64,
    pub refused: AtomicU64,
    pub killed: AtomicU64,
    pub received: AtomicU64,
    pub sent: AtomicU64,
    /// Seconds since 1970 when `SAVE` was last done.
    pub saved: AtomicI64,
}

impl Stats {
    /// Adds what one of this thread's connections did.
    pub fn add(&self, counts: Counts) {
        let tally = self.tallies.assigned();
        let add = |to: &AtomicU64, more| {
            if more > 0 {
                to.fetch_add(more, Relaxed);
            }
        };
        add(&tally.commands, counts.commands);
        add(&tally.hits, counts.hits);
        add(&tally.misses, counts.misses);
    }

    /// What all connections did.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for tally in self.tallies.iter() {
            sum.commands += tally.commands.load(Relaxed);
            sum.hits += tally.hits.load(Relaxed);
            sum.misses += tally.misses.load(Relaxed);
        }
        sum
    }

    pub fn reset(&self) {
        for tally in self.tallies.iter() {
            for count in [&tally.commands, &tally.hits, &tally.misses] {
                count.store(0, Relaxed);
            }
        }
        for count in [
            &self.connections,
            &self.refused,
            &self.killed,
            &self.received,
            &self.sent,
        ] {
            count.store(0, Relaxed);
        }
    }
}

/// Tells all threads to end.
#[derive(Default)]
pub(crate) struct Stop {
    stopped: AtomicBool,
    /// One for each thread that waits.
    waiting: Notify,
}

impl Stop {
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.waiting.notify_waiters();
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Waits until it is told.
    pub async fn wait(&self) {
        let mut notified = std::pin::pin!(self.waiting.notified());
        // From here on no notice is missed.
        notified.as_mut().enable();
        if !self.is_stopped() {
            notified.await;
        }
    }
}

impl Shared {
    pub fn new(
        keyspace: Keyspace,
        config: Config,
        slowlog: Arc<Slowlog>,
        report: Report,
    ) -> Shared {
        let stats = Stats::default();
        stats.saved.store(millis_since_1970() / 1000, Relaxed);
        Shared {
            keyspace,
            users: Arc::clone(&config.users),
            cursors: Cursors::new(&config.memory),
            pause: Pause::default(),
            config,
            stats,
            slowlog,
            pubsub: Channels::default(),
            bus: Bus::default(),
            started: Instant::now(),
            clients: Mutex::default(),
            next_client: AtomicU64::new(1),
            resident: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            report,
            stop: Stop::default(),
        }
    }

    /// Registers a connection; `None` if there are too many.
    pub fn add_client(&self, address: SocketAddr, local: SocketAddr) -> Option<Arc<Client>> {
        let mut clients = self.lock_clients();
        if clients.len() >= self.config.max_clients.load(Relaxed) {
            self.stats.refused.fetch_add(1, Relaxed);
            return None;
        }
        let id = self.next_client.fetch_add(1, Relaxed);
        let account = self.users.default_account();
        let client = Arc::new(Client::new(
            id,
            address,
            local,
            millis_since_1970(),
            account,
            &self.config.memory,
        ));
        clients.insert(id, Arc::clone(&client));
        self.stats.connections.fetch_add(1, Relaxed);
        Some(client)
    }

    pub fn remove_client(&self, id: u64) {
        self.lock_clients().remove(&id);
    }

    pub fn clients(&self) -> Vec<Arc<Client>> {
        self.lock_clients().values().cloned().collect()
    }

    /// Notes that a client has sent or read something, if that may be too long ago.
    pub fn note_activity(&self, client: &Client) {
        if self.config.timeout.load(Relaxed) > 0 {
            client.note_activity(millis_since_1970());
        }
    }

    /// Whether a client has sent and read nothing for longer than it may.
    pub fn is_idle(&self, client: &Client) -> bool {
        let seconds = self.config.timeout.load(Relaxed);
        seconds > 0 && client.is_idle(millis_since_1970(), seconds)
    }

    /// Has the connections of clients that seem idle look whether they are: a command may be under
    /// way, or a reply.
    pub fn wake_idle_clients(&self) {
        if self.config.timeout.load(Relaxed) > 0 {
            let clients = self.lock_clients();
            let idle = clients.values().filter(|it| self.is_idle(it));
            idle.for_each(|it| it.woken.notify_one());
        }
    }

    pub fn client_count(&self) -> usize {
        self.lock_clients().len()
    }

    fn lock_clients(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.clients.lock().unwrap_or_else(|it| it.into_inner())
    }

    /// Whether the process takes more memory than it may.
    pub fn is_over_memory(&self) -> bool {
        self.resident.load(Relaxed) > self.config.memory.limit.load(Relaxed)
    }

    /// Gives the store its share of the memory that the process may take now.
    pub fn share_memory(&self) -> Result<(), timberline_store::Error> {
        let limit = self.config.memory.limit.load(Relaxed);
        let store = self.keyspace.store();
        let (before, share) = (
            store.memory_bytes(),
            self.config.options.store_memory(limit),
        );
        store.set_memory_bytes(share)?;
        if share < before {
            // What is resident counts, not what is in use.
            timberline_tier::give_back_free_pages();
        }
        self.measure_memory();
        Ok(())
    }

    /// Looks at how much memory the process takes.
    pub fn measure_memory(&self) {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm
            .split(' ')
            .nth(1)
            .and_then(|it| it.parse::<u64>().ok());
        let page = rustix::param::page_size() as u64;
        let resident = pages.unwrap_or(0) * page;
        self.resident.store(resident, Relaxed);
        self.peak.fetch_max(resident, Relaxed);
    }

    /// Ends all connections, after their commands under way, and the server with them.
    pub fn shutdown(&self) {
        if !self.stop.is_stopped() {
            info!(clients = self.client_count(), "the server stops");
        }
        self.stop.stop();
        for client in self.clients() {
            client.kill();
        }
    }
}

/// The time, in microseconds since 1970.
pub(crate) fn micros_since_1970() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |it| it.as_micros() as i64)
}

/// The time, in milliseconds since 1970.
pub(crate) fn millis_since_1970() -> i64 {
    micros_since_1970() / 1000
}

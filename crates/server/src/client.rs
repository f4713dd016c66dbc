//! A connection as others see it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tracing::warn;

use crate::acl::Account;
use crate::memory::{Memory, UNCOUNTED};
use crate::outbox::Outbox;
use crate::resp::{Protocol, Writer};
use crate::seldom::Seldom;

/// A connection as others see it.
pub(crate) struct Client {
    pub id: u64,
    address: SocketAddr,
    local: SocketAddr,
    /// Milliseconds since 1970.
    created: i64,
    /// When its last command came, or, where there is a limit for idle clients, it sent or read
    /// something else.
    active: AtomicI64,
    /// It is a node of the cluster, which sends messages when there are some.
    pub is_node: AtomicBool,
    about: Mutex<About>,
    account: Mutex<Arc<Account>>,
    outbox: Mutex<Outbox>,
    memory: Arc<Memory>,
    /// There are messages, or it is to end.
    pub woken: Notify,
    killed: AtomicBool,
    wait: Mutex<Wait>,
    /// How many channels and patterns it subscribes to.
    pub subscriptions: AtomicUsize,
    /// How many sharded channels it subscribes to.
    pub shards: AtomicUsize,
    /// Bytes of their names.
    pub shard_bytes: AtomicUsize,
}

/// How another client ends the wait of this one's command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unblock {
    /// As if its time were over.
    Timeout,
    /// By an error.
    Error,
}

/// Whether a client's command waits for something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    None,
    Begun,
    Ended(Unblock),
}

/// A client's last command.
#[derive(Clone, Copy, Default)]
pub(crate) struct Last {
    pub command: &'static str,
    pub subcommand: Option<&'static str>,
    /// Whether a transaction goes on behind it.
    pub in_multi: bool,
}

impl Last {
    /// Its name as Redis has it.
    fn name(&self) -> String {
        match (self.command, self.subcommand) {
            ("", _) => "NULL".into(),
            (command, Some(subcommand)) => format!("{command}|{subcommand}"),
            (command, None) => command.into(),
        }
    }
}

#[derive(Default)]
struct About {
    name: Vec<u8>,
    last: Last,
}

impl Client {
    pub fn new(
        id: u64,
        address: SocketAddr,
        local: SocketAddr,
        now: i64,
        account: Arc<Account>,
        memory: &Arc<Memory>,
    ) -> Client {
        let mut messages = Writer::counted(memory, 0);
        messages.refuses = true;
        Client {
            id,
            address,
            local,
            created: now,
            active: AtomicI64::new(now),
            is_node: AtomicBool::new(false),
            about: Mutex::default(),
            account: Mutex::new(account),
            outbox: Mutex::new(Outbox::new(messages)),
            memory: Arc::clone(memory),
            woken: Notify::new(),
            killed: AtomicBool::new(false),
            wait: Mutex::new(Wait::None),
            subscriptions: AtomicUsize::new(0),
            shards: AtomicUsize::new(0),
            shard_bytes: AtomicUsize::new(0),
        }
    }

    pub fn name(&self) -> Vec<u8> {
        lock(&self.about).name.clone()
    }

    /// Gives it a name. Returns the one that it had.
    pub fn set_name(&self, name: Vec<u8>) -> Vec<u8> {
        std::mem::replace(&mut lock(&self.about).name, name)
    }

    pub fn set_account(&self, account: Arc<Account>) {
        *lock(&self.account) = account;
    }

    /// Whether it is this user's.
    pub fn is_of(&self, account: &Arc<Account>) -> bool {
        Arc::ptr_eq(&lock(&self.account), account)
    }

    pub fn set_protocol(&self, protocol: Protocol) {
        lock(&self.outbox).messages.protocol = protocol;
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Notes that commands came, of which this was the last.
    pub fn note(&self, now: i64, last: Last) {
        self.active.store(now, Relaxed);
        lock(&self.about).last = last;
    }

    /// Notes that it sent or read something.
    pub fn note_activity(&self, now: i64) {
        self.active.store(now, Relaxed);
    }

    /// Whether it is of a type that `CLIENT LIST` and `CLIENT KILL` name; `None` if there is none
    /// of that name.
    pub fn is_type(&self, name: &[u8]) -> Option<bool> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(!self.is_subscriber()),
            b"pubsub" => Some(self.is_subscriber()),
            b"master" | b"replica" | b"slave" => Some(false),
            _ => None,
        }
    }

    /// Whether it has sent and read nothing for so long, and neither waits nor subscribes.
    pub fn is_idle(&self, now: i64, seconds: u64) -> bool {
        let millis = (now - self.active.load(Relaxed)).max(0).unsigned_abs();
        let is_apart = || self.is_subscriber() || self.is_node.load(Relaxed);
        millis / 1000 >= seconds && !is_apart() && !self.waits()
    }

    /// Whether its command waits for something.
    fn waits(&self) -> bool {
        *lock(&self.wait) != Wait::None
    }

    /// What it does, in Redis' letters.
    fn flags(&self, last: &Last) -> String {
        let all = [
            (self.is_subscriber(), 'P'),
            (last.in_multi, 'x'),
            (self.waits(), 'b'),
        ];
        let flags: String = all.iter().filter(|it| it.0).map(|it| it.1).collect();
        match flags.is_empty() {
            true => "N".into(),
            false => flags,
        }
    }

    fn is_subscriber(&self) -> bool {
        self.subscriptions.load(Relaxed) + self.shards.load(Relaxed) > 0
    }

    /// The line of `CLIENT LIST`.
    pub fn describe(&self, now: i64) -> String {
        let about = lock(&self.about);
        let messages = &lock(&self.outbox).messages;
        let seconds = |since: i64| (now - since).max(0) / 1000;
        format!(
            "id={} addr={} laddr={} name={} age={} idle={} flags={} db=0 omem={} cmd={} \
             user={} resp={}",
            self.id,
            self.address,
            self.local,
            String::from_utf8_lossy(&about.name),
            seconds(self.created),
            seconds(self.active.load(Relaxed)),
            self.flags(&about.last),
            messages.bytes.capacity(),
            about.last.name(),
            String::from_utf8_lossy(&lock(&self.account).name),
            if messages.protocol == Protocol::Two {
                2
            } else {
                3
            },
        )
    }

    /// Adds a message, and wakes the connection. Ends it if it has left too many messages unread.
    pub fn send(&self, message: impl FnOnce(&mut Writer)) {
        if self.is_killed() {
            return;
        }
        let mut outbox = lock(&self.outbox);
        // The last quarter is for those who read.
        let is_slow = outbox.messages.bytes.len() > UNCOUNTED && self.memory.is_short();
        message(&mut outbox.messages);
        let bytes = outbox.messages.bytes.len();
        if is_slow || outbox.messages.is_cut() || outbox.is_over(&self.memory.unread) {
            outbox.take();
            self.note_unread(bytes);
            self.kill();
        } else {
            self.woken.notify_one();
        }
    }

    /// Tells of a subscriber that is disconnected.
    fn note_unread(&self, bytes: usize) {
        static EVENTS: Seldom = Seldom::new();
        self.memory.disconnected.fetch_add(1, Relaxed);
        if let Some(held_back) = EVENTS.pass() {
            let client = self.address();
            warn!(
                client,
                bytes, held_back, "a connection is ended: it leaves messages unread"
            );
        }
    }

    /// Takes the messages that wait.
    pub fn take_messages(&self) -> Writer {
        lock(&self.outbox).take()
    }

    /// Its command waits from now on.
    pub fn begin_wait(&self) {
        *lock(&self.wait) = Wait::Begun;
    }

    /// Its command is done.
    pub fn end_wait(&self) {
        *lock(&self.wait) = Wait::None;
    }

    /// Ends the wait of its command, if it waits and nobody has ended that. Returns whether so.
    pub fn unblock(&self, how: Unblock) -> bool {
        let mut wait = lock(&self.wait);
        let waits = *wait == Wait::Begun;
        if waits {
            *wait = Wait::Ended(how);
            self.woken.notify_one();
        }
        waits
    }

    /// How somebody has ended the wait of its command.
    pub fn unblocked(&self) -> Option<Unblock> {
        match *lock(&self.wait) {
            Wait::Ended(how) => Some(how),
            Wait::None | Wait::Begun => None,
        }
    }

    /// Ends the connection.
    pub fn kill(&self) {
        self.killed.store(true, Relaxed);
        self.woken.notify_one();
    }

    pub fn is_killed(&self) -> bool {
        self.killed.load(Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|it| it.into_inner())
}

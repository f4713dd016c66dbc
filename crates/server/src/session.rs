//! The state of one connection, as far as commands know it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::acl::Account;
use crate::blocked::Blocked;
use crate::client::{Client, Last};
use crate::command::{Command, Transaction};
use crate::keyspace::Watched;
use crate::memory::OVERHEAD;
use crate::shared::{Counts, Shared};

/// Which replies a client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Replies {
    On,
    Off,
    /// Neither to this command nor to the next one.
    SkipThis,
    /// Not to this command.
    SkipNext,
}

/// The state of one connection.
pub(crate) struct Session {
    pub client: Arc<Client>,
    pub authenticated: bool,
    /// Who it is.
    pub user: Arc<Account>,
    pub replies: Replies,
    /// The connection ends after the reply.
    pub quits: bool,
    /// Keys may have changed since this was last reset.
    pub wrote: bool,
    /// When the last command ended, if another one may follow at once.
    pub clock: Option<Instant>,
    /// What it did and the server's counts do not have yet.
    counts: Cell<Counts>,
    pub transaction: Option<Transaction>,
    pub watched: Vec<Watched>,
    /// What its command waits for.
    pub blocked: Option<Blocked>,
    pub channels: BTreeSet<Box<[u8]>>,
    pub patterns: BTreeSet<Box<[u8]>>,
    /// Bytes of its name, and of those of keys and channels that it watches or subscribes to.
    names: usize,
}

/// Bytes that a name of a key or channel takes, here and where the server has them all.
pub(crate) fn bytes_of(name: &[u8]) -> usize {
    2 * (name.len() + OVERHEAD)
}

impl Session {
    pub fn new(client: Arc<Client>, authenticated: bool, user: Arc<Account>) -> Session {
        Session {
            client,
            user,
            authenticated,
            replies: Replies::On,
            quits: false,
            wrote: false,
            clock: None,
            counts: Cell::default(),
            transaction: None,
            watched: Vec::new(),
            blocked: None,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            // That it has no name.
            names: bytes_of(&[]),
        }
    }

    /// Whether the client wants all replies, and gets nothing else.
    pub fn is_usual(&self) -> bool {
        self.replies == Replies::On && !self.is_subscribed()
    }

    /// Whether it receives messages of any channel.
    pub fn is_subscribed(&self) -> bool {
        let none = self.channels.is_empty() && self.patterns.is_empty();
        !none || self.client.shards.load(Relaxed) > 0
    }

    /// Makes it another user's.
    pub fn be(&mut self, user: Arc<Account>) {
        self.client.set_account(Arc::clone(&user));
        self.user = user;
    }

    /// Notes which command the client has sent last, and its subcommand.
    pub fn note(&self, now: i64, command: &Command, subcommand: Option<&'static str>) {
        let last = Last {
            command: command.name,
            subcommand,
            in_multi: self.transaction.is_some(),
        };
        self.client.note(now, last);
    }

    /// Whether its command has to wait before it is run again.
    pub fn is_blocked(&self) -> bool {
        self.blocked.as_ref().is_some_and(|it| it.waits)
    }

    /// A command could not be queued: the transaction can't be executed.
    pub fn transaction_failed(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.fail();
        }
    }

    /// Adds what was done to the server's counts.
    pub fn count_commands(&mut self, shared: &Shared) {
        let counts = self.counts.take();
        if counts.commands > 0 {
            shared.stats.add(counts);
        }
    }

    /// A reading command looked for a key.
    pub fn note_lookup(&self, is_there: bool) {
        self.count(|it| match is_there {
            true => it.hits += 1,
            false => it.misses += 1,
        });
    }

    /// Counts something that it did.
    pub fn count(&self, add: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }

    /// It keeps the name of a key or channel from now on.
    pub fn keep(&mut self, name: &[u8]) {
        self.names += bytes_of(name);
    }

    /// It keeps a name no more.
    pub fn forget(&mut self, name: &[u8]) {
        self.names -= bytes_of(name);
    }

    /// Gives the connection a name.
    pub fn set_name(&mut self, name: Vec<u8>) {
        self.keep(&name);
        let old = self.client.set_name(name);
        self.forget(&old);
    }

    /// Bytes that its transaction and names take.
    pub fn memory(&self) -> usize {
        let transaction = self.transaction.as_ref().map_or(0, Transaction::memory);
        transaction + self.names + self.client.shard_bytes.load(Relaxed)
    }
}

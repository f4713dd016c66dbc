//! Commands: one table, and a file for each family.

pub(crate) mod access;
mod acl;
mod attempt;
pub(crate) mod categories;
mod cluster;
mod combinations;
mod connection;
mod failure;
mod flags;
mod foreign;
mod hashes;
mod help;
mod keys;
mod keys_of;
mod lists;
mod number;
mod pattern;
mod pubsub;
mod ranges;
mod row;
mod scan;
mod series;
mod server;
mod sets;
mod sorted;
mod strings;
mod table;
mod too_long;
mod transaction;
mod waiting_lists;

use std::borrow::Cow;
use std::iter::once;
use std::ops::Range;
use std::pin::Pin;
use std::time::Instant;

use smallvec::SmallVec;
use tracing::error;

use crate::keyspace::{
    Entry, Failed, Fetched, Hint, Keyspace, Kind, Known, Locks, Place, StoreKey, string_key,
};
use crate::memory::Held;
use crate::resp::{Args, Protocol, Writer};
use crate::seldom::Seldom;
use crate::session::Session;
use crate::shared::Shared;

pub(crate) use attempt::{Attempt, dispatch_now};
pub(crate) use categories::subcommand_of;
pub(crate) use failure::Failure;
pub(crate) use flags::Flags;
pub(crate) use number::decimal;
pub(crate) use pattern::matches;
pub(crate) use pubsub::leave;
pub(crate) use row::Command;
pub(crate) use scan::Cursors;
pub(crate) use series::dispatch_series;
pub(crate) use table::{TABLE, find};

use keys_of::Keys;
use row::Handler;
pub(crate) use transaction::{Transaction, end_watches, unwatch};

/// Of commands that lock others than their keys.
const UNUSUAL_LOCKS: Flags = Flags::ALL_KEYS.and(Flags::UNLOCKED);

/// Bytes that the protocol has around a value of a reply, at most: its length, the header of what
/// it is in, and ends of lines.
const MOST_AROUND: usize = 64;

/// How a command ended: with its reply written, or with an error to write.
pub(crate) type Done = Result<(), Failure>;
/// A command under way.
type Running<'a> = Pin<Box<dyn Future<Output = Done> + 'a>>;

/// One command of a client.
pub(crate) struct Call<'a> {
    pub shared: &'a Shared,
    pub session: &'a mut Session,
    pub command: &'static Command,
    pub args: Args<'a>,
    pub out: &'a mut Writer,
    /// Milliseconds since 1970.
    pub now: i64,
    /// Whether it is one of a transaction, whose locks are held.
    pub in_exec: bool,
    /// What is known of its record.
    pub known: Option<Hint<'a>>,
    /// What it has in memory besides its reply.
    pub held: Held<'a>,
}

impl<'a> Call<'a> {
    /// One of a client's own, outside of a transaction.
    fn new(
        shared: &'a Shared,
        session: &'a mut Session,
        command: &'static Command,
        args: Args<'a>,
        out: &'a mut Writer,
        now: i64,
    ) -> Call<'a> {
        // What a command has changed, it says in any case. COMMAND changes nothing, and its reply
        // may be long.
        out.refuses = match command.flags.has(Flags::READ) {
            true => !command.flags.has(Flags::WRITE),
            false => command.name == "command",
        };
        Call {
            held: Held::new(&shared.config.memory),
            shared,
            session,
            command,
            args,
            out,
            now,
            in_exec: false,
            known: None,
        }
    }

    /// The string that is its first argument; `key` may get its key in the store.
    pub fn string<'k>(&self, key: &'k mut Option<StoreKey>) -> Known<'k>
    where
        'a: 'k,
    {
        match self.known {
            Some(known) => known.record,
            None => Known::key(key.insert(string_key(self.arg(1)))),
        }
    }

    pub fn keyspace(&self) -> &'a Keyspace {
        &self.shared.keyspace
    }

    /// Replies with what `write` makes of the elements that its arguments name, from the second on,
    /// of a key that was looked for.
    async fn reply_elements(
        &mut self,
        found: Option<Entry>,
        write: impl Fn(&mut Call<'a>, Option<&[u8]>),
    ) -> Done {
        let mut names = self.args.iter().skip(2);
        self.out.array(names.len());
        let Some(entry) = found else {
            names.for_each(|_| write(self, None));
            return Ok(());
        };
        while names.len() > 0 {
            let keyspace = self.keyspace();
            let (some, _fetched) = keyspace.next_elements(&entry, &mut names).await;
            for name in some {
                let value = keyspace.element(&entry, name).await?;
                write(self, value.as_deref());
            }
        }
        Ok(())
    }

    /// A key of any type, as [`Keyspace::find`] finds it.
    pub async fn find(&self, key: &[u8]) -> Result<Option<Entry>, Failure> {
        let found = self.keyspace().find(key, self.now).await;
        Ok(self.looked_up(found.map_err(Failed::Store))?)
    }

    /// A key of this type, as [`Keyspace::aggregate`] finds it.
    pub async fn aggregate(&self, key: &[u8], kind: Kind) -> Result<Option<Entry>, Failure> {
        let found = self.keyspace().aggregate(key, kind, self.now).await;
        Ok(self.looked_up(found)?)
    }

    /// Notes whether a key was found, if the command is one that reads. One of another type is
    /// there, too.
    pub fn looked_up<T>(&self, found: Result<Option<T>, Failed>) -> Result<Option<T>, Failed> {
        let is_there = match &found {
            Ok(found) => found.is_some(),
            Err(Failed::WrongType) => true,
            Err(Failed::Store(_)) => return found,
        };
        if self.command.flags.has(Flags::READ) {
            self.session.note_lookup(is_there);
        }
        found
    }

    /// An argument that the command's arity or a check before says is there.
    pub fn arg(&self, index: usize) -> &'a [u8] {
        self.args.get(index).unwrap_or(&[])
    }

    /// An argument as an integer.
    pub fn integer(&self, index: usize) -> Result<i64, Failure> {
        crate::resp::integer(self.arg(index)).ok_or(Failure::NOT_INTEGER)
    }

    /// Whether an argument is this word, which is in lower case.
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.arg(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Takes the memory for a reply of so many values, of so many bytes together, before the
    /// command changes anything.
    pub fn promise(&mut self, values: usize, bytes: usize) -> Done {
        match self.out.promise(bytes + values * MOST_AROUND) {
            true => Ok(()),
            false => Err(Failure::NO_ROOM),
        }
    }

    /// The keys of the command.
    pub fn keys(&self) -> SmallVec<[&'a [u8]; 4]> {
        self.command.keys.of(self.args)
    }
}

/// Runs a client's command, or queues it in a transaction, and writes its reply. `found` is the
/// table's row for its name.
pub(crate) async fn dispatch(
    shared: &Shared,
    session: &mut Session,
    found: Option<&'static Command>,
    args: Args<'_>,
    out: &mut Writer,
    now: i64,
) {
    if found.is_none() && foreign::end_foreign(session, args) {
        return;
    }
    let Some(command) = admitted(shared, session, found, args, out) else {
        return refused(shared, session, found);
    };
    let held = match shared.keyspace.node() {
        Some(node) => cluster::hold(node, session, command, args).await,
        None => Ok(None),
    };
    let _held = match held {
        Ok(held) => held,
        Err(why) => {
            refused(shared, session, found);
            return out.error(&why);
        }
    };
    if let Some(transaction) = &mut session.transaction
        && !command.flags.has(Flags::NOT_QUEUED)
    {
        transaction.queue(command, args);
        out.simple("QUEUED");
        return;
    }
    run(Call::new(shared, session, command, args, out, now)).await;
}

/// A command was not run. As in Redis, EXEC ends the transaction, whatever becomes of it.
fn refused(shared: &Shared, session: &mut Session, found: Option<&Command>) {
    if found.is_some_and(|it| it.name == "exec") {
        session.transaction = None;
        end_watches(shared, session);
    } else {
        session.transaction_failed();
    }
}

/// Whether a pause of these holds a command back: of all commands, or of those that change
/// something. Who has paused them, or logs in to end that, is not held back.
pub(crate) fn is_held_back(command: &Command, session: &Session, of_all: bool) -> bool {
    match (command.name, &session.transaction) {
        ("client" | "auth" | "hello", _) => false,
        ("exec", Some(transaction)) => of_all || transaction.changes(),
        _ => of_all || changes(command),
    }
}

/// Whether others may see that a command was done.
fn changes(command: &Command) -> bool {
    command.flags.has(Flags::WRITE) || matches!(command.name, "publish" | "spublish")
}

/// Runs one command of a transaction, whose locks are held, or one that takes its locks.
pub(crate) async fn run(call: Call<'_>) {
    let began = call.shared.slowlog.clock(call.session);
    let (locks, _fetched) = match call.in_exec {
        true => (Locks::new(), None),
        false => match lock_now(call.shared, call.command, call.args) {
            Some(locks) => (locks, None),
            None => wait_for_locks(call.shared, call.command, call.args).await,
        },
    };
    run_locked(call, began, locks, false).await;
}

/// Runs a command that has its locks, and gives them back. `was_tried` says that it could not be
/// done without waiting.
async fn run_locked(mut call: Call<'_>, began: Option<Instant>, locks: Locks<'_>, was_tried: bool) {
    let start = call.out.bytes.len();
    if !call.command.flags.has(Flags::READ.and(Flags::WRITE)) {
        // It may show or reset the count.
        call.session.count_commands(call.shared);
    }
    let handler = match call.shared.keyspace.node() {
        Some(_) => cluster::handler(call.command),
        None => call.command.handler,
    };
    let done = match handler {
        Handler::Now(run) => run(&mut call),
        Handler::Later(run) => run(&mut call).await,
        Handler::Quick(quick, run) => {
            let done = match was_tried {
                true => None,
                false => quick.run(&mut call),
            };
            match done {
                Some(done) => done,
                None => run(&mut call).await,
            }
        }
    };
    drop(locks);
    finish(call, done, start, began);
}

/// A command is done, whose reply begins there and that began then.
fn finish(call: Call, done: Done, start: usize, began: Option<Instant>) {
    call.session.count(|it| it.commands += 1);
    if call.command.flags.has(Flags::WRITE) {
        call.session.wrote = true;
    }
    let done = match call.out.is_cut() {
        true => Err(Failure::NO_ROOM),
        false => done,
    };
    if let Err(failure) = done {
        call.out.truncate(start);
        match too_long::refusal(&failure, &call) {
            Some(words) => call.out.error(&words),
            None => {
                tell(&failure, call.command);
                call.out.error(&failure.text());
            }
        }
    }
    call.session.clock = call.shared.slowlog.note(began, &call);
}

/// Tells of a command that the store, or a memory server, failed.
fn tell(failure: &Failure, command: &Command) {
    static EVENTS: Seldom = Seldom::new();
    if let Failure::Store(error) = failure
        && let Some(held_back) = EVENTS.pass()
    {
        let (reason, command) = (error.to_string(), command.name);
        error!(command, reason, held_back, "a command failed");
    }
}

/// The locks of a command whose keys have places that do not depend on its arguments, if nobody
/// holds any of them.
fn lock_now<'s>(shared: &'s Shared, command: &Command, args: Args<'_>) -> Option<Locks<'s>> {
    let (flags, keys) = (command.flags, command.keys);
    let has_places = matches!(keys, Keys::At(..));
    if !has_places || flags.has(UNUSUAL_LOCKS) {
        return None;
    }
    let locks = &shared.keyspace.locks;
    if keys.is_one() {
        let lock = locks.try_lock(args.get(1)?)?;
        return Some(SmallVec::from_iter([lock]));
    }
    locks.try_lock_all(keys.of(args).into_iter())
}

/// The locks of a command, once nobody else holds one. Of a key with elements, many clients may
/// want different ones: so that they don't wait for the disk one by one, each with the lock, the
/// element is read before.
async fn wait_for_locks<'s>(
    shared: &'s Shared,
    command: &Command,
    args: Args<'_>,
) -> (Locks<'s>, Option<Fetched<'s>>) {
    let place = command.place(args);
    let fetched = match place {
        // Its future is no part of each connection's.
        Place::Element(..) => Box::pin(shared.keyspace.fetch(once(place))).await,
        _ => None,
    };
    (lock(shared, command, args).await, fetched)
}

async fn lock<'s>(shared: &'s Shared, command: &Command, args: Args<'_>) -> Locks<'s> {
    let locks = &shared.keyspace.locks;
    if command.flags.has(Flags::ALL_KEYS) {
        return locks.lock_all().await;
    }
    if command.flags.has(Flags::UNLOCKED) || command.keys.is_none() {
        return Locks::new();
    }
    locks.lock(command.keys.of(args).into_iter()).await
}

/// The command of these arguments; otherwise writes why it can't be run.
fn admitted(
    shared: &Shared,
    session: &Session,
    found: Option<&'static Command>,
    args: Args<'_>,
    out: &mut Writer,
) -> Option<&'static Command> {
    let Some(command) = found else {
        out.error_bytes(&unknown(args));
        return None;
    };
    match reason_against(shared, session, command, args, out.protocol) {
        Some(why) => {
            refuse(command, out, &why);
            None
        }
        None => Some(command),
    }
}

/// Why a command with these arguments can't be run, if it can't.
fn reason_against(
    shared: &Shared,
    session: &Session,
    command: &'static Command,
    args: Args<'_>,
    protocol: Protocol,
) -> Option<Cow<'static, str>> {
    let (name, has) = (command.name, |flag| command.flags.has(flag));
    if !command.takes(args.len()) {
        return Some(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    if !session.authenticated && !has(Flags::NO_AUTH) {
        return Some("NOAUTH Authentication required.".into());
    }
    if !session.user.has_all_rights()
        && let Some(denied) = acl::denied(shared, session, command, args)
    {
        return Some(acl::refusal(&denied).into());
    }
    if session.is_subscribed() && protocol == Protocol::Two && !has(Flags::SUBSCRIBED) {
        let why = format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
             RESET are allowed in this context"
        );
        return Some(why.into());
    }
    if session.transaction.is_some() && has(Flags::NOT_IN_MULTI) {
        return Some("ERR Command not allowed inside a transaction".into());
    }
    if shared.config.options.evict && command.is_of_many_records() {
        let why = format!("ERR this server is a cache (--evict) and has strings only: no '{name}'");
        return Some(why.into());
    }
    if shared.keyspace.node().is_some() && !cluster::serves(command) {
        return Some(format!("ERR a node of a cluster (--cluster) does not have '{name}'").into());
    }
    if has(Flags::GROWS) && shared.is_over_memory() {
        return Some("OOM command not allowed when used memory > 'maxmemory'.".into());
    }
    None
}

/// Writes why a command can't be run. That of EXEC tells that the transaction is over.
#[cold]
fn refuse(command: &Command, out: &mut Writer, why: &str) {
    match command.name {
        "exec" => out.error(&format!(
            "EXECABORT Transaction discarded because of: {}",
            why.strip_prefix("ERR ").unwrap_or(why)
        )),
        _ => out.error(why),
    }
}

fn unknown(args: Args<'_>) -> Vec<u8> {
    let shown = |bytes: &[u8], most: usize| bytes[..bytes.len().min(most)].to_vec();
    let name = shown(args.get(0).unwrap_or(&[]), 128);
    let mut said = [
        b"ERR unknown command '",
        &name[..],
        b"', with args beginning with: ",
    ]
    .concat();
    let mut used = 0;
    for arg in args.iter().skip(1) {
        if used >= 128 {
            break;
        }
        let word = shown(arg, 128 - used);
        used += word.len() + 3;
        said.extend_from_slice(&[b"'", &word[..], b"' "].concat());
    }
    said
}

/// A command that waits for `EXEC`, in bytes of its own.
#[derive(Debug)]
pub(crate) struct Queued {
    pub command: &'static Command,
    bytes: Vec<u8>,
    ranges: Vec<Range<usize>>,
}

impl Queued {
    pub fn new(command: &'static Command, args: Args<'_>) -> Queued {
        let (mut bytes, mut ranges) = (Vec::new(), Vec::with_capacity(args.len()));
        for arg in args.iter() {
            ranges.push(bytes.len()..bytes.len() + arg.len());
            bytes.extend_from_slice(arg);
        }
        Queued {
            command,
            bytes,
            ranges,
        }
    }

    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.ranges)
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.ranges.capacity() * size_of::<Range<usize>>()
    }
}

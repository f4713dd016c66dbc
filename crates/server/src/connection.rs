//! A connection: bytes in, commands, bytes out.

use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use timberline_io::yield_now;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tracing::{debug, warn};

use crate::ahead::Ahead;
use crate::blocked;
use crate::client::Client;
use crate::command::{
    Attempt, Command, dispatch, dispatch_now, dispatch_series, end_watches, is_held_back, leave,
    subcommand_of,
};
use crate::keyspace::{Fetched, Hints};
use crate::memory::UNCOUNTED;
use crate::options::Durability;
use crate::resp::{Args, Limits, Parser, Writer};
use crate::session::{Replies, Session};
use crate::shared::{Shared, millis_since_1970};
use crate::stream::{Acceptor, Stream};

/// Bytes of a buffer to read into.
const READ: usize = 16 << 10;
/// Bytes of replies after which they are sent although more commands are there.
const ENOUGH: usize = 64 << 10;
/// Buffers that a thread keeps for connections.
const SPARE: usize = 64;
/// Limits of a client that has not authenticated itself. Redis'.
const STRANGER: Limits = Limits {
    arguments: 10,
    bulk: 16384,
};

thread_local! {
    /// Buffers that no connection uses: one that waits for its client has none.
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    /// Those for commands that are parsed ahead. There are as many as connections execute commands
    /// at a time.
    static AHEAD: RefCell<Vec<Ahead>> = const { RefCell::new(Vec::new()) };
}

fn take_buffer() -> Vec<u8> {
    let spare = BUFFERS.with_borrow_mut(Vec::pop);
    spare.unwrap_or_else(|| Vec::with_capacity(READ))
}

fn give_back(mut buffer: Vec<u8>) {
    buffer.clear();
    if (READ..=4 * READ).contains(&buffer.capacity()) {
        BUFFERS.with_borrow_mut(|spare| {
            if spare.len() < SPARE {
                spare.push(buffer);
            }
        });
    }
}

/// Serves a client until one of both ends it.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    socket: TcpStream,
    tls: Option<Acceptor>,
    client: Arc<Client>,
) {
    let stream = Stream::begin(socket, tls, &client).await;
    let Ok(stream) = stream else {
        return shared.remove_client(client.id);
    };
    let (authenticated, user) = (shared.users.is_open(), shared.users.default_account());
    let mut connection = Connection {
        session: Session::new(Arc::clone(&client), authenticated, user),
        shared: &shared,
        stream,
        parser: Parser::default(),
        input: Vec::new(),
        out: Writer::counted(&shared.config.memory, UNCOUNTED),
        accounted: 0,
    };
    debug!(client = client.address(), "a connection begins");
    let ended = connection.run().await;
    connection.stream.end().await;
    let reason = ended.err().map(|it| it.to_string());
    debug!(client = client.address(), reason, "a connection ends");
    let session = &mut connection.session;
    end_watches(&shared, session);
    blocked::end(&shared, session);
    leave(&shared, session);
    let buffers = &shared.config.memory.buffers;
    buffers.fetch_sub(connection.accounted, Relaxed);
    shared.remove_client(client.id);
}

struct Connection<'a> {
    shared: &'a Shared,
    session: Session,
    stream: Stream,
    parser: Parser,
    /// Bytes that are no whole command yet.
    input: Vec<u8>,
    out: Writer,
    /// Bytes of buffers that the server knows of.
    accounted: usize,
}

/// Why a connection wakes.
enum Event {
    Readable,
    Woken,
}

impl<'a> Connection<'a> {
    async fn run(&mut self) -> io::Result<()> {
        loop {
            match self.event().await? {
                Event::Woken if self.session.client.is_killed() => return Ok(()),
                Event::Woken if self.shared.is_idle(&self.session.client) => return Ok(()),
                Event::Woken => {
                    self.out.append(self.session.client.take_messages());
                    self.flush().await?;
                }
                Event::Readable => {
                    if !self.read().await? {
                        return Ok(());
                    }
                    self.execute().await?;
                    if self.session.quits {
                        return Ok(());
                    }
                }
            }
            if !self.account() {
                let client = self.session.client.address();
                let memory = &self.shared.config.memory;
                memory.disconnected.fetch_add(1, Relaxed);
                warn!(
                    client,
                    "a connection is ended: its buffers take too much memory"
                );
                self.out
                    .error("ERR the server's memory for clients is used up");
                return self.flush().await;
            }
        }
    }

    /// Waits until the client sends, or somebody wants something of the connection.
    async fn event(&mut self) -> io::Result<Event> {
        let (client, stream) = (&self.session.client, &mut self.stream);
        let mut woken = pin!(client.woken.notified());
        std::future::poll_fn(|context| {
            if woken.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Event::Woken));
            }
            stream.poll_read_ready(context).map_ok(|()| Event::Readable)
        })
        .await
    }

    /// Reads what is there. Returns whether the client may send more.
    async fn read(&mut self) -> io::Result<bool> {
        if self.input.capacity() == 0 {
            self.input = take_buffer();
        } else if self.input.len() == self.input.capacity() {
            // Bytes that were announced get space as they come.
            let wanted = self.parser.wanted(self.input.len());
            self.input
                .reserve_exact(wanted.clamp(READ, (1 << 20).max(self.input.len())));
        }
        let Some(read) = self.stream.read_now(&mut self.input).await? else {
            return Ok(true);
        };
        self.shared.stats.received.fetch_add(read as u64, Relaxed);
        self.shared.note_activity(&self.session.client);
        Ok(read > 0)
    }

    /// Runs all commands that are there, and sends their replies.
    async fn execute(&mut self) -> io::Result<()> {
        let mut ahead = AHEAD.with_borrow_mut(Vec::pop).unwrap_or_default();
        let executed = self.execute_all(&mut ahead).await;
        ahead.clear();
        if ahead.memory() <= READ {
            AHEAD.with_borrow_mut(|spare| spare.push(ahead));
        }
        self.session.clock = None;
        self.session.count_commands(self.shared);
        let is_broken = executed?;
        // The other connections that are queued on this thread run their commands first. A client
        // that sleeps is woken by the first reply that it gets, which takes the kernel as long as
        // some commands take. With the replies of all connections sent one after the other, it is
        // awake when the second one comes.
        yield_now().await;
        self.flush().await?;
        match is_broken {
            true => Err(io::ErrorKind::InvalidData.into()),
            false => Ok(()),
        }
    }

    /// Runs all commands that are there, and sends replies as soon as there are many. Returns
    /// whether the next is no command; the client was told.
    async fn execute_all(&mut self, ahead: &mut Ahead) -> io::Result<bool> {
        let mut now = millis_since_1970();
        let mut start = 0;
        let mut last = None;
        let mut broken = None;
        while !self.session.quits && broken.is_none() {
            // What a stranger may send depends on the commands before.
            let (limits, one) = match self.session.authenticated {
                true => (self.shared.config.limits(), false),
                false => (STRANGER, true),
            };
            let before = start;
            let (parser, input) = (&mut self.parser, &self.input);
            (start, broken) = ahead.parse(parser, input, start, limits, one);
            if let (Some(reason), true) = (&mut broken, one)
                && parser
                    .next(&input[start..], self.shared.config.limits())
                    .as_ref()
                    != Err(reason)
            {
                // Others may send that.
                reason.0 = reason.0.replace("invalid", "unauthenticated");
            }
            if ahead.is_empty() && start == before {
                break;
            }
            let (mut done, mut attempt) = (0, Attempt::None);
            let (mut fetched, mut were_tried) = (None, false);
            while done < ahead.len() || self.out.bytes.len() >= ENOUGH {
                if self.out.bytes.len() >= ENOUGH {
                    were_tried = !self.flush_without(&mut fetched).await?;
                    now = millis_since_1970();
                    self.session.clock = None;
                    if self.session.client.is_killed() {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                    continue;
                }
                if !were_tried {
                    were_tried = true;
                    let fetched = &mut fetched;
                    // An attempt that waits may hold locks, so nothing comes before its command is
                    // run.
                    (done, attempt) = self.execute_some(ahead, done, &mut now, fetched).await;
                    continue;
                }
                let (found, args) = ahead.command(done, &self.input);
                let mut from = self.out.bytes.len();
                if self.session.is_subscribed() {
                    // Messages that came before this command are seen before its reply.
                    self.out.append(self.session.client.take_messages());
                }
                let (shared, session, out) = (self.shared, &mut self.session, &mut self.out);
                if matches!(attempt, Attempt::None) {
                    attempt = dispatch_now(shared, session, found, args, out, now, None);
                }
                match std::mem::replace(&mut attempt, Attempt::None) {
                    Attempt::Done => {}
                    Attempt::Waits(it) => it.run(shared, session, args, out, now).await,
                    Attempt::None => {
                        let stream = &mut self.stream;
                        if is_paused(shared, session, found) {
                            (fetched, were_tried) = (None, false);
                        }
                        if let Some(passed) =
                            wait_for_pause(shared, session, stream, found, out).await?
                        {
                            // What came before was sent.
                            (now, from) = (passed, 0);
                        }
                        dispatch(shared, session, found, args, out, now).await;
                    }
                }
                if session.blocked.is_some() {
                    (fetched, were_tried) = (None, false);
                    let (shared, stream) = (self.shared, &mut self.stream);
                    now = unblock(shared, session, stream, found, args, out).await?;
                    // What came before was sent.
                    from = 0;
                }
                self.session.replies = match self.session.replies {
                    Replies::On => Replies::On,
                    Replies::SkipThis => Replies::SkipNext,
                    Replies::SkipNext => {
                        self.out.truncate(from);
                        Replies::On
                    }
                    Replies::Off => {
                        self.out.truncate(from);
                        Replies::Off
                    }
                };
                done += 1;
                if self.session.quits {
                    broken = None;
                    break;
                }
            }
            if let Some(at) = done.checked_sub(1) {
                let (found, args) = ahead.command(at, &self.input);
                last = found.map(|it| (it, subcommand_of(it, args)));
            }
        }
        if let Some(reason) = &broken {
            self.out.error(&format!("ERR {}", reason.0));
        }
        if let Some((command, subcommand)) = last {
            self.session.note(now, command, subcommand);
        }
        if start == self.input.len() {
            give_back(std::mem::take(&mut self.input));
            self.parser.shrink();
        } else if start > 0 {
            self.input.drain(..start);
        }
        Ok(broken.is_some())
    }

    /// Executes the commands that are there, from one on, as long as none has to wait for more than
    /// a record: those are fetched before. Returns how many are executed then, and what became of
    /// the next.
    async fn execute_some(
        &mut self,
        ahead: &Ahead,
        done: usize,
        now: &mut i64,
        fetched: &mut Option<Fetched<'a>>,
    ) -> (usize, Attempt<'a>) {
        if let Some(executed) = self.execute_now(ahead, done, *now, true) {
            return executed;
        }
        let account = &self.session.user;
        let may_run = |command: &Command, args: Args| {
            account.has_all_rights()
                || command.takes(args.len()) && account.user().check(command, args).is_ok()
        };
        let places = ahead.places(done, &self.input, may_run);
        // Its future is no part of each connection's.
        *fetched = Box::pin(self.shared.keyspace.fetch(places)).await;
        *now = millis_since_1970();
        self.session.clock = None;
        let executed = self.execute_now(ahead, done, *now, false);
        executed.unwrap_or((done, Attempt::None))
    }

    /// The same of commands that need not wait, with all memory that they look at prefetched at the
    /// same time. `None` if a record has to be waited for, and `if_in_memory`: then none is
    /// executed.
    fn execute_now(
        &mut self,
        ahead: &Ahead,
        done: usize,
        now: i64,
        if_in_memory: bool,
    ) -> Option<(usize, Attempt<'a>)> {
        let is_usual = self.session.is_usual() && self.session.transaction.is_none();
        if ahead.len() - done < 2 || !is_usual {
            return Some((done, Attempt::None));
        }
        let keyspace = &self.shared.keyspace;
        let held = keyspace.store().places();
        let mut hints = Hints::default();
        let places = ahead.places(done, &self.input, |_, _| true);
        keyspace.prepare(&held, places, &mut hints);
        if if_in_memory && hints.waits() {
            return None;
        }
        let hinted = |index| {
            let (found, args) = ahead.command(index, &self.input);
            (found, args, hints.get(index - done))
        };
        // Up to `alone`, commands that can't be executed together are on their own.
        let (mut index, mut alone) = (done, done);
        while index < ahead.len() {
            let (shared, session, out) = (self.shared, &mut self.session, &mut self.out);
            if out.bytes.len() >= ENOUGH {
                return Some((index, Attempt::None));
            }
            if index >= alone {
                let rest = (index..ahead.len()).map(hinted);
                match dispatch_series(shared, session, rest, out, now) {
                    Ok(executed) => {
                        index += executed;
                        continue;
                    }
                    Err(those) => alone = index + those,
                }
            }
            let (found, args, hint) = hinted(index);
            match dispatch_now(shared, session, found, args, out, now, hint) {
                Attempt::Done => index += 1,
                attempt => return Some((index, attempt)),
            }
        }
        Some((ahead.len(), Attempt::None))
    }

    /// The same as [`flush`](Self::flush). If that has to wait, as for a client that does not read,
    /// what was fetched is forgotten. Returns whether something was.
    async fn flush_without(&mut self, fetched: &mut Option<Fetched<'_>>) -> io::Result<bool> {
        let (mut flush, mut is_gone) = (pin!(self.flush()), false);
        std::future::poll_fn(|context| {
            let flushed = flush.as_mut().poll(context);
            if flushed.is_pending() {
                is_gone |= fetched.take().is_some();
            }
            flushed
        })
        .await?;
        Ok(is_gone)
    }

    /// Sends the replies, once what they promise is on the disk.
    async fn flush(&mut self) -> io::Result<()> {
        flush(
            self.shared,
            &mut self.session,
            &mut self.stream,
            &mut self.out,
        )
        .await
    }

    /// Tells the server how much memory the buffers take. Returns whether the client may go on.
    fn account(&mut self) -> bool {
        let input = self.input.capacity();
        let bytes = input + self.out.uncounted() + self.parser.memory() + self.session.memory();
        let is_large = bytes > 4 * READ;
        let bytes = bytes + self.stream.memory();
        let memory = &self.shared.config.memory;
        let more = bytes.wrapping_sub(self.accounted);
        if more != 0 {
            memory.buffers.fetch_add(more, Relaxed);
        }
        self.accounted = bytes;
        !(is_large && memory.is_full()) && self.input.len() <= self.shared.config.max_query()
    }
}

/// Runs a command that waits until it is done. Returns the time in milliseconds since 1970.
async fn unblock(
    shared: &Shared,
    session: &mut Session,
    stream: &mut Stream,
    found: Option<&'static Command>,
    args: Args<'_>,
    out: &mut Writer,
) -> io::Result<i64> {
    let mut now = millis_since_1970();
    if let Some(command) = found {
        session.note(now, command, subcommand_of(command, args));
    }
    while session.is_blocked() {
        // It was run, and is not done.
        session.count(|it| it.commands -= 1);
        flush(shared, session, stream, out).await?;
        match blocked::event(session, stream.socket()).await? {
            blocked::Event::Woken if session.client.is_killed() => {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            blocked::Event::Woken if session.client.unblocked().is_none() => {
                out.append(session.client.take_messages());
                session.count(|it| it.commands += 1);
            }
            blocked::Event::Woken | blocked::Event::Again => {
                now = millis_since_1970();
                session.clock = None;
                blocked::begin_again(session);
                let passed = wait_for_pause(shared, session, stream, found, out).await?;
                now = passed.unwrap_or(now);
                dispatch(shared, session, found, args, out, now).await;
            }
        }
    }
    blocked::end(shared, session);
    Ok(now)
}

/// Whether a pause holds a command back.
fn is_paused(shared: &Shared, session: &Session, found: Option<&Command>) -> bool {
    let is_held = |it| is_held_back(it, session, shared.pause.is_of_all());
    shared.pause.is_on() && found.is_some_and(is_held)
}

/// Waits as long as a pause holds a command back, with the replies to those before sent. Returns
/// the time then, in milliseconds since 1970; `None` if it need not wait.
async fn wait_for_pause(
    shared: &Shared,
    session: &mut Session,
    stream: &mut Stream,
    found: Option<&'static Command>,
    out: &mut Writer,
) -> io::Result<Option<i64>> {
    let mut passed = None;
    while is_paused(shared, session, found) {
        if passed.is_none() {
            flush(shared, session, stream, out).await?;
        }
        if session.client.is_killed() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        blocked::unless_gone(stream.socket(), shared.pause.wait()).await?;
        passed = Some(millis_since_1970());
        session.clock = None;
    }
    Ok(passed)
}

/// Sends the replies of a connection, once what they promise is on the disk.
async fn flush(
    shared: &Shared,
    session: &mut Session,
    stream: &mut Stream,
    out: &mut Writer,
) -> io::Result<()> {
    // Before the client can know that they were executed.
    session.count_commands(shared);
    let is_each = shared.config.options.durability == Durability::Each;
    if std::mem::take(&mut session.wrote) && is_each {
        // Without a reply the client knows that the write may be lost.
        let synced = shared.keyspace.store().sync().await;
        synced.map_err(|error| io::Error::other(error.to_string()))?;
    }
    let client = &session.client;
    let (mut sent, mut was_woken) = (0, false);
    // A command may have taken long.
    shared.note_activity(client);
    while sent < out.bytes.len() || stream.holds_back() {
        let mut woken = pin!(client.woken.notified());
        let rest = &out.bytes[sent..];
        sent += std::future::poll_fn(|context| {
            let stream = Pin::new(&mut *stream);
            let done = match rest.is_empty() {
                true => stream.poll_flush(context).map_ok(|()| 0),
                false => stream.poll_write(context, rest),
            };
            if done.is_ready() {
                return done;
            }
            // Only an end matters while the client does not read.
            while woken.as_mut().poll(context).is_ready() {
                if client.is_killed() || shared.is_idle(client) {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                was_woken = true;
                // An end may come behind the message.
                woken.set(client.woken.notified());
            }
            Poll::Pending
        })
        .await?;
        shared.note_activity(client);
    }
    if was_woken {
        // For messages, which are looked for when all is sent.
        client.woken.notify_one();
    }
    shared.stats.sent.fetch_add(sent as u64, Relaxed);
    out.clear();
    Ok(())
}

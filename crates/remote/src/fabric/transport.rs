//! What the fabrics over networks share on a compute server: a link to each memory server, which is
//! made again when it breaks.

use std::fmt;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::handshake::{self, Key, Protocol, Refused};
use super::wire::MAX_WORDS;
use super::{Completion, Fabric, Operation};
use crate::address::{ComputeId, ServerId};
use crate::error::{Error, Result};

/// Between two attempts to connect: the first, and the longest.
const BACKOFF: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];

/// How a compute server talks to memory servers.
#[derive(Clone, Debug)]
pub struct TransportOptions {
    /// The key that the servers have, if they have one.
    pub key: Option<Key>,
    /// The longest that an operation takes, up to a quarter more.
    pub deadline: Duration,
}

impl Default for TransportOptions {
    /// No key, one second.
    fn default() -> TransportOptions {
        TransportOptions {
            key: None,
            deadline: Duration::from_secs(1),
        }
    }
}

/// A memory server, as a compute server knows it.
pub struct Peer {
    pub server: ServerId,
    pub compute: ComputeId,
    pub address: SocketAddr,
    pub options: TransportOptions,
    /// Which run of the server it is, since it was connected first.
    run: OnceLock<u64>,
}

impl Peer {
    /// A new connection to the server, which has to be in the same run as before.
    ///
    /// # Errors
    /// It cannot be reached, refuses, or was started again.
    pub fn greet(&self, protocol: Protocol) -> Result<TcpStream> {
        let deadline = self.options.deadline;
        let connect = || -> std::result::Result<_, Refused> {
            let stream = TcpStream::connect_timeout(&self.address, deadline)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(deadline))?;
            stream.set_read_timeout(Some(deadline))?;
            let key = self.options.key.as_ref();
            let run = handshake::greet(&stream, protocol, key, self.compute)?;
            Ok((stream, run))
        };
        let (stream, run) = connect().map_err(|refused| self.unreachable(&refused))?;
        match *self.run.get_or_init(|| run) == run {
            true => Ok(stream),
            false => Err(self.unreachable(&"it was started again and lost its memory")),
        }
    }

    /// That it cannot be reached, for this reason.
    pub fn unreachable(&self, reason: &dyn fmt::Display) -> Error {
        Error::Unreachable(self.server, format!("{}: {reason}", self.address))
    }

    /// Between two looks for operations whose deadline has passed.
    pub fn tick(&self) -> Duration {
        (self.options.deadline / 4).max(Duration::from_millis(1))
    }
}

/// What the threads of a link share.
pub struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// Whether there is a session; and, behind it, what a kind of link keeps of one.
pub struct State<T> {
    /// Of the session, to end it.
    pub stream: Option<TcpStream>,
    /// Why there is no session, or what ends it.
    pub down: Option<Error>,
    pub is_ended: bool,
    own: T,
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.own
    }
}

impl<T> DerefMut for State<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.own
    }
}

impl<T> State<T> {
    /// Why there is no session, and what the link keeps.
    pub fn parts(&mut self) -> (Option<&Error>, &mut T) {
        (self.down.as_ref(), &mut self.own)
    }
}

impl<T> Shared<T> {
    /// Of a link that is not connected yet.
    pub fn new(peer: &Peer, own: T) -> Shared<T> {
        Shared {
            state: Mutex::new(State {
                stream: None,
                down: Some(peer.unreachable(&"it was not connected yet")),
                is_ended: false,
                own,
            }),
            changed: Condvar::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|it| it.into_inner())
    }

    /// Wakes threads that wait.
    pub fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits as long as this is so.
    pub fn wait_while(&self, is_so: impl FnMut(&mut State<T>) -> bool) -> MutexGuard<'_, State<T>> {
        let waited = self.changed.wait_while(self.lock(), is_so);
        waited.unwrap_or_else(|it| it.into_inner())
    }

    /// Waits for so long, or until the link is ended. Says whether it is.
    fn wait(&self, time: Duration) -> bool {
        let goes_on = |state: &mut State<T>| !state.is_ended;
        let waited = self.changed.wait_timeout_while(self.lock(), time, goes_on);
        waited.unwrap_or_else(|it| it.into_inner()).0.is_ended
    }

    fn end(&self) {
        let mut state = self.lock();
        state.is_ended = true;
        if let Some(stream) = &state.stream {
            // Reading and writing end. If the other side was faster, they have.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.notify();
    }
}

/// The connection to one memory server. One session follows another until it is ended.
pub trait Link: Send + Sync + 'static {
    /// A connection that works.
    type Session;

    /// What is kept of one.
    type Own: Send;

    /// Whom it leads to.
    fn peer(&self) -> &Peer;

    /// What its threads share.
    fn shared(&self) -> &Shared<Self::Own>;

    /// Connects. Operations can be started from then on.
    ///
    /// # Errors
    /// Why not.
    fn connect(&self) -> Result<Self::Session>;

    /// Carries operations until the session breaks or the link is ended. None is left then.
    fn serve(&self, session: Self::Session);

    /// Begins an operation, which has at most [`MAX_WORDS`] words.
    fn start(&self, operation: Operation) -> Completion;
}

/// A link with a thread that keeps it connected. It ends when this is dropped.
struct Kept<L: Link> {
    link: Arc<L>,
    thread: Option<JoinHandle<()>>,
}

impl<L: Link> Kept<L> {
    /// Connects it.
    ///
    /// # Errors
    /// The first attempt fails.
    fn start(link: L) -> Result<Kept<L>> {
        let link = Arc::new(link);
        let (connected, first) = mpsc::channel();
        let thread = thread::Builder::new().name("fabric".into()).spawn({
            let link = Arc::clone(&link);
            move || keep_connected(&*link, &connected)
        });
        let thread = thread.map_err(|error| link.peer().unreachable(&error))?;
        let kept = Kept {
            link,
            thread: Some(thread),
        };
        first.recv().expect("it says how the first attempt ended")?;
        Ok(kept)
    }
}

/// Connects, again and again, until the link is ended or the first attempt fails.
fn keep_connected<L: Link>(link: &L, connected: &mpsc::Sender<Result<()>>) {
    let mut was_connected = false;
    let mut backoff = BACKOFF[0];
    loop {
        match link.connect() {
            Ok(session) => {
                was_connected = true;
                backoff = BACKOFF[0];
                // Only the first is waited for.
                let _ = connected.send(Ok(()));
                link.serve(session);
            }
            // Operations fail with this until there is a session.
            Err(error) if was_connected => link.shared().lock().down = Some(error),
            Err(error) => {
                let _ = connected.send(Err(error));
                return;
            }
        }
        if link.shared().wait(backoff) {
            return;
        }
        backoff = (2 * backoff).min(BACKOFF[1]);
    }
}

impl<L: Link> Deref for Kept<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.link
    }
}

impl<L: Link> Drop for Kept<L> {
    fn drop(&mut self) {
        self.link.shared().end();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the link's thread does not panic");
        }
    }
}

/// A compute server's links to all memory servers of a pool.
pub struct Links<L: Link> {
    compute: ComputeId,
    begin: Instant,
    links: Vec<Kept<L>>,
}

impl<L: Link> Links<L> {
    /// Connects a new compute server to memory servers, by links that are made so.
    ///
    /// # Errors
    /// One cannot be reached, speaks another protocol, or has another key; there are too many; or
    /// the system has no random numbers.
    pub(super) fn new(
        servers: &[SocketAddr],
        options: &TransportOptions,
        link_to: impl Fn(Peer) -> L,
    ) -> Result<Links<L>> {
        if ServerId::try_from(servers.len()).is_err() {
            return Err(Error::TooManyServers(servers.len()));
        }
        let random = |error: std::io::Error| Error::Unreachable(0, error.to_string());
        let compute = handshake::new_compute().map_err(random)?;
        let links = servers.iter().enumerate().map(|(number, &address)| {
            Kept::start(link_to(Peer {
                server: number as ServerId,
                compute,
                address,
                options: options.clone(),
                run: OnceLock::new(),
            }))
        });
        Ok(Links {
            compute,
            begin: Instant::now(),
            links: links.collect::<Result<_>>()?,
        })
    }
}

impl<L: Link> Fabric for Links<L> {
    fn servers(&self) -> ServerId {
        self.links.len() as ServerId
    }

    fn compute(&self) -> ComputeId {
        self.compute
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn start(&self, operation: Operation) -> Completion {
        let server = operation.server();
        let Some(link) = self.links.get(usize::from(server)) else {
            return Completion::ready(Err(Error::NoServer(server)));
        };
        let too_long = match operation {
            Operation::Read(at, words) => (words > MAX_WORDS).then_some(at),
            Operation::Write(at, ref words) => (words.len() > MAX_WORDS).then_some(at),
            Operation::WriteInOrder(ref writes) => {
                let words = operation.written_words() + 2 * writes.len();
                (words > MAX_WORDS).then(|| writes[0].0)
            }
            _ => None,
        };
        match too_long {
            Some(at) => Completion::ready(Err(Error::OutOfRange(at))),
            None => link.start(operation),
        }
    }
}

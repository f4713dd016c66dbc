//! The memory server's end of the fabric by libfabric.
//!
//! Each compute server has an endpoint and a thread here. The thread takes completions, which lets
//! providers without network cards of their own carry out one-sided operations, and answers calls.
//! It does so while it has all connections: so one compute server's endpoint can be closed for
//! another one, and the atomic operations of such a provider are atomic.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::buffers::Slot;
use super::endpoint::{Ended, Endpoint, Work};
use super::greeting::{self, Answer, Token, Welcome};
use super::library::Failed;
use super::native::{NotBegun, Waits};
use super::session::{message, of_message};
use super::{PROTOCOL, Provider};
use crate::address::ComputeId;
use crate::fabric::handshake::Key;
use crate::fabric::listener::Listener;
use crate::fabric::{Call, Operation, wire};
use crate::pool::{MemoryServer, NODES, Session};

/// Calls of a compute server that are under way at a time.
pub const MESSAGES: usize = 32;
/// Words of the longest message: nodes that are handed out.
pub const MESSAGE_WORDS: usize = 2 + wire::REPLY_HEAD / 8 + NODES;
/// For a compute server's message after the handshake.
const GREETING: Duration = Duration::from_secs(5);
/// The longest wait for completions.
const LONGEST: Duration = Duration::from_millis(250);
/// Between two attempts to send a reply for which libfabric had no room.
const AGAIN: Duration = Duration::from_millis(1);

/// A memory server whose memory network cards read and write.
pub struct LibfabricServer {
    listener: Arc<Listener>,
    shared: Arc<Shared>,
}

struct Shared {
    memory: Arc<MemoryServer>,
    provider: Provider,
    connections: Mutex<Connections>,
    /// How many there were.
    numbers: AtomicU64,
}

/// By their numbers.
type Connections = HashMap<u64, Connection>;

/// What a compute server has here.
struct Connection {
    compute: ComputeId,
    session: Arc<Session>,
    endpoint: Endpoint<Tag>,
    token: Token,
    /// Replies for which there was no room.
    unsent: VecDeque<(Slot, usize)>,
    stream: TcpStream,
}

enum Tag {
    Receive,
    Send,
}

/// The connection is of no use any more.
struct Broken;

impl LibfabricServer {
    /// Listens at an address. Without a key, everybody who can connect may read and write all of
    /// the memory.
    ///
    /// # Errors
    /// The address is in use or not this machine's; libfabric is not installed, or has no such
    /// network card there.
    pub fn bind(
        address: impl ToSocketAddrs,
        provider: &Provider,
        memory: MemoryServer,
        key: Option<Key>,
    ) -> io::Result<LibfabricServer> {
        let listener = Listener::bind(address, PROTOCOL, key)?;
        let at = listener.address()?.ip();
        if at.is_unspecified() {
            let line = "libfabric needs the address of one network card";
            return Err(io::Error::new(ErrorKind::InvalidInput, line));
        }
        // Whether there is one, and how much memory may be registered, is better known now.
        let memory = Arc::new(memory);
        let mut endpoint = Endpoint::<Tag>::open(provider, at).map_err(other)?;
        endpoint.share(&memory, random()?).map_err(other)?;
        Ok(LibfabricServer {
            listener,
            shared: Arc::new(Shared {
                memory,
                provider: provider.clone(),
                connections: Mutex::default(),
                numbers: AtomicU64::new(0),
            }),
        })
    }

    /// The address that compute servers connect to.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.address()
    }

    /// Serves compute servers until the process ends.
    ///
    /// # Errors
    /// Connections can be accepted no more.
    pub fn serve(&self) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let serve = move |compute, stream: TcpStream| shared.serve(compute, &stream);
        self.listener.serve(serve)
    }
}

fn other(failed: Failed) -> io::Error {
    io::Error::other(failed.to_string())
}

fn random() -> io::Result<u64> {
    getrandom::u64().map_err(io::Error::from)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(|it| it.into_inner())
    }

    /// Serves one compute server until it goes.
    fn serve(&self, compute: ComputeId, stream: &TcpStream) {
        let answered = match self.connect(compute, stream) {
            Ok(answered) => answered,
            Err(why) => {
                // If that does not arrive, it sees the connection end.
                let _ = greeting::answer(stream, &Answer::Refused(why.to_string()));
                return;
            }
        };
        let Some((number, welcome)) = answered else {
            let _ = greeting::answer(stream, &Answer::Fenced);
            return;
        };
        let answered = greeting::answer(stream, &Answer::Ready(welcome));
        if answered.and_then(|()| stream.set_nonblocking(true)).is_ok() {
            self.carry(number, stream);
        }
        self.lock().remove(&number);
    }

    /// Makes an endpoint for a compute server, in place of the one that it had. `None`: it is
    /// fenced.
    fn connect(
        &self,
        compute: ComputeId,
        stream: &TcpStream,
    ) -> io::Result<Option<(u64, Welcome)>> {
        stream.set_read_timeout(Some(GREETING))?;
        let (provider, peer) = greeting::introduction(stream)?;
        if provider != self.provider.name().as_bytes() {
            let line = format!("it is served by libfabric's `{}`", self.provider);
            return Err(io::Error::other(line));
        }
        let at = stream.local_addr()?.ip();
        let mut endpoint = Endpoint::open(&self.provider, at).map_err(other)?;
        endpoint.set_peer(&peer).map_err(other)?;
        for _ in 0..MESSAGES {
            let slot = endpoint.slot(MESSAGE_WORDS).map_err(other)?;
            let begun = endpoint.begin(slot, Work::Receive, Tag::Receive);
            begun.map_err(|(error, ..)| other(error.into()))?;
        }
        let place = endpoint.share(&self.memory, random()?).map_err(other)?;
        let token = [random()?, random()?];
        let welcome = Welcome {
            memory: (place.at, place.key),
            bytes: 8 * self.memory.memory().len() as u64,
            token,
            name: endpoint.name().map_err(other)?,
        };
        let (session, stream) = (self.memory.session(compute), stream.try_clone()?);
        // Nothing that came by an old endpoint is done after something that comes by this one: its
        // peer learns of it after this.
        let mut connections = self.lock();
        if !end(&mut connections, compute, |_| {}) {
            return Err(io::Error::other("its old access cannot be taken from it"));
        }
        if session.is_fenced() {
            return Ok(None);
        }
        let number = self.numbers.fetch_add(1, Relaxed);
        // Not before: the stream, by which a refusal is answered, ends with it.
        let connection = Connection {
            compute,
            session,
            endpoint,
            token,
            unsent: VecDeque::new(),
            stream,
        };
        connections.insert(number, connection);
        Ok(Some((number, welcome)))
    }

    /// Carries operations of a compute server until it is gone, or its connection was ended.
    fn carry(&self, number: u64, mut stream: &TcpStream) {
        loop {
            let Some((waits, time)) = self.go_on(&mut self.lock(), number) else {
                return;
            };
            waits.wait(stream, time);
            match stream.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It says nothing more. Whatever this is, it is the end.
                _ => return,
            }
        }
    }

    /// Does what there is to do for a connection. Returns what to wait for, if it goes on.
    fn go_on(&self, connections: &mut Connections, number: u64) -> Option<(Waits, Duration)> {
        let mut all = Vec::new();
        let taken = connections.get_mut(&number)?.endpoint.ended(&mut all);
        taken.ok()?;
        for Ended { slot, tag, result } in all {
            match (tag, result.ok()?) {
                (Tag::Receive, bytes) => {
                    self.request(connections, number, slot, bytes / 8).ok()?;
                }
                (Tag::Send, _) => {
                    // One may have fenced itself meanwhile.
                    connections.get_mut(&number)?.endpoint.give_back(slot);
                }
            }
        }
        let connection = connections.get_mut(&number)?;
        connection.send_again().ok()?;
        let time = match connection.unsent.is_empty() {
            true => LONGEST,
            false => AGAIN,
        };
        Some((connection.endpoint.waits(), time))
    }

    /// Answers a message, if it is one of the endpoint's compute server.
    fn request(
        &self,
        connections: &mut Connections,
        number: u64,
        slot: Slot,
        words: usize,
    ) -> Result<(), Broken> {
        let connection = connections.get_mut(&number).ok_or(Broken)?;
        let endpoint = &mut connection.endpoint;
        let words = endpoint.buffers().copy(&slot, words);
        let received = endpoint.begin(slot, Work::Receive, Tag::Receive);
        received.map_err(|_| Broken)?;
        let Some(bytes) = of_message(connection.token, &words) else {
            return Ok(());
        };
        // Its own number in the pool is known to compute servers only.
        const SELF: u16 = 0;
        let Ok(Some((_, call, operation @ Operation::Call(..)))) = wire::request(&bytes, SELF)
        else {
            return Err(Broken);
        };
        let result = self.memory.perform(&connection.session, &operation);
        if let (Operation::Call(_, Call::Fence(compute)), Ok(_)) = (&operation, &result) {
            let tell = |it: &Connection| {
                // Otherwise it learns that when it connects again.
                let _ = greeting::answer(&it.stream, &Answer::Fenced);
            };
            if !end(connections, *compute, tell) {
                // Without an answer, it is asked for again.
                return Ok(());
            }
        }
        // One may fence itself.
        let connection = connections.get_mut(&number).ok_or(Broken)?;
        let mut bytes = Vec::new();
        wire::put_reply(&mut bytes, call, &result);
        let words = message(connection.token, &bytes);
        let slot = connection.endpoint.slot(MESSAGE_WORDS);
        let slot = slot.map_err(|_| Broken)?;
        connection.endpoint.buffers().put(&slot, &words);
        connection.unsent.push_back((slot, words.len()));
        connection.send_again()
    }
}

/// Ends the connections of a compute server. Says whether nothing of it is under way any more, and
/// nothing ever will be by these.
fn end(connections: &mut Connections, compute: ComputeId, tell: impl Fn(&Connection)) -> bool {
    let mut is_ended = true;
    connections.retain(|_, connection| {
        if connection.compute != compute {
            return true;
        }
        tell(connection);
        let is_revoked = connection.endpoint.revoke();
        is_ended &= is_revoked;
        !is_revoked
    });
    is_ended
}

impl Connection {
    /// Sends replies that wait.
    fn send_again(&mut self) -> Result<(), Broken> {
        while let Some((slot, words)) = self.unsent.pop_front() {
            match self.endpoint.begin(slot, Work::Send(words), Tag::Send) {
                Ok(()) => {}
                Err((NotBegun::Again, slot, _)) => {
                    self.unsent.push_front((slot, words));
                    break;
                }
                Err((NotBegun::Failed(_), ..)) => return Err(Broken),
            }
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The thread that waits for it ends. If the other side was faster, it does anyway.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

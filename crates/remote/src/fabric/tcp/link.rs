//! The connection to one memory server, which is made again when it breaks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::handshake::{self, Refused};
use super::pending::{Pending, Waiting};
use super::wire::{self, Asked};
use super::{MAX_WORDS, TcpOptions};
use crate::address::{ComputeId, ServerId};
use crate::error::{Error, Result};
use crate::fabric::{Completion, Operation};

/// Between two attempts to connect: the first, and the longest.
const BACKOFF: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;

/// A connection, with a thread that reads and one that writes. It ends when this is dropped.
pub struct Link {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    server: ServerId,
    compute: ComputeId,
    address: SocketAddr,
    options: TcpOptions,
    state: Mutex<State>,
    /// There is something to write, or the end.
    changed: Condvar,
}

struct State {
    /// Requests that are not written yet.
    outgoing: Vec<u8>,
    pending: Pending,
    /// Of the session, to end it.
    stream: Option<TcpStream>,
    /// Why there is no session.
    down: Option<Error>,
    is_dropped: bool,
}

impl Link {
    /// Connects a compute server to a memory server.
    ///
    /// # Errors
    /// It cannot be reached, or refuses.
    pub fn connect(
        compute: ComputeId,
        server: ServerId,
        address: SocketAddr,
        options: TcpOptions,
    ) -> Result<Link> {
        let not_yet = Error::Unreachable(server, "it was not connected yet".into());
        let shared = Arc::new(Shared {
            server,
            compute,
            address,
            options,
            state: Mutex::new(State {
                outgoing: Vec::new(),
                pending: Pending::default(),
                stream: None,
                down: Some(not_yet),
                is_dropped: false,
            }),
            changed: Condvar::new(),
        });
        let (connected, first) = mpsc::channel();
        let thread = thread::Builder::new().name("fabric".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.keep_connected(&connected)
        });
        let thread = thread.map_err(|error| shared.unreachable(&error))?;
        let link = Link {
            shared,
            thread: Some(thread),
        };
        first.recv().expect("it says how the first attempt ended")?;
        Ok(link)
    }

    /// Begins an operation.
    pub fn start(&self, operation: &Operation) -> Completion {
        let mut state = self.shared.lock();
        if let Some(error) = &state.down {
            return Completion::ready(Err(error.clone()));
        }
        let (completion, completer) = Completion::pending();
        let number = state.pending.add(Waiting {
            asked: Asked::by(operation),
            completer,
            deadline: Instant::now() + self.shared.options.deadline,
        });
        let was_idle = state.outgoing.is_empty();
        wire::put_request(&mut state.outgoing, number, operation);
        drop(state);
        if was_idle {
            self.shared.changed.notify_all();
        }
        completion
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_dropped = true;
        if let Some(stream) = &state.stream {
            // Reading and writing end. If the other side was faster, they have.
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the link's thread does not panic");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|it| it.into_inner())
    }

    fn unreachable(&self, reason: &dyn std::fmt::Display) -> Error {
        let reason = format!("{}: {reason}", self.address);
        Error::Unreachable(self.server, reason)
    }

    /// Connects, again and again, until the link is dropped or the first attempt fails.
    fn keep_connected(&self, connected: &mpsc::Sender<Result<()>>) {
        let mut run = None;
        let mut backoff = BACKOFF[0];
        loop {
            match self.connect(&mut run) {
                Ok(stream) => {
                    backoff = BACKOFF[0];
                    self.begin_session(&stream);
                    // Only the first is waited for.
                    let _ = connected.send(Ok(()));
                    self.session(&stream);
                }
                Err(error) => {
                    if run.is_none() {
                        let _ = connected.send(Err(error));
                        return;
                    }
                    self.lock().down = Some(error);
                }
            }
            let state = self.lock();
            let dropped = |state: &mut State| !state.is_dropped;
            let waited = self.changed.wait_timeout_while(state, backoff, dropped);
            if waited.unwrap_or_else(|it| it.into_inner()).0.is_dropped {
                return;
            }
            backoff = (2 * backoff).min(BACKOFF[1]);
        }
    }

    /// A new connection to the server, which has to be in the same run as before.
    fn connect(&self, run: &mut Option<u64>) -> Result<TcpStream> {
        let deadline = self.options.deadline;
        let connect = || -> std::result::Result<_, Refused> {
            let stream = TcpStream::connect_timeout(&self.address, deadline)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(deadline))?;
            stream.set_read_timeout(Some(deadline))?;
            let server_run = handshake::greet(&stream, self.options.key.as_ref(), self.compute)?;
            stream.set_read_timeout(Some(self.tick()))?;
            Ok((stream, server_run))
        };
        let (stream, server_run) = connect().map_err(|refused| self.unreachable(&refused))?;
        match *run.get_or_insert(server_run) == server_run {
            true => Ok(stream),
            false => Err(self.unreachable(&"it was started again and lost its memory")),
        }
    }

    /// Between two looks for operations whose deadline has passed.
    fn tick(&self) -> Duration {
        (self.options.deadline / 4).max(Duration::from_millis(1))
    }

    fn begin_session(&self, stream: &TcpStream) {
        let mut state = self.lock();
        // Without a second handle, the reader sees at its next tick that the link was dropped.
        state.stream = stream.try_clone().ok();
        state.down = None;
    }

    /// Reads and writes until the connection breaks or the link is dropped.
    fn session(&self, stream: &TcpStream) {
        thread::scope(|scope| {
            let writer = thread::Builder::new().name("fabric".into());
            let spawned = writer.spawn_scoped(scope, || {
                // If it fails, so does reading.
                let _ = self.write_all(stream);
                let _ = stream.shutdown(Shutdown::Both);
            });
            if spawned.is_ok() {
                // Whatever ended it: the connection is of no use any more.
                let _ = self.read_all(stream);
            }
            self.end_session(stream);
        });
    }

    fn end_session(&self, stream: &TcpStream) {
        let _ = stream.shutdown(Shutdown::Both);
        let lost = Error::Lost(self.server);
        let waiting = {
            let mut state = self.lock();
            state.down = Some(lost.clone());
            state.stream = None;
            state.outgoing.clear();
            state.pending.take_all()
        };
        self.changed.notify_all();
        for Waiting { completer, .. } in waiting {
            completer.complete(Err(lost.clone()));
        }
    }

    /// Writes requests: all that have come while the ones before were written, at once.
    fn write_all(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            {
                let idle = |state: &mut State| state.outgoing.is_empty() && state.down.is_none();
                let state = self.changed.wait_while(self.lock(), idle);
                let mut state = state.unwrap_or_else(|it| it.into_inner());
                if state.down.is_some() {
                    return Ok(());
                }
                std::mem::swap(&mut bytes, &mut state.outgoing);
            }
            stream.write_all(&bytes)?;
            bytes.clear();
        }
    }

    /// Reads replies, and ends operations whose deadline has passed.
    fn read_all(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut bytes = vec![0; BUFFER.max(wire::REPLY_HEAD + 8 * MAX_WORDS)];
        let mut filled = 0;
        let mut looked = Instant::now();
        loop {
            match stream.read(&mut bytes[filled..]) {
                Ok(0) => return Ok(()),
                Ok(read) => filled += read,
                // An interrupted or late read has read nothing.
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
            let done = self.replies(&bytes[..filled])?;
            bytes.copy_within(done..filled, 0);
            filled -= done;
            let now = Instant::now();
            if now - looked >= self.tick() {
                looked = now;
                let late = {
                    let mut state = self.lock();
                    if state.is_dropped {
                        return Ok(());
                    }
                    state.pending.take_late(now)
                };
                for Waiting { completer, .. } in late {
                    completer.complete(Err(Error::TimedOut(self.server)));
                }
            }
        }
    }

    /// Completes the operations whose replies are in a buffer. Returns the bytes of these.
    fn replies(&self, bytes: &[u8]) -> io::Result<usize> {
        let malformed = || io::Error::from(ErrorKind::InvalidData);
        let mut done = 0;
        let mut wakers = Vec::new();
        let ended = loop {
            let reply = match wire::reply(&bytes[done..]) {
                Ok(Some(reply)) => reply,
                Ok(None) => break Ok(done),
                Err(wire::Malformed) => break Err(malformed()),
            };
            done += reply.bytes;
            let Some(waiting) = self.lock().pending.take(reply.number) else {
                continue;
            };
            let Ok(result) = reply.result(waiting.asked, self.server) else {
                wakers.extend(waiting.completer.put(Err(Error::Lost(self.server))));
                break Err(malformed());
            };
            wakers.extend(waiting.completer.put(result));
        };
        // A task that is woken before the others are complete would soon sleep again.
        wakers.into_iter().for_each(Waker::wake);
        ended
    }
}

//! The connection to one memory server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use super::PROTOCOL;
use crate::error::{Error, Result};
use crate::fabric::pending::{Pending, Waiting};
use crate::fabric::transport::{self, Peer, Shared};
use crate::fabric::wire::{self, Asked, MAX_WORDS};
use crate::fabric::{Completion, Operation};

/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;

/// After so many deadlines without a byte, although there are operations, the connection is made
/// again: TCP itself would send what was lost at ever longer intervals, also when the network is
/// there again.
const SILENT: u32 = 4;

/// A connection, with a thread that reads and one that writes.
pub struct Link {
    peer: Peer,
    shared: Shared<Requests>,
}

#[derive(Default)]
pub struct Requests {
    /// Those that are not written yet.
    outgoing: Vec<u8>,
    pending: Pending,
}

impl transport::Link for Link {
    type Session = TcpStream;
    type Own = Requests;

    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn shared(&self) -> &Shared<Requests> {
        &self.shared
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = self.peer.greet(PROTOCOL)?;
        let timeout = stream.set_read_timeout(Some(self.peer.tick()));
        timeout.map_err(|error| self.peer.unreachable(&error))?;
        let mut state = self.shared.lock();
        // Without a second handle, the reader sees at its next tick that the link was ended.
        state.stream = stream.try_clone().ok();
        state.down = None;
        drop(state);
        Ok(stream)
    }

    fn serve(&self, stream: TcpStream) {
        thread::scope(|scope| {
            let writer = thread::Builder::new().name("fabric".into());
            let spawned = writer.spawn_scoped(scope, || {
                // If it fails, so does reading.
                let _ = self.write_all(&stream);
                let _ = stream.shutdown(Shutdown::Both);
            });
            if spawned.is_ok() {
                // Whatever ended it: the connection is of no use any more.
                let _ = self.read_all(&stream);
            }
            self.end_session(&stream);
        });
    }

    fn start(&self, operation: Operation) -> Completion {
        let mut state = self.shared.lock();
        if let Some(error) = &state.down {
            return Completion::ready(Err(error.clone()));
        }
        let (completion, completer) = Completion::pending();
        let number = state.pending.add(Waiting {
            asked: Asked::by(&operation),
            completer,
            deadline: Instant::now() + self.peer.options.deadline,
        });
        let was_idle = state.outgoing.is_empty();
        wire::put_request(&mut state.outgoing, number, &operation);
        drop(state);
        if was_idle {
            self.shared.notify();
        }
        completion
    }
}

impl Link {
    /// One that is not connected yet.
    pub fn new(peer: Peer) -> Link {
        Link {
            shared: Shared::new(&peer, Requests::default()),
            peer,
        }
    }

    fn end_session(&self, stream: &TcpStream) {
        let _ = stream.shutdown(Shutdown::Both);
        let lost = Error::Lost(self.peer.server);
        let waiting = {
            let mut state = self.shared.lock();
            state.down = Some(lost.clone());
            state.stream = None;
            state.outgoing.clear();
            state.pending.take_all()
        };
        self.shared.notify();
        for Waiting { completer, .. } in waiting {
            completer.complete(Err(lost.clone()));
        }
    }

    /// Writes requests: all that have come while the ones before were written, at once.
    fn write_all(&self, mut stream: &TcpStream) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            {
                // There is something to write, or the end.
                let mut state = (self.shared)
                    .wait_while(|state| state.outgoing.is_empty() && state.down.is_none());
                if state.down.is_some() {
                    return Ok(());
                }
                // Tasks that were woken together ask one after the other. What they ask leaves
                // together: as long as more comes while other threads have their turn.
                let mut seen = 0;
                while state.outgoing.len() > seen && seen < BUFFER {
                    seen = state.outgoing.len();
                    drop(state);
                    thread::yield_now();
                    state = self.shared.lock();
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
        // Since when operations have been late and nothing was read.
        let mut silent = None;
        let deadline = self.peer.options.deadline;
        loop {
            match stream.read(&mut bytes[filled..]) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    filled += read;
                    silent = None;
                }
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
            if now - looked >= self.peer.tick() {
                looked = now;
                let late = {
                    let mut state = self.shared.lock();
                    if state.is_ended {
                        return Ok(());
                    }
                    state.pending.take_late(now)
                };
                if !late.is_empty() {
                    silent.get_or_insert(now);
                }
                for Waiting { completer, .. } in late {
                    completer.complete(Err(Error::TimedOut(self.peer.server)));
                }
                if silent.is_some_and(|since| now - since > (SILENT - 1) * deadline) {
                    return Err(ErrorKind::TimedOut.into());
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
            let Some(waiting) = self.shared.lock().pending.take(reply.number) else {
                continue;
            };
            let Ok(result) = reply.result(waiting.asked, self.peer.server) else {
                wakers.extend(waiting.completer.put(Err(Error::Lost(self.peer.server))));
                break Err(malformed());
            };
            wakers.extend(waiting.completer.put(result));
        };
        // A task that is woken before the others are complete would soon sleep again.
        wakers.into_iter().for_each(Waker::wake);
        ended
    }
}

//! The endpoint for one memory server, which is made again when it is of no use any more.

use std::io::{ErrorKind, Read, Result as IoResult};
use std::net::TcpStream;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::greeting::{self, Answer};
use super::session::Session;
use super::{PROTOCOL, Provider};
use crate::address::Address;
use crate::error::{Error, Result};
use crate::fabric::transport::{self, Peer, Shared};
use crate::fabric::{Completion, Operation};

/// Between two attempts to begin an operation for which libfabric had no room.
const AGAIN: Duration = Duration::from_millis(1);

/// An endpoint, with a thread that takes completions and sees the connection end. Whoever has the
/// state may use the endpoint.
pub struct Link {
    peer: Peer,
    provider: Provider,
    shared: Shared<Option<Session>>,
}

impl transport::Link for Link {
    type Session = TcpStream;
    type Own = Option<Session>;

    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn shared(&self) -> &Shared<Option<Session>> {
        &self.shared
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = self.peer.greet(PROTOCOL)?;
        let session = self.open(&stream)?;
        let mut state = self.shared.lock();
        state.stream = stream.try_clone().ok();
        state.replace(session);
        state.down = None;
        drop(state);
        Ok(stream)
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut wakers: Vec<Waker> = Vec::new();
        let mut looked = Instant::now();
        let error = loop {
            let now = Instant::now();
            let is_tick = now - looked >= self.peer.tick();
            if is_tick {
                looked = now;
            }
            let mut state = self.shared.lock();
            let Some(session) = state.as_mut() else {
                break Error::Lost(self.peer.server);
            };
            let went_on = session.go_on(now, is_tick, &mut wakers);
            let waits = session.waits();
            let time = match session.is_eager() {
                true => AGAIN,
                false => self.peer.tick(),
            };
            let is_ended = state.is_ended;
            drop(state);
            // A task that is woken before the others are complete would soon sleep again.
            wakers.drain(..).for_each(Waker::wake);
            if is_ended || went_on.is_err() {
                break Error::Lost(self.peer.server);
            }
            waits.wait(&stream, time);
            match stream.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The only byte that is sent is `FENCED`.
                Ok(1) => break Error::Fenced,
                _ => break Error::Lost(self.peer.server),
            }
        };
        let mut state = self.shared.lock();
        state.down = Some(error.clone());
        state.stream = None;
        let session = state.take();
        drop(state);
        if let Some(session) = session {
            session.end(&error);
        }
    }

    fn start(&self, operation: Operation) -> Completion {
        let (completion, completer) = Completion::pending();
        let mut state = self.shared.lock();
        match state.parts() {
            (None, Some(session)) => session.start(operation, completer),
            (down, _) => {
                let lost = || Error::Lost(self.peer.server);
                completer.complete(Err(down.cloned().unwrap_or_else(lost)));
            }
        }
        completion
    }
}

impl Link {
    /// One that is not connected yet.
    pub fn new(peer: Peer, provider: Provider) -> Link {
        Link {
            shared: Shared::new(&peer, None),
            peer,
            provider,
        }
    }

    /// Makes an endpoint, and tries whether the other side's memory can be read.
    fn open(&self, stream: &TcpStream) -> Result<Session> {
        let why = |reason: &dyn std::fmt::Display| self.peer.unreachable(reason);
        let address = stream.local_addr().map_err(|error| why(&error))?;
        let endpoint = Endpoint::open(&self.provider, address.ip());
        let mut endpoint = endpoint.map_err(|failed| why(&failed))?;
        let name = endpoint.name().map_err(|failed| why(&failed))?;
        let answer = || -> IoResult<Answer> {
            greeting::introduce(stream, self.provider.name(), &name)?;
            let answer = greeting::answered(stream)?;
            stream.set_nonblocking(true)?;
            Ok(answer)
        };
        let welcome = match answer().map_err(|error| why(&error))? {
            Answer::Ready(welcome) => welcome,
            Answer::Fenced => return Err(Error::Fenced),
            Answer::Refused(reason) => return Err(why(&reason)),
        };
        let named = endpoint.set_peer(&welcome.name);
        named.map_err(|failed| why(&failed))?;
        let (memory, deadline) = ((welcome.place(), welcome.bytes), self.peer.options.deadline);
        let session = Session::new(self.peer.server, endpoint, memory, welcome.token, deadline);
        let mut session = session.map_err(|failed| why(&failed))?;
        match self.try_out(&mut session, stream) {
            Ok(()) => Ok(session),
            Err(error) => {
                let reason = format!(
                    "its memory cannot be read by libfabric's `{}`: {error}",
                    self.provider
                );
                Err(why(&reason))
            }
        }
    }

    /// Reads a word.
    fn try_out(&self, session: &mut Session, stream: &TcpStream) -> Result<()> {
        let (mut completion, completer) = Completion::pending();
        let first = Address::new(self.peer.server, 0);
        session.start(Operation::Read(first, 1), completer);
        let mut wakers = Vec::new();
        loop {
            if let Some(result) = completion.take() {
                return result.map(|_| ());
            }
            if session.go_on(Instant::now(), true, &mut wakers).is_err() {
                return Err(Error::Lost(self.peer.server));
            }
            session.waits().wait(stream, AGAIN);
        }
    }
}

//! A client whose command waits for something, such as `BLPOP` for an element.
//!
//! The command's function says that it waits, and for what: then it is run again when it is that
//! one's turn, or its time is over. Meanwhile its connection holds no locks, and has sent the
//! replies to all commands before.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until};

use crate::keyspace::Wait;
use crate::session::Session;
use crate::shared::Shared;

/// How often a client that has sent more commands is looked at, whether it is still there.
const LOOK: Duration = Duration::from_secs(1);

/// What a command waits for.
pub(crate) struct Blocked {
    pub wait: Wait,
    /// Until when; `None` for ever.
    pub deadline: Option<Instant>,
    /// Its last run did not end it.
    pub waits: bool,
}

impl Blocked {
    /// Whether its time is over.
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|at| at <= Instant::now())
    }
}

/// Why a connection goes on.
pub(crate) enum Event {
    /// The command is to be run again.
    Again,
    /// Somebody wants something of the connection.
    Woken,
}

/// Waits until the command of a session is to be run again, or somebody wants something of the
/// connection.
///
/// # Errors
/// The client is gone.
pub(crate) async fn event(session: &Session, stream: &TcpStream) -> io::Result<Event> {
    let Some(blocked) = &session.blocked else {
        return Ok(Event::Again);
    };
    let mut again = pin!(blocked.wait.woken.notified());
    let mut woken = pin!(session.client.woken.notified());
    let mut over = pin!(async {
        match blocked.deadline {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    });
    let mut gone = pin!(gone(stream));
    poll_fn(|context| {
        if again.as_mut().poll(context).is_ready() || over.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(Event::Again));
        }
        if woken.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(Event::Woken));
        }
        gone.as_mut().poll(context).map(Err)
    })
    .await
}

/// Waits for something, as long as a client is there.
///
/// # Errors
/// It is gone.
pub(crate) async fn unless_gone<T>(
    stream: &TcpStream,
    wait: impl Future<Output = T>,
) -> io::Result<T> {
    let (mut wait, mut gone) = (pin!(wait), pin!(gone(stream)));
    poll_fn(|context| match wait.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => gone.as_mut().poll(context).map(Err),
    })
    .await
}

/// Waits until a client closes its connection.
async fn gone(stream: &TcpStream) -> io::Error {
    loop {
        match stream.ready(Interest::READABLE).await {
            Err(error) => return error,
            Ok(ready) if ready.is_read_closed() => return io::ErrorKind::ConnectionAborted.into(),
            // It has sent more commands, which stay where they are.
            Ok(_) => sleep(LOOK).await,
        }
    }
}

/// The command of a session is run again.
pub(crate) fn begin_again(session: &mut Session) {
    if let Some(blocked) = &mut session.blocked {
        blocked.waits = false;
    }
}

/// Ends the wait of a session's command, if it has one.
pub(crate) fn end(shared: &Shared, session: &mut Session) {
    if let Some(blocked) = session.blocked.take() {
        session.client.end_wait();
        shared.keyspace.waiting.leave(&blocked.wait);
    }
}

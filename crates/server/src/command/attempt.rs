//! Commands that are tried without waiting.

use std::time::Instant;

use super::row::Handler;
use super::{Call, Command, UNUSUAL_LOCKS, admitted, finish, lock_now, run_locked, wait_for_locks};
use crate::keyspace::{Hint, Locks};
use crate::resp::{Args, Writer};
use crate::session::Session;
use crate::shared::Shared;

/// What became of a command that was to be run without waiting.
pub(crate) enum Attempt<'s> {
    Done,
    /// Nothing was done: it is for [`dispatch`](super::dispatch).
    None,
    /// It was admitted, and has to wait: for locks, or with those for the rest.
    Waits(Waiting<'s>),
}

/// A command that was admitted outside of a transaction, and has to wait.
pub(crate) struct Waiting<'s> {
    command: &'static Command,
    began: Option<Instant>,
    /// Its keys' locks, if they were free. Then what needs no waiting was tried.
    locks: Option<Locks<'s>>,
}

impl<'s> Waiting<'s> {
    /// Runs it, and writes its reply.
    pub async fn run(
        self,
        shared: &'s Shared,
        session: &mut Session,
        args: Args<'_>,
        out: &mut Writer,
        now: i64,
    ) {
        let was_tried = self.locks.is_some();
        let (locks, _fetched) = match self.locks {
            Some(locks) => (locks, None),
            None => wait_for_locks(shared, self.command, args).await,
        };
        let call = Call::new(shared, session, self.command, args, out, now);
        run_locked(call, self.began, locks, was_tried).await;
    }
}

/// Runs a client's command that need not wait, and writes its reply. Otherwise says how far it
/// came, and the reply is as it was. `hint` says what was found of its record.
pub(crate) fn dispatch_now<'s>(
    shared: &'s Shared,
    session: &mut Session,
    found: Option<&'static Command>,
    args: Args<'_>,
    out: &mut Writer,
    now: i64,
    hint: Option<Hint<'_>>,
) -> Attempt<'s> {
    let Some(command) = found else {
        return Attempt::None;
    };
    let Handler::Quick(quick, _) = command.handler else {
        return Attempt::None;
    };
    let is_usual = session.transaction.is_none() && !shared.pause.is_on();
    if !is_usual || shared.keyspace.node().is_some() {
        return Attempt::None;
    }
    if admitted(shared, session, found, args, out).is_none() {
        return Attempt::Done;
    }
    let (start, began) = (out.bytes.len(), shared.slowlog.clock(session));
    let waits = |locks| {
        Attempt::Waits(Waiting {
            command,
            began,
            locks,
        })
    };
    let mut call = Call::new(shared, session, command, args, out, now);
    let done = match hint.filter(|_| command.keys.is_one() && !command.flags.has(UNUSUAL_LOCKS)) {
        Some(hint) => {
            let Some(lock) = shared.keyspace.locks.try_lock_at(hint.stripe) else {
                return waits(None);
            };
            call.known = Some(hint);
            let Some(done) = quick.run(&mut call) else {
                return waits(Some(Locks::from_iter([lock])));
            };
            drop(lock);
            done
        }
        None => {
            let Some(locks) = lock_now(shared, command, args) else {
                return waits(None);
            };
            let Some(done) = quick.run(&mut call) else {
                return waits(Some(locks));
            };
            drop(locks);
            done
        }
    };
    finish(call, done, start, began);
    Attempt::Done
}

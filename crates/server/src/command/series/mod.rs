//! Commands of one client in a row that become one write of the store, which costs less and keeps
//! other threads waiting for less: those that set a string each, and those that set the score of a
//! member of the same sorted set.
//!
//! Each has its own reply, and nobody can tell that they were one, unless by a crash, which loses
//! all of them or none. What can't be done so is not begun, and each command is run on its own,
//! with its own error if there is one.

mod scores;
mod strings;

use std::time::Instant;

use super::row::{Handler, Quick};
use super::{Call, Command, finish};
use crate::keyspace::Hint;
use crate::resp::{Args, Writer};
use crate::session::Session;
use crate::shared::Shared;

pub(super) use scores::score_of;
pub(super) use strings::{Record, RecordOf, set_now};

/// The most bytes of arguments of a command that is part of a series.
const MOST: usize = 16 << 10;

/// A command, with what was found of its record.
type Hinted<'a> = (Option<&'static Command>, Args<'a>, Option<Hint<'a>>);

/// Runs as many of a client's commands as are one series of the first, and writes their replies, if
/// that need not wait. Returns how many. Otherwise nothing was done: as many as the error says have
/// to be run on their own, and the first in any case.
pub(crate) fn dispatch_series<'a>(
    shared: &Shared,
    session: &mut Session,
    mut commands: impl Iterator<Item = Hinted<'a>> + Clone,
    out: &mut Writer,
    now: i64,
) -> Result<usize, usize> {
    let all = commands.clone();
    let Some((Some(first), ..)) = commands.next() else {
        return Err(0);
    };
    let Handler::Quick(quick, _) = first.handler else {
        return Err(0);
    };
    // What others may do is looked at command by command, and noted.
    if shared.pause.is_on() || !session.user.has_all_rights() {
        return Err(0);
    }
    match quick {
        Quick::Any(_) => Err(0),
        Quick::Sets(_) => strings::set_strings(shared, session, all, out, now),
        Quick::Score(_) => scores::set_scores(shared, session, all, out, now),
    }
}

/// Whether a command with these arguments may be part of a series.
fn is_short(args: Args<'_>) -> bool {
    args.iter().map(<[u8]>::len).sum::<usize>() <= MOST
}

/// The commands of a series that began then are done; `reply` writes what was not written before.
fn done<'a>(
    shared: &Shared,
    session: &mut Session,
    commands: impl Iterator<Item = Hinted<'a>>,
    out: &mut Writer,
    now: i64,
    mut began: Option<Instant>,
    mut reply: impl FnMut(&mut Writer),
) {
    for (command, args, _) in commands {
        let command = command.expect("it was a part");
        let call = Call::new(shared, session, command, args, out, now);
        let start = call.out.bytes.len();
        reply(call.out);
        finish(call, Ok(()), start, began);
        // The first of them took all the time.
        began = session.clock;
    }
}

//! Commands in a row that set a string each, and do nothing else: several become one write of the
//! store, which costs less and keeps other threads waiting for less.
//!
//! Each has its own reply, and nobody can tell that they were one, unless by a crash, which loses
//! all of them or none. What can't be done so is not begun, and each command is run on its own,
//! with its own error if there is one.

use std::mem::replace;
use std::task::Poll;

use smallvec::SmallVec;
use timberline_store::Change;

use super::row::{Handler, Quick};
use super::{Call, Command, Done, admitted, finish};
use crate::keyspace::{Hint, KeyLock, Keyspace, Known};
use crate::resp::{Args, Writer};
use crate::session::Session;
use crate::shared::Shared;

/// The record that a string is to get, and of several one after the other.
pub(crate) type Record = SmallVec<[u8; 2048]>;

/// Says what record a command's string is to get, where the string is in memory or does not matter,
/// and writes the reply to that. `None` if that can't be said, and then the reply may have begun.
pub(crate) type RecordOf = fn(&mut Call<'_>, Known<'_>, &mut Record) -> Option<()>;

/// Bytes of arguments from which on a command is no part of a series.
const LONG: usize = 16 << 10;

/// A command, with what was found of its record.
type Hinted<'a> = (Option<&'static Command>, Args<'a>, Option<Hint<'a>>);

/// Runs a command that sets a string. `None` if it has to wait, and then nothing was done.
pub(super) fn set_now(call: &mut Call, record_of: RecordOf) -> Option<Done> {
    let (mut key, mut record) = (None, Record::new());
    let (string, start) = (call.string(&mut key), call.out.bytes.len());
    let known = record_of(call, string, &mut record);
    let set = known.map(|()| call.keyspace().set_now(string, &record));
    match set {
        Some(Poll::Ready(set)) => Some(set.map_err(Into::into)),
        Some(Poll::Pending) | None => {
            call.out.truncate(start);
            None
        }
    }
}

/// Runs as many of a client's commands as are one series of the first, and writes their replies, if
/// that need not wait. Returns how many. Otherwise nothing was done: as many as the error says have
/// to be run on their own, and the first in any case.
pub(crate) fn dispatch_series<'a>(
    shared: &Shared,
    session: &mut Session,
    commands: impl Iterator<Item = Hinted<'a>> + Clone,
    out: &mut Writer,
    now: i64,
) -> Result<usize, usize> {
    let part = |it| part(it, &shared.keyspace);
    let is_one = commands.clone().take(2).filter_map(part).count() < 2;
    // What others may do is looked at command by command, and noted.
    if is_one || shared.pause.is_on() || !session.user.has_all_rights() {
        return Err(0);
    }
    let (start, mut began) = (out.bytes.len(), shared.slowlog.clock(session));
    let mut locks = SmallVec::<[KeyLock<'_>; 16]>::new();
    let mut strings = SmallVec::<[(Known<'_>, usize); 16]>::new();
    let mut records = Record::new();
    for hinted in commands.clone() {
        let Some((command, hint, record_of)) = part(hinted) else {
            break;
        };
        // A key that comes twice ends it, too: its lock is taken.
        let Some(lock) = shared.keyspace.locks.try_lock_at(hint.stripe) else {
            break;
        };
        let args = hinted.1;
        let (reply, record) = (out.bytes.len(), records.len());
        let is_part = admitted(shared, session, hinted.0, args, out).is_some() && {
            let mut call = Call::new(shared, session, command, args, out, now);
            record_of(&mut call, hint.record, &mut records).is_some()
        };
        if !is_part {
            out.truncate(reply);
            records.truncate(record);
            break;
        }
        locks.push(lock);
        strings.push((hint.record, records.len()));
    }
    let mut from = 0;
    let changes = strings.iter().map(|&(string, end)| {
        let record = &records[replace(&mut from, end)..end];
        Change::put(string.key, record).at(string.place)
    });
    let changes: SmallVec<[Change<'_>; 16]> = changes.collect();
    let count = changes.len();
    if count < 2 || !matches!(shared.keyspace.put_all_now(&changes), Poll::Ready(Ok(()))) {
        out.truncate(start);
        return Err(count);
    }
    drop(locks);
    for (command, args, _) in commands.take(count) {
        let command = command.expect("it was a part");
        let call = Call::new(shared, session, command, args, out, now);
        finish(call, Ok(()), start, began);
        // The first of them took all the time.
        began = session.clock;
    }
    Ok(count)
}

/// A command that may be part of a series. Where keys may have other types, what is no string has
/// to be looked for among them.
fn part<'a>(
    (found, args, hint): Hinted<'a>,
    keyspace: &Keyspace,
) -> Option<(&'static Command, Hint<'a>, RecordOf)> {
    let (command, hint) = (found?, hint?);
    let Handler::Quick(Quick::Sets(record_of), _) = command.handler else {
        return None;
    };
    let is_alone = hint.record.place.is_none() && keyspace.aggregates() > 0;
    let bytes = || args.iter().map(<[u8]>::len).sum::<usize>();
    (!is_alone && bytes() <= LONG).then_some((command, hint, record_of))
}

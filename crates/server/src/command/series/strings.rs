//! Commands that set a string each, and do nothing else.

use std::mem::replace;
use std::task::Poll;

use smallvec::SmallVec;
use timberline_store::Change;

use super::{Hinted, done, is_short};
use crate::command::row::{Handler, Quick};
use crate::command::{Call, Command, Done, admitted};
use crate::keyspace::{Hint, KeyLock, Keyspace, Known};
use crate::resp::Writer;
use crate::session::Session;
use crate::shared::Shared;

/// The record that a string is to get, and of several one after the other.
pub(in crate::command) type Record = SmallVec<[u8; 2048]>;

/// Says what record a command's string is to get, where the string is in memory or does not matter,
/// and writes the reply to that. `None` if that can't be said, and then the reply may have begun.
pub(in crate::command) type RecordOf = fn(&mut Call<'_>, Known<'_>, &mut Record) -> Option<()>;

/// Runs a command that sets a string. `None` if it has to wait, and then nothing was done.
pub(in crate::command) fn set_now(call: &mut Call, record_of: RecordOf) -> Option<Done> {
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

/// Runs commands that set strings, as [`dispatch_series`](super::dispatch_series) does.
pub(super) fn set_strings<'a>(
    shared: &Shared,
    session: &mut Session,
    commands: impl Iterator<Item = Hinted<'a>> + Clone,
    out: &mut Writer,
    now: i64,
) -> Result<usize, usize> {
    let part = |it| part(it, &shared.keyspace);
    if commands.clone().take(2).filter_map(part).count() < 2 {
        return Err(0);
    }
    let (start, began) = (out.bytes.len(), shared.slowlog.clock(session));
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
    done(
        shared,
        session,
        commands.take(count),
        out,
        now,
        began,
        |_| {},
    );
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
    (!is_alone && is_short(args)).then_some((command, hint, record_of))
}

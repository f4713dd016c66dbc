//! Commands that set the score of one member each, of the same sorted set.

use std::task::Poll;

use smallvec::SmallVec;

use super::{Hinted, done, is_short};
use crate::command::row::{Handler, Quick};
use crate::command::{admitted, number};
use crate::keyspace::{Hint, Known, Scored};
use crate::resp::{Args, Writer};
use crate::session::Session;
use crate::shared::Shared;

/// Runs commands that set scores, as [`dispatch_series`](super::dispatch_series) does.
pub(super) fn set_scores<'a>(
    shared: &Shared,
    session: &mut Session,
    commands: impl Iterator<Item = Hinted<'a>> + Clone,
    out: &mut Writer,
    now: i64,
) -> Result<usize, usize> {
    let mut parts = commands.clone().map_while(part);
    let Some((key, owner, hint, first)) = parts.next() else {
        return Err(0);
    };
    let mut members = SmallVec::<[Scored<'_>; 16]>::from_iter([first]);
    for (other, _, _, member) in parts {
        // What becomes of a member that comes twice depends on what came before.
        if other != key || members.iter().any(|it| it.member == member.member) {
            break;
        }
        members.push(member);
    }
    if members.len() < 2 {
        return Err(1);
    }
    let began = shared.slowlog.clock(session);
    let start = out.bytes.len();
    let is_admitted = |it: &Hinted<'_>| admitted(shared, session, it.0, it.1, out).is_some();
    let count = commands.clone().take(members.len());
    let count = count.take_while(is_admitted).count();
    out.truncate(start);
    if count < 2 {
        return Err(count);
    }
    let Some(lock) = shared.keyspace.locks.try_lock_at(hint.stripe) else {
        return Err(count);
    };
    let set = shared
        .keyspace
        .set_scores_now(key, Some(owner), &members[..count]);
    drop(lock);
    let Poll::Ready(Ok(are_new)) = set else {
        return Err(count);
    };
    let mut are_new = are_new.into_iter();
    let reply = |out: &mut Writer| {
        let is_new = are_new.next().expect("one for each");
        out.integer(is_new.into());
    };
    done(
        shared,
        session,
        commands.take(count),
        out,
        now,
        began,
        reply,
    );
    Ok(count)
}

/// A command that may be part of a series: its key, and that one's record and lock, and what is to
/// be done.
fn part<'a>(
    (found, args, hint): Hinted<'a>,
) -> Option<(&'a [u8], Known<'a>, Hint<'a>, Scored<'a>)> {
    let (command, hint) = (found?, hint?);
    if !matches!(command.handler, Handler::Quick(Quick::Score(_), _)) {
        return None;
    }
    let member = score_of(args, Some(hint.record)).filter(|_| is_short(args))?;
    Some((args.get(1)?, hint.owner?, hint, member))
}

/// What arguments without options ask for.
pub(in crate::command) fn score_of<'a>(
    args: Args<'a>,
    record: Option<Known<'a>>,
) -> Option<Scored<'a>> {
    let [_, _, score, member] = [0, 1, 2, 3].map(|at| args.get(at));
    (args.len() == 4).then_some(Scored {
        member: member?,
        score: number::float(score?)?,
        record,
    })
}

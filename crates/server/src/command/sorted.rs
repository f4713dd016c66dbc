//! Sorted sets: members with scores.

use std::borrow::Borrow;
use std::task::Poll;

use super::ranges::{By, Request, fetch, lexical, scored};
use super::series;
use super::{Call, Done, Failure, decimal, matches, number, scan};
use crate::keyspace::{Entry, Kind, score_of, sortable};
use crate::resp::{Protocol, integer};

const NAN: Failure = Failure::fixed("ERR resulting score is not a number (NaN)");

async fn sorted(call: &Call<'_>) -> Result<Option<Entry>, Failure> {
    call.aggregate(call.arg(1), Kind::SortedSet).await
}

/// One score of one member, without options.
pub(super) fn zadd_now(call: &mut Call) -> Option<Done> {
    let known = call.known.and_then(|it| Some((it.owner?, it.record)));
    let member = series::score_of(call.args, known.map(|it| it.1))?;
    let (key, owner) = (call.arg(1), known.map(|it| it.0));
    match call.keyspace().set_scores_now(key, owner, &[member]) {
        Poll::Ready(Ok(is_new)) => call.out.integer(is_new[0].into()),
        Poll::Ready(Err(error)) => return Some(Err(error.into())),
        Poll::Pending => return None,
    }
    Some(Ok(()))
}

pub(super) async fn zadd(call: &mut Call<'_>) -> Done {
    let (mut nx, mut xx, mut gt, mut lt, mut ch, mut incr) =
        (false, false, false, false, false, false);
    let mut at = 2;
    while at < call.args.len() {
        match call.arg(at).to_ascii_lowercase().as_slice() {
            b"nx" => nx = true,
            b"xx" => xx = true,
            b"gt" => gt = true,
            b"lt" => lt = true,
            b"ch" => ch = true,
            b"incr" => incr = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = call.args.len() - at;
    if pairs == 0 || !pairs.is_multiple_of(2) {
        return Err(Failure::SYNTAX);
    }
    if nx && xx {
        return Err(Failure::fixed(
            "ERR XX and NX options at the same time are not compatible",
        ));
    }
    if gt && (lt || nx) || lt && nx {
        return Err(Failure::fixed(
            "ERR GT, LT, and/or NX options at the same time are not compatible",
        ));
    }
    if incr && pairs > 2 {
        return Err(Failure::fixed(
            "ERR INCR option supports a single increment-element pair",
        ));
    }
    let scores: Option<Vec<f64>> = (at..call.args.len())
        .step_by(2)
        .map(|it| number::float(call.arg(it)))
        .collect();
    let scores = scores.ok_or(Failure::NOT_FLOAT)?;
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::SortedSet, call.now)
        .await?;
    let (mut added, mut changed, mut result) = (0, 0, None);
    for (index, mut score) in scores.into_iter().enumerate() {
        let member = call.arg(at + 2 * index + 1);
        let old = edit.get(member).await?.map(score_of);
        if old.is_some() && nx || old.is_none() && xx {
            continue;
        }
        if incr {
            score += old.unwrap_or(0.0);
            if score.is_nan() {
                return Err(NAN);
            }
        }
        if old.is_some_and(|old| gt && score <= old || lt && score >= old) {
            continue;
        }
        result = Some(score);
        added += i64::from(old.is_none());
        if old != Some(score) {
            changed += 1;
            edit.put(member, &score.to_bits().to_le_bytes()).await?;
        }
    }
    edit.commit().await?;
    match (incr, result) {
        (false, _) => call.out.integer(if ch { changed } else { added }),
        (true, Some(score)) => call.out.double(&decimal(score)),
        (true, None) => call.out.null(),
    }
    Ok(())
}

pub(super) async fn zincrby(call: &mut Call<'_>) -> Done {
    let by = number::float(call.arg(2)).ok_or(Failure::NOT_FLOAT)?;
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::SortedSet, call.now)
        .await?;
    let score = edit.get(call.arg(3)).await?.map_or(0.0, score_of) + by;
    if score.is_nan() {
        return Err(NAN);
    }
    edit.put(call.arg(3), &score.to_bits().to_le_bytes())
        .await?;
    edit.commit().await?;
    call.out.double(&decimal(score));
    Ok(())
}

pub(super) async fn zrem(call: &mut Call<'_>) -> Done {
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::SortedSet, call.now)
        .await?;
    let mut removed = 0;
    for member in call.args.iter().skip(2) {
        removed += i64::from(edit.remove(member).await?);
    }
    edit.commit().await?;
    call.out.integer(removed);
    Ok(())
}

pub(super) async fn zcard(call: &mut Call<'_>) -> Done {
    let found = sorted(call).await?;
    call.out.count(found.map_or(0, |it| it.elements() as usize));
    Ok(())
}

async fn score(call: &Call<'_>, entry: &Entry, member: &[u8]) -> Result<Option<f64>, Failure> {
    let score = call.keyspace().element(entry, member).await?;
    Ok(score.map(|it| score_of(&it)))
}

pub(super) async fn zscore(call: &mut Call<'_>) -> Done {
    let score = match sorted(call).await? {
        Some(entry) => score(call, &entry, call.arg(2)).await?,
        None => None,
    };
    score_or_null(call, score);
    Ok(())
}

fn score_or_null(call: &mut Call, score: Option<f64>) {
    match score {
        Some(score) => call.out.double(&decimal(score)),
        None => call.out.null(),
    }
}

pub(super) async fn zmscore(call: &mut Call<'_>) -> Done {
    let found = sorted(call).await?;
    let write = |call: &mut Call, value: Option<&[u8]>| score_or_null(call, value.map(score_of));
    call.reply_elements(found, write).await
}

pub(super) async fn zrank(call: &mut Call<'_>) -> Done {
    let found = sorted(call).await?;
    let score = match &found {
        Some(entry) => score(call, entry, call.arg(2)).await?,
        None => None,
    };
    let (Some(entry), Some(score)) = (found, score) else {
        call.out.null();
        return Ok(());
    };
    let place = [&sortable(score)[..], call.arg(2)].concat();
    let before = call.keyspace().by_score(&entry, &[], Some(&place), false);
    let rank = before.count().await? as usize;
    call.out.count(match call.command.name {
        "zrevrank" => (entry.elements() as usize).saturating_sub(rank + 1),
        _ => rank,
    });
    Ok(())
}

pub(super) async fn zcount(call: &mut Call<'_>) -> Done {
    let (low, high) = scored(call.arg(2), call.arg(3))?;
    let found = sorted(call).await?;
    let count = match found {
        Some(entry) => {
            let members = call.keyspace().by_score(&entry, &low, Some(&high), false);
            members.count().await?
        }
        None => 0,
    };
    call.out.count(count as usize);
    Ok(())
}

pub(super) async fn zlexcount(call: &mut Call<'_>) -> Done {
    let range = lexical(call.arg(2), call.arg(3))?;
    let found = sorted(call).await?;
    let count = match found {
        Some(entry) => range.names(call, &entry, false).count().await?,
        None => 0,
    };
    call.out.count(count as usize);
    Ok(())
}

/// Replies with members, and their scores if they are asked for.
pub(super) fn reply<M>(call: &mut Call, members: &[M], with_scores: bool)
where
    M: Borrow<(f64, Vec<u8>)>,
{
    let nested = with_scores && call.out.protocol == Protocol::Three;
    call.out
        .array(members.len() * if with_scores && !nested { 2 } else { 1 });
    for (score, member) in members.iter().map(Borrow::borrow) {
        if nested {
            call.out.array(2);
        }
        call.out.bulk(member);
        if with_scores {
            call.out.double(&decimal(*score));
        }
    }
}

async fn ranged(call: &mut Call<'_>, by: Option<By>, reverse: bool) -> Done {
    let request = Request::parse(call, 2, by, reverse)?;
    let members = match sorted(call).await? {
        Some(entry) => fetch(call, &entry, &request).await?,
        None => Vec::new(),
    };
    reply(call, &members, request.with_scores);
    Ok(())
}

pub(super) async fn zrange(call: &mut Call<'_>) -> Done {
    ranged(call, None, false).await
}

pub(super) async fn zrevrange(call: &mut Call<'_>) -> Done {
    ranged(call, Some(By::Rank), true).await
}

pub(super) async fn zrangebyscore(call: &mut Call<'_>) -> Done {
    ranged(call, Some(By::Score), false).await
}

pub(super) async fn zrevrangebyscore(call: &mut Call<'_>) -> Done {
    ranged(call, Some(By::Score), true).await
}

pub(super) async fn zrangebylex(call: &mut Call<'_>) -> Done {
    ranged(call, Some(By::Lex), false).await
}

pub(super) async fn zrevrangebylex(call: &mut Call<'_>) -> Done {
    ranged(call, Some(By::Lex), true).await
}

pub(super) async fn zrangestore(call: &mut Call<'_>) -> Done {
    let request = Request::parse(call, 3, None, false)?;
    if request.with_scores {
        return Err(Failure::SYNTAX);
    }
    let found = call
        .keyspace()
        .aggregate(call.arg(2), Kind::SortedSet, call.now)
        .await?;
    let members = match found {
        Some(entry) => fetch(call, &entry, &request).await?,
        None => Vec::new(),
    };
    let mut edit = call
        .keyspace()
        .replace(call.arg(1), Kind::SortedSet, call.now)
        .await?;
    for (score, member) in &members {
        edit.put(member, &score.to_bits().to_le_bytes()).await?;
    }
    edit.commit().await?;
    call.out.count(members.len());
    Ok(())
}

pub(super) async fn zremrange(call: &mut Call<'_>) -> Done {
    let by = match call.command.name {
        "zremrangebyscore" => By::Score,
        "zremrangebylex" => By::Lex,
        _ => By::Rank,
    };
    let request = Request::parse(call, 2, Some(by), false)?;
    let members = match sorted(call).await? {
        Some(entry) => fetch(call, &entry, &request).await?,
        None => Vec::new(),
    };
    remove(call, &members).await?;
    call.out.count(members.len());
    Ok(())
}

async fn remove(call: &Call<'_>, members: &[(f64, Vec<u8>)]) -> Done {
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::SortedSet, call.now)
        .await?;
    for (_, member) in members {
        edit.remove(member).await?;
    }
    edit.commit().await?;
    Ok(())
}

pub(super) async fn zpop(call: &mut Call<'_>) -> Done {
    if call.args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    let count = match call.args.get(2) {
        Some(count) => integer(count).filter(|it| *it >= 0).ok_or(Failure::fixed(
            "ERR value is out of range, must be positive",
        ))?,
        None => 1,
    };
    let members: Vec<(f64, Vec<u8>)> = match sorted(call).await? {
        Some(entry) => {
            let highest = call.command.name == "zpopmax";
            let members = call.keyspace().by_score(&entry, &[], None, highest);
            members.take(0, count as usize, &call.held).await?
        }
        None => Vec::new(),
    };
    let bytes = members.iter().map(|it| it.1.len()).sum();
    call.promise(2 * members.len(), bytes)?;
    remove(call, &members).await?;
    if call.args.len() == 2 {
        // One member is not nested, whatever the protocol.
        call.out.array(2 * members.len());
        for (score, member) in &members {
            call.out.bulk(member);
            call.out.double(&decimal(*score));
        }
    } else {
        reply(call, &members, true);
    }
    Ok(())
}

pub(super) async fn zrandmember(call: &mut Call<'_>) -> Done {
    let (count, with_scores) = scan::drawn_count(call, Some("withscores"))?;
    let found = sorted(call).await?;
    let len = found.as_ref().map_or(0, Entry::elements) as usize;
    let drawn = scan::draw(len, count.unwrap_or(1), &call.held)?;
    let members: Vec<(f64, Vec<u8>)> = match &found {
        Some(entry) => {
            let members = call.keyspace().by_score(entry, &[], None, false);
            members.at(&drawn.places, &call.held).await?
        }
        None => Vec::new(),
    };
    match count {
        None => call.out.bulk_or_null(members.first().map(|it| &it.1[..])),
        Some(_) => reply(call, &drawn.of(&members), with_scores),
    }
    Ok(())
}

pub(super) async fn zscan(call: &mut Call<'_>) -> Done {
    let place = scan::place(call, 2)?;
    let options = scan::options(call, 3, false)?;
    let Some(entry) = sorted(call).await? else {
        return scan::nothing(call);
    };
    let members = call.keyspace().elements(&entry, place.as_deref());
    let (listed, next) = scan::page(call, members, &options).await?;
    let mut values = Vec::new();
    for (name, score) in listed {
        if options.pattern.is_none_or(|it| matches(it, &name)) {
            values.push(name);
            values.push(decimal(score_of(&score)).into_bytes());
        }
    }
    scan::reply(call, next, &values)
}

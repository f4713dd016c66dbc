//! Lists.

use std::ops::{ControlFlow, Range};

use super::{Call, Done, Failure};
use crate::keyspace::{Kind, List, Side};
use crate::resp::integer;

async fn list_at<'a>(call: &Call<'a>, key: &'a [u8]) -> Result<List<'a>, Failure> {
    let found = call.aggregate(key, Kind::List).await?;
    Ok(call.keyspace().list_of(key, found))
}

/// The side that a command's name says: `lpush`, `rpop`, `blpop`.
pub(super) fn side_of(call: &Call) -> Side {
    match call.command.name.trim_start_matches('b').as_bytes()[0] {
        b'l' => Side::Left,
        _ => Side::Right,
    }
}

/// An argument as a side.
pub(super) fn side(call: &Call, at: usize) -> Result<Side, Failure> {
    match () {
        () if call.is(at, "left") => Ok(Side::Left),
        () if call.is(at, "right") => Ok(Side::Right),
        () => Err(Failure::SYNTAX),
    }
}

/// An index as clients give it, from the end if negative, in a list of this length.
fn index_in(len: usize, index: i64) -> Option<usize> {
    let from_start = if index < 0 {
        index.saturating_add(len as i64)
    } else {
        index
    };
    usize::try_from(from_start).ok().filter(|it| *it < len)
}

/// The range from one such index to another one, both included.
fn range_in(len: usize, first: i64, last: i64) -> Range<usize> {
    let from_start = |index: i64| {
        if index < 0 {
            index.saturating_add(len as i64)
        } else {
            index
        }
    };
    let start = from_start(first).clamp(0, len as i64) as usize;
    let end = from_start(last).saturating_add(1).clamp(0, len as i64) as usize;
    start..end.max(start)
}

pub(super) async fn push(call: &mut Call<'_>) -> Done {
    let mut list = list_at(call, call.arg(1)).await?;
    let only_existing = call.command.name.ends_with('x');
    if only_existing && list.is_empty() {
        call.out.integer(0);
        return Ok(());
    }
    for element in call.args.iter().skip(2) {
        list.push(side_of(call), element);
    }
    let len = list.len();
    list.commit().await?;
    call.out.count(len);
    Ok(())
}

/// Removes elements at a side; this many, if there are. The list is to be committed: there is
/// memory for a reply of them.
async fn popped(
    call: &mut Call<'_>,
    list: &mut List<'_>,
    side: Side,
    count: usize,
) -> Result<Vec<Vec<u8>>, Failure> {
    let (mut elements, mut bytes) = (Vec::new(), 0);
    while elements.len() < count
        && let Some(element) = list.pop(side).await?
    {
        call.held.keep(element.len())?;
        bytes += element.len();
        elements.push(element);
    }
    call.promise(elements.len(), bytes)?;
    Ok(elements)
}

pub(super) async fn pop(call: &mut Call<'_>) -> Done {
    if call.args.len() > 3 {
        let name = call.command.name;
        return Err(Failure::said(format!(
            "ERR wrong number of arguments for '{name}' command"
        )));
    }
    let count = match call.args.get(2) {
        Some(count) => Some(
            integer(count)
                .and_then(|it| usize::try_from(it).ok())
                .ok_or(Failure::fixed(
                    "ERR value is out of range, must be positive",
                ))?,
        ),
        None => None,
    };
    let mut list = list_at(call, call.arg(1)).await?;
    if list.is_empty() {
        match count {
            Some(_) => call.out.null_array(),
            None => call.out.null(),
        }
        return Ok(());
    }
    let side = side_of(call);
    let elements = popped(call, &mut list, side, count.unwrap_or(1)).await?;
    list.commit().await?;
    match count {
        Some(_) => reply(call, &elements),
        None => call.out.bulk_or_null(elements.first().map(|it| &it[..])),
    }
    Ok(())
}

pub(super) fn reply(call: &mut Call, elements: &[Vec<u8>]) {
    call.out.array(elements.len());
    for element in elements {
        call.out.bulk(element);
    }
}

pub(super) async fn llen(call: &mut Call<'_>) -> Done {
    let list = list_at(call, call.arg(1)).await?;
    call.out.count(list.len());
    Ok(())
}

pub(super) async fn lindex(call: &mut Call<'_>) -> Done {
    let list = list_at(call, call.arg(1)).await?;
    // As in Redis, the index is not looked at where there is no list.
    let element = match list.len() {
        0 => None,
        len => match index_in(len, call.integer(2)?) {
            Some(index) => list.get(index).await?,
            None => None,
        },
    };
    call.out.bulk_or_null(element.as_deref());
    Ok(())
}

pub(super) async fn lrange(call: &mut Call<'_>) -> Done {
    let (first, last) = (call.integer(2)?, call.integer(3)?);
    let list = list_at(call, call.arg(1)).await?;
    let range = range_in(list.len(), first, last);
    let out = &mut *call.out;
    out.array(range.len());
    let each = |_, element: &[u8]| {
        out.bulk(element);
        match out.is_cut() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    if !range.is_empty() {
        list.visit(range, Side::Left, each).await?;
    }
    Ok(())
}

pub(super) async fn lset(call: &mut Call<'_>) -> Done {
    let mut list = list_at(call, call.arg(1)).await?;
    if list.is_empty() {
        return Err(Failure::NO_SUCH_KEY);
    }
    let index = index_in(list.len(), call.integer(2)?);
    let index = index.ok_or(Failure::fixed("ERR index out of range"))?;
    list.set(index, call.arg(3));
    list.commit().await?;
    call.out.ok();
    Ok(())
}

pub(super) async fn linsert(call: &mut Call<'_>) -> Done {
    let behind = match () {
        () if call.is(2, "before") => 0,
        () if call.is(2, "after") => 1,
        () => return Err(Failure::SYNTAX),
    };
    let mut list = list_at(call, call.arg(1)).await?;
    if list.is_empty() {
        call.out.integer(0);
        return Ok(());
    }
    let pivot = call.arg(3);
    let mut found = None;
    let each = |index, element: &[u8]| match element == pivot {
        true => {
            found = Some(index);
            ControlFlow::Break(())
        }
        false => ControlFlow::Continue(()),
    };
    list.visit(0..list.len(), Side::Left, each).await?;
    let Some(index) = found else {
        call.out.integer(-1);
        return Ok(());
    };
    list.insert(index + behind, call.arg(4)).await?;
    let len = list.len();
    list.commit().await?;
    call.out.count(len);
    Ok(())
}

pub(super) async fn lrem(call: &mut Call<'_>) -> Done {
    let count = call.integer(2)?;
    let mut list = list_at(call, call.arg(1)).await?;
    let wanted = call.arg(3);
    let most = match count {
        0 => usize::MAX,
        count => count.unsigned_abs() as usize,
    };
    let side = if count < 0 { Side::Right } else { Side::Left };
    let mut found = Vec::new();
    let each = |index, element: &[u8]| {
        if element == wanted {
            found.push(index);
        }
        match found.len() == most {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    list.visit(0..list.len(), side, each).await?;
    found.sort_unstable();
    list.remove(&found).await?;
    list.commit().await?;
    call.out.count(found.len());
    Ok(())
}

pub(super) async fn ltrim(call: &mut Call<'_>) -> Done {
    let (first, last) = (call.integer(2)?, call.integer(3)?);
    let mut list = list_at(call, call.arg(1)).await?;
    let range = range_in(list.len(), first, last);
    let is_there = !list.is_empty();
    list.trim(range).await?;
    list.commit().await?;
    if is_there {
        // As in Redis, also if nothing was removed.
        call.keyspace().watches.touch(call.arg(1));
    }
    call.out.ok();
    Ok(())
}

pub(super) async fn lmove(call: &mut Call<'_>) -> Done {
    let (from, to) = (side(call, 3)?, side(call, 4)?);
    moved(call, from, to).await
}

pub(super) async fn rpoplpush(call: &mut Call<'_>) -> Done {
    moved(call, Side::Right, Side::Left).await
}

async fn moved(call: &mut Call<'_>, from: Side, to: Side) -> Done {
    let element = move_element(call, from, to).await?;
    call.out.bulk_or_null(element.as_deref());
    Ok(())
}

/// Moves an element of the first key's list to the second key's, if there is one.
pub(super) async fn move_element(
    call: &mut Call<'_>,
    from: Side,
    to: Side,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut source = list_at(call, call.arg(1)).await?;
    if source.is_empty() {
        return Ok(None);
    }
    let mut target = match call.arg(1) == call.arg(2) {
        true => None,
        false => Some(list_at(call, call.arg(2)).await?),
    };
    let Some(element) = source.pop(from).await? else {
        return Ok(None);
    };
    call.promise(1, element.len())?;
    target.as_mut().unwrap_or(&mut source).push(to, &element);
    let mut changes = call.keyspace().changes();
    // In a cluster they take effect one after the other: no element is lost in between.
    if let Some(target) = target {
        target.write(&mut changes);
    }
    source.write(&mut changes);
    changes.commit().await?;
    Ok(Some(element))
}

/// The options of `LMPOP` behind the keys that this argument counts: the side, and how many.
pub(super) fn pop_options(call: &Call, counts: usize) -> Result<(Side, usize), Failure> {
    let positive = |at: usize, words: &'static str| {
        let number = integer(call.arg(at)).filter(|it| *it > 0);
        let number = number.and_then(|it| usize::try_from(it).ok());
        number.ok_or(Failure::fixed(words))
    };
    let keys = positive(counts, "ERR numkeys should be greater than 0")?;
    let at = keys.saturating_add(counts + 1);
    if at >= call.args.len() {
        return Err(Failure::SYNTAX);
    }
    let side = side(call, at)?;
    let count = match call.args.len() - at {
        1 => 1,
        3 if call.is(at + 1, "count") => positive(at + 2, "ERR count should be greater than 0")?,
        _ => return Err(Failure::SYNTAX),
    };
    Ok((side, count))
}

pub(super) async fn lmpop(call: &mut Call<'_>) -> Done {
    let (side, count) = pop_options(call, 1)?;
    for key in call.keys() {
        let list = list_at(call, key).await?;
        if !list.is_empty() {
            return pop_of(call, key, list, side, count).await;
        }
    }
    call.out.null_array();
    Ok(())
}

/// Removes elements of a list, and replies with its key and them.
pub(super) async fn pop_of(
    call: &mut Call<'_>,
    key: &[u8],
    mut list: List<'_>,
    side: Side,
    count: usize,
) -> Done {
    let elements = popped(call, &mut list, side, count).await?;
    list.commit().await?;
    call.out.array(2);
    call.out.bulk(key);
    reply(call, &elements);
    Ok(())
}

pub(super) async fn lpos(call: &mut Call<'_>) -> Done {
    let (mut rank, mut count, mut most) = (1, None, 0);
    for at in (3..call.args.len()).step_by(2) {
        if at + 1 == call.args.len() {
            return Err(Failure::SYNTAX);
        }
        if call.is(at, "rank") {
            rank = call.integer(at + 1)?;
            if rank == 0 {
                return Err(Failure::fixed(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                     second ... or use negative to start from the end of the list",
                ));
            }
        } else if call.is(at, "count") {
            let given = integer(call.arg(at + 1)).filter(|it| *it >= 0);
            count = Some(given.ok_or(Failure::fixed("ERR COUNT can't be negative"))?);
        } else if call.is(at, "maxlen") {
            let given = integer(call.arg(at + 1)).filter(|it| *it >= 0);
            most = given.ok_or(Failure::fixed("ERR MAXLEN can't be negative"))?;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    let list = list_at(call, call.arg(1)).await?;
    let wanted = call.arg(2);
    let found = positions(&list, wanted, rank, count.unwrap_or(1), most).await?;
    match count {
        Some(_) => {
            call.out.array(found.len());
            found.iter().for_each(|&it| call.out.count(it));
        }
        None => match found.first() {
            Some(&index) => call.out.count(index),
            None => call.out.null(),
        },
    }
    Ok(())
}

/// Where an element is: from its `rank`th match on, from the end if negative; up to `count` of
/// them, and among `most` elements, unless these are 0.
async fn positions(
    list: &List<'_>,
    wanted: &[u8],
    rank: i64,
    count: i64,
    most: i64,
) -> Result<Vec<usize>, Failure> {
    let len = list.len();
    let looked_at = match usize::try_from(most) {
        Ok(0) | Err(_) => len,
        Ok(most) => most.min(len),
    };
    let (side, range) = match rank > 0 {
        true => (Side::Left, 0..looked_at),
        false => (Side::Right, len - looked_at..len),
    };
    let mut passed = rank.unsigned_abs() - 1;
    let mut found = Vec::new();
    let each = |index, element: &[u8]| {
        if element == wanted {
            match passed {
                0 => found.push(index),
                _ => passed -= 1,
            }
        }
        match count > 0 && found.len() as i64 == count {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    if len > 0 {
        list.visit(range, side, each).await?;
    }
    Ok(found)
}

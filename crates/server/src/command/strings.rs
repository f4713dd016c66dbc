//! Strings.

use std::ops::Range;
use std::task::Poll;

use super::series::Record;
use super::{Call, Done, Failure, number};
use crate::keyspace::{Entry, Failed, Kind, Known, LONG, MAX_STRING, Text};
use crate::resp::{Digits, integer};

const NO_CONDITION: u8 = 0;
const IF_ABSENT: u8 = 1;
const IF_PRESENT: u8 = 2;

/// What becomes of a key's time of expiry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expiry {
    None,
    Keep,
    At(i64),
}

/// The time of expiry that an option and its argument ask for, in milliseconds since 1970.
fn expiry(call: &Call, unit: &[u8], text: &[u8]) -> Result<i64, Failure> {
    let number = integer(text).ok_or(Failure::NOT_INTEGER)?;
    let invalid = || {
        let name = call.command.name;
        Failure::said(format!("ERR invalid expire time in '{name}' command"))
    };
    if number <= 0 {
        return Err(invalid());
    }
    let millis = match unit {
        b"ex" | b"exat" => number.checked_mul(1000),
        _ => Some(number),
    };
    let at = match unit {
        b"ex" | b"px" => millis.and_then(|it| it.checked_add(call.now)),
        _ => millis,
    };
    at.ok_or_else(invalid)
}

/// Sets a string, or removes the key if it would have expired already.
async fn set_until(call: &Call<'_>, key: &[u8], value: &[u8], expires: Option<i64>) -> Done {
    match expires {
        Some(at) if at <= call.now => {
            call.keyspace().remove(key, call.now).await?;
        }
        _ => call.keyspace().set(key, value, expires).await?,
    }
    Ok(())
}

pub(super) fn get_now(call: &mut Call) -> Option<Done> {
    let mut key = None;
    let string = call.string(&mut key);
    let (keyspace, out) = (&call.shared.keyspace, &mut *call.out);
    let written = keyspace.string_now(string, call.now, |value, _| out.bulk(value));
    match written {
        Poll::Ready(found) => {
            if found.is_none() {
                call.out.null();
            }
            call.session.note_lookup(found.is_some());
            Some(Ok(()))
        }
        Poll::Pending => None,
    }
}

/// A string that a command reads.
async fn text(call: &Call<'_>, key: &[u8]) -> Result<Option<Text>, Failed> {
    call.looked_up(call.keyspace().text(key, call.now).await)
}

pub(super) async fn get(call: &mut Call<'_>) -> Done {
    match text(call, call.arg(1)).await? {
        Some(text) => reply(call, &text, 0..text.len()).await?,
        None => call.out.null(),
    }
    Ok(())
}

/// Replies with a part of a string.
async fn reply(call: &mut Call<'_>, text: &Text, range: Range<u64>) -> Done {
    let bytes = (range.end - range.start) as usize;
    if !call.out.begin_bulk(bytes) {
        return Err(Failure::NO_ROOM);
    }
    text.read(range, &mut call.out.bytes).await?;
    call.out.bytes.extend_from_slice(b"\r\n");
    Ok(())
}

pub(super) fn set_record(call: &mut Call, _: Known, record: &mut Record) -> Option<()> {
    if call.args.len() != 3 {
        return None;
    }
    record.push(Kind::String as u8);
    record.extend_from_slice(call.arg(2));
    call.out.ok();
    Some(())
}

pub(super) async fn set(call: &mut Call<'_>) -> Done {
    let (key, value) = (call.arg(1), call.arg(2));
    let (mut condition, mut get, mut expires) = (NO_CONDITION, false, Expiry::None);
    let mut at = 3;
    while at < call.args.len() {
        let option = call.arg(at).to_ascii_lowercase();
        match &option[..] {
            b"nx" if condition != IF_PRESENT => condition = IF_ABSENT,
            b"xx" if condition != IF_ABSENT => condition = IF_PRESENT,
            b"get" => get = true,
            b"keepttl" if !matches!(expires, Expiry::At(_)) => expires = Expiry::Keep,
            b"ex" | b"px" | b"exat" | b"pxat"
                if expires == Expiry::None && at + 1 < call.args.len() =>
            {
                // Syntax is checked before numbers are.
                expires = Expiry::At(at as i64);
                at += 1;
            }
            _ => return Err(Failure::SYNTAX),
        }
        at += 1;
    }
    if let Expiry::At(at) = expires {
        let at = at as usize;
        let unit = call.arg(at).to_ascii_lowercase();
        expires = Expiry::At(expiry(call, &unit, call.arg(at + 1))?);
    }
    let mut old = None;
    if get {
        old = call.keyspace().string(key, call.now).await?;
    } else if condition != NO_CONDITION || expires == Expiry::Keep {
        old = call.keyspace().find(key, call.now).await?;
    }
    let allowed = match condition {
        IF_ABSENT => old.is_none(),
        IF_PRESENT => old.is_some(),
        _ => true,
    };
    if get {
        promise(call, old.as_ref())?;
    }
    if allowed {
        let expires = match expires {
            Expiry::None => None,
            Expiry::Keep => old.as_ref().and_then(|it| it.expires),
            Expiry::At(at) => Some(at),
        };
        set_until(call, key, value, expires).await?;
    }
    match (get, allowed) {
        (true, _) => call.out.bulk_or_null(old.as_ref().map(Entry::value)),
        (false, true) => call.out.ok(),
        (false, false) => call.out.null(),
    }
    Ok(())
}

pub(super) async fn setnx(call: &mut Call<'_>) -> Done {
    let absent = call.keyspace().find(call.arg(1), call.now).await?.is_none();
    if absent {
        call.keyspace().set(call.arg(1), call.arg(2), None).await?;
    }
    call.out.integer(i64::from(absent));
    Ok(())
}

pub(super) async fn setex(call: &mut Call<'_>) -> Done {
    set_for(call, b"ex").await
}

pub(super) async fn psetex(call: &mut Call<'_>) -> Done {
    set_for(call, b"px").await
}

async fn set_for(call: &mut Call<'_>, unit: &[u8]) -> Done {
    let at = expiry(call, unit, call.arg(2))?;
    set_until(call, call.arg(1), call.arg(3), Some(at)).await?;
    call.out.ok();
    Ok(())
}

/// Takes the memory for a reply of what a string is, before it is changed.
fn promise(call: &mut Call, old: Option<&Entry>) -> Done {
    old.map_or(Ok(()), |it| call.promise(1, it.value().len()))
}

pub(super) async fn getset(call: &mut Call<'_>) -> Done {
    let old = call.keyspace().string(call.arg(1), call.now).await?;
    promise(call, old.as_ref())?;
    call.keyspace().set(call.arg(1), call.arg(2), None).await?;
    call.out.bulk_or_null(old.as_ref().map(Entry::value));
    Ok(())
}

pub(super) async fn getdel(call: &mut Call<'_>) -> Done {
    let old = call.keyspace().string(call.arg(1), call.now).await?;
    promise(call, old.as_ref())?;
    if let Some(old) = &old {
        let mut changes = call.keyspace().changes();
        changes.remove_entry(call.arg(1), old);
        changes.commit().await?;
    }
    call.out.bulk_or_null(old.as_ref().map(Entry::value));
    Ok(())
}

pub(super) async fn getex(call: &mut Call<'_>) -> Done {
    let option = call.arg(2).to_ascii_lowercase();
    let units: [&[u8]; 4] = [b"ex", b"px", b"exat", b"pxat"];
    let is_known = match call.args.len() {
        2 => true,
        3 => option == b"persist",
        4 => units.contains(&&option[..]),
        _ => false,
    };
    if !is_known {
        return Err(Failure::SYNTAX);
    }
    let key = call.arg(1);
    let found = call.keyspace().string(key, call.now).await?;
    promise(call, found.as_ref())?;
    let expires = match call.args.len() {
        _ if found.is_none() => Expiry::Keep,
        2 => Expiry::Keep,
        3 => Expiry::None,
        _ => Expiry::At(expiry(call, &option, call.arg(3))?),
    };
    if let Some(found) = &found {
        match expires {
            Expiry::Keep => {}
            Expiry::None if found.expires.is_none() => {}
            Expiry::None => set_until(call, key, found.value(), None).await?,
            Expiry::At(at) => set_until(call, key, found.value(), Some(at)).await?,
        }
    }
    call.out.bulk_or_null(found.as_ref().map(Entry::value));
    Ok(())
}

pub(super) async fn mget(call: &mut Call<'_>) -> Done {
    call.out.array(call.args.len() - 1);
    let mut keys = call.args.iter().skip(1);
    while keys.len() > 0 {
        let (some, _fetched) = call.keyspace().next_strings(&mut keys).await;
        for key in some {
            match text(call, key).await {
                Ok(Some(text)) => reply(call, &text, 0..text.len()).await?,
                Ok(None) | Err(Failed::WrongType) => call.out.null(),
                Err(failed) => return Err(failed.into()),
            }
        }
    }
    Ok(())
}

pub(super) fn mset_now(call: &mut Call) -> Option<Done> {
    if call.args.len().is_multiple_of(2) {
        return None;
    }
    match call.keyspace().set_all_now(call.args.from(1)) {
        Poll::Ready(Ok(())) => call.out.ok(),
        Poll::Ready(Err(error)) => return Some(Err(error.into())),
        Poll::Pending => return None,
    }
    Some(Ok(()))
}

pub(super) async fn mset(call: &mut Call<'_>) -> Done {
    set_pairs(call).await?;
    call.out.ok();
    Ok(())
}

pub(super) async fn msetnx(call: &mut Call<'_>) -> Done {
    check_pairs(call)?;
    for key in call.keys() {
        if call.keyspace().find(key, call.now).await?.is_some() {
            call.out.integer(0);
            return Ok(());
        }
    }
    set_pairs(call).await?;
    call.out.integer(1);
    Ok(())
}

fn check_pairs(call: &Call) -> Done {
    match call.args.len() % 2 {
        1 => Ok(()),
        _ => Err(Failure::said(format!(
            "ERR wrong number of arguments for '{}' command",
            call.command.name
        ))),
    }
}

/// Sets all strings at once.
async fn set_pairs(call: &mut Call<'_>) -> Done {
    check_pairs(call)?;
    // The batch has a copy.
    let values = (2..call.args.len()).step_by(2);
    let _taken = call
        .keyspace()
        .take(values.map(|at| call.arg(at).len()).sum())?;
    let mut changes = call.keyspace().changes();
    for at in (1..call.args.len()).step_by(2) {
        changes
            .overwrite(call.arg(at), call.arg(at + 1), None)
            .await?;
    }
    changes.commit().await?;
    Ok(())
}

pub(super) fn incr_record(call: &mut Call, old: Known, record: &mut Record) -> Option<()> {
    sum_record(call, 1, old, record)
}

pub(super) fn decr_record(call: &mut Call, old: Known, record: &mut Record) -> Option<()> {
    sum_record(call, -1, old, record)
}

pub(super) fn incrby_record(call: &mut Call, old: Known, record: &mut Record) -> Option<()> {
    sum_record(call, integer(call.arg(2))?, old, record)
}

pub(super) fn decrby_record(call: &mut Call, old: Known, record: &mut Record) -> Option<()> {
    sum_record(call, integer(call.arg(2))?.checked_neg()?, old, record)
}

fn sum_record(call: &mut Call, by: i64, old: Known, record: &mut Record) -> Option<()> {
    let number = |value: &[u8], expires: Option<i64>| (integer(value), expires);
    let number = match call.keyspace().string_now(old, call.now, number) {
        Poll::Ready(Some((Some(number), None))) => number,
        Poll::Ready(None) => 0,
        _ => return None,
    };
    let sum = number.checked_add(by)?;
    record.extend_from_slice(Digits::of(sum).behind(Kind::String as u8));
    call.out.integer(sum);
    Some(())
}

pub(super) async fn incr(call: &mut Call<'_>) -> Done {
    add(call, 1).await
}

pub(super) async fn decr(call: &mut Call<'_>) -> Done {
    add(call, -1).await
}

pub(super) async fn incrby(call: &mut Call<'_>) -> Done {
    let by = call.integer(2)?;
    add(call, by).await
}

pub(super) async fn decrby(call: &mut Call<'_>) -> Done {
    let by = call.integer(2)?.checked_neg();
    let by = by.ok_or(Failure::fixed("ERR decrement would overflow"))?;
    add(call, by).await
}

async fn add(call: &mut Call<'_>, by: i64) -> Done {
    let key = call.arg(1);
    let old = call.keyspace().string(key, call.now).await?;
    let number = match &old {
        Some(old) => integer(old.value()).ok_or(Failure::NOT_INTEGER)?,
        None => 0,
    };
    let sum = number
        .checked_add(by)
        .ok_or(Failure::fixed("ERR increment or decrement would overflow"))?;
    let expires = old.and_then(|it| it.expires);
    call.keyspace()
        .set(key, sum.to_string().as_bytes(), expires)
        .await?;
    call.out.integer(sum);
    Ok(())
}

pub(super) async fn incrbyfloat(call: &mut Call<'_>) -> Done {
    let key = call.arg(1);
    let old = call.keyspace().string(key, call.now).await?;
    let text = old.as_ref().map_or(&b"0"[..], Entry::value);
    let by = call.arg(2);
    if number::float(text).is_none() || number::float(by).is_none() {
        return Err(Failure::NOT_FLOAT);
    }
    let sum = number::sum(text, by);
    let sum = sum.ok_or(Failure::fixed(
        "ERR increment would produce NaN or Infinity",
    ))?;
    let expires = old.as_ref().and_then(|it| it.expires);
    call.keyspace().set(key, sum.as_bytes(), expires).await?;
    call.out.bulk(sum.as_bytes());
    Ok(())
}

pub(super) async fn append(call: &mut Call<'_>) -> Done {
    let (key, tail) = (call.arg(1), call.arg(2));
    let old = call.keyspace().text(key, call.now).await?;
    let at = old.as_ref().map_or(0, Text::len);
    write_part(call, old, at, tail).await
}

/// Writes a part of a string, and replies with the length that it has then.
async fn write_part(call: &mut Call<'_>, old: Option<Text>, at: u64, part: &[u8]) -> Done {
    let end = at + part.len() as u64;
    let len = end.max(old.as_ref().map_or(0, Text::len));
    check_len(call, len)?;
    let expires = old.as_ref().and_then(Text::expires);
    let (keyspace, key) = (call.keyspace(), call.arg(1));
    let is_stored = matches!(old, Some(Text::Stored { .. }));
    if is_stored || len > LONG as u64 && keyspace.node().is_none() {
        let spliced = keyspace.splice(key, old.as_ref(), at, part, expires);
        spliced.await?;
    } else {
        let mut value = match &old {
            Some(Text::Whole(entry)) => entry.value().to_vec(),
            _ => Vec::new(),
        };
        value.resize(len as usize, 0);
        value[at as usize..end as usize].copy_from_slice(part);
        keyspace.set(key, &value, expires).await?;
    }
    call.out.integer(len as i64);
    Ok(())
}

fn check_len(call: &Call, len: u64) -> Done {
    match len > MAX_STRING.min(call.shared.config.limits().bulk as u64) {
        true => Err(Failure::TOO_LONG_STRING),
        false => Ok(()),
    }
}

pub(super) async fn strlen(call: &mut Call<'_>) -> Done {
    let found = text(call, call.arg(1)).await?;
    call.out.integer(found.map_or(0, |it| it.len()) as i64);
    Ok(())
}

pub(super) async fn getrange(call: &mut Call<'_>) -> Done {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let found = text(call, call.arg(1)).await?;
    let len = found.as_ref().map_or(0, Text::len) as i64;
    let absolute = |index: i64| match index < 0 {
        true => (len + index).max(0),
        false => index,
    };
    let is_empty = start < 0 && end < 0 && start > end;
    let (start, end) = (absolute(start), absolute(end).min(len - 1));
    match found {
        Some(text) if !is_empty && start <= end => {
            reply(call, &text, start as u64..end as u64 + 1).await
        }
        _ => {
            call.out.bulk(b"");
            Ok(())
        }
    }
}

pub(super) async fn setrange(call: &mut Call<'_>) -> Done {
    let (key, offset, part) = (call.arg(1), call.integer(2)?, call.arg(3));
    let offset = u64::try_from(offset).map_err(|_| Failure::fixed("ERR offset is out of range"))?;
    let old = call.keyspace().text(key, call.now).await?;
    if part.is_empty() {
        call.out.integer(old.map_or(0, |it| it.len()) as i64);
        return Ok(());
    }
    check_len(call, offset.saturating_add(part.len() as u64))?;
    write_part(call, old, offset, part).await
}

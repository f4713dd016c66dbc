//! Hashes.

use super::{Call, Done, Failure, matches, number, scan};
use crate::keyspace::{Entry, Kind};
use crate::resp::{Protocol, integer};

async fn hash(call: &Call<'_>) -> Result<Option<Entry>, Failure> {
    call.aggregate(call.arg(1), Kind::Hash).await
}

pub(super) async fn hset(call: &mut Call<'_>) -> Done {
    let added = set_fields(call).await?;
    call.out.integer(added);
    Ok(())
}

pub(super) async fn hmset(call: &mut Call<'_>) -> Done {
    set_fields(call).await?;
    call.out.ok();
    Ok(())
}

/// As in Redis, who watches the key sees a change even if all values are those that were there.
fn touch(call: &Call) {
    call.keyspace().watches.touch(call.arg(1));
}

async fn set_fields(call: &mut Call<'_>) -> Result<i64, Failure> {
    if !call.args.len().is_multiple_of(2) {
        return Err(Failure::said(format!(
            "ERR wrong number of arguments for '{}' command",
            call.command.name
        )));
    }
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::Hash, call.now)
        .await?;
    let mut added = 0;
    for at in (2..call.args.len()).step_by(2) {
        added += i64::from(edit.put(call.arg(at), call.arg(at + 1)).await?);
    }
    edit.commit().await?;
    touch(call);
    Ok(added)
}

pub(super) async fn hsetnx(call: &mut Call<'_>) -> Done {
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::Hash, call.now)
        .await?;
    let absent = edit.get(call.arg(2)).await?.is_none();
    if absent {
        edit.put(call.arg(2), call.arg(3)).await?;
        edit.commit().await?;
    }
    call.out.integer(i64::from(absent));
    Ok(())
}

pub(super) async fn hget(call: &mut Call<'_>) -> Done {
    let value = match hash(call).await? {
        Some(entry) => call.keyspace().element(&entry, call.arg(2)).await?,
        None => None,
    };
    call.out.bulk_or_null(value.as_deref());
    Ok(())
}

pub(super) async fn hmget(call: &mut Call<'_>) -> Done {
    let found = hash(call).await?;
    let write = |call: &mut Call, value: Option<&[u8]>| call.out.bulk_or_null(value);
    call.reply_elements(found, write).await
}

pub(super) async fn hdel(call: &mut Call<'_>) -> Done {
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::Hash, call.now)
        .await?;
    let mut removed = 0;
    for field in call.args.iter().skip(2) {
        removed += i64::from(edit.remove(field).await?);
    }
    edit.commit().await?;
    call.out.integer(removed);
    Ok(())
}

pub(super) async fn hexists(call: &mut Call<'_>) -> Done {
    let found = hash(call).await?;
    let exists = match found {
        Some(entry) => call.keyspace().has_element(&entry, call.arg(2)).await?,
        None => false,
    };
    call.out.integer(i64::from(exists));
    Ok(())
}

pub(super) async fn hlen(call: &mut Call<'_>) -> Done {
    let found = hash(call).await?;
    call.out.count(found.map_or(0, |it| it.elements() as usize));
    Ok(())
}

pub(super) async fn hstrlen(call: &mut Call<'_>) -> Done {
    let value = match hash(call).await? {
        Some(entry) => call.keyspace().element(&entry, call.arg(2)).await?,
        None => None,
    };
    call.out.count(value.map_or(0, |it| it.len()));
    Ok(())
}

pub(super) async fn hkeys(call: &mut Call<'_>) -> Done {
    list(call, true, false).await
}

pub(super) async fn hvals(call: &mut Call<'_>) -> Done {
    list(call, false, true).await
}

pub(super) async fn hgetall(call: &mut Call<'_>) -> Done {
    list(call, true, true).await
}

async fn list(call: &mut Call<'_>, names: bool, values: bool) -> Done {
    let found = hash(call).await?;
    let len = found.as_ref().map_or(0, |it| it.elements() as usize);
    match names && values {
        true => call.out.map(len),
        false => call.out.array(len),
    }
    let Some(entry) = found else {
        return Ok(());
    };
    let mut elements = match values {
        true => call.keyspace().elements(&entry, None),
        false => call.keyspace().element_names(&entry, None),
    };
    while !call.out.is_cut()
        && let Some((name, value)) = elements.next().await?
    {
        if names {
            call.out.bulk(&name);
        }
        if values {
            call.out.bulk(&value);
        }
    }
    Ok(())
}

pub(super) async fn hincrby(call: &mut Call<'_>) -> Done {
    let by = call.integer(3)?;
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::Hash, call.now)
        .await?;
    let old = match edit.get(call.arg(2)).await? {
        Some(old) => integer(old).ok_or(Failure::fixed("ERR hash value is not an integer"))?,
        None => 0,
    };
    let sum = old
        .checked_add(by)
        .ok_or(Failure::fixed("ERR increment or decrement would overflow"))?;
    edit.put(call.arg(2), sum.to_string().as_bytes()).await?;
    edit.commit().await?;
    touch(call);
    call.out.integer(sum);
    Ok(())
}

pub(super) async fn hincrbyfloat(call: &mut Call<'_>) -> Done {
    let by = call.arg(3);
    let by_number = number::float(by).ok_or(Failure::NOT_FLOAT)?;
    if by_number.is_infinite() {
        return Err(Failure::fixed("ERR value is NaN or Infinity"));
    }
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::Hash, call.now)
        .await?;
    let old = edit.get(call.arg(2)).await?.unwrap_or(b"0");
    number::float(old).ok_or(Failure::fixed("ERR hash value is not a float"))?;
    let sum = number::sum(old, by);
    let sum = sum.ok_or(Failure::fixed(
        "ERR increment would produce NaN or Infinity",
    ))?;
    edit.put(call.arg(2), sum.as_bytes()).await?;
    edit.commit().await?;
    touch(call);
    call.out.bulk(sum.as_bytes());
    Ok(())
}

pub(super) async fn hrandfield(call: &mut Call<'_>) -> Done {
    let (count, with_values) = scan::drawn_count(call, Some("withvalues"))?;
    let found = hash(call).await?;
    let (drawn, names) = scan::drawn_names(call, found.as_ref(), count.unwrap_or(1)).await?;
    if count.is_none() {
        call.out.bulk_or_null(names.first().map(|it| &it[..]));
        return Ok(());
    }
    let chosen = drawn.of(&names);
    let nested = with_values && call.out.protocol == Protocol::Three;
    call.out
        .array(chosen.len() * if with_values && !nested { 2 } else { 1 });
    for name in chosen {
        if call.out.is_cut() {
            break;
        }
        if nested {
            call.out.array(2);
        }
        call.out.bulk(name);
        if with_values && let Some(entry) = &found {
            let value = call.keyspace().element(entry, name).await?;
            call.out.bulk_or_null(value.as_deref());
        }
    }
    Ok(())
}

pub(super) async fn hscan(call: &mut Call<'_>) -> Done {
    let place = scan::place(call, 2)?;
    let options = scan::options(call, 3, false)?;
    let Some(entry) = hash(call).await? else {
        return scan::nothing(call);
    };
    let elements = call.keyspace().elements(&entry, place.as_deref());
    let (listed, next) = scan::page(call, elements, &options).await?;
    let mut values = Vec::new();
    for (name, value) in listed {
        if options.pattern.is_none_or(|it| matches(it, &name)) {
            values.push(name);
            values.push(value);
        }
    }
    scan::reply(call, next, &values)
}

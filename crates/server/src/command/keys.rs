//! Keys of any type.

use super::{Call, Done, Failure};
use crate::keyspace::{Entry, Kind};

pub(super) async fn exists(call: &mut Call<'_>) -> Done {
    let mut count = 0;
    for key in call.args.iter().skip(1) {
        count += i64::from(call.find(key).await?.is_some());
    }
    call.out.integer(count);
    Ok(())
}

pub(super) async fn del(call: &mut Call<'_>) -> Done {
    let mut count = 0;
    for key in call.args.iter().skip(1) {
        count += i64::from(call.keyspace().remove(key, call.now).await?);
    }
    call.out.integer(count);
    Ok(())
}

pub(super) async fn type_of(call: &mut Call<'_>) -> Done {
    let found = call.find(call.arg(1)).await?;
    call.out.simple(found.map_or("none", |it| it.kind.name()));
    Ok(())
}

pub(super) async fn ttl(call: &mut Call<'_>) -> Done {
    remaining(call, |at, now| (at - now + 500) / 1000).await
}

pub(super) async fn pttl(call: &mut Call<'_>) -> Done {
    remaining(call, |at, now| at - now).await
}

pub(super) async fn expiretime(call: &mut Call<'_>) -> Done {
    remaining(call, |at, _| (at + 500) / 1000).await
}

pub(super) async fn pexpiretime(call: &mut Call<'_>) -> Done {
    remaining(call, |at, _| at).await
}

async fn remaining(call: &mut Call<'_>, shown: fn(i64, i64) -> i64) -> Done {
    let found = call.find(call.arg(1)).await?;
    call.out.integer(match found.map(|it| it.expires) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => shown(at, call.now),
    });
    Ok(())
}

pub(super) async fn expire(call: &mut Call<'_>) -> Done {
    expire_at(call, 1000, true).await
}

pub(super) async fn pexpire(call: &mut Call<'_>) -> Done {
    expire_at(call, 1, true).await
}

pub(super) async fn expireat(call: &mut Call<'_>) -> Done {
    expire_at(call, 1000, false).await
}

pub(super) async fn pexpireat(call: &mut Call<'_>) -> Done {
    expire_at(call, 1, false).await
}

/// Sets the time of expiry, given in units of this many milliseconds, from now or from 1970.
async fn expire_at(call: &mut Call<'_>, unit: i64, from_now: bool) -> Done {
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for option in call.args.iter().skip(3) {
        match option.to_ascii_lowercase().as_slice() {
            b"nx" => nx = true,
            b"xx" => xx = true,
            b"gt" => gt = true,
            b"lt" => lt = true,
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(Failure::said(format!("ERR Unsupported option {option}")));
            }
        }
    }
    if nx && (xx || gt || lt) {
        return Err(Failure::fixed(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if gt && lt {
        return Err(Failure::fixed(
            "ERR GT and LT options at the same time are not compatible",
        ));
    }
    let given = call.integer(2)?.checked_mul(unit);
    let at = given.and_then(|it| it.checked_add(if from_now { call.now } else { 0 }));
    let at = at.ok_or_else(|| {
        let name = call.command.name;
        Failure::said(format!("ERR invalid expire time in '{name}' command"))
    })?;
    let key = call.arg(1);
    let Some(entry) = call.keyspace().whole(key, call.now).await? else {
        call.out.integer(0);
        return Ok(());
    };
    // A key that does not expire does so later than any.
    let refused = nx && entry.expires.is_some()
        || xx && entry.expires.is_none()
        || gt && entry.expires.is_none_or(|old| at <= old)
        || lt && entry.expires.is_some_and(|old| at >= old);
    if refused {
        call.out.integer(0);
        return Ok(());
    }
    let mut changes = call.keyspace().changes();
    match at <= call.now {
        true => changes.remove_entry(key, &entry),
        false => changes.put_entry(key, &entry, Some(at)),
    }
    changes.commit().await?;
    call.out.integer(1);
    Ok(())
}

pub(super) async fn persist(call: &mut Call<'_>) -> Done {
    let found = call.keyspace().whole(call.arg(1), call.now).await?;
    let found = found.filter(|it| it.expires.is_some());
    if let Some(entry) = &found {
        let mut changes = call.keyspace().changes();
        changes.put_entry(call.arg(1), entry, None);
        changes.commit().await?;
    }
    call.out.integer(i64::from(found.is_some()));
    Ok(())
}

pub(super) async fn rename(call: &mut Call<'_>) -> Done {
    rename_if(call, true).await?;
    call.out.ok();
    Ok(())
}

pub(super) async fn renamenx(call: &mut Call<'_>) -> Done {
    let renamed = rename_if(call, false).await?;
    call.out.integer(i64::from(renamed));
    Ok(())
}

async fn rename_if(call: &mut Call<'_>, overwrite: bool) -> Result<bool, Failure> {
    let (from, to) = (call.arg(1), call.arg(2));
    let entry = call.keyspace().whole(from, call.now).await?;
    let entry = entry.ok_or(Failure::NO_SUCH_KEY)?;
    if from == to {
        return Ok(overwrite);
    }
    let old = call.keyspace().find(to, call.now).await?;
    if old.is_some() && !overwrite {
        return Ok(false);
    }
    let renamed = call
        .keyspace()
        .rename((from, &entry), (to, old.as_ref()), call.now);
    renamed.await?;
    Ok(true)
}

pub(super) async fn copy(call: &mut Call<'_>) -> Done {
    let (from, to) = (call.arg(1), call.arg(2));
    let mut replace = false;
    let mut at = 3;
    while at < call.args.len() {
        if call.is(at, "replace") {
            replace = true;
            at += 1;
        } else if call.is(at, "db") && at + 1 < call.args.len() {
            if call.integer(at + 1)? != 0 {
                return Err(Failure::fixed("ERR DB index is out of range"));
            }
            at += 2;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    if from == to {
        return Err(Failure::fixed(
            "ERR source and destination objects are the same",
        ));
    }
    let Some(entry) = call.keyspace().whole(from, call.now).await? else {
        call.out.integer(0);
        return Ok(());
    };
    let old = call.keyspace().find(to, call.now).await?;
    if old.is_some() && !replace {
        call.out.integer(0);
        return Ok(());
    }
    if entry.kind == Kind::List {
        call.keyspace().copy_list(entry, to, old.as_ref()).await?;
        call.out.integer(1);
        return Ok(());
    }
    if entry.kind != Kind::String {
        let edit = call.keyspace().copy(&entry, to, call.now).await?;
        edit.commit().await?;
        call.out.integer(1);
        return Ok(());
    }
    let mut changes = call.keyspace().changes();
    if let Some(old) = &old {
        changes.remove_entry(to, old);
    }
    changes.put(
        to,
        &Entry::encode(Kind::String, entry.expires, &[entry.value()]),
    );
    changes.commit().await?;
    call.out.integer(1);
    Ok(())
}

pub(super) fn dbsize(call: &mut Call) -> Done {
    call.out.count(call.keyspace().len());
    Ok(())
}

pub(super) fn check_flush(call: &Call) -> Done {
    if call.args.len() > 2 || call.args.len() == 2 && !call.is(1, "sync") && !call.is(1, "async") {
        return Err(Failure::SYNTAX);
    }
    Ok(())
}

pub(super) async fn flush(call: &mut Call<'_>) -> Done {
    check_flush(call)?;
    call.keyspace().clear().await?;
    call.out.ok();
    Ok(())
}

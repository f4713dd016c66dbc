//! Commands of lists that wait for elements. In a transaction they do not.

use std::time::Duration;

use tokio::time::Instant;

use super::lists::{move_element, pop_of, pop_options, side, side_of};
use super::{Call, Done, Failure};
use crate::blocked::Blocked;
use crate::client::Unblock;
use crate::keyspace::{Failed, List, Locks, Side};

/// Until when a command waits, from seconds in an argument; `None` is for ever.
fn deadline(call: &Call, at: usize) -> Result<Option<Instant>, Failure> {
    let seconds = super::number::float(call.arg(at));
    let seconds = seconds.ok_or(Failure::fixed("ERR timeout is not a float or out of range"))?;
    // In Redis' milliseconds, what is too much becomes negative.
    if seconds < 0.0 || seconds * 1e3 >= i64::MAX as f64 {
        return Err(Failure::fixed("ERR timeout is negative"));
    }
    let wait = Duration::from_micros((seconds * 1e6).ceil() as u64);
    Ok((!wait.is_zero())
        .then(|| Instant::now().checked_add(wait))
        .flatten())
}

/// The locks of keys, unless a transaction has them.
async fn lock<'a>(call: &Call<'a>, keys: &[&[u8]]) -> Locks<'a> {
    match call.in_exec {
        true => Locks::new(),
        false => call.keyspace().locks.lock(keys.iter().copied()).await,
    }
}

/// Whether this client may take an element of a key now: whoever waits longer comes first.
fn is_turn(call: &Call, key: &[u8]) -> bool {
    let wait = call.session.blocked.as_ref().map(|it| &it.wait);
    call.in_exec || call.keyspace().waiting.is_turn(key, wait)
}

/// A list that has elements, if this client may take one.
async fn list_with_elements<'a>(
    call: &Call<'a>,
    key: &'a [u8],
) -> Result<Option<List<'a>>, Failure> {
    match call.keyspace().list(key, call.now).await {
        Ok(list) => Ok(Some(list).filter(|it| !it.is_empty() && is_turn(call, key))),
        // What became of a key meanwhile is no error.
        Err(Failed::WrongType) if call.session.blocked.is_some() => Ok(None),
        Err(failed) => Err(failed.into()),
    }
}

/// There is no element: waits for one of these keys', whose locks are held, or replies that there
/// is none.
fn wait(call: &mut Call, keys: &[&[u8]], deadline: Option<Instant>, none: fn(&mut Call)) -> Done {
    let unblocked = call.session.client.unblocked();
    match &mut call.session.blocked {
        _ if call.in_exec => none(call),
        _ if unblocked == Some(Unblock::Error) => {
            return Err(Failure::fixed(
                "UNBLOCKED client unblocked via CLIENT UNBLOCK",
            ));
        }
        _ if unblocked == Some(Unblock::Timeout) => none(call),
        Some(blocked) if blocked.is_over() => none(call),
        Some(blocked) => blocked.waits = true,
        None => {
            call.session.client.begin_wait();
            call.session.blocked = Some(Blocked {
                wait: call.shared.keyspace.waiting.join(keys),
                deadline,
                waits: true,
            });
        }
    }
    Ok(())
}

pub(super) async fn bpop(call: &mut Call<'_>) -> Done {
    let deadline = deadline(call, call.args.len() - 1)?;
    let keys = call.keys();
    let _locks = lock(call, &keys).await;
    for &key in &keys {
        if let Some(mut list) = list_with_elements(call, key).await? {
            let element = list.pop(side_of(call)).await?;
            list.commit().await?;
            call.out.array(2);
            call.out.bulk(key);
            call.out.bulk_or_null(element.as_deref());
            return Ok(());
        }
    }
    wait(call, &keys, deadline, |call| call.out.null_array())
}

pub(super) async fn blmpop(call: &mut Call<'_>) -> Done {
    let deadline = deadline(call, 1)?;
    let (side, count) = pop_options(call, 2)?;
    let keys = call.keys();
    let _locks = lock(call, &keys).await;
    for &key in &keys {
        if let Some(list) = list_with_elements(call, key).await? {
            return pop_of(call, key, list, side, count).await;
        }
    }
    wait(call, &keys, deadline, |call| call.out.null_array())
}

pub(super) async fn blmove(call: &mut Call<'_>) -> Done {
    let (from, to) = (side(call, 3)?, side(call, 4)?);
    move_or_wait(call, from, to, 5).await
}

pub(super) async fn brpoplpush(call: &mut Call<'_>) -> Done {
    move_or_wait(call, Side::Right, Side::Left, 3).await
}

async fn move_or_wait(call: &mut Call<'_>, from: Side, to: Side, timeout: usize) -> Done {
    let deadline = deadline(call, timeout)?;
    let keys = call.keys();
    let _locks = lock(call, &keys).await;
    if list_with_elements(call, keys[0]).await?.is_some() {
        let element = move_element(call, from, to).await?;
        call.out.bulk_or_null(element.as_deref());
        return Ok(());
    }
    wait(call, &keys[..1], deadline, |call| match call.in_exec {
        true => call.out.null(),
        false => call.out.null_array(),
    })
}

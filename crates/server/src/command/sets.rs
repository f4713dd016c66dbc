//! Sets.

use std::collections::BTreeSet;

use super::{Call, Done, Failure, matches, scan};
use crate::keyspace::{Entry, Kind};
use crate::resp::integer;

async fn set_at(call: &Call<'_>, key: &[u8]) -> Result<Option<Entry>, Failure> {
    call.aggregate(key, Kind::Set).await
}

pub(super) async fn sadd(call: &mut Call<'_>) -> Done {
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::Set, call.now)
        .await?;
    let mut added = 0;
    for member in call.args.iter().skip(2) {
        added += i64::from(edit.put(member, &[]).await?);
    }
    edit.commit().await?;
    call.out.integer(added);
    Ok(())
}

pub(super) async fn srem(call: &mut Call<'_>) -> Done {
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::Set, call.now)
        .await?;
    let mut removed = 0;
    for member in call.args.iter().skip(2) {
        removed += i64::from(edit.remove(member).await?);
    }
    edit.commit().await?;
    call.out.integer(removed);
    Ok(())
}

pub(super) async fn sismember(call: &mut Call<'_>) -> Done {
    let found = set_at(call, call.arg(1)).await?;
    let is_member = match found {
        Some(entry) => call.keyspace().has_element(&entry, call.arg(2)).await?,
        None => false,
    };
    call.out.integer(i64::from(is_member));
    Ok(())
}

pub(super) async fn smismember(call: &mut Call<'_>) -> Done {
    let found = set_at(call, call.arg(1)).await?;
    call.out.array(call.args.len() - 2);
    for member in call.args.iter().skip(2) {
        let is_member = match &found {
            Some(entry) => call.keyspace().has_element(entry, member).await?,
            None => false,
        };
        call.out.integer(i64::from(is_member));
    }
    Ok(())
}

pub(super) async fn scard(call: &mut Call<'_>) -> Done {
    let found = set_at(call, call.arg(1)).await?;
    call.out.count(found.map_or(0, |it| it.elements() as usize));
    Ok(())
}

pub(super) async fn smove(call: &mut Call<'_>) -> Done {
    let (from, to, member) = (call.arg(1), call.arg(2), call.arg(3));
    let mut source = call.keyspace().edit(from, Kind::Set, call.now).await?;
    if source.entry.is_none() {
        call.out.integer(0);
        return Ok(());
    }
    let mut target = call.keyspace().edit(to, Kind::Set, call.now).await?;
    let moved = source.remove(member).await?;
    if moved && from != to {
        target.put(member, &[]).await?;
        target.commit().await?;
        source.commit().await?;
    }
    call.out.integer(i64::from(moved));
    Ok(())
}

pub(super) async fn smembers(call: &mut Call<'_>) -> Done {
    let Some(entry) = set_at(call, call.arg(1)).await? else {
        call.out.set(0);
        return Ok(());
    };
    call.out.set(entry.elements() as usize);
    let mut names = call.keyspace().element_names(&entry, None);
    while !call.out.is_cut()
        && let Some(name) = names.next_name().await?
    {
        call.out.bulk(&name);
    }
    Ok(())
}

fn reply(call: &mut Call, members: &BTreeSet<Vec<u8>>) {
    call.out.set(members.len());
    for member in members {
        call.out.bulk(member);
    }
}

pub(super) async fn spop(call: &mut Call<'_>) -> Done {
    if call.args.len() > 3 {
        return Err(Failure::SYNTAX);
    }
    let count = match call.args.get(2) {
        Some(count) => Some(integer(count).filter(|it| *it >= 0).ok_or(Failure::fixed(
            "ERR value is out of range, must be positive",
        ))?),
        None => None,
    };
    let found = set_at(call, call.arg(1)).await?;
    let (drawn, names) = scan::drawn_names(call, found.as_ref(), count.unwrap_or(1)).await?;
    let chosen = drawn.of(&names);
    call.promise(chosen.len(), chosen.iter().map(|it| it.len()).sum())?;
    let mut edit = call
        .keyspace()
        .edit(call.arg(1), Kind::Set, call.now)
        .await?;
    for member in &chosen {
        edit.remove(member).await?;
    }
    edit.commit().await?;
    match count {
        None => call.out.bulk_or_null(chosen.first().map(|it| &it[..])),
        Some(_) => {
            call.out.set(chosen.len());
            chosen.iter().for_each(|it| call.out.bulk(it));
        }
    }
    Ok(())
}

pub(super) async fn srandmember(call: &mut Call<'_>) -> Done {
    let (count, _) = scan::drawn_count(call, None)?;
    let found = set_at(call, call.arg(1)).await?;
    let (drawn, names) = scan::drawn_names(call, found.as_ref(), count.unwrap_or(1)).await?;
    match count {
        None => call.out.bulk_or_null(names.first().map(|it| &it[..])),
        Some(_) => {
            let chosen = drawn.of(&names);
            call.out.array(chosen.len());
            chosen.iter().for_each(|it| call.out.bulk(it));
        }
    }
    Ok(())
}

/// Members that are walked through in the time in which one is looked up, about.
const WALKED: usize = 4;

/// How sets are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Combination {
    Union,
    Intersection,
    Difference,
}

/// The members of a combination. Of an intersection or a difference, one set is in memory as a
/// whole: the smallest one, or the first one.
async fn combined<'k>(
    call: &Call<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
    how: Combination,
) -> Result<BTreeSet<Vec<u8>>, Failure> {
    let mut sets = Vec::new();
    for key in keys {
        sets.push(set_at(call, key).await?);
    }
    if how == Combination::Intersection {
        sets.sort_by_key(|it| it.as_ref().map_or(0, Entry::elements));
    }
    let mut result = BTreeSet::new();
    for (nth, set) in sets.iter().enumerate() {
        match (set, how) {
            (None, Combination::Intersection) => return Ok(BTreeSet::new()),
            (None, _) => {}
            (Some(set), _) if nth == 0 || how == Combination::Union => {
                let mut names = call.keyspace().element_names(set, None);
                result.extend(names.names(usize::MAX, &call.held).await?);
            }
            (Some(set), _) => {
                let keeps = how == Combination::Intersection;
                result = filtered(call, result, set, keeps).await?;
            }
        }
    }
    Ok(result)
}

/// The names that are members of a set, or those that are not.
async fn filtered(
    call: &Call<'_>,
    mut names: BTreeSet<Vec<u8>>,
    set: &Entry,
    members: bool,
) -> Result<BTreeSet<Vec<u8>>, Failure> {
    let mut kept = BTreeSet::new();
    if set.elements() as usize <= WALKED * names.len() {
        let mut all = call.keyspace().element_names(set, None);
        while let Some(name) = all.next_name().await? {
            kept.extend(names.take(&name));
        }
        return Ok(if members { kept } else { names });
    }
    for name in names {
        if call.keyspace().has_element(set, &name).await? == members {
            kept.insert(name);
        }
    }
    Ok(kept)
}

async fn combine(call: &mut Call<'_>, how: Combination) -> Done {
    let result = combined(call, call.args.iter().skip(1), how).await?;
    reply(call, &result);
    Ok(())
}

async fn combine_store(call: &mut Call<'_>, how: Combination) -> Done {
    let result = combined(call, call.args.iter().skip(2), how).await?;
    let mut edit = call
        .keyspace()
        .replace(call.arg(1), Kind::Set, call.now)
        .await?;
    for member in &result {
        edit.put(member, &[]).await?;
    }
    edit.commit().await?;
    call.out.count(result.len());
    Ok(())
}

pub(super) async fn sunion(call: &mut Call<'_>) -> Done {
    combine(call, Combination::Union).await
}

pub(super) async fn sinter(call: &mut Call<'_>) -> Done {
    combine(call, Combination::Intersection).await
}

pub(super) async fn sdiff(call: &mut Call<'_>) -> Done {
    combine(call, Combination::Difference).await
}

pub(super) async fn sunionstore(call: &mut Call<'_>) -> Done {
    combine_store(call, Combination::Union).await
}

pub(super) async fn sinterstore(call: &mut Call<'_>) -> Done {
    combine_store(call, Combination::Intersection).await
}

pub(super) async fn sdiffstore(call: &mut Call<'_>) -> Done {
    combine_store(call, Combination::Difference).await
}

pub(super) async fn sscan(call: &mut Call<'_>) -> Done {
    let place = scan::place(call, 2)?;
    let options = scan::options(call, 3, false)?;
    let Some(entry) = set_at(call, call.arg(1)).await? else {
        return scan::nothing(call);
    };
    let names = call.keyspace().element_names(&entry, place.as_deref());
    let (listed, next) = scan::page(call, names, &options).await?;
    let mut listed: Vec<Vec<u8>> = listed.into_iter().map(|it| it.0).collect();
    listed.retain(|it| options.pattern.is_none_or(|pattern| matches(pattern, it)));
    scan::reply(call, next, &listed)
}

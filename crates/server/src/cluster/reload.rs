//! A pool that was lost, made again from the logs of its nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use timberline_io::wait_for;
use timberline_remote::load_if_empty;
use timberline_remote::pool::Origin;
use timberline_remote::records::{PagedMap, Records};
use timberline_store::Store;

use super::ClusterOptions;
use super::keys::{COUNT_BITS, HEAD, MapChange, SEVERAL, map_record, pooled, record_of};
use super::log::{About, LOGGED, element, id_of, logged, number};
use super::node::{NOT_LOADED, connect, layout};
use super::slot::Places;
use crate::Error;
use crate::keyspace::{Entry, Kind, LETTERS, element_of_log, element_of_pool};

/// Threads that put records there.
const THREADS: usize = 8;
/// Records of a thread between two renewals of the lease.
const RENEWED: usize = 1_000;
/// Longer than so many records take.
const LEASE: Duration = Duration::from_secs(600);

/// What was reloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reloaded {
    /// Keys that the pool has now.
    pub keys: u64,
    /// Records of the logs, those included that others replace.
    pub records: u64,
}

/// Makes the data of a cluster again in memory servers that have none, from the folders of all its
/// nodes or backups of them. No node may run.
///
/// # Errors
/// A folder is no log, or of other data than the first one; the memory servers have data already,
/// are full, or do not answer; or etcd does not.
pub fn reload(options: &ClusterOptions, folders: &[PathBuf]) -> Result<Reloaded, Error> {
    let logs = folders
        .iter()
        .map(|it| open(it))
        .collect::<Result<Vec<_>, _>>()?;
    let Some(data) = logs.first().map(|it| it.1.data) else {
        return Err(Error::OtherData("no folder of a node was given".into()));
    };
    if let Some((_, folder)) = logs.iter().zip(folders).find(|it| it.0.1.data != data) {
        let reason = format!("{} is the log of other data", folder.display());
        return Err(Error::OtherData(reason));
    }
    let mut records = 0;
    let mut newest = 0;
    for (log, _) in &logs {
        each(log, |_, record| {
            records += 1;
            newest = newest.max(number(record, 0).unwrap_or(0));
            Ok(())
        })?;
    }
    let fabric = connect(options)?;
    if let Some(etcd) = &options.etcd {
        wait_for(etcd.check())?;
    }
    let origin = |data| Origin {
        data,
        base: (newest >> COUNT_BITS) + 1,
    };
    if !wait_for(load_if_empty(fabric.clone(), layout(), origin(NOT_LOADED)))? {
        let reason = "the memory servers have data already";
        return Err(Error::OtherData(reason.into()));
    }
    let tree = timberline_remote::Options {
        cache_bytes: options.cache_bytes,
        etcd: options.etcd.clone(),
        ..Default::default()
    };
    let pool = wait_for(Records::join(fabric, tree, LEASE))?;
    wait_for(pool.member().claim(&(0..=u64::MAX)))?;
    let places = Places::new(data);
    for (log, _) in &logs {
        in_parallel(log, &pool, |key, record| {
            wait_for(put(&pool, places, key, record))
        })?;
    }
    // Only now is it known which elements count: those of the newest record's id.
    for number in 0..logs.len() {
        in_parallel(&logs[number].0, &pool, |key, record| match id_of(record) {
            Some(id) => wait_for(put_elements(&pool, places, &logs, number, (key, id))),
            None => Ok(()),
        })?;
    }
    // And of a removed key, that no log has a newer record.
    for (log, _) in &logs {
        in_parallel(log, &pool, |key, record| match record.len() > 8 {
            true => Ok(()),
            false => wait_for(remove(&pool, places, key)),
        })?;
    }
    let keys = wait_for(pool.count(0..=u64::MAX))?;
    wait_for(pool.member().set_origin(origin(data)))?;
    wait_for(pool.leave())?;
    Ok(Reloaded { keys, records })
}

fn open(folder: &Path) -> Result<(Store, About), Error> {
    let (store, _) = Store::open(folder, timberline_store::Options::default())?;
    let folder = folder.display();
    match wait_for(About::read(&store))? {
        Some(about) if about.is_whole => Ok((store, about)),
        Some(_) => Err(Error::OtherData(format!(
            "{folder} is no whole log: its node ran without one (--no-log)"
        ))),
        None => Err(Error::OtherData(format!("{folder} is no log of a node"))),
    }
}

/// Puts a record of a log there, unless there is a newer one of its key.
async fn put(pool: &Records, places: Places, key: &[u8], record: &[u8]) -> Result<(), Error> {
    let Some((version, record)) = record.split_at_checked(8) else {
        return Ok(());
    };
    let Some(version) = number(version, 0) else {
        return Ok(());
    };
    let expires = |record: &[u8]| Entry::expiry(record).is_some();
    let change = |before: Option<&[u8]>| match before {
        Some(before) if number(before, 0) >= Some(version) => {
            Some((before.to_vec(), expires(&before[HEAD.min(before.len())..])))
        }
        // Other logs may have older records of it, as long as these are there.
        _ => Some((pooled(version, SEVERAL, record), expires(record))),
    };
    pool.update(places.place_of(key), key, change).await?;
    Ok(())
}

/// Adds the elements of a key to its record, if that has this id, and no log before this one has
/// it too.
async fn put_elements(
    pool: &Records,
    places: Places,
    logs: &[(Store, About)],
    log: usize,
    (key, id): (&[u8], u64),
) -> Result<(), Error> {
    let place = places.place_of(key);
    let Some(bytes) = pool.get(place, key).await? else {
        return Ok(());
    };
    let version = number(&bytes, 0).unwrap_or(0);
    let entry = Entry::new(record_of(bytes));
    if entry.kind == Kind::String || entry.id() != id {
        return Ok(());
    }
    let mut elements = BTreeMap::new();
    for (number, (store, _)) in logs.iter().enumerate() {
        let record = store.get(&logged(key)).await?;
        if record.and_then(|it| id_of(&it)) != Some(id) {
            continue;
        }
        if number < log {
            return Ok(());
        }
        newest(store, id, &mut elements).await?;
    }
    let elements = elements.into_iter().map(|(name, (_, value))| (name, value));
    let elements: Vec<_> = elements.filter(|it| it.1.is_some()).collect();
    let letter = entry.kind.element_letter();
    let count = elements
        .iter()
        .filter(|it| it.0.first() == Some(&letter))
        .count();
    if count == 0 {
        // Only the end of a log that was lost can have had some.
        pool.remove(place, key).await?;
        return Ok(());
    }
    if elements.len() > RENEWED {
        pool.member().renew().await?;
    }
    let changed = pool.change(&PagedMap::default(), &elements).await?;
    let change = MapChange {
        kind: entry.kind,
        expires: entry.expires,
        id,
        count: count as u64,
        rest: rest_of(entry.kind, &elements[0].0),
        map: PagedMap::default(),
        elements: BTreeMap::new(),
    };
    let record = map_record(&change, &changed.map);
    let record = pooled(version, SEVERAL, &record);
    pool.put(place, key, &record, entry.expires.is_some())
        .await?;
    pool.accept(changed).await;
    Ok(())
}

/// What a record has beside its elements' number, whose first name this is.
fn rest_of(kind: Kind, first: &[u8]) -> Vec<u8> {
    match (kind, first.get(1..)) {
        // The place of a list's first element, the other way round.
        (Kind::List, Some(place)) => place.iter().rev().copied().collect(),
        _ => Vec::new(),
    }
}

/// Elements by their names in the pool: versions, and values of those that are there.
type Elements = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

/// Adds the elements of an id in a log, where they are newer.
async fn newest(store: &Store, id: u64, elements: &mut Elements) -> Result<(), Error> {
    for letter in LETTERS {
        let mut records = store.prefix(&element_of_log(id, &[letter]));
        while let Some(record) = records.next().await {
            let (key, record) = record?;
            let Some((version, value)) = element(&record) else {
                continue;
            };
            let name = element_of_pool(&key);
            let is_newer = |it: &(u64, _)| it.0 < version;
            if elements.get(&name).is_none_or(is_newer) {
                elements.insert(name, (version, value.map(Into::into)));
            }
        }
    }
    Ok(())
}

/// Removes the record of a key, if that says that the key was removed.
async fn remove(pool: &Records, places: Places, key: &[u8]) -> Result<(), Error> {
    let place = places.place_of(key);
    let found = pool.get(place, key).await?;
    if found.is_some_and(|it| it.len() <= HEAD) {
        pool.remove(place, key).await?;
    }
    Ok(())
}

/// Does something with each key of a log and its record.
fn each(log: &Store, mut work: impl FnMut(&[u8], &[u8]) -> Result<(), Error>) -> Result<(), Error> {
    for record in log.blocking().prefix(&[LOGGED]) {
        let (key, record) = record?;
        work(&key[1..], &record)?;
    }
    Ok(())
}

/// The same by several threads, while the lease is renewed.
fn in_parallel(
    log: &Store,
    pool: &Records,
    work: impl Fn(&[u8], &[u8]) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let records = Mutex::new(log.blocking().prefix(&[LOGGED]).enumerate());
    let next = || records.lock().unwrap_or_else(|it| it.into_inner()).next();
    let run = || {
        while let Some((number, record)) = next() {
            if number.is_multiple_of(RENEWED) {
                wait_for(pool.member().renew())?;
            }
            let (key, record) = record?;
            work(&key[1..], &record)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        let mut all = Ok(());
        for thread in threads {
            match thread.join() {
                Ok(ended) => all = all.and(ended),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

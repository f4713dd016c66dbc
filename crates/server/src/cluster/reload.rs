//! A pool that was lost, made again from the logs of its nodes.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use timberline_io::wait_for;
use timberline_remote::load_if_empty;
use timberline_remote::pool::Origin;
use timberline_remote::records::Records;
use timberline_store::Store;

use super::ClusterOptions;
use super::node::{NOT_LOADED, connect, layout};
use super::slot::Places;
use super::strings::{About, COUNT_BITS, HEAD, LOGGED, SEVERAL, number, pooled};
use crate::Error;
use crate::keyspace::Entry;

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
/// are full, or do not answer.
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
    // Only now is it known of a removed key that no log has a newer record.
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

//! Members and owners of keys in the first chunk of memory server 0.

use super::Renewed;
use crate::address::ComputeId;
use crate::error::Result;
use crate::fabric::Connection;
use crate::pool::PoolLock;
use crate::pool::directory::{self, Change, PARTITIONS, Partitions, Place};

/// Adds to the heartbeat.
pub(super) async fn renew(connection: &Connection, number: usize, place: Place) -> Result<Renewed> {
    let next = place.next();
    let change = directory::change_place(connection, number, Some(place), Some(next)).await?;
    Ok(match change {
        Change::Now => Renewed::Now(next),
        Change::Before => Renewed::Before(next),
        Change::Not => Renewed::Not,
    })
}

/// Takes a member for dead whose heartbeat does not go on. Says whether it is dead then.
pub(super) async fn declare_dead(
    connection: &Connection,
    number: usize,
    place: Place,
) -> Result<bool> {
    let dead = Some(place.dead());
    let change = directory::change_place(connection, number, Some(place), dead);
    Ok(change.await? != Change::Not)
}

/// Declares a member dead that leaves.
pub(super) async fn leave(connection: &Connection, number: usize, place: Place) -> Result<()> {
    let declare = async || {
        // Of a renewal without an answer it is not known whether it arrived.
        Ok(declare_dead(connection, number, place).await?
            || declare_dead(connection, number, place.next()).await?)
    };
    connection.insist(declare).await.map(|_| ())
}

/// Distributes the keys of a dead member.
pub(super) async fn bury(connection: &Connection, number: usize, dead: Place) -> Result<()> {
    with_table_locked(connection, async {
        let mut partitions = Partitions::read(connection).await?;
        if partitions.distribute(dead.compute, &directory::members(connection).await?) {
            partitions.write(connection).await?;
        }
        // As long as it has its place, it is buried again.
        directory::change_place(connection, number, Some(dead), None).await?;
        Ok(())
    })
    .await
}

/// Changes the table under its lock.
pub(super) async fn change(
    connection: &Connection,
    change: impl AsyncFn(&mut Partitions, &[ComputeId]) -> Result<()>,
) -> Result<()> {
    with_table_locked(connection, async {
        let members = directory::members(connection).await?;
        let before = Partitions::read(connection).await?;
        let mut after = before.clone();
        change(&mut after, &members).await?;
        match after == before {
            true => Ok(()),
            false => after.write(connection).await,
        }
    })
    .await
}

async fn with_table_locked(
    connection: &Connection,
    work: impl Future<Output = Result<()>>,
) -> Result<()> {
    let lock = PoolLock::take(connection, PARTITIONS).await?;
    let result = work.await;
    lock.release(connection).await?;
    result
}

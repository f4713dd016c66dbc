//! What a node does beside its clients' commands.

use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use super::slot::{slot_at, slot_of};
use super::{Balance, Node, name_of, record_of};
use crate::keyspace::Entry;
use crate::shared::{Shared, millis_since_1970};

/// Records of which the tree says whether they expire, looked at in one step.
const AT_ONCE: usize = 512;
/// Between two steps where keys expire, and where none has been seen.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// Between two looks whether slots are to be given away.
const BALANCE: Duration = Duration::from_millis(250);

/// Removes keys that have expired, step by step through all that are this node's, for ever. Only
/// records that expire are read.
pub async fn expire(shared: Arc<Shared>) {
    let Some(node) = shared.keyspace.node() else {
        return;
    };
    let (mut from, mut any, mut any_before) = (0, false, true);
    loop {
        tokio::time::sleep(PAUSES[usize::from(!any && !any_before)]).await;
        let owned = node.records().member().tree().partitions();
        let Some(places) = owned.into_iter().find(|it| *it.end() >= from) else {
            (from, any_before, any) = (0, any, false);
            continue;
        };
        let (first, last) = (from.max(*places.start()), *places.end());
        let listed = node.records().list(first..=last, AT_ONCE, true).await;
        // What was given away meanwhile is another's to remove.
        let (expiring, next) = listed.unwrap_or_default();
        for (place, record) in expiring {
            any = true;
            let expires = Entry::expiry(&record_of(record.value));
            if expires.is_some_and(|at| at <= millis_since_1970()) {
                remove(&shared, node, slot_at(place), &record.key).await;
            }
        }
        match next.or_else(|| last.checked_add(1)) {
            Some(next) => from = next,
            None => (from, any_before, any) = (0, any, false),
        }
    }
}

/// Looks at a key, which removes it if it has expired.
async fn remove(shared: &Shared, node: &Node, slot: u16, key: &[u8]) {
    let Ok(_held) = node.hold(slot).await else {
        return;
    };
    let _lock = shared.keyspace.locks.lock([key].into_iter()).await;
    // If a memory server does not answer, the next step does it.
    let _ = shared.keyspace.find(key, millis_since_1970()).await;
}

/// Gives slots away so that all nodes have about as many, for ever.
pub async fn balance(shared: Arc<Shared>) {
    let Some(node) = shared.keyspace.node() else {
        return;
    };
    let next_gift = || match node.balance {
        Balance::Off => None,
        Balance::Slots => node.map().next_gift(node.id(), false),
        Balance::Load(_) => node.map().next_gift(node.id(), true),
    };
    loop {
        tokio::time::sleep(BALANCE).await;
        if next_gift().is_none() || node.refresh(true).await.is_err() {
            continue;
        }
        if let Some((slots, to)) = next_gift() {
            // The other one may have gone: then there is another map to look at.
            let _ = node.hand_over(&slots, to).await;
            moved(&shared, node);
        }
    }
}

/// Gives slots away so that all nodes have about as much to do, for ever.
pub async fn follow_load(shared: Arc<Shared>) {
    let Some(node) = shared.keyspace.node() else {
        return;
    };
    let Balance::Load(balancing) = node.balance else {
        return;
    };
    loop {
        tokio::time::sleep(balancing.period).await;
        let (given, balanced) = node.follow_load().await;
        let Some((slots, to)) = given else {
            continue;
        };
        moved(&shared, node);
        // If it failed, the slots are where the table says.
        if balanced.is_ok() {
            let slots = format!("{}-{}", slots.start(), slots.end());
            info!(
                slots,
                to = name_of(to),
                "slots were given away because of the load"
            );
        }
    }
}

/// What clients of this node have to know when slots were given away.
pub(crate) fn moved(shared: &Shared, node: &Node) {
    // The other node may change keys that are watched here.
    shared.keyspace.watches.touch_all();
    // Who waits for elements of these slots is sent there.
    shared.keyspace.waiting.wake_all();
    let map = node.map();
    let is_mine = |channel: &[u8]| map.owner(slot_of(channel)) == Some(node.id());
    shared.pubsub.lock().keep_shards(is_mine);
}

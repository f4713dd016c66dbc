//! Keys that come to this compute server, and keys that go from it.
//!
//! No record is copied: who gives keys away writes what only its cache has of them, and forgets
//! the rest.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use timberline_tree::btree::page::PageBody;

use super::RemoteTree;
use super::fetch::Admission;
use crate::error::Result;
use crate::pool::SUPERBLOCK;
use crate::pool::directory::PARTITIONS;

impl RemoteTree {
    /// Gives keys away. When this ends, the pool has all of their records, the cache none, and no
    /// operation on them is under way or will be.
    ///
    /// # Errors
    /// A memory server does not answer, or is full. The keys are this server's still.
    pub(crate) async fn release(&self, keys: &RangeInclusive<u64>) -> Result<()> {
        // No leaf may have keys of two servers, and none is merged over the cuts meanwhile.
        let structure = self.cache.flights.begin(SUPERBLOCK).await;
        self.cut(*keys.start()).await?;
        let next = keys.end().checked_add(1);
        if let Some(next) = next.filter(|&next| self.check_owned(next).is_ok()) {
            self.cut(next).await?;
        }
        self.owned.write().remove(keys);
        drop(structure);
        let result = self.clear(keys).await;
        if result.is_err() {
            self.owned.write().insert(keys);
        }
        result
    }

    /// Writes and forgets all that the cache has of keys that are this server's no more.
    async fn clear(&self, keys: &RangeInclusive<u64>) -> Result<()> {
        // The caller's own operation is under way at that address.
        self.cache.flights.drain(PARTITIONS).await;
        self.settle_all(keys, Admission::Never).await?;
        let is_gone =
            |body: &PageBody| body.upper() >= *keys.start() && body.lower() <= *keys.end();
        self.write_all(is_gone).await?;
        self.expel(*keys.start(), *keys.end(), 0).await?;
        self.cache.copies.forget(keys);
        // Who has them next may change them, and give them back.
        self.offloading.note_all();
        Ok(())
    }

    /// Takes keys that the server they belonged to has given away, or has lost.
    ///
    /// # Errors
    /// A memory server does not answer. The keys are not this server's.
    pub(crate) async fn acquire(&self, keys: &RangeInclusive<u64>) -> Result<()> {
        // Inner nodes may have been changed while they were another server's. Those of these keys
        // alone go; those of other keys, too, are on the way to one end or the other.
        let (lower, upper) = (*keys.start(), *keys.end());
        self.expel(lower, upper, u8::MAX).await?;
        for end in [lower, upper] {
            self.refresh(end).await?;
        }
        self.owned.write().insert(keys);
        Ok(())
    }

    /// Until when nobody else has the keys of this server, by its connection's clock.
    pub(crate) fn set_lease(&self, until: Duration) {
        self.lease_ns.store(until.as_nanos() as u64, Relaxed);
    }
}

//! Changes of strings in the pool, in a cluster.

use super::{Changes, Error};
use crate::cluster::Strings;

/// A change of a string in the pool.
pub(super) struct Pooled {
    key: Box<[u8]>,
    /// `None` removes it.
    record: Option<Vec<u8>>,
}

impl Changes<'_> {
    /// Sets a string's record in the pool, or removes it.
    pub(super) fn change_pooled(&mut self, key: &[u8], record: Option<Vec<u8>>) {
        let key = key.into();
        self.pooled.push(Pooled { key, record });
    }

    /// Does the changes in the pool, one after the other.
    pub(super) async fn commit_pooled(&self, strings: &Strings) -> Result<(), Error> {
        for Pooled { key, record } in &self.pooled {
            let record = record.as_deref();
            strings.set(&self.keyspace.store, key, record).await?;
        }
        Ok(())
    }
}

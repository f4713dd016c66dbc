//! Elements of keys that are gone: they are removed later, by their id.

use super::changes::Changes;
use super::{AT_ONCE, Error, Keyspace, LETTERS, StoreKey, orphans_of, store_key};

impl Changes<'_> {
    /// Has all elements of an id removed, once these changes are done.
    pub(super) fn remove_elements(&mut self, id: u64) {
        self.removed.push(id);
        self.batch.put(&orphans_of(id), &[]);
        self.orphans = true;
    }
}

impl Keyspace {
    /// Removes elements of keys that are gone, for ever.
    pub async fn reap(&self) -> Result<(), Error> {
        loop {
            let marks: Vec<Vec<u8>> = self
                .store
                .keys(&b"d"[..]..&b"e"[..])
                .take(AT_ONCE)
                .collect();
            if marks.is_empty() {
                self.orphans.notified().await;
                continue;
            }
            for mark in marks {
                for letter in LETTERS {
                    self.reap_elements(store_key(letter, &[&mark[1..]])).await?;
                }
                let _removing = self.removing.lock().await;
                self.store.delete(&mark).await?;
                tokio::task::yield_now().await;
            }
        }
    }

    async fn reap_elements(&self, prefix: StoreKey) -> Result<(), Error> {
        loop {
            let keys = self.store.keys(&prefix[..]..).take(AT_ONCE);
            let keys: Vec<_> = keys.take_while(|key| key.starts_with(&prefix)).collect();
            if keys.is_empty() {
                return Ok(());
            }
            {
                let _removing = self.removing.lock().await;
                for key in &keys {
                    self.store.delete(key).await?;
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

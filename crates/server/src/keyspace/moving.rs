//! Keys that get another name, or are copied.

use super::aggregate::Edit;
use super::{Entry, Error, Keyspace, Kind};

impl Keyspace {
    /// Begins to copy a hash, set or sorted set, in place of anything that the key was.
    pub async fn copy<'a>(
        &'a self,
        entry: &Entry,
        to: &'a [u8],
        now: i64,
    ) -> Result<Edit<'a>, Error> {
        let mut edit = self.replace(to, entry.kind, now).await?;
        edit.expires = entry.expires;
        let mut elements = self.elements(entry, None);
        while let Some((name, value)) = elements.next().await? {
            edit.put(&name, &value).await?;
        }
        Ok(edit)
    }

    /// Gives a key, which has this entry, another name, in place of what has that.
    pub async fn rename(
        &self,
        (from, entry): (&[u8], &Entry),
        (to, old): (&[u8], Option<&Entry>),
        now: i64,
    ) -> Result<(), Error> {
        // Two keys of the pool never lead to the same elements, not even while one is renamed.
        if self.pool.is_some() && entry.kind == Kind::List {
            let mut changes = self.changes();
            self.copied(entry.clone(), to, old, &mut changes).await?;
            changes.detach_entry(from, entry);
            return changes.commit().await;
        }
        if self.pool.is_some() && entry.kind != Kind::String {
            let mut edit = self.copy(entry, to, now).await?;
            edit.detach(from, entry);
            edit.commit().await?;
            return Ok(());
        }
        let mut changes = self.changes();
        if let Some(old) = old {
            changes.remove_entry(to, old);
        }
        changes.detach_entry(from, entry);
        changes.put_entry(to, entry, entry.expires);
        changes.commit().await
    }
}

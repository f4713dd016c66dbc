//! Records for commands that name many: those on the disk are read at the same time.

use std::task::Poll;

use futures_util::future::join_all;
use smallvec::SmallVec;

use super::elements::element_key;
use super::{Entry, Error, Failed, Keyspace, Known, StoreKey, Text, string_key};

/// Records that are read at a time.
const MOST: usize = 16;
/// Bytes of them in all, unless it is one: they are not counted as the clients' before they are in
/// a reply.
const BYTES: u64 = 256 << 10;

impl Keyspace {
    /// The strings of the next keys, as [`text`](Self::text) finds each: at least one, if there is
    /// another key, and more if they have about so many bytes at most.
    pub async fn next_texts<'k>(
        &self,
        keys: &mut (impl Iterator<Item = &'k [u8]> + Clone),
        now: i64,
        bytes: usize,
    ) -> Vec<Result<Option<Text>, Failed>> {
        let mut rest = keys.clone();
        let first = rest.next().map(string_key);
        let found = self.in_memory(first, |record| Entry::new(record.to_vec()));
        if let Poll::Ready(Some(entry)) = found
            && entry.expires.is_none_or(|at| at > now)
        {
            *keys = rest;
            return vec![Ok(Some(Text::Whole(entry)))];
        }
        let record = |key: &[u8]| Some(string_key(key));
        let some = self.together(keys, record, bytes as u64).await;
        join_all(some.iter().map(|key| self.text(key, now))).await
    }

    /// The values of the next elements, as [`element`](Self::element) finds each: at least one, if
    /// there is another name.
    pub async fn next_elements<'k>(
        &self,
        entry: &Entry,
        names: &mut (impl Iterator<Item = &'k [u8]> + Clone),
    ) -> Vec<Result<Option<Vec<u8>>, Error>> {
        let (letter, id) = (entry.kind.element_letter(), entry.id());
        // With the id 0 they are in the entry.
        let record = |name: &[u8]| (id != 0).then(|| element_key(letter, id, name));
        let mut rest = names.clone();
        let first = rest.next().and_then(record);
        if let Poll::Ready(value) = self.in_memory(first, <[u8]>::to_vec) {
            *names = rest;
            return vec![Ok(value)];
        }
        let some = self.together(names, record, BYTES).await;
        join_all(some.iter().map(|name| self.element(entry, name))).await
    }

    /// What `read` makes of a record that is in memory; `Ready(None)` if there is none.
    fn in_memory<T>(
        &self,
        key: Option<StoreKey>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Poll<Option<T>> {
        match key.filter(|_| self.pool.is_none()) {
            Some(key) => self.read_now(Known::key(&key), read),
            None => Poll::Pending,
        }
    }

    /// Takes those of the next names whose records may be read at the same time, of about so many
    /// bytes at most. `record` says which that is, if each has one. How long those of memory
    /// servers are is not known before.
    async fn together<'k>(
        &self,
        names: &mut (impl Iterator<Item = &'k [u8]> + Clone),
        record: impl Fn(&[u8]) -> Option<StoreKey>,
        most_bytes: u64,
    ) -> SmallVec<[&'k [u8]; MOST]> {
        let most = if self.pool.is_some() { 1 } else { MOST };
        let next = names.clone().take(most);
        let keys: SmallVec<[StoreKey; MOST]> = next.filter_map(record).collect();
        let keys: SmallVec<[&[u8]; MOST]> = keys.iter().map(|it| &it[..]).collect();
        self.store.prepare(&self.store.places(), &keys, |_| true);
        let (mut bytes, mut fitting) = (0u64, 0);
        for key in &keys {
            bytes = bytes.saturating_add(self.store.bytes_of(key).await);
            if bytes > most_bytes.min(BYTES) {
                break;
            }
            fitting += 1;
        }
        let some = if keys.is_empty() {
            most
        } else {
            fitting.max(1)
        };
        names.take(some).collect()
    }
}

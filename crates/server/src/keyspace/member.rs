//! Changes of one member of a sorted set without waiting.

use std::task::Poll;

use timberline_store::Batch;

use super::aggregate::{score_of, sortable};
use super::elements::element_key;
use super::{Entry, Error, Keyspace, Kind, StoreKey, store_key};

impl Keyspace {
    /// The kind, the id and the number of elements of a hash, set or sorted set that does not
    /// expire; `None` if there is none. In a cluster they are elsewhere.
    pub(super) fn elements_now(&self, key: &[u8]) -> Poll<Option<(Kind, u64, u64)>> {
        if self.pool.is_some() {
            return Poll::Pending;
        }
        let found = self.store.get_now(&store_key(b'a', &[key]), |record| {
            let never = Entry::expiry(record).is_none();
            never.then(|| Entry::elements_of(record))
        });
        match found {
            Poll::Ready(Some(Some(found))) => Poll::Ready(Some(found)),
            Poll::Ready(None) => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    /// Sets the score of a member, if that is possible without waiting and the key is a sorted set
    /// that does not expire. Says whether the member is new.
    pub fn set_score_now(
        &self,
        key: &[u8],
        member: &[u8],
        score: f64,
    ) -> Poll<Result<bool, Error>> {
        let Poll::Ready(Some((Kind::SortedSet, id, count))) = self.elements_now(key) else {
            return Poll::Pending;
        };
        let name = element_key(Kind::SortedSet.element_letter(), id, member);
        let Poll::Ready(old) = self.store.get_now(&name, score_of) else {
            return Poll::Pending;
        };
        if old == Some(score) {
            return Poll::Ready(Ok(false));
        }
        let mut batch = Batch::new();
        // A batch's first record takes the least work where its key is new.
        batch.put(&place_key(id, score, member), &[]);
        batch.put(&name, &score.to_bits().to_le_bytes());
        if let Some(old) = old {
            batch.delete(&place_key(id, old, member));
        }
        if old.is_none() {
            let value = [id, count + 1].map(u64::to_le_bytes);
            let record = [&[Kind::SortedSet as u8][..], &value[0], &value[1]];
            batch.put_parts(&[b"a", key], &record);
        }
        let written = self.store.write_now(&batch);
        if let Poll::Ready(Ok(())) = written {
            self.watches.touch(key);
        }
        let written = written.map_ok(|()| old.is_none());
        written.map_err(Error::from)
    }
}

/// The key of a member in the order of scores.
fn place_key(id: u64, score: f64, member: &[u8]) -> StoreKey {
    store_key(b'z', &[&id.to_be_bytes(), &sortable(score), member])
}

//! Changes of one member of a sorted set without waiting.

use std::task::Poll;

use timberline_store::Change;

use super::aggregate::{score_of, sortable};
use super::elements::{element_key, is_element};
use super::{Entry, Error, Keyspace, Kind, Known, StoreKey, store_key};

impl Keyspace {
    /// The kind, the id and the number of elements of a hash, set or sorted set that does not
    /// expire; `None` if there is none. In a cluster they are elsewhere.
    fn elements_now(&self, owner: Known) -> Poll<Option<(Kind, u64, u64)>> {
        if self.pool.is_some() {
            return Poll::Pending;
        }
        let found = self.read_now(owner, |record| {
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
    /// that does not expire. Says whether the member is new. The key's record and the member's may
    /// be known.
    pub fn set_score_now(
        &self,
        key: &[u8],
        member: &[u8],
        score: f64,
        known: Option<(Known, Known)>,
    ) -> Poll<Result<bool, Error>> {
        let (owner_key, name_key);
        let owner = match known {
            Some((owner, _)) => owner,
            None => {
                owner_key = store_key(b'a', &[key]);
                Known::key(&owner_key)
            }
        };
        let Poll::Ready(Some((Kind::SortedSet, id, count))) = self.elements_now(owner) else {
            return Poll::Pending;
        };
        let name = match known {
            // The key may be another one by now.
            Some((_, name)) if is_element(name.key, Kind::SortedSet, id) => name,
            _ => {
                name_key = element_key(Kind::SortedSet.element_letter(), id, member);
                Known::key(&name_key)
            }
        };
        let Poll::Ready(old) = self.read_now(name, score_of) else {
            return Poll::Pending;
        };
        if old == Some(score) {
            return Poll::Ready(Ok(false));
        }
        let (new, value) = (place_key(id, score, member), score.to_bits().to_le_bytes());
        let (gone, mut record) = (old.map(|old| place_key(id, old, member)), [0; 17]);
        let last = match &gone {
            Some(gone) => Change::delete(gone),
            None => {
                record[0] = Kind::SortedSet as u8;
                record[1..9].copy_from_slice(&id.to_le_bytes());
                record[9..].copy_from_slice(&(count + 1).to_le_bytes());
                Change::put(owner.key, &record).at(owner.place)
            }
        };
        // The first of them takes the least work where its key is new.
        let name = Change::put(name.key, &value).at(name.place);
        let changes = [Change::put(&new, &[]), name, last];
        let written = self.store.write_now(&changes);
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

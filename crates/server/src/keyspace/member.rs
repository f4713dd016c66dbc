//! Changes of members of a sorted set without waiting.

use std::task::Poll;

use smallvec::SmallVec;
use timberline_store::{Change, KeyPlace};

use super::aggregate::{score_of, sortable};
use super::elements::{element_key, is_element};
use super::{Entry, Error, Keyspace, Kind, Known, StoreKey, store_key};

/// A member that is to get a score. Its record may be known.
pub struct Scored<'a> {
    pub member: &'a [u8],
    pub score: f64,
    pub record: Option<Known<'a>>,
}

/// A member whose score changes: its record, and its places in the order of scores.
struct Move<'a> {
    name: StoreKey,
    place: Option<KeyPlace<'a>>,
    value: [u8; 8],
    new: StoreKey,
    old: Option<StoreKey>,
}

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

    /// Sets the scores of members, which are different ones, all or none, if that is possible
    /// without waiting and the key is a sorted set that does not expire. Says of each whether it is
    /// new. The key's record may be known.
    pub fn set_scores_now(
        &self,
        key: &[u8],
        owner: Option<Known>,
        members: &[Scored],
    ) -> Poll<Result<SmallVec<[bool; 16]>, Error>> {
        let owner_key;
        let owner = match owner {
            Some(owner) => owner,
            None => {
                owner_key = store_key(b'a', &[key]);
                Known::key(&owner_key)
            }
        };
        let Poll::Ready(Some((Kind::SortedSet, id, count))) = self.elements_now(owner) else {
            return Poll::Pending;
        };
        let mut moves = SmallVec::<[Move; 1]>::with_capacity(members.len());
        let mut are_new = SmallVec::new();
        for it in members {
            // The key may be another one by now.
            let record = it.record;
            let record = record.filter(|it| is_element(it.key, Kind::SortedSet, id));
            let letter = Kind::SortedSet.element_letter();
            let name =
                record.map_or_else(|| element_key(letter, id, it.member), |it| it.key.into());
            let place = record.and_then(|it| it.place);
            let known = Known { key: &name, place };
            let Poll::Ready(old) = self.read_now(known, score_of) else {
                return Poll::Pending;
            };
            are_new.push(old.is_none());
            if old != Some(it.score) {
                moves.push(Move {
                    new: place_key(id, it.score, it.member),
                    old: old.map(|old| place_key(id, old, it.member)),
                    value: it.score.to_bits().to_le_bytes(),
                    name,
                    place,
                });
            }
        }
        let added = are_new.iter().filter(|it| **it).count() as u64;
        let mut record = [0; 17];
        record[0] = Kind::SortedSet as u8;
        record[1..9].copy_from_slice(&id.to_le_bytes());
        record[9..].copy_from_slice(&(count + added).to_le_bytes());
        let mut changes = SmallVec::<[Change; 4]>::with_capacity(3 * moves.len() + 1);
        for it in &moves {
            // The first of all takes the least work where its key is new.
            changes.push(Change::put(&it.new, &[]));
            changes.push(Change::put(&it.name, &it.value).at(it.place));
            changes.extend(it.old.as_ref().map(|old| Change::delete(old)));
        }
        if added > 0 {
            changes.push(Change::put(owner.key, &record).at(owner.place));
        }
        let written = self.store.write_now(&changes);
        if let Poll::Ready(Ok(())) = written
            && !changes.is_empty()
        {
            self.watches.touch(key);
        }
        written.map_ok(|()| are_new).map_err(Error::from)
    }
}

/// The key of a member in the order of scores.
fn place_key(id: u64, score: f64, member: &[u8]) -> StoreKey {
    store_key(b'z', &[&id.to_be_bytes(), &sortable(score), member])
}

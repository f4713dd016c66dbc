//! Hashes, sets and sorted sets: a record for the key, and one for each element.

use std::collections::BTreeMap;

use timberline_store::Scan;

use super::{Changes, Entry, Error, Failed, Keyspace, Kind, StoreKey, store_key};

/// Where the name begins in the key of an element: behind the letter and the id.
pub const ELEMENT_NAME: usize = 9;

/// The letter of a kind's elements.
fn letter_of(kind: Kind) -> u8 {
    match kind {
        Kind::SortedSet => b'm',
        _ => b'f',
    }
}

/// A score as bytes that sort as it does. Both zeros are equal.
pub fn sortable(score: f64) -> [u8; 8] {
    let bits = (score + 0.0).to_bits();
    let sign = 1 << 63;
    let flipped = if bits & sign == 0 { bits | sign } else { !bits };
    flipped.to_be_bytes()
}

/// The score that these bytes are.
pub fn score_of(bytes: &[u8]) -> f64 {
    let bits = bytes.get(..8).map_or(0, |it| {
        u64::from_le_bytes(it.try_into().expect("eight bytes"))
    });
    f64::from_bits(bits)
}

/// The score in a key of the order of scores.
fn unsortable(bytes: &[u8]) -> f64 {
    let bits = bytes.get(..8).map_or(0, |it| {
        u64::from_be_bytes(it.try_into().expect("eight bytes"))
    });
    let sign = 1 << 63;
    f64::from_bits(if bits & sign == 0 {
        !bits
    } else {
        bits & !sign
    })
}

impl Keyspace {
    /// A hash, set or sorted set; an error if the key is of another type.
    pub async fn aggregate(
        &self,
        key: &[u8],
        kind: Kind,
        now: i64,
    ) -> Result<Option<Entry>, Failed> {
        // A key has one record at most, and probably that of the right kind.
        let found = match self.aggregate_record(key, now).await? {
            None => self.record(b's', key, now).await?,
            found => found,
        };
        match found {
            Some(entry) if entry.kind != kind => Err(Failed::WrongType),
            found => Ok(found),
        }
    }

    /// The value of a hash's field or the score of a sorted set's member.
    pub async fn element(&self, entry: &Entry, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let key = element_key(entry.kind, entry.id(), name);
        Ok(self.store.get(&key).await?)
    }

    /// Whether a hash, set or sorted set has an element.
    pub fn has_element(&self, entry: &Entry, name: &[u8]) -> bool {
        self.store
            .contains_key(&element_key(entry.kind, entry.id(), name))
    }

    /// Names of elements in order, from behind one on.
    pub fn element_names(
        &self,
        entry: &Entry,
        after: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = Vec<u8>> + use<> {
        let (mut from, to) = bounds(letter_of(entry.kind), entry.id());
        if let Some(after) = after {
            from.extend_from_slice(after);
            from.push(0);
        }
        self.store
            .keys(&from[..]..&to[..])
            .map(|mut key| key.split_off(ELEMENT_NAME))
    }

    /// Elements in order of their names, with their values.
    pub fn elements(&self, entry: &Entry) -> Scan {
        let (from, to) = bounds(letter_of(entry.kind), entry.id());
        self.store.range(&from[..]..&to[..])
    }

    /// Members of a sorted set in order of scores, from this score on (and this member) and up to
    /// that one.
    pub fn by_score(
        &self,
        entry: &Entry,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (f64, Vec<u8>)> + use<> {
        let (mut from, end) = bounds(b'z', entry.id());
        let to = match high {
            Some(high) => [&from[..], high].concat(),
            None => end.to_vec(),
        };
        from.extend_from_slice(low);
        let is_empty = from[..] > to[..];
        let to = if is_empty { from.to_vec() } else { to };
        let keys = self.store.keys(&from[..]..&to[..]);
        keys.map(|mut key| {
            let member = key.split_off(17);
            (unsortable(&key[9..]), member)
        })
    }

    /// Begins to change a hash, set or sorted set, or makes one.
    pub async fn edit<'a>(
        &'a self,
        key: &'a [u8],
        kind: Kind,
        now: i64,
    ) -> Result<Edit<'a>, Failed> {
        let entry = self.aggregate(key, kind, now).await?;
        Ok(self.edit_entry(key, kind, entry))
    }

    /// Begins to make a hash, set or sorted set in place of anything that the key was.
    pub async fn replace<'a>(
        &'a self,
        key: &'a [u8],
        kind: Kind,
        now: i64,
    ) -> Result<Edit<'a>, Error> {
        let old = self.find(key, now).await?;
        let mut edit = self.edit_entry(key, kind, None);
        if let Some(old) = &old {
            edit.changes.remove_entry(key, old);
        }
        Ok(edit)
    }

    fn edit_entry<'a>(&'a self, key: &'a [u8], kind: Kind, entry: Option<Entry>) -> Edit<'a> {
        Edit {
            keyspace: self,
            key,
            kind,
            id: entry.as_ref().map_or_else(|| self.new_id(), Entry::id),
            elements: BTreeMap::new(),
            changes: self.changes(),
            expires: entry.as_ref().and_then(|it| it.expires),
            entry,
        }
    }
}

/// The key of an element.
pub(super) fn element_key(kind: Kind, id: u64, name: &[u8]) -> StoreKey {
    store_key(letter_of(kind), &[&id.to_be_bytes(), name])
}

fn bounds(letter: u8, id: u64) -> (StoreKey, StoreKey) {
    (
        store_key(letter, &[&id.to_be_bytes()]),
        store_key(letter, &[&(id + 1).to_be_bytes()]),
    )
}

/// The value of an element, if there is one.
type Value = Option<Vec<u8>>;

/// Changes of one hash, set or sorted set, which take effect together.
pub struct Edit<'a> {
    keyspace: &'a Keyspace,
    key: &'a [u8],
    kind: Kind,
    id: u64,
    /// What it was, unless it is new.
    pub entry: Option<Entry>,
    /// When it expires.
    pub expires: Option<i64>,
    /// Elements that were looked at: what they were, and what they are to be.
    elements: BTreeMap<Box<[u8]>, (Value, Value)>,
    changes: Changes<'a>,
}

impl Edit<'_> {
    /// What an element is, with the changes so far.
    pub async fn get(&mut self, name: &[u8]) -> Result<Option<&[u8]>, Error> {
        if !self.elements.contains_key(name) {
            let old = match (&self.entry, self.kind) {
                (None, _) => None,
                (Some(entry), Kind::Set) => self.keyspace.has_element(entry, name).then(Vec::new),
                (Some(entry), _) => self.keyspace.element(entry, name).await?,
            };
            self.elements.insert(name.into(), (old.clone(), old));
        }
        Ok(self.elements[name].1.as_deref())
    }

    /// Sets an element. Returns whether it is new.
    pub async fn put(&mut self, name: &[u8], value: &[u8]) -> Result<bool, Error> {
        let is_new = self.get(name).await?.is_none();
        self.elements.get_mut(name).expect("it was looked at").1 = Some(value.into());
        Ok(is_new)
    }

    /// Removes an element. Returns whether it was there.
    pub async fn remove(&mut self, name: &[u8]) -> Result<bool, Error> {
        let existed = self.get(name).await?.is_some();
        self.elements.get_mut(name).expect("it was looked at").1 = None;
        Ok(existed)
    }

    /// Does the changes. Returns how many elements there are.
    pub async fn commit(self) -> Result<u64, Error> {
        let mut changes = self.changes;
        let old = self.entry.as_ref().map_or(0, Entry::elements);
        let mut count = old;
        let mut any = false;
        for (name, (was, is)) in &self.elements {
            if was == is {
                continue;
            }
            any = true;
            let key = element_key(self.kind, self.id, name);
            match is {
                Some(value) => changes.batch.put(&key, value),
                None => changes.batch.delete(&key),
            }
            let by = isize::from(is.is_some()) - isize::from(was.is_some());
            count = count.saturating_add_signed(by as i64);
            if self.kind == Kind::SortedSet {
                let place = |value: &[u8]| {
                    let score = sortable(score_of(value));
                    store_key(b'z', &[&self.id.to_be_bytes(), &score, name])
                };
                let (was, is) = (was.as_deref().map(place), is.as_deref().map(place));
                if was != is {
                    if let Some(was) = was {
                        changes.batch.delete(&was);
                    }
                    if let Some(is) = is {
                        changes.batch.put(&is, &[]);
                    }
                }
            }
        }
        let record = store_key(b'a', &[self.key]);
        if count != old {
            match count {
                0 => {
                    changes.batch.delete(&record);
                }
                _ => {
                    let (id, count) = (self.id.to_le_bytes(), count.to_le_bytes());
                    let value = Entry::encode(self.kind, self.expires, &[&id, &count]);
                    changes.batch.put(&record, &value);
                }
            }
        }
        if any {
            changes.touch(self.key);
        }
        changes.commit().await?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_sort_as_their_bytes_do() {
        let scores = [
            f64::NEG_INFINITY,
            -1e300,
            -2.0,
            -1.5,
            0.0,
            1e-300,
            1.0,
            2.5,
            f64::INFINITY,
        ];
        assert!(scores.map(sortable).is_sorted());
        assert_eq!(sortable(-0.0), sortable(0.0));
        for score in scores {
            assert_eq!(unsortable(&sortable(score)), score);
        }
    }
}

//! Hashes, sets and sorted sets: a record for the key, and one for each element, but for small
//! hashes and sets, which are [one record](super::packed).

use std::collections::BTreeMap;

use crate::memory::Held;

use super::changes::{Changed, Changes};
use super::elements::{Elements, Wanted};
use super::packed::{Packed, pack};
use super::{Entry, Error, Failed, Keyspace, Kind};

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
    // There is one zero, whichever was written.
    f64::from_bits(bits) + 0.0
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
            None => self.record(b's', key, now, false).await?,
            found => found,
        };
        match found {
            Some(entry) if entry.kind != kind => Err(Failed::WrongType),
            found => Ok(found),
        }
    }

    /// The value of a hash's field or the score of a sorted set's member.
    pub async fn element(&self, entry: &Entry, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.value_of(entry, entry.kind.element_letter(), name)
            .await
    }

    /// Whether a hash, set or sorted set has an element.
    pub async fn has_element(&self, entry: &Entry, name: &[u8]) -> Result<bool, Error> {
        self.has(entry, entry.kind.element_letter(), name).await
    }

    /// Elements in order of their names, from behind one on, without their values.
    pub fn element_names(&self, entry: &Entry, after: Option<&[u8]>) -> Elements<'_> {
        self.elements_after(entry, after, false)
    }

    /// Elements in order of their names, with their values, from behind one on.
    pub fn elements(&self, entry: &Entry, after: Option<&[u8]>) -> Elements<'_> {
        self.elements_after(entry, after, true)
    }

    fn elements_after(&self, entry: &Entry, after: Option<&[u8]>, values: bool) -> Elements<'_> {
        let from = after.map_or_else(Vec::new, |it| [it, &[0]].concat());
        let wanted = Wanted {
            from: &from,
            values,
            ..Wanted::default()
        };
        self.range(entry, entry.kind.element_letter(), wanted)
    }

    /// Elements from a name on and below another one, without their values; the last one first if
    /// they are wanted backwards.
    pub fn names_between(
        &self,
        entry: &Entry,
        from: &[u8],
        to: Option<&[u8]>,
        backwards: bool,
    ) -> Elements<'_> {
        let wanted = Wanted {
            from,
            to,
            backwards,
            values: false,
        };
        self.range(entry, entry.kind.element_letter(), wanted)
    }

    /// Members of a sorted set in order of scores, from this score on (and this member) and up to
    /// that one; the highest first if they are wanted backwards.
    pub fn by_score(
        &self,
        entry: &Entry,
        low: &[u8],
        high: Option<&[u8]>,
        backwards: bool,
    ) -> Members<'_> {
        let wanted = Wanted {
            from: low,
            to: high,
            backwards,
            values: false,
        };
        Members(self.range(entry, b'z', wanted))
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
            elements: BTreeMap::new(),
            changes: self.changes(),
            held: Held::new(&self.memory),
            expires: entry.as_ref().and_then(|it| it.expires),
            entry,
        }
    }
}

/// The score, and the name, of a member that has this place in the order of scores.
fn member_of(mut place: Vec<u8>) -> (f64, Vec<u8>) {
    let member = place.split_off(8.min(place.len()));
    (unsortable(&place), member)
}

/// Members of a sorted set, by score.
pub struct Members<'a>(Elements<'a>);

impl Members<'_> {
    /// The next one's score, and its name.
    pub async fn next(&mut self) -> Result<Option<(f64, Vec<u8>)>, Error> {
        Ok(self.0.next_name().await?.map(member_of))
    }

    /// Those at these places, which ascend, among all that come.
    pub async fn at(
        mut self,
        places: &[usize],
        held: &Held<'_>,
    ) -> Result<Vec<(f64, Vec<u8>)>, Error> {
        let names = self.0.names_at(places, held).await?;
        Ok(names.into_iter().map(member_of).collect())
    }

    /// At most so many of those that come, behind as many.
    pub async fn take(
        mut self,
        behind: u64,
        most: usize,
        held: &Held<'_>,
    ) -> Result<Vec<(f64, Vec<u8>)>, Error> {
        self.0.pass(behind).await?;
        let mut members = Vec::new();
        while members.len() < most
            && let Some(member) = self.next().await?
        {
            held.keep(member.1.len())?;
            members.push(member);
        }
        Ok(members)
    }

    /// How many come.
    pub async fn count(self) -> Result<u64, Error> {
        self.0.count().await
    }
}

/// The value of an element, if there is one.
type Value = Option<Vec<u8>>;

/// Changes of one hash, set or sorted set, which take effect together.
pub struct Edit<'a> {
    keyspace: &'a Keyspace,
    key: &'a [u8],
    kind: Kind,
    /// What it was, unless it is new.
    pub entry: Option<Entry>,
    /// When it expires.
    pub expires: Option<i64>,
    /// Elements that were looked at: what they were, and what they are to be.
    elements: BTreeMap<Box<[u8]>, (Value, Value)>,
    changes: Changes<'a>,
    held: Held<'a>,
}

impl Edit<'_> {
    /// What an element is, with the changes so far.
    pub async fn get(&mut self, name: &[u8]) -> Result<Option<&[u8]>, Error> {
        if !self.elements.contains_key(name) {
            let old = match (&self.entry, self.kind) {
                (None, _) => None,
                (Some(entry), Kind::Set) => {
                    let has = self.keyspace.has_element(entry, name).await?;
                    has.then(Vec::new)
                }
                (Some(entry), _) => self.keyspace.element(entry, name).await?,
            };
            // It is in a batch later, too.
            let bytes = name.len() + old.as_ref().map_or(0, Vec::len);
            self.held.keep(2 * bytes)?;
            self.elements.insert(name.into(), (old.clone(), old));
        }
        Ok(self.elements[name].1.as_deref())
    }

    /// Sets an element. Returns whether it is new.
    pub async fn put(&mut self, name: &[u8], value: &[u8]) -> Result<bool, Error> {
        let is_new = self.get(name).await?.is_none();
        self.held.keep(2 * value.len())?;
        self.elements.get_mut(name).expect("it was looked at").1 = Some(value.into());
        Ok(is_new)
    }

    /// Removes an element. Returns whether it was there.
    pub async fn remove(&mut self, name: &[u8]) -> Result<bool, Error> {
        let existed = self.get(name).await?.is_some();
        self.elements.get_mut(name).expect("it was looked at").1 = None;
        Ok(existed)
    }

    /// Removes the record of another key in the same change, as the elements now are this one's.
    pub(super) fn detach(&mut self, key: &[u8], entry: &Entry) {
        self.changes.detach_entry(key, entry);
    }

    /// Does the changes. Returns how many elements there are.
    pub async fn commit(mut self) -> Result<u64, Error> {
        self.elements.retain(|_, (was, is)| was != is);
        let mut count = self.entry.as_ref().map_or(0, Entry::elements);
        for (was, is) in self.elements.values() {
            count += u64::from(is.is_some());
            count = count.saturating_sub(u64::from(was.is_some()));
        }
        if !self.elements.is_empty() {
            self.write(count);
        }
        self.changes.commit().await?;
        Ok(count)
    }

    /// Adds what was changed to the other changes.
    fn write(&mut self, count: u64) {
        let old = self.entry.as_ref().map_or(0, Entry::id);
        let packed = match old {
            0 => self.packed(),
            _ => None,
        };
        let id = match (&packed, old) {
            (Some(_), _) => 0,
            (None, 0) => self.changes.new_id(),
            (None, old) => old,
        };
        if packed.is_none() {
            self.write_elements(id);
        }
        let changed = Changed {
            kind: self.kind,
            id,
            expires: self.expires,
            entry: self.entry.as_ref(),
            count,
            rest: packed.unwrap_or_default(),
        };
        self.changes.put_changed(self.key, &changed);
        self.changes.touch(self.key);
    }

    /// All elements, packed, if they may be and are small. Otherwise those that were packed are new
    /// elements from now on.
    fn packed(&mut self) -> Option<Vec<u8>> {
        if self.keyspace.pool.is_some() || self.kind == Kind::SortedSet {
            return None;
        }
        for (name, value) in self.entry.iter().filter_map(Packed::of).flatten() {
            let element = self.elements.entry(name.into());
            element.or_insert_with(|| (None, Some(value.into())));
        }
        self.elements.retain(|_, (_, is)| is.is_some());
        let elements = self.elements.iter();
        pack(elements.filter_map(|(name, (_, is))| Some((&**name, is.as_deref()?))))
    }

    /// Writes elements that have records of their own.
    fn write_elements(&mut self, id: u64) {
        for (name, (was, is)) in &self.elements {
            let letter = self.kind.element_letter();
            self.changes.element(letter, id, &[name], is.as_deref());
            if self.kind != Kind::SortedSet {
                continue;
            }
            let score = |value: &[u8]| sortable(score_of(value));
            let (was, is) = (was.as_deref().map(score), is.as_deref().map(score));
            if was != is {
                if let Some(was) = was {
                    self.changes.element(b'z', id, &[&was, name], None);
                }
                if let Some(is) = is {
                    self.changes.element(b'z', id, &[&is, name], Some(&[]));
                }
            }
        }
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

//! Lists: a short one is one record, a longer one has a record for each element.
//!
//! The key's record of a list is `header, id u64, elements u64`, and behind them
//!
//! - if the id is 0, the elements, each behind its length (u32);
//! - otherwise the place of the first element (u64). Places of elements follow one another without
//!   gaps, so an element is found by its index with one read. What is inserted or removed in the
//!   middle moves the elements on its shorter side.
//!
//! A long list is one record again when most of it is trimmed away, and when it was empty. In the
//! pool all lists are as long ones: short ones are in their key's record there anyway.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{ControlFlow, Range};

use crate::memory::Held;

use super::changes::{Changed, Changes};
use super::elements::Wanted;
use super::packed::SMALL;
use super::{Entry, Error, Failed, Keyspace, Kind};

/// The letter of elements.
const ELEMENT: u8 = Kind::List.element_letter();
/// Where the first element of a long list is placed: elements are added on both sides.
const MIDDLE: u64 = 1 << 63;

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The first element.
    Left,
    /// The last element.
    Right,
}

/// A list, with changes that take effect together. One that is not there is empty.
pub struct List<'a> {
    keyspace: &'a Keyspace,
    key: &'a [u8],
    /// What it was, unless it is new.
    entry: Option<Entry>,
    form: Form,
    is_changed: bool,
    /// Elements that are moved.
    held: Held<'a>,
}

enum Form {
    /// These elements.
    Small(VecDeque<Vec<u8>>),
    /// Those of an id.
    Large(Large),
}

struct Large {
    id: u64,
    places: Range<u64>,
    /// Places that get another element, or none.
    changed: BTreeMap<u64, Option<Vec<u8>>>,
}

impl Large {
    fn place(&self, index: usize) -> u64 {
        self.places.start + index as u64
    }

    fn push(&mut self, side: Side, element: Vec<u8>) {
        let place = match side {
            Side::Left => {
                self.places.start -= 1;
                self.places.start
            }
            Side::Right => {
                self.places.end += 1;
                self.places.end - 1
            }
        };
        self.changed.insert(place, Some(element));
    }

    /// Removes what lies outside a range.
    fn cut(&mut self, range: Range<usize>) {
        let kept = self.place(range.start)..self.place(range.end);
        let gone = (self.places.start..kept.start).chain(kept.end..self.places.end);
        self.changed.extend(gone.map(|place| (place, None)));
        self.places = kept;
    }
}

/// The elements in a key's record.
fn unpacked(mut bytes: &[u8]) -> VecDeque<Vec<u8>> {
    let mut elements = VecDeque::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<4>() {
        let (element, rest) = rest.split_at((u32::from_le_bytes(*len) as usize).min(rest.len()));
        elements.push_back(element.to_vec());
        bytes = rest;
    }
    elements
}

impl Keyspace {
    /// A list; an error if the key is of another type.
    pub async fn list<'a>(&'a self, key: &'a [u8], now: i64) -> Result<List<'a>, Failed> {
        Ok(self.list_of(key, self.aggregate(key, Kind::List, now).await?))
    }

    /// The list of a key that has this entry, or none.
    pub fn list_of<'a>(&'a self, key: &'a [u8], entry: Option<Entry>) -> List<'a> {
        let form = match &entry {
            None => self.new_form(VecDeque::new()),
            Some(entry) if entry.id() == 0 => Form::Small(unpacked(entry.rest())),
            Some(entry) => {
                let first = entry
                    .rest()
                    .first_chunk()
                    .map_or(0, |it| u64::from_le_bytes(*it));
                Form::Large(Large {
                    id: entry.id(),
                    places: first..first + entry.elements(),
                    changed: BTreeMap::new(),
                })
            }
        };
        List {
            keyspace: self,
            key,
            entry,
            form,
            is_changed: false,
            held: Held::new(&self.memory),
        }
    }

    /// A list of these elements that is not there yet.
    fn new_form(&self, elements: VecDeque<Vec<u8>>) -> Form {
        match &self.pool {
            None => Form::Small(elements),
            Some(keys) => Form::Large(Large {
                id: keys.new_id(),
                places: MIDDLE..MIDDLE + elements.len() as u64,
                changed: (MIDDLE..).zip(elements.into_iter().map(Some)).collect(),
            }),
        }
    }

    /// Copies a list that has this entry to a key that has that one.
    pub async fn copy_list(
        &self,
        list: Entry,
        to: &[u8],
        old: Option<&Entry>,
    ) -> Result<(), Error> {
        let mut changes = self.changes();
        self.copied(list, to, old, &mut changes).await?;
        changes.commit().await
    }

    /// Adds what copies a list to other changes.
    pub(super) async fn copied(
        &self,
        list: Entry,
        to: &[u8],
        old: Option<&Entry>,
        changes: &mut Changes<'_>,
    ) -> Result<(), Error> {
        if let Some(old) = old {
            changes.remove_entry(to, old);
        }
        let expires = list.expires;
        let list = self.list_of(to, Some(list));
        let elements = list.elements(0..list.len()).await?;
        let copy = List {
            form: self.new_form(elements.into()),
            is_changed: true,
            ..self.list_of(to, None)
        };
        copy.write_expiring(changes, expires);
        Ok(())
    }
}

impl List<'_> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Small(elements) => elements.len(),
            Form::Large(Large { places, .. }) => (places.end - places.start) as usize,
        }
    }

    /// Whether there are none: then there is no such key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at an index.
    pub async fn get(&self, index: usize) -> Result<Option<Vec<u8>>, Error> {
        match &self.form {
            _ if index >= self.len() => Ok(None),
            Form::Small(elements) => Ok(elements.get(index).cloned()),
            Form::Large(large) => {
                let place = large.place(index);
                match (large.changed.get(&place), &self.entry) {
                    (Some(element), _) => Ok(element.clone()),
                    (None, Some(entry)) => {
                        let place = place.to_be_bytes();
                        self.keyspace.value_of(entry, ELEMENT, &place).await
                    }
                    (None, None) => Ok(None),
                }
            }
        }
    }

    /// Shows elements, with their indexes, from a side on, until `each` breaks. Changes that were
    /// not written are not seen.
    pub async fn visit(
        &self,
        range: Range<usize>,
        from: Side,
        mut each: impl FnMut(usize, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let places = match &self.form {
            Form::Small(elements) => {
                let mut indexes = range.start..range.end.min(elements.len());
                while let Some(index) = match from {
                    Side::Left => indexes.next(),
                    Side::Right => indexes.next_back(),
                } {
                    if each(index, &elements[index]).is_break() {
                        break;
                    }
                }
                return Ok(());
            }
            Form::Large(Large { places, .. }) => places.clone(),
        };
        let Some(entry) = &self.entry else {
            return Ok(());
        };
        let at = |index: usize| (places.start + index as u64).min(places.end).to_be_bytes();
        let wanted = Wanted {
            from: &at(range.start),
            to: Some(&at(range.end.max(range.start))),
            backwards: from == Side::Right,
            values: true,
        };
        let mut elements = self.keyspace.range(entry, ELEMENT, wanted);
        while let Some((place, value)) = elements.next().await? {
            let place = place.first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
            if each(place.saturating_sub(places.start) as usize, &value).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Elements in order.
    async fn elements(&self, range: Range<usize>) -> Result<Vec<Vec<u8>>, Error> {
        self.elements_where(range, |_| true).await
    }

    /// Elements in order whose indexes are wanted. They are in a batch later, too.
    async fn elements_where(
        &self,
        range: Range<usize>,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let (mut elements, mut held) = (Vec::new(), Ok(()));
        let each = |index, element: &[u8]| {
            if is_wanted(index) {
                held = self.held.keep(2 * element.len());
                elements.push(element.to_vec());
            }
            match held {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        self.visit(range, Side::Left, each).await?;
        held?;
        Ok(elements)
    }

    /// Adds an element at a side.
    pub fn push(&mut self, side: Side, element: &[u8]) {
        self.is_changed = true;
        let element = element.to_vec();
        match &mut self.form {
            Form::Small(elements) if side == Side::Left => elements.push_front(element),
            Form::Small(elements) => elements.push_back(element),
            Form::Large(large) => large.push(side, element),
        }
    }

    /// Removes the element at a side.
    pub async fn pop(&mut self, side: Side) -> Result<Option<Vec<u8>>, Error> {
        let len = self.len();
        let (index, kept) = match side {
            _ if len == 0 => return Ok(None),
            Side::Left => (0, 1..len),
            Side::Right => (len - 1, 0..len - 1),
        };
        let element = self.get(index).await?;
        self.cut(kept);
        Ok(element)
    }

    /// Replaces the element at an index that is there.
    pub fn set(&mut self, index: usize, element: &[u8]) {
        self.is_changed = true;
        let element = element.to_vec();
        match &mut self.form {
            Form::Small(elements) => elements[index] = element,
            Form::Large(large) => {
                large.changed.insert(large.place(index), Some(element));
            }
        }
    }

    /// Adds an element in front of the one at an index. Costs as much as the shorter side is long.
    pub async fn insert(&mut self, index: usize, element: &[u8]) -> Result<(), Error> {
        let len = self.len();
        let moved = match &mut self.form {
            Form::Small(elements) => {
                elements.insert(index, element.to_vec());
                self.is_changed = true;
                return Ok(());
            }
            Form::Large(_) if index < len / 2 => 0..index,
            Form::Large(_) => index..len,
        };
        let elements = self.elements(moved.clone()).await?;
        // A place for one more, at the side whose elements move.
        let (side, first) = match moved.start {
            0 => (Side::Left, 0),
            start => (Side::Right, start + 1),
        };
        self.push(side, &[]);
        for (at, moved) in (first..).zip(&elements) {
            self.set(at, moved);
        }
        self.set(index, element);
        Ok(())
    }

    /// Removes the elements at these indexes, which ascend. Costs as much as the list is long from
    /// the last of them to the left or from the first of them to the right.
    pub async fn remove(&mut self, indexes: &[usize]) -> Result<(), Error> {
        let (Some(&first), Some(&last)) = (indexes.first(), indexes.last()) else {
            return Ok(());
        };
        let len = self.len();
        // What is rewritten, where that begins then, and what stays.
        let (rewritten, from, stays) = match len - first <= last + 1 {
            true => (first..len, first, 0..len - indexes.len()),
            false => (0..last + 1, indexes.len(), indexes.len()..len),
        };
        let stay = |index: usize| indexes.binary_search(&index).is_err();
        let kept = self.elements_where(rewritten, stay).await?;
        for (at, element) in (from..).zip(&kept) {
            self.set(at, element);
        }
        self.cut(stays);
        Ok(())
    }

    /// Removes all elements but those in a range.
    pub async fn trim(&mut self, range: Range<usize>) -> Result<(), Error> {
        let (len, kept) = (self.len(), range.len());
        if kept == len {
            return Ok(());
        }
        let is_alone = self.keyspace.pool.is_none();
        if is_alone && matches!(self.form, Form::Large(_)) && kept < len - kept {
            // Cheaper to write what stays; the others are removed with their id.
            self.form = Form::Small(self.elements(range).await?.into());
            self.is_changed = true;
        } else {
            self.cut(range);
        }
        Ok(())
    }

    /// Removes what lies outside a range.
    fn cut(&mut self, range: Range<usize>) {
        self.is_changed = true;
        match &mut self.form {
            Form::Small(elements) => {
                elements.truncate(range.end);
                elements.drain(..range.start);
            }
            Form::Large(large) => large.cut(range),
        }
    }

    /// Adds what was changed to other changes.
    pub fn write(self, changes: &mut Changes<'_>) {
        let expires = self.entry.as_ref().and_then(|it| it.expires);
        self.write_expiring(changes, expires);
    }

    fn write_expiring(self, changes: &mut Changes<'_>, expires: Option<i64>) {
        if !self.is_changed {
            return;
        }
        if self.is_empty() {
            if let Some(entry) = &self.entry {
                changes.remove_entry(self.key, entry);
            }
            return;
        }
        let (len, old) = (self.len() as u64, self.entry.as_ref().map_or(0, Entry::id));
        let mut rest = Vec::new();
        let id = match self.form {
            Form::Small(elements) => {
                if old != 0 {
                    changes.remove_elements(old);
                }
                let bytes: usize = elements.iter().map(|it| it.len() + 4).sum();
                if bytes <= SMALL {
                    for element in &elements {
                        rest.extend((element.len() as u32).to_le_bytes());
                        rest.extend_from_slice(element);
                    }
                    0
                } else {
                    let id = changes.new_id();
                    for (place, element) in (MIDDLE..).zip(&elements) {
                        changes.element(ELEMENT, id, &[&place.to_be_bytes()], Some(element));
                    }
                    rest.extend(MIDDLE.to_le_bytes());
                    id
                }
            }
            Form::Large(Large {
                id,
                places,
                changed,
            }) => {
                for (place, element) in &changed {
                    changes.element(ELEMENT, id, &[&place.to_be_bytes()], element.as_deref());
                }
                rest.extend(places.start.to_le_bytes());
                id
            }
        };
        changes.fill(self.key);
        let changed = Changed {
            kind: Kind::List,
            id,
            expires,
            entry: self.entry.as_ref(),
            count: len,
            rest,
        };
        changes.put_changed(self.key, &changed);
        changes.touch(self.key);
    }

    /// Does what was changed.
    pub async fn commit(self) -> Result<(), Error> {
        let mut changes = self.keyspace.changes();
        self.write(&mut changes);
        changes.commit().await
    }
}

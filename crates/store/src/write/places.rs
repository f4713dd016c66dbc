//! Places in the index for what is about to be appended.

use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;
use timberline_tree::Held;

use crate::Error;
use crate::index::Found;
use crate::log::NewRecord;
use crate::record::{Kind, NEVER};
use crate::store::{Inner, PENDING};

/// What the index has of the keys of a batch.
#[derive(Default)]
pub(super) struct Places<'a, 'h> {
    /// What it said of each key before, with the places of several as long as those are held. Then
    /// all that are put have a place. Nothing where that need not be looked for.
    pub known: SmallVec<[Found<'h>; 16]>,
    /// Keys that were not there, and have a place in advance.
    new: Vec<&'a [u8]>,
}

impl Inner {
    /// Makes places in the index for keys that are not there, as that can fail: afterwards nothing
    /// can but the log. `None` if a key is not there that is to be replaced. The first record needs
    /// no place in advance: where the index does not take its key, nothing has happened yet.
    pub(super) fn reserve<'a: 'h, 'h>(
        &'h self,
        entries: &[NewRecord<'a>],
        held: Option<&'h Held<'_>>,
    ) -> Result<Option<Places<'a, 'h>>, Error> {
        let mut places = Places::default();
        places.known.extend(entries.iter().map(|entry| {
            let spot = entry.spot?;
            let word = self.index.get_at(spot, entry.key)?;
            Some((word, Some(spot)))
        }));
        if places.known.iter().all(Option::is_some) {
            return Ok(Some(places));
        }
        let needs_place = |entry: &NewRecord| {
            let is_full = !entry.replaces && self.was_index_full.load(Relaxed);
            is_full || entry.expires != NEVER || entry.large.is_some()
        };
        let skipped = usize::from(!entries.first().is_some_and(needs_place));
        let mut others = entries.iter().zip(&places.known).skip(skipped);
        if others.all(|(entry, found)| found.is_some() || entry.kind == Kind::Delete) {
            places.known.clear();
            return Ok(Some(places));
        }
        self.find_unknown(entries, held, &mut places.known);
        for (entry, found) in entries.iter().zip(&places.known) {
            if found.is_some() || entry.kind != Kind::Put {
                continue;
            }
            if entry.replaces {
                return Ok(None);
            }
            if self.look_at_index() || self.index.insert(entry.key, PENDING).is_err() {
                self.give_up(places);
                return Err(Error::OutOfMemory);
            }
            places.new.push(entry.key);
        }
        Ok(Some(places))
    }

    /// Nothing is appended, so that keys that were not there have no place either.
    pub(super) fn give_up(&self, places: Places<'_, '_>) {
        for key in places.new {
            self.index.remove(key);
        }
    }

    /// Looks for the keys of which nothing is known, for all at the same time: so their paths
    /// through the index are near when it changes, too.
    fn find_unknown<'h>(
        &'h self,
        entries: &[NewRecord<'_>],
        held: Option<&'h Held<'_>>,
        known: &mut [Found<'h>],
    ) {
        let unknown = entries.iter().zip(&*known).filter(|it| it.1.is_none());
        let keys: SmallVec<[&[u8]; 16]> = unknown.map(|it| it.0.key).collect();
        let found: SmallVec<[Found<'_>; 16]> = match held {
            Some(held) => self.find_many(held, &keys),
            None => {
                let words = self.words(&keys).into_iter();
                words.map(|it| Some((it?, None))).collect()
            }
        };
        for (known, found) in known.iter_mut().filter(|it| it.is_none()).zip(found) {
            *known = found;
        }
    }

    /// Whether the index has all the memory that it may, as those know then who do not ask.
    pub fn look_at_index(&self) -> bool {
        let is_full = self.is_index_full();
        self.was_index_full.store(is_full, Relaxed);
        is_full
    }
}

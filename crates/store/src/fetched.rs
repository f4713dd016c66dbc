//! Records that are read from the disk ahead of the operations that want them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard};

use crossbeam_utils::CachePadded;
use futures_util::future::join_all;

use crate::Store;
use crate::location::Location;
use crate::read::Found;
use crate::spread::spread;
use crate::store::{Inner, location_of};

/// Locks of the records. A power of two.
const STRIPES: usize = 16;

/// The records of a store that somebody has fetched, by the words of their locations: so none is
/// ever stale, whatever becomes of its key.
#[derive(Default)]
pub(crate) struct Fetches([CachePadded<Mutex<HashMap<u64, Kept>>>; STRIPES]);

struct Kept {
    found: Arc<Found>,
    /// Whether the cache has yet to see it.
    is_new: bool,
    /// By how many.
    holders: usize,
}

impl Fetches {
    fn stripe(&self, at: Location) -> MutexGuard<'_, HashMap<u64, Kept>> {
        let stripe = spread(&at.to_word().to_le_bytes()) as usize % STRIPES;
        self.0[stripe].lock().unwrap_or_else(|it| it.into_inner())
    }

    /// A record, if it is here; and whether the cache has yet to see it, which is said once.
    pub fn get(&self, at: Location) -> Option<(Arc<Found>, bool)> {
        let mut records = self.stripe(at);
        let kept = records.get_mut(&at.to_word())?;
        Some((Arc::clone(&kept.found), take(&mut kept.is_new)))
    }

    /// Holds a record that is here. Whether it is.
    fn hold(&self, at: Location) -> bool {
        let mut records = self.stripe(at);
        let kept = records.get_mut(&at.to_word());
        kept.map(|it| it.holders += 1).is_some()
    }

    /// Holds a record that was read.
    fn keep(&self, found: Found, is_new: bool) {
        let mut records = self.stripe(found.location);
        match records.entry(found.location.to_word()) {
            Entry::Occupied(mut kept) => kept.get_mut().holders += 1,
            Entry::Vacant(place) => {
                place.insert(Kept {
                    found: Arc::new(found),
                    is_new,
                    holders: 1,
                });
            }
        }
    }

    fn release(&self, at: Location) {
        if let Entry::Occupied(mut kept) = self.stripe(at).entry(at.to_word()) {
            kept.get_mut().holders -= 1;
            if kept.get().holders == 0 {
                kept.remove();
            }
        }
    }
}

/// Records that are read ahead of the operations that want them, and are in memory until this is
/// dropped.
#[must_use = "the records are forgotten with it"]
pub struct Fetched<'s> {
    inner: &'s Inner,
    held: Vec<Location>,
}

impl Store {
    /// Nothing that was fetched so far.
    pub fn fetched(&self) -> Fetched<'_> {
        Fetched {
            inner: &self.inner,
            held: Vec::new(),
        }
    }
}

impl Fetched<'_> {
    /// Reads the records of these keys for which an operation would wait, from the disk or from
    /// slow memory, all at the same time. Operations on the keys find them in memory from then on.
    /// Values in pieces are passed over, and so is what can't be read: whoever wants that one gets
    /// the error.
    ///
    /// `fits` is asked for each record whether there is memory for so many bytes, those included
    /// that somebody else has fetched. At the first for which there is none this ends. Returns how
    /// many of the keys came before that.
    pub async fn fetch(&mut self, keys: &[&[u8]], mut fits: impl FnMut(u64) -> bool) -> usize {
        let inner = self.inner;
        let located: Vec<_> = match inner.index.is_tiered() {
            true => join_all(keys.iter().map(|key| inner.locate_async(key))).await,
            false => inner.words(keys).into_iter().map(location_of).collect(),
        };
        let located = located.into_iter().enumerate();
        let located = located.filter_map(|(index, location)| Some((index, location?)));
        let (mut reads, mut looked_at) = (Vec::<(Location, _)>::new(), keys.len());
        for (index, location) in inner.look(located, |_, _| {}) {
            if reads.iter().any(|it| it.0 == location) || self.held.contains(&location) {
                continue;
            }
            if !fits(location.bytes_to_read()) {
                looked_at = index;
                break;
            }
            if inner.fetches.hold(location) {
                self.held.push(location);
            } else {
                let segment = |id| inner.log.segment(id);
                reads.push((location, inner.wait_for(segment, location, keys[index])));
            }
        }
        let read = join_all(reads.into_iter().map(|it| it.1)).await;
        for (found, is_new) in read.into_iter().flatten().flatten() {
            self.held.push(found.location);
            inner.fetches.keep(found, is_new);
        }
        looked_at
    }
}

impl Drop for Fetched<'_> {
    fn drop(&mut self) {
        for &location in &self.held {
            self.inner.fetches.release(location);
        }
    }
}

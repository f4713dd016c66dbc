//! Records for commands that come together, and for one that names many: those that would be waited
//! for one after the other are read at the same time.

use smallvec::SmallVec;
use timberline_store::Fetched as Records;

use crate::memory::Room;

use super::elements::element_key;
use super::{Entry, Hints, Keyspace, Place, StoreKey, string_key};

/// Names of one command whose records are read at a time.
const MOST: usize = 16;
/// Bytes of records that are read at a time for a client.
const BYTES: u64 = 1 << 20;

/// Records that are in memory until this is dropped. They are counted as the clients'.
pub struct Fetched<'k> {
    records: Records<'k>,
    room: Option<Room>,
}

impl Keyspace {
    /// Has the records in memory that commands are going to look at, as far as there is room.
    pub async fn fetch<'p>(
        &self,
        places: impl Iterator<Item = Place<'p>> + Clone,
    ) -> Option<Fetched<'_>> {
        let mut fetched = None;
        // First the records of keys that have elements, and then those of the elements.
        for _ in 0..2 {
            let (keys, are_all) = {
                let (held, mut hints) = (self.store.places(), Hints::default());
                self.prepare(&held, places.clone(), &mut hints);
                hints.waiting()
            };
            if !keys.is_empty() {
                self.fetch_into(&mut fetched, &keys).await;
            }
            if are_all {
                break;
            }
        }
        fetched
    }

    /// The next of these keys, at least one if there is one, and their strings in memory until what
    /// comes with them is dropped.
    pub async fn next_strings<'k>(
        &self,
        keys: &mut (impl Iterator<Item = &'k [u8]> + Clone),
    ) -> (SmallVec<[&'k [u8]; MOST]>, Option<Fetched<'_>>) {
        self.next_some(keys, |key| Some(string_key(key))).await
    }

    /// The same of names of elements.
    pub async fn next_elements<'k>(
        &self,
        entry: &Entry,
        names: &mut (impl Iterator<Item = &'k [u8]> + Clone),
    ) -> (SmallVec<[&'k [u8]; MOST]>, Option<Fetched<'_>>) {
        let (letter, id) = (entry.kind.element_letter(), entry.id());
        // With the id 0 they are in the entry.
        let key = |name: &[u8]| (id != 0).then(|| element_key(letter, id, name));
        self.next_some(names, key).await
    }

    async fn next_some<'k>(
        &self,
        names: &mut (impl Iterator<Item = &'k [u8]> + Clone),
        record: impl Fn(&[u8]) -> Option<StoreKey>,
    ) -> (SmallVec<[&'k [u8]; MOST]>, Option<Fetched<'_>>) {
        let (some, mut fetched) = (names.clone().take(MOST), None);
        // Those of memory servers the command reads itself.
        let keys = some.filter(|_| self.pool.is_none()).filter_map(record);
        let keys: SmallVec<[StoreKey; MOST]> = keys.collect();
        let looked_at = match keys.len() {
            // One alone, too.
            0 | 1 => MOST,
            _ => self.fetch_into(&mut fetched, &keys).await,
        };
        (names.take(looked_at.max(1)).collect(), fetched)
    }

    /// Has the records of these keys in memory, too, as far as there is room. Returns for how many
    /// there was.
    async fn fetch_into<'k>(
        &'k self,
        fetched: &mut Option<Fetched<'k>>,
        keys: &[StoreKey],
    ) -> usize {
        let keys: SmallVec<[&[u8]; MOST]> = keys.iter().map(|it| &it[..]).collect();
        let Fetched { records, room } = fetched.get_or_insert_with(|| Fetched {
            records: self.store.fetched(),
            room: None,
        });
        let fits = |bytes: u64| {
            let room = room.get_or_insert_with(|| Room::new(&self.memory));
            let all = bytes.saturating_add(room.bytes() as u64);
            all <= BYTES && self.memory.is_ample() && room.try_grow(all as usize)
        };
        records.fetch(&keys, fits).await
    }
}

//! Elements of hashes, sets, sorted sets and lists, read: in the store behind the id of their key,
//! or in its record; in the pool in the map that the key's record leads to.
//!
//! Elements have letters, in both. A letter has its elements in the order of their names.

use timberline_remote::records::Walk;
use timberline_store::{KeyValue, Scan, Store};

use crate::memory::Held;

use super::packed::Packed;
use super::{Entry, Error, Keyspace, Kind, StoreKey, store_key};

/// The letters of elements: those that are removed with their key.
pub const LETTERS: [u8; 4] = [b'f', b'l', b'm', b'z'];

/// Where an element's name begins in its key in the store: behind the letter and the id.
pub(super) const NAME: usize = 9;

/// The greatest id of all elements, those included that are to be removed; 0 if there are none.
pub(super) fn last_id(store: &Store) -> u64 {
    let last = |letter: u8| {
        let key = store.keys(&[letter][..]..&[letter + 1][..]).next_back()?;
        let id = key.get(1..NAME)?.try_into().ok()?;
        Some(u64::from_be_bytes(id))
    };
    let letters = LETTERS.into_iter().chain([b'd']);
    letters.filter_map(last).max().unwrap_or(0)
}

/// Which elements of a letter are wanted, and in which order.
#[derive(Clone, Copy, Default)]
pub(super) struct Wanted<'a> {
    /// From this name on.
    pub from: &'a [u8],
    /// Below this one.
    pub to: Option<&'a [u8]>,
    pub backwards: bool,
    /// Whether their values are wanted, too; otherwise there may be none.
    pub values: bool,
}

/// Elements in order, from one end.
pub struct Elements<'a>(Source<'a>);

enum Source<'a> {
    Packed(std::vec::IntoIter<KeyValue>),
    Keys(Box<dyn Iterator<Item = Vec<u8>> + Send>),
    Records(Scan),
    RecordsBack(Scan),
    Pool(Walk<'a>),
}

impl Keyspace {
    /// The value of an element.
    pub(super) async fn value_of(
        &self,
        entry: &Entry,
        letter: u8,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        if let Some(keys) = &self.pool {
            return keys.element(entry, &[&[letter], name].concat()).await;
        }
        match Packed::of(entry) {
            Some(packed) => Ok(packed.get(name).map(<[u8]>::to_vec)),
            None => {
                let key = element_key(letter, entry.id(), name);
                Ok(self.store.get(&key).await?)
            }
        }
    }

    /// Whether there is an element.
    pub(super) async fn has(&self, entry: &Entry, letter: u8, name: &[u8]) -> Result<bool, Error> {
        if self.pool.is_some() {
            return Ok(self.value_of(entry, letter, name).await?.is_some());
        }
        Ok(match Packed::of(entry) {
            Some(packed) => packed.get(name).is_some(),
            None => {
                let key = element_key(letter, entry.id(), name);
                self.store.contains_key(&key)
            }
        })
    }

    /// Elements of a letter.
    pub(super) fn range(&self, entry: &Entry, letter: u8, wanted: Wanted) -> Elements<'_> {
        let Wanted {
            from,
            to,
            backwards,
            values,
        } = wanted;
        if let Some(keys) = &self.pool {
            let behind = |name: &[u8]| [&[letter], name].concat();
            let to = to.map_or_else(|| vec![letter + 1], behind);
            let walk = keys.elements(entry, &behind(from), &to, backwards);
            return Elements(Source::Pool(walk));
        }
        if let Some(packed) = Packed::of(entry) {
            let elements = packed.filter(|it| it.0 >= from && to.is_none_or(|to| it.0 < to));
            let mut elements: Vec<_> = elements.map(|it| (it.0.into(), it.1.into())).collect();
            if backwards {
                elements.reverse();
            }
            return Elements(Source::Packed(elements.into_iter()));
        }
        let low = element_key(letter, entry.id(), from);
        let high = match to {
            Some(to) => element_key(letter, entry.id(), to),
            None => element_key(letter, entry.id() + 1, &[]),
        };
        let bounds = &low[..]..&high.max(low.clone())[..];
        Elements(match (values, backwards) {
            (true, false) => Source::Records(self.store.range(bounds)),
            (true, true) => Source::RecordsBack(self.store.range(bounds)),
            (false, false) => Source::Keys(self.store.keys(bounds)),
            (false, true) => Source::Keys(Box::new(self.store.keys(bounds).rev())),
        })
    }
}

impl Elements<'_> {
    /// The name of the next one, and its value, if that was wanted.
    pub async fn next(&mut self) -> Result<Option<KeyValue>, Error> {
        Ok(match &mut self.0 {
            Source::Packed(elements) => elements.next(),
            Source::Keys(keys) => keys.next().map(|mut it| (it.split_off(NAME), Vec::new())),
            Source::Records(scan) => scan.next().await.transpose()?.map(named),
            Source::RecordsBack(scan) => scan.next_back().await.transpose()?.map(named),
            Source::Pool(walk) => walk.next().await?.map(|(mut name, value)| {
                name.remove(0);
                (name, value)
            }),
        })
    }

    /// The name of the next one.
    pub async fn next_name(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.next().await?.map(|it| it.0))
    }

    /// At most so many of the names that come.
    pub async fn names(&mut self, most: usize, held: &Held<'_>) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = Vec::new();
        while names.len() < most
            && let Some(name) = self.next_name().await?
        {
            held.keep(name.len())?;
            names.push(name);
        }
        Ok(names)
    }

    /// The names of those at these places, which ascend, among all that come.
    pub async fn names_at(
        &mut self,
        places: &[usize],
        held: &Held<'_>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let (mut names, mut at) = (Vec::new(), 0);
        for &place in places {
            self.pass((place - at) as u64).await?;
            at = place + 1;
            names.extend(self.names(1, held).await?);
        }
        Ok(names)
    }

    /// Passes over so many of those that come.
    pub async fn pass(&mut self, elements: u64) -> Result<(), Error> {
        match &mut self.0 {
            Source::Packed(packed) => packed.take(elements as usize).for_each(drop),
            Source::Keys(keys) => keys.take(elements as usize).for_each(drop),
            Source::Records(_) | Source::RecordsBack(_) => {
                for _ in 0..elements {
                    self.next().await?;
                }
            }
            Source::Pool(walk) => walk.pass(elements),
        }
        Ok(())
    }

    /// How many come.
    pub async fn count(self) -> Result<u64, Error> {
        match self.0 {
            Source::Packed(packed) => Ok(packed.len() as u64),
            Source::Keys(keys) => Ok(keys.count() as u64),
            Source::Records(mut scan) | Source::RecordsBack(mut scan) => {
                let mut count = 0;
                while let Some(record) = scan.next().await {
                    record?;
                    count += 1;
                }
                Ok(count)
            }
            Source::Pool(walk) => Ok(walk.count().await?),
        }
    }
}

/// A record of the store, by the name of its element.
fn named((mut key, value): KeyValue) -> KeyValue {
    (key.split_off(NAME), value)
}

/// The key of an element in the store.
pub(super) fn element_key(letter: u8, id: u64, name: &[u8]) -> StoreKey {
    store_key(letter, &[&id.to_be_bytes(), name])
}

/// Whether this is the key of an element of this id, and of the kind that is looked up by name.
pub(super) fn is_element(key: &[u8], kind: Kind, id: u64) -> bool {
    key.first() == Some(&kind.element_letter()) && key.get(1..NAME) == Some(&id.to_be_bytes()[..])
}

/// The key of an element in the log of a node, which is that of a server alone; its name in the
/// pool has the letter in front.
pub(crate) fn element_of_log(id: u64, name: &[u8]) -> StoreKey {
    let (letter, name) = name.split_first().unwrap_or((&0, &[]));
    element_key(*letter, id, name)
}

/// What of an element of the log is its name in the pool.
pub(crate) fn element_of_pool(key: &[u8]) -> Vec<u8> {
    let (letter, name) = (key.get(..1), key.get(NAME..));
    [letter.unwrap_or(&[]), name.unwrap_or(&[])].concat()
}

/// What has the elements of an id removed from the store.
pub(crate) fn orphans_of(id: u64) -> StoreKey {
    store_key(b'd', &[&id.to_be_bytes()])
}

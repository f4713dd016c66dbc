//! Memory that commands are going to look at, prefetched for several at the same time; and which of
//! their records are not in memory.

use std::ops::Range;
use std::task::Poll;

use smallvec::SmallVec;
use timberline_store::{KeyPlace, Places};

use super::locks::Stripe;
use super::{Entry, Keyspace, Kind, StoreKey};

/// Bytes of keys that there is room for at first.
const BYTES: usize = 1024;

/// What a command is going to look at.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// A string.
    String(&'a [u8]),
    /// A string that is overwritten, whatever it is.
    Overwritten(&'a [u8]),
    /// An element of a hash, set or sorted set.
    Element(&'a [u8], &'a [u8]),
    /// A key that has elements, of which none is known.
    Elements(&'a [u8]),
    /// Nothing that is known in advance.
    None,
}

/// What was found for some places, while the store keeps those.
#[derive(Default)]
pub struct Hints<'h> {
    /// Keys of the store, one after the other.
    bytes: Vec<u8>,
    /// In the order of their places.
    wanted: SmallVec<[Wanted<'h>; 16]>,
    /// Records of keys that have elements.
    owners: SmallVec<[(Range<usize>, Option<KeyPlace<'h>>); 2]>,
    /// Of those keys and records, what has to be waited for.
    waiting: Vec<Range<usize>>,
    /// Whether records are among it that say where others are.
    are_owners_waiting: bool,
}

/// A key of the store that is looked for.
struct Wanted<'h> {
    /// For which place.
    of: u16,
    key: Range<usize>,
    /// Whether its value is read, too.
    is_read: bool,
    /// The lock of its string, or of the key whose element it is.
    stripe: Stripe,
    /// Of an element: the key that has it.
    owner: Option<u16>,
    place: Option<KeyPlace<'h>>,
}

/// What is known of a command's record before it has its key's lock.
#[derive(Clone, Copy)]
pub struct Hint<'a> {
    /// The lock.
    pub stripe: Stripe,
    /// The string or the element, or the key that has elements if none is named.
    pub record: Known<'a>,
    /// Of an element: the record of the key that has it.
    pub owner: Option<Known<'a>>,
}

/// A record's key in the store, and where that is, if it is known.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub key: &'a [u8],
    pub place: Option<KeyPlace<'a>>,
}

impl<'a> Known<'a> {
    /// Of a key that was not looked for.
    pub fn key(key: &'a [u8]) -> Known<'a> {
        Known { key, place: None }
    }
}

/// A key that has elements: its lock, and its kind and the id of those, and which owner it is.
type Owner = (Stripe, Option<(Kind, u64, u16)>);

impl Hints<'_> {
    /// What was found for a place.
    pub fn get(&self, place: usize) -> Option<Hint<'_>> {
        // Most batches have a key for each place.
        let at = match self.wanted.get(place) {
            Some(wanted) if usize::from(wanted.of) == place => place,
            _ => {
                let of = |wanted: &Wanted| usize::from(wanted.of);
                self.wanted.binary_search_by_key(&place, of).ok()?
            }
        };
        let wanted = &self.wanted[at];
        let known = |key: &Range<usize>, place| Known {
            key: &self.bytes[key.clone()],
            place,
        };
        let owner = wanted.owner.map(|at| &self.owners[usize::from(at)]);
        Some(Hint {
            stripe: wanted.stripe,
            record: known(&wanted.key, wanted.place),
            owner: owner.map(|(key, place)| known(key, *place)),
        })
    }

    /// Whether a record has to be waited for.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The keys of the store whose records have to be waited for; and whether those are all that
    /// can be known: of the elements of a key, it is known with the key's record.
    pub(super) fn waiting(&self) -> (Vec<StoreKey>, bool) {
        let keys = self.waiting.iter();
        let keys = keys.map(|it| self.bytes[it.clone()].into());
        (keys.collect(), !self.are_owners_waiting)
    }

    /// A key of the store in two parts, behind its letter.
    fn key(&mut self, letter: u8, first: &[u8], second: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.push(letter);
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        start..self.bytes.len()
    }
}

impl Keyspace {
    /// Has the processor bring what is in memory of these keys and elements near, for all at the
    /// same time. Says what was found.
    pub fn prepare<'h, 'k>(
        &'h self,
        held: &'h Places<'_>,
        places: impl Iterator<Item = Place<'k>>,
        hints: &mut Hints<'h>,
    ) {
        // A cluster's strings are elsewhere.
        if self.node().is_some() {
            return;
        }
        hints.bytes.reserve(BYTES);
        // The last key that has elements.
        let mut last: Option<(&[u8], Owner)> = None;
        for (of, place) in (0..=u16::MAX).zip(places) {
            let (key, name) = match place {
                Place::Element(key, name) => (key, name),
                Place::String(key) | Place::Overwritten(key) | Place::Elements(key) => {
                    let letter = match place {
                        Place::Elements(_) => b'a',
                        _ => b's',
                    };
                    let wanted = Wanted {
                        of,
                        key: hints.key(letter, key, &[]),
                        is_read: !matches!(place, Place::Overwritten(_)),
                        stripe: Stripe::of(key),
                        owner: None,
                        place: None,
                    };
                    hints.wanted.push(wanted);
                    continue;
                }
                Place::None => continue,
            };
            let (stripe, found) = match last {
                Some((before, found)) if before == key => found,
                _ => (Stripe::of(key), self.owner(held, key, hints)),
            };
            last = Some((key, (stripe, found)));
            let Some((kind, id, owner)) = found else {
                continue;
            };
            let wanted = Wanted {
                of,
                key: hints.key(kind.element_letter(), &id.to_be_bytes(), name),
                // That a set has a member, the index says.
                is_read: kind != Kind::Set,
                stripe,
                owner: Some(owner),
                place: None,
            };
            hints.wanted.push(wanted);
        }
        let mut keys = SmallVec::<[&[u8]; 16]>::new();
        for wanted in &hints.wanted {
            keys.push(&hints.bytes[wanted.key.clone()]);
        }
        let found = self
            .store
            .prepare(held, &keys, |at| hints.wanted[at].is_read);
        for (wanted, place) in hints.wanted.iter_mut().zip(found) {
            wanted.place = place;
            if wanted.is_read && self.waits(place) {
                hints.waiting.push(wanted.key.clone());
            }
        }
    }

    /// The kind of a key and the id of its elements, if it has some that can be found without
    /// waiting, and which owner it is among the hints.
    fn owner<'h>(
        &'h self,
        held: &'h Places<'_>,
        key: &[u8],
        hints: &mut Hints<'h>,
    ) -> Option<(Kind, u64, u16)> {
        let range = hints.key(b'a', key, &[]);
        let key = &hints.bytes[range.clone()];
        let place = self.store.prepare(held, &[key], |_| false)[0];
        let (kind, id) = match self.read_now(Known { key, place }, Entry::elements_of) {
            Poll::Ready(Some((kind, id, _))) => (kind, id),
            Poll::Ready(None) => return None,
            Poll::Pending => {
                hints.waiting.push(range);
                // Where the index is slow, it says as little once that record is fetched.
                hints.are_owners_waiting |= place.is_some();
                return None;
            }
        };
        if id == 0 {
            // Its elements are in its record.
            return None;
        }
        let at = u16::try_from(hints.owners.len()).ok()?;
        hints.owners.push((range, place));
        Some((kind, id, at))
    }

    /// Whether whoever reads a record has to wait. Where the index is in slow memory, it is not
    /// looked at in advance.
    fn waits(&self, place: Option<KeyPlace>) -> bool {
        place.map_or_else(|| self.store.is_index_slow(), |it| it.waits())
    }
}

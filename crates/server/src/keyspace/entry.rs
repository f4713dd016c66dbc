//! A key's record.

use std::sync::Arc;

use crate::memory::Room;

/// What a key is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A string.
    String = 0,
    /// A hash.
    Hash = 1,
    /// A set.
    Set = 2,
    /// A sorted set.
    SortedSet = 3,
    /// A list.
    List = 4,
}

impl Kind {
    /// That of a key with this record.
    fn of(record: &[u8]) -> Kind {
        match record.first().copied().unwrap_or(0) & !EXPIRES {
            1 => Kind::Hash,
            2 => Kind::Set,
            3 => Kind::SortedSet,
            4 => Kind::List,
            _ => Kind::String,
        }
    }

    /// The letter of a key's record.
    pub fn letter(self) -> u8 {
        match self {
            Kind::String => b's',
            _ => b'a',
        }
    }

    /// The letter of elements: of a sorted set, the one of its members by name.
    pub const fn element_letter(self) -> u8 {
        match self {
            Kind::SortedSet => b'm',
            Kind::List => b'l',
            _ => b'f',
        }
    }

    /// Its name for `TYPE`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::List => "list",
        }
    }
}

const EXPIRES: u8 = 0x80;
/// The most bytes of a header.
pub(super) const HEADER: usize = 9;

/// Bytes of the header of a record that expires then.
pub(super) fn header_of(expires: Option<i64>) -> usize {
    match expires {
        Some(_) => HEADER,
        None => 1,
    }
}

/// A key's record, read.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What the key is.
    pub kind: Kind,
    /// When it expires, in milliseconds since 1970.
    pub expires: Option<i64>,
    bytes: Vec<u8>,
    header: usize,
    /// The memory of a long one, and of the reply with it.
    _taken: Option<Arc<Room>>,
}

impl Entry {
    /// A record that [`encode`](Self::encode) made.
    pub fn new(bytes: Vec<u8>) -> Entry {
        let kind = Kind::of(&bytes);
        let expires = Entry::expiry(&bytes);
        let header = header_of(expires).min(bytes.len());
        Entry {
            kind,
            expires,
            bytes,
            header,
            _taken: None,
        }
    }

    /// The same of a long record, with the memory that was taken for it.
    pub fn taken(bytes: Vec<u8>, taken: Room) -> Entry {
        Entry {
            _taken: Some(Arc::new(taken)),
            ..Entry::new(bytes)
        }
    }

    /// When the key of a record expires, and its value.
    pub(super) fn split(record: &[u8]) -> (Option<i64>, &[u8]) {
        let expires = Entry::expiry(record);
        (expires, record.get(header_of(expires)..).unwrap_or(&[]))
    }

    /// When the key of a record expires.
    pub fn expiry(record: &[u8]) -> Option<i64> {
        let expires = record.first().is_some_and(|it| it & EXPIRES != 0);
        let at = record.get(1..9).filter(|_| expires)?;
        Some(i64::from_le_bytes(at.try_into().expect("eight bytes")))
    }

    /// What the record of a hash, set or sorted set says: its kind, its id, and the number of its
    /// elements.
    pub(super) fn elements_of(record: &[u8]) -> (Kind, u64, u64) {
        let value = Entry::split(record).1;
        (Kind::of(record), number(value, 0), number(value, 8))
    }

    /// A record of a value in parts.
    pub fn encode(kind: Kind, expires: Option<i64>, value: &[&[u8]]) -> Vec<u8> {
        let len: usize = value.iter().map(|it| it.len()).sum();
        let mut bytes = Vec::with_capacity(HEADER + len);
        match expires {
            Some(at) => {
                bytes.push(kind as u8 | EXPIRES);
                bytes.extend_from_slice(&at.to_le_bytes());
            }
            None => bytes.push(kind as u8),
        }
        for part in value {
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Its value, without the header.
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.header..]
    }

    /// The id of a hash, set, sorted set or list; 0 if its elements are in this record.
    pub fn id(&self) -> u64 {
        number(self.value(), 0)
    }

    /// Elements of a hash, set, sorted set or list.
    pub fn elements(&self) -> u64 {
        number(self.value(), 8)
    }

    /// What stands behind the elements' number.
    pub(super) fn rest(&self) -> &[u8] {
        self.value().get(16..).unwrap_or(&[])
    }
}

fn number(value: &[u8], at: usize) -> u64 {
    let bytes = value.get(at..at + 8);
    bytes.map_or(0, |it| {
        u64::from_le_bytes(it.try_into().expect("eight bytes"))
    })
}

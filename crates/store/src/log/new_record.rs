//! What is to be appended.

use std::sync::Arc;

use crate::KeyPlace;
use crate::index::Spot;
use crate::pieces::Value;
use crate::record::{Kind, NEVER, bytes_of};

/// A record before it has a sequence number.
#[derive(Clone, Copy)]
pub(crate) struct NewRecord<'a> {
    pub kind: Kind,
    /// Whether it is only to replace another. All records of a batch are to, or none.
    pub replaces: bool,
    /// Whether it is a delete by which a cache makes space.
    pub evicts: bool,
    /// As [`Record::expires`].
    pub expires: u64,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// The value in pieces that the key is to have; then `value` says where it is.
    pub large: Option<&'a Arc<Value>>,
    /// Where the key was found in the index, if it was.
    pub spot: Option<Spot<'a>>,
}

impl<'a> NewRecord<'a> {
    pub fn put(key: &'a [u8], value: &'a [u8], expires: u64) -> NewRecord<'a> {
        NewRecord {
            kind: Kind::Put,
            replaces: false,
            evicts: false,
            expires,
            key,
            value,
            large: None,
            spot: None,
        }
    }

    /// The same of a key that was found in the index there, if it was.
    pub fn at(self, place: Option<KeyPlace<'a>>) -> NewRecord<'a> {
        let spot = place.and_then(|it| it.spot);
        NewRecord { spot, ..self }
    }

    /// A put of a value in pieces; `about` is its [`Descriptor`](crate::pieces::Descriptor).
    pub fn large(
        key: &'a [u8],
        value: &'a Arc<Value>,
        about: &'a [u8],
        expires: u64,
    ) -> NewRecord<'a> {
        NewRecord {
            large: Some(value),
            ..NewRecord::put(key, about, expires)
        }
    }

    pub fn piece(key: &'a [u8], value: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            kind: Kind::Piece,
            ..NewRecord::put(key, value, NEVER)
        }
    }

    pub fn delete(key: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            kind: Kind::Delete,
            ..NewRecord::put(key, &[], NEVER)
        }
    }

    pub fn evict(key: &'a [u8]) -> NewRecord<'a> {
        NewRecord {
            evicts: true,
            ..NewRecord::delete(key)
        }
    }

    /// Bytes of its record.
    pub fn bytes(&self) -> usize {
        bytes_of(self.key.len(), self.value.len(), self.expires != NEVER)
    }
}

//! Terminal nodes of paths: a leaf of one record, a pack of a few, or a row of many.

use std::ops::Deref;
use std::sync::atomic::AtomicU16;

use super::leaf::{Leaf, LockedLeaf};
use super::pack::{LockedPack, PACK_BYTES, Pack};
use super::row::{LockedRow, Row};

/// A key: borrowed from the leaf that holds it, or a number that was a key when it was read.
#[derive(Clone, Copy, Debug)]
pub enum TipKey<'g> {
    Lent(&'g [u8]),
    Number([u8; 8]),
}

impl TipKey<'_> {
    fn number(key: u64) -> Self {
        TipKey::Number(key.to_be_bytes())
    }
}

impl Deref for TipKey<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match self {
            TipKey::Lent(key) => key,
            TipKey::Number(key) => key,
        }
    }
}

/// A node that holds records, alive as long as the thread stays pinned.
#[derive(Clone, Copy, Debug)]
pub enum Tip<'g> {
    /// One record.
    Leaf(Leaf<'g>),
    /// Two or three records.
    Pack(Pack<'g>),
    /// The records of neighbouring keys.
    Row(Row<'g>),
}

impl<'g> Tip<'g> {
    /// Its name: a key that leads to it. A leaf's own, the least in a pack, the least that a row
    /// covers.
    #[inline(always)]
    pub fn key(self) -> TipKey<'g> {
        match self {
            Tip::Leaf(leaf) => TipKey::Lent(leaf.key()),
            Tip::Pack(pack) => TipKey::number(pack.key()),
            Tip::Row(row) => TipKey::Lent(row.least()),
        }
    }

    /// The greatest key that it holds, or can hold.
    pub fn greatest(self) -> TipKey<'g> {
        match self {
            Tip::Leaf(leaf) => TipKey::Lent(leaf.key()),
            Tip::Pack(pack) => match pack.last().last() {
                Some(&(key, _)) => TipKey::number(key),
                None => self.key(),
            },
            Tip::Row(row) => TipKey::Lent(row.greatest()),
        }
    }

    /// Whether a key that led here belongs here.
    pub fn covers(self, key: &[u8]) -> bool {
        match self {
            Tip::Leaf(leaf) => leaf.key() == key,
            Tip::Pack(_) => true,
            Tip::Row(row) => row.place_of(key).is_some(),
        }
    }

    /// Two bytes of heat for a placement.
    pub fn heat(self) -> &'g AtomicU16 {
        match self {
            Tip::Leaf(leaf) => leaf.heat(),
            Tip::Pack(pack) => pack.heat(),
            Tip::Row(row) => row.heat(),
        }
    }

    /// Its address.
    #[inline(always)]
    pub fn address(self) -> usize {
        match self {
            Tip::Leaf(leaf) => leaf.address(),
            Tip::Pack(pack) => pack.address(),
            Tip::Row(row) => row.address(),
        }
    }

    /// Its size in bytes.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        match self {
            Tip::Leaf(leaf) => leaf.bytes(),
            Tip::Pack(_) => PACK_BYTES,
            Tip::Row(row) => row.room().bytes(),
        }
    }

    /// Whether it was unlinked.
    pub fn is_obsolete(self) -> bool {
        match self {
            Tip::Leaf(leaf) => leaf.is_obsolete(),
            Tip::Pack(pack) => pack.is_obsolete(),
            Tip::Row(row) => row.is_obsolete(),
        }
    }

    /// Locks it. Waits while another thread holds the lock.
    ///
    /// # Errors
    /// It was unlinked.
    pub fn lock(self) -> Result<LockedTip<'g>, timberline_sync::Restart> {
        Ok(match self {
            Tip::Leaf(leaf) => LockedTip::Leaf(leaf.lock()?),
            Tip::Pack(pack) => LockedTip::Pack(pack.lock()?),
            Tip::Row(row) => LockedTip::Row(row.lock()?),
        })
    }
}

/// The exclusive right to change a terminal node; unlocks when dropped.
#[derive(Debug)]
pub enum LockedTip<'g> {
    Leaf(LockedLeaf<'g>),
    Pack(LockedPack<'g>),
    Row(LockedRow<'g>),
}

impl<'g> LockedTip<'g> {
    /// The locked node.
    pub fn tip(&self) -> Tip<'g> {
        match self {
            LockedTip::Leaf(locked) => Tip::Leaf(locked.leaf()),
            LockedTip::Pack(locked) => Tip::Pack(locked.pack()),
            LockedTip::Row(locked) => Tip::Row(locked.row()),
        }
    }

    /// The value of a key, if this is its record and the only one here.
    pub fn last_of(&self, key: &[u8]) -> Option<u64> {
        let (value, count) = match self {
            LockedTip::Leaf(locked) => (Some(locked.leaf().value()), 1),
            LockedTip::Pack(locked) => {
                let records = locked.records();
                (records.get(number(key)), records.count())
            }
            LockedTip::Row(locked) => {
                let (at, records) = (locked.row().place_of(key), locked.records());
                (at.and_then(|at| records.get(at)), records.count())
            }
        };
        value.filter(|_| count == 1)
    }

    /// Unlocks for good: the node is unlinked.
    pub fn retire(self) {
        match self {
            LockedTip::Leaf(locked) => locked.retire(),
            LockedTip::Pack(locked) => locked.retire(),
            LockedTip::Row(locked) => locked.retire(),
        }
    }
}

/// A key of eight bytes as a number, in the same order.
#[inline(always)]
pub fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}

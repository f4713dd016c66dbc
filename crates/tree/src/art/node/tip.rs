//! What a path ends at: a leaf of one record, or a row of them.

use std::sync::atomic::AtomicU16;

use super::leaf::{Leaf, LockedLeaf};
use super::row::{LockedRow, ROW_BYTES, Row};

/// A node that holds records, alive as long as the thread stays pinned.
#[derive(Clone, Copy, Debug)]
pub enum Tip<'g> {
    /// One record.
    Leaf(Leaf<'g>),
    /// The records of 256 neighbouring keys.
    Row(Row<'g>),
}

impl<'g> Tip<'g> {
    /// Its name: a leaf's key, and the least key that a row covers.
    #[inline(always)]
    pub fn key(self) -> &'g [u8] {
        match self {
            Tip::Leaf(leaf) => leaf.key(),
            Tip::Row(row) => row.least(),
        }
    }

    /// The greatest key that it covers.
    pub fn greatest(self) -> &'g [u8] {
        match self {
            Tip::Leaf(leaf) => leaf.key(),
            Tip::Row(row) => row.greatest(),
        }
    }

    /// Whether a record of this key is here, if there is one.
    pub fn covers(self, key: &[u8]) -> bool {
        match self {
            Tip::Leaf(leaf) => leaf.key() == key,
            Tip::Row(row) => row.place_of(key).is_some(),
        }
    }

    /// Two bytes for a placement's heat.
    pub fn heat(self) -> &'g AtomicU16 {
        match self {
            Tip::Leaf(leaf) => leaf.heat(),
            Tip::Row(row) => row.heat(),
        }
    }

    /// Where it lies.
    #[inline(always)]
    pub fn address(self) -> usize {
        match self {
            Tip::Leaf(leaf) => leaf.address(),
            Tip::Row(row) => row.address(),
        }
    }

    /// Its bytes.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        match self {
            Tip::Leaf(leaf) => leaf.bytes(),
            Tip::Row(_) => ROW_BYTES,
        }
    }

    /// Whether it was unlinked.
    pub fn is_obsolete(self) -> bool {
        match self {
            Tip::Leaf(leaf) => leaf.is_obsolete(),
            Tip::Row(row) => row.is_obsolete(),
        }
    }
}

/// A tip that nobody else may change; unlocks when dropped.
#[derive(Debug)]
pub enum LockedTip<'g> {
    Leaf(LockedLeaf<'g>),
    Row(LockedRow<'g>),
}

impl<'g> LockedTip<'g> {
    /// What is locked.
    pub fn tip(&self) -> Tip<'g> {
        match self {
            LockedTip::Leaf(locked) => Tip::Leaf(locked.leaf()),
            LockedTip::Row(locked) => Tip::Row(locked.row()),
        }
    }

    /// Unlocks for good: it is unlinked.
    pub fn retire(self) {
        match self {
            LockedTip::Leaf(locked) => locked.retire(),
            LockedTip::Row(locked) => locked.retire(),
        }
    }
}

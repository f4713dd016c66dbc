//! New layers: for a second key with the prefix of an entry's only key, or for a key that differs
//! from a layer's skipped bytes.
//!
//! In both cases this inserts a layer with one entry, and the insert restarts and finds it. The
//! skip has all whole slices that the keys have in common, so an insert makes at most one layer.

use timberline_placement::NewNode;
use timberline_sync::epoch::Guard;
use timberline_tier::{Limit, Memory, OutOfMemory, Slot};

use super::Tree;
use super::descent::{Cursor, End, common};
use super::slice::{SLICE, path, slice, slice_of_many};
use crate::abort::Abort;
use crate::btree::node::{Below, Block, Body, Fresh, Name, address, has_more};
use crate::value::{Loan, Represent, ValueCopy};

/// The record or layer that moves one layer down.
struct Suffix<'g> {
    slice: u64,
    /// The bytes after the slice, if they need a block.
    in_block: Option<&'g [u8]>,
}

impl<'g> Suffix<'g> {
    /// The suffix of a record, or the skip of a layer.
    fn of(bytes: &'g [u8], is_layer: bool) -> Self {
        let slice = match is_layer {
            true => slice_of_many(bytes),
            false => slice(bytes, 0),
        };
        let in_block = has_more(slice).then(|| &bytes[SLICE..]);
        // A layer that skips nothing has no block.
        let in_block = in_block.filter(|rest| !is_layer || !rest.is_empty());
        Suffix { slice, in_block }
    }
}

/// The slots of a new layer, allocated before any lock is taken.
struct NewLayer<'t, M: Memory> {
    root: Slot<'t>,
    name: Option<Name<'t>>,
    skip: Option<Slot<'t>>,
    entry: Option<Slot<'t>>,
    /// A copy of the value in the new layer's tier, if the value is in another.
    value: Option<ValueCopy<'t, M>>,
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Inserts a layer below the entry that a key shares with others.
    pub(super) fn deepen(
        &self,
        key: &[u8],
        cursor: &Cursor<'_, WORDS>,
        guard: &Guard,
    ) -> Result<(), Abort> {
        let (index, bytes, value, same) = match cursor.end {
            End::Record { index, record } => {
                let same = common(record.bytes(), &key[cursor.depth + SLICE..]);
                (index, record.bytes(), Some(record.value()), same)
            }
            End::Beside {
                index,
                skip,
                common,
            } => (index, skip.bytes(), None, common),
            End::Absent { .. } | End::Value { .. } => return Ok(()),
        };
        let (skipped, below) = bytes.split_at(same / SLICE * SLICE);
        let rest = Suffix::of(below, value.is_none());
        let path = path(&key[..cursor.depth + SLICE + skipped.len()]);
        let value = value.filter(|_| H::IN_BLOCKS);
        cursor.leaf.validate()?;
        let new = self.allocate_layer(cursor, &path, skipped, &rest, value)?;

        let held = cursor.leaf.upgrade()?;
        if let End::Record { record, .. } = cursor.end
            && new.root.tier().is_fast()
            && self.may_have_copies(address(held.of()))
        {
            let moves = [&key[..cursor.depth + SLICE], record.bytes()].concat();
            self.forget_copy(&held, &moves[..], guard);
        }
        let copied = new.value.zip(value);
        let leaf = Fresh::first_of_layer(new.root, new.name, &path);
        let skip = new.skip.map(|slot| (slot, skipped));
        let below = Below {
            slice: rest.slice,
            block: new.entry.zip(rest.in_block),
            value: copied.map(|(copy, value)| copy.make(value)),
        };
        let (leaf, old, copied) = Body::insert_layer(&held, index, leaf, skip, below);
        old.reclaim(&self.store, guard);
        if let Some(copied) = copied {
            self.reclaim_value(copied, guard);
        }
        self.count_leaf(0, 1);
        self.reaches(cursor.level.saturating_add(1));
        // At the very end: the placement may panic.
        self.check_boundary(&path, &leaf);
        Ok(())
    }

    fn allocate_layer(
        &self,
        cursor: &Cursor<'_, WORDS>,
        path: &[u8],
        skipped: &[u8],
        rest: &Suffix<'_>,
        value: Option<Loan<'_>>,
    ) -> Result<NewLayer<'_, M>, OutOfMemory> {
        let store = &self.store;
        let above = self.tier_of(*cursor.leaf);
        let new = NewNode {
            height: 0,
            level: cursor.level.saturating_add(1),
            parent: above,
            split_from: above,
        };
        let root = store.allocate(new, Self::BYTES)?;
        let tier = root.tier();
        let name = match self.has_names {
            true => Some(self.allocate_name(path)?),
            false => None,
        };
        let block = |tier, bytes: &[u8]| store.allocate_from(tier, Block::slot_for(bytes.len()));
        let skip = match skipped {
            [] => None,
            _ => Some(block(above, skipped)?),
        };
        let entry = rest.in_block.map(|bytes| block(tier, bytes)).transpose()?;
        let value = match value {
            Some(value) => ValueCopy::new_or_fall(store, value, tier)?,
            None => None,
        };
        Ok(NewLayer {
            root,
            name,
            skip,
            entry,
            value,
        })
    }

    fn allocate_name(&self, path: &[u8]) -> Result<Name<'_>, OutOfMemory> {
        let arenas = self.memory().arenas();
        let slowest = arenas.slowest();
        let slot = self
            .store
            .allocate_from(slowest, Name::slot_for(path.len()))?;
        Name::new(slot, arenas).ok_or(OutOfMemory {
            tier: slowest,
            of: Limit::Addresses,
            limit: Name::FARTHEST,
        })
    }
}

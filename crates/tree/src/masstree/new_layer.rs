//! New layers: where a second key begins as the only one of an entry does, or differs from what a
//! layer skips.
//!
//! Either way a layer of one entry is put in between, and the insert looks again and finds it.
//! Skips and slices are what the keys have in common already, so that an insert makes one layer at
//! most.

use std::ptr::NonNull;

use timberline_placement::NewNode;
use timberline_sync::epoch::Guard;
use timberline_tier::{Limit, Memory, OutOfMemory, TierId};

use super::Tree;
use super::descent::{Cursor, End, common};
use super::slice::{Lead, SLICE, has_more, path, slice, slice_of_many};
use crate::abort::Abort;
use crate::btree::fresh::Fresh;
use crate::btree::node::{Block, Link};
use crate::btree::tree::address;
use crate::store::Store;
use crate::value::{Loan, Represent, ValueCopy};

/// A slot for a block that is not written yet; freed if it never is.
pub(super) struct FreshBlock<'t, M: Memory> {
    store: &'t Store<M>,
    slot: Option<NonNull<u8>>,
    bytes: usize,
}

impl<'t, M: Memory> FreshBlock<'t, M> {
    /// In this tier, or the next slower one that has room.
    pub fn new(store: &'t Store<M>, tier: TierId, bytes: usize) -> Result<Self, OutOfMemory> {
        let slot = Some(store.allocate_from(tier, bytes)?.keep());
        Ok(FreshBlock { store, slot, bytes })
    }

    fn slot(mut self) -> NonNull<u8> {
        self.slot.take().expect("filled once")
    }

    /// Makes the block.
    pub fn block(self, word: u64, parts: &[&[u8]]) -> Block {
        Block::write(self.slot(), word, parts)
    }
}

impl<M: Memory> Drop for FreshBlock<'_, M> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            Block::discard(slot, self.bytes, self.store.arenas());
        }
    }
}

/// What goes one layer down.
struct Entry<'g> {
    slice: u64,
    /// What of it is in a block.
    rest: &'g [u8],
    /// Whether it is a layer.
    is_layer: bool,
}

/// Memory for all parts of a new layer.
struct NewLayer<'t, M: Memory, const WORDS: usize> {
    root: Fresh<'t, M, WORDS>,
    name: FreshBlock<'t, M>,
    number: u32,
    skip: Option<FreshBlock<'t, M>>,
    entry: Option<FreshBlock<'t, M>>,
    /// A value that is in another tier than the new layer.
    value: Option<ValueCopy<'t, M>>,
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Puts a layer below the entry that a key shares with others.
    pub(super) fn deepen(
        &self,
        key: &[u8],
        cursor: &Cursor<'_, WORDS>,
        guard: &Guard,
    ) -> Result<(), Abort> {
        let (index, old, is_layer, same) = match cursor.end {
            End::Record { index, record } => {
                let same = common(record.bytes(guard), &key[cursor.depth + SLICE..]);
                (index, record, false, same)
            }
            End::Beside {
                index,
                skip,
                common,
            } => (index, skip, true, common),
            End::Absent { .. } | End::Value { .. } => return Ok(()),
        };
        let bytes = old.bytes(guard);
        let skipped = &bytes[..same / SLICE * SLICE];
        let below = &bytes[skipped.len()..];
        let entry = match is_layer {
            true => Entry {
                slice: slice_of_many(below),
                rest: &below[SLICE..],
                is_layer,
            },
            false => {
                let slice = slice(below, 0);
                let rest = if has_more(slice) {
                    &below[SLICE..]
                } else {
                    &[]
                };
                Entry {
                    slice,
                    rest,
                    is_layer,
                }
            }
        };
        let path = path(&key[..cursor.depth + SLICE + skipped.len()]);
        let value = (H::IN_BLOCKS && !is_layer).then(|| old.word());
        cursor.leaf.validate()?;
        let rooms = self.rooms(cursor, &path, skipped, &entry, value)?;

        let held = cursor.leaf.upgrade()?;
        let mut word = old.word();
        if let Some(copy) = rooms.value {
            let old = Loan::new(word, guard);
            word = copy.make(old);
            self.reclaim_value(old.word(), guard);
        }
        let payload = match (rooms.entry, is_layer) {
            (Some(room), false) => Lead::Record(room.block(word, &[entry.rest])).payload(),
            (Some(room), true) => Lead::Skip(room.block(word, &[entry.rest])).payload(),
            (None, false) => word,
            (None, true) => Lead::Layer(Link::from_word(word)).payload(),
        };
        rooms.name.block(0, &[&path]);
        let root = rooms.root.keep();
        let leaf = root.node::<WORDS>(guard).claim();
        leaf.reset(rooms.number, 0, 0, u64::MAX);
        leaf.push(entry.slice, payload);
        let lead = match rooms.skip {
            Some(room) => Lead::Skip(room.block(root.to_word(), &[skipped])),
            None => Lead::Layer(root),
        };
        held.set_payload(index, lead.payload());
        self.reclaim_block(old, old.slot(), guard);
        self.count_leaf(0, 1);
        self.reaches(cursor.level.saturating_add(1));
        // When all is done: the placement may panic.
        self.check_boundary(&path, &leaf);
        Ok(())
    }

    fn rooms(
        &self,
        cursor: &Cursor<'_, WORDS>,
        path: &[u8],
        skipped: &[u8],
        entry: &Entry<'_>,
        value: Option<u64>,
    ) -> Result<NewLayer<'_, M, WORDS>, OutOfMemory> {
        let (store, arenas) = (&self.store, self.memory().arenas());
        let above = arenas.tier_of(address(cursor.leaf.of()));
        let new = NewNode {
            height: 0,
            level: cursor.level.saturating_add(1),
            parent: above,
            split_from: above,
        };
        let root = Fresh::new(store, new)?;
        let tier = root.tier().unwrap_or(above);
        let slowest = arenas.slowest();
        let name = FreshBlock::new(store, slowest, Block::slot_for_name(path.len()))?;
        let number = name.slot.and_then(|slot| Block::number(slot, arenas));
        let number = number.ok_or(OutOfMemory {
            tier: slowest,
            of: Limit::Addresses,
            limit: Block::NAMED,
        })?;
        let room = |tier, bytes: &[u8]| FreshBlock::new(store, tier, Block::slot_for(bytes.len()));
        let skip = match skipped {
            [] => None,
            _ => Some(room(above, skipped)?),
        };
        let in_block = match entry.is_layer {
            true => !entry.rest.is_empty(),
            false => has_more(entry.slice),
        };
        let entry = match in_block {
            true => Some(room(tier, entry.rest)?),
            false => None,
        };
        let value = match value {
            Some(word) => ValueCopy::new_or_fall(store, word, tier)?,
            None => None,
        };
        Ok(NewLayer {
            root,
            name,
            number,
            skip,
            entry,
            value,
        })
    }
}

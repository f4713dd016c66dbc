//! The targets of a Masstree's border entries. The key of an entry is a slice.
//!
//! | the slice | payload |
//! |---|---|
//! | ends the key | the value |
//! | continues | a record (low bits 0): the rest of the only key with this prefix, and a value |
//! | continues | a node (low bits 1): the root of the layer for what follows the slice |
//! | continues | a skip (low bits 2): the bytes that all keys below have next, and the root |
//!
//! Like a [`Link`](super::Link), a [`Lead`] comes from a validated read or from a locked node. The
//! border node's version guards the root in a skip; any root that it had while the thread was
//! pinned may be followed.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use timberline_sync::Restart;
use timberline_tier::{Arenas, Slot, hint};

use super::block::{Block, Name, UnlinkedBlock};
use super::fresh::{Fresh, Unlinked};
use super::link::{View, node_at};
use super::{Body, Hit, Lanes, LockedNode, Node, Write, address};
use crate::seeded::{self, Bug};
use crate::value::{Loan, RetiredValue};

/// The length in a slice's lowest byte that marks a key that continues.
pub const MORE: u64 = 8;

const KIND: u64 = 3;
const LAYER: u64 = 1;
const SKIP: u64 = 2;

/// Whether the key continues after a slice.
#[inline(always)]
pub fn has_more(slice: u64) -> bool {
    slice & 0xff >= MORE
}

/// The target of a continued slice's payload.
#[derive(Clone, Copy, Debug)]
pub enum Lead<'g, const WORDS: usize> {
    /// The rest of a key, and its value.
    Record(Record<'g>),
    /// The root of a layer.
    Layer(&'g Node<WORDS>),
    /// Bytes that are skipped, and the root of a layer.
    Skip(Skip<'g, WORDS>),
}

/// A block with the rest of a key and its value.
#[derive(Clone, Copy, Debug)]
pub struct Record<'g>(Block<'g>);

/// A block with the bytes that all keys of a layer share, and the layer's root.
#[derive(Clone, Copy, Debug)]
pub struct Skip<'g, const WORDS: usize>(Block<'g>);

impl<'g> Deref for Record<'g> {
    type Target = Block<'g>;

    #[inline(always)]
    fn deref(&self) -> &Block<'g> {
        &self.0
    }
}

impl<'g, const WORDS: usize> Deref for Skip<'g, WORDS> {
    type Target = Block<'g>;

    #[inline(always)]
    fn deref(&self) -> &Block<'g> {
        &self.0
    }
}

impl<'g> Record<'g> {
    /// The record's value now, or the one it had when it was unlinked. A caller that needs the
    /// present one validates the leaf, or has it locked.
    #[inline(always)]
    pub fn value(self) -> Loan<'g> {
        // SAFETY: the record was linked at some moment since the guard was made, and had a value
        // then. Later values are complete before they are stored.
        unsafe { Loan::new(self.word().load(Acquire)) }
    }

    /// Replaces the value. The leaf is locked.
    pub(super) fn set_value(self, value: u64) {
        self.word().store(value, Release);
    }
}

impl<'g, const WORDS: usize> Skip<'g, WORDS> {
    /// The root. The caller validates the leaf, or has it locked.
    #[inline(always)]
    pub fn root(self) -> &'g Node<WORDS> {
        // SAFETY: the word is always a link to a root: the one that the skip was made with, or one
        // that replaced it.
        unsafe { node_at(self.word().load(Relaxed)) }
    }
}

impl<'g, const WORDS: usize> Lead<'g, WORDS> {
    /// # Safety
    /// The payload belongs to a continued slice. It was there when the thread was pinned for `'g`,
    /// or was stored later.
    #[inline(always)]
    unsafe fn of_word(payload: u64) -> Self {
        let address = payload & !KIND;
        // SAFETY: as for this function; the low bits tell what it leads to.
        unsafe {
            match payload & KIND {
                LAYER => Lead::Layer(node_at(address)),
                SKIP => Lead::Skip(Skip(Block::at(address))),
                _ => Lead::Record(Record(Block::at(address))),
            }
        }
    }

    fn to_word(self) -> u64 {
        match self {
            Lead::Record(record) => record.address() as u64,
            Lead::Layer(root) => address(root) as u64 | LAYER,
            Lead::Skip(skip) => skip.address() as u64 | SKIP,
        }
    }

    /// The root of the layer, if it leads to one.
    pub fn root(self) -> Option<&'g Node<WORDS>> {
        match self {
            Lead::Record(_) => None,
            Lead::Layer(root) => Some(root),
            Lead::Skip(skip) => Some(skip.root()),
        }
    }

    /// The block of the entry, if it has one.
    pub fn block(self) -> Option<Block<'g>> {
        match self {
            Lead::Record(Record(block)) | Lead::Skip(Skip(block)) => Some(block),
            Lead::Layer(_) => None,
        }
    }
}

/// An entry of a leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafEntry<'g, const WORDS: usize> {
    pub key: u64,
    payload: u64,
    pinned: PhantomData<&'g Node<WORDS>>,
}

impl<'g, const WORDS: usize> LeafEntry<'g, WORDS> {
    fn new(key: u64, payload: u64) -> Self {
        LeafEntry {
            key,
            payload,
            pinned: PhantomData,
        }
    }

    /// The value, unless the slice's key continues.
    #[inline(always)]
    pub fn value(self) -> Loan<'g> {
        // SAFETY: entries are validated, or from under the lock.
        unsafe { Loan::new(self.payload) }
    }

    /// The target of a Masstree's entry, unless it is a value.
    #[inline(always)]
    pub fn lead(self) -> Option<Lead<'g, WORDS>> {
        // SAFETY: entries are validated, or from under the lock.
        has_more(self.key).then(|| unsafe { Lead::of_word(self.payload) })
    }
}

/// The index of an entry and the entry, or the index at which it would be inserted.
pub type Found<'g, const WORDS: usize> = Result<(usize, LeafEntry<'g, WORDS>), usize>;

/// Entries of leaves.
impl<'g, const WORDS: usize> View<'g, WORDS> {
    /// The entry at an index.
    ///
    /// # Errors
    /// The index is out of range, or the node changed.
    pub fn entry(&self, index: usize) -> Result<LeafEntry<'g, WORDS>, Restart> {
        self.assert_leaf();
        let (is_there, key, payload) = self.get(|body| {
            let is_there = index < body.count() || seeded::has(Bug::EmptyLeafEntered);
            (is_there, body.key(index), body.payload(index))
        })?;
        is_there
            .then(|| LeafEntry::new(key, payload))
            .ok_or(Restart)
    }

    /// The index of a key and its entry, or the index at which it would be inserted; and the number
    /// of entries. Calls `also` first, with the node and the index that is read.
    #[inline(always)]
    pub fn find(
        &self,
        lanes: impl Lanes,
        key: u64,
        also: impl FnOnce(&Body<WORDS>, Option<usize>),
    ) -> Result<(Found<'g, WORDS>, usize), Restart> {
        self.assert_leaf();
        self.get(|body| {
            let found = body.find(lanes, key).map(Hit::index);
            also(body, found.ok());
            let entry = found.map(|index| (index, LeafEntry::new(key, body.payload(index))));
            (entry, body.count())
        })
    }

    /// Appends the entries in the range that `choose` finds, up to the end of the leaf.
    #[inline(always)]
    pub fn copy_entries<R>(
        &self,
        to: &mut Vec<LeafEntry<'g, WORDS>>,
        choose: impl FnOnce(&Body<WORDS>) -> (Range<usize>, R),
    ) -> Result<R, Restart> {
        self.assert_leaf();
        let start = to.len();
        let read = self.get(|body| {
            let (range, read) = choose(body);
            let entry = |(key, payload)| LeafEntry::new(key, payload);
            to.extend(body.entries(range).map(entry));
            read
        });
        if read.is_err() {
            to.truncate(start);
        }
        read
    }

    /// Has the CPU fetch the first bytes of what the entries lead to. It may be changing meanwhile.
    #[inline(always)]
    pub fn prefetch_leads(&self, bytes: usize) {
        self.assert_leaf();
        // Whatever was read: an address is all that it is taken for.
        let _ = self.get(|body| {
            for (key, payload) in body.entries(0..Body::<WORDS>::CAPACITY) {
                if has_more(key) {
                    hint::prefetch((payload & !KIND) as usize, bytes);
                }
            }
        });
    }

    #[inline(always)]
    fn assert_leaf(&self) {
        assert!(self.height() == 0, "its entries are children");
    }
}

/// One layer down: the rest of an entry's former target.
pub struct Below<'t, 'k> {
    pub slice: u64,
    /// The part of it that is in a block, and a slot for that.
    pub block: Option<(Slot<'t>, &'k [u8])>,
    /// The word of its value's copy, if it has one.
    pub value: Option<u64>,
}

/// Entries of locked leaves.
impl<const WORDS: usize> Body<WORDS> {
    /// The entry at an index, which is in range.
    pub fn entry_of<'g>(leaf: &LockedNode<'g, WORDS>, index: usize) -> LeafEntry<'g, WORDS> {
        assert!(leaf.height() == 0 && index < leaf.count(), "no entry");
        LeafEntry::new(leaf.key(index), leaf.payload(index))
    }

    /// Copies the block of the entry at an index into another slot of the same size. Returns the
    /// old block.
    pub fn move_block(leaf: &LockedNode<'_, WORDS>, index: usize, slot: Slot<'_>) -> UnlinkedBlock {
        let (old, payload) = match Self::entry_of(leaf, index).lead() {
            Some(Lead::Record(old)) => (*old, record(slot, old.value().word(), old.bytes())),
            Some(Lead::Skip(old)) => (*old, skipping(slot, old.root(), old.bytes())),
            Some(Lead::Layer(_)) | None => panic!("no block"),
        };
        leaf.set_word(index, payload);
        // SAFETY: this entry had a link to it, and if the leaf is a copy, so had the one that it
        // replaces.
        unsafe { UnlinkedBlock::new(old, old.slot()) }
    }

    /// Inserts a record for a continued slice, in a slot for the rest of its key.
    #[inline(always)]
    pub fn insert_record(
        leaf: &LockedNode<'_, WORDS>,
        index: usize,
        slice: u64,
        slot: Slot<'_>,
        rest: &[u8],
        value: u64,
    ) {
        assert!(has_more(slice));
        leaf.insert(index, slice, record(slot, value, rest));
    }

    /// Removes an entry that leads to no layer. Returns its value and its block, if it has one.
    pub fn remove_record<'g>(
        leaf: &LockedNode<'g, WORDS>,
        index: usize,
    ) -> (RetiredValue<'g>, Option<UnlinkedBlock>) {
        let record = match Self::entry_of(leaf, index).lead() {
            None => return (Self::remove_value(leaf, index), None),
            Some(Lead::Record(record)) => record,
            Some(Lead::Layer(_) | Lead::Skip(_)) => panic!("a layer"),
        };
        leaf.remove_entry(index);
        // SAFETY: the removed entry had the only link to it.
        let block = unsafe { UnlinkedBlock::new(*record, record.slot()) };
        (record.take(), Some(block))
    }

    /// Replaces the root of the layer below an entry. Returns the old root.
    pub(super) fn swap_root(above: &LockedNode<'_, WORDS>, index: usize, root: u64) -> u64 {
        match Self::entry_of(above, index).lead() {
            Some(Lead::Skip(skip)) => skip.word().swap(root, Relaxed),
            Some(Lead::Layer(_)) => above.swap_word(index, root | LAYER) & !KIND,
            Some(Lead::Record(_)) | None => panic!("no layer"),
        }
    }

    /// Unlinks an empty layer and its locked root. The arenas are the tree's.
    pub fn remove_layer<'g>(
        above: &LockedNode<'g, WORDS>,
        index: usize,
        root: &LockedNode<'g, WORDS>,
        arenas: &Arenas,
    ) -> (Unlinked<'g, WORDS>, [Option<UnlinkedBlock>; 2]) {
        let lead = Self::entry_of(above, index).lead().expect("a layer");
        assert!(root.height() == 0 && root.count() == 0, "there are records");
        let word = lead.root().map_or(0, |root| address(root) as u64);
        above.remove_entry(index);
        // SAFETY: the entry led to the skip and the layer. The layer's name ends with its last
        // node, which this is.
        let blocks = unsafe {
            let skip = lead
                .block()
                .map(|skip| UnlinkedBlock::new(skip, skip.slot()));
            let name = Name::of(arenas, root);
            let name =
                name.map(|name| UnlinkedBlock::new(name, Name::slot_for(name.bytes().len())));
            [skip, name]
        };
        (Unlinked::taken(word, root), blocks)
    }

    /// Inserts a layer below an entry that leads to a record or a skip. The layer starts with the
    /// empty leaf `leaf`, which gets the entry's former target, shortened to [`Below`]. `skip` has
    /// the bytes that both have in common, with a slot for them. Returns the locked leaf, the
    /// former block, and the copied value.
    pub fn insert_layer<'g>(
        above: &LockedNode<'g, WORDS>,
        index: usize,
        leaf: Fresh<'g, WORDS>,
        skip: Option<(Slot<'_>, &[u8])>,
        below: Below<'_, '_>,
    ) -> (
        LockedNode<'g, WORDS>,
        UnlinkedBlock,
        Option<RetiredValue<'g>>,
    ) {
        let Below {
            slice,
            block,
            value,
        } = below;
        let old = Self::entry_of(above, index).lead();
        assert!(leaf.height() == 0 && leaf.count() == 0);
        assert!(has_more(slice) || block.is_none());
        let (payload, old, copied) = match old {
            Some(Lead::Record(old)) => {
                assert_eq!(has_more(slice), block.is_some());
                let copied = value.map(|_| old.take());
                let value = value.unwrap_or_else(|| old.value().word());
                let in_block = block.map(|(slot, rest)| record(slot, value, rest));
                (in_block.unwrap_or(value), *old, copied)
            }
            Some(Lead::Skip(old)) => {
                assert!(has_more(slice));
                let root = old.root();
                let in_block = block.map(|(slot, rest)| skipping(slot, root, rest));
                (in_block.unwrap_or(Lead::Layer(root).to_word()), *old, None)
            }
            Some(Lead::Layer(_)) | None => panic!("no block"),
        };
        leaf.push_word(slice, payload);
        let (_, locked) = leaf.link();
        let lead = match skip {
            Some((slot, bytes)) => skipping(slot, locked.of(), bytes),
            None => Lead::Layer(locked.of()).to_word(),
        };
        above.set_word(index, lead);
        // SAFETY: the entry led to it until now.
        let old = unsafe { UnlinkedBlock::new(old, old.slot()) };
        (locked, old, copied)
    }
}

/// The payload of a new record.
fn record(slot: Slot<'_>, value: u64, rest: &[u8]) -> u64 {
    Lead::<0>::Record(Record(Block::write(slot, value, rest))).to_word()
}

/// The payload of a new skip.
fn skipping<const WORDS: usize>(slot: Slot<'_>, root: &Node<WORDS>, bytes: &[u8]) -> u64 {
    let block = Block::write(slot, address(root) as u64, bytes);
    Lead::<WORDS>::Skip(Skip(block)).to_word()
}

//! The central free lists: which slots of a tier's committed chunks are free.
//!
//! A chunk is a run of committed pages, cut into slots of one size class. The next chunk of a class
//! is as large as all its chunks together, from 16 KiB to the configured size. So many classes with
//! a few slots each take little, and a growing class soon takes whole chunks. Where the budget or
//! the addresses do not allow that size, the chunk is smaller, down to a single slot.
//!
//! A chunk on its way has addresses, and no slots yet: its memory is committed without the lock.
//!
//! Invariants: a chunk is in `partial` while it has a free slot; a chunk whose slots are all free
//! is removed at once; offsets are relative to the tier's start.

use std::collections::BTreeSet;

use super::bits::Bits;
use super::classes::{CLASSES, size_of_class};
use super::thread_caches::batch;
use super::vacant::Vacant;
use crate::os::PAGE;

/// Bytes of the first chunk of a class, if a slot fits.
const FIRST: usize = 16 << 10;

/// A class with fewer bytes in its chunks is not drained alone.
const LEAST_TO_DRAIN: usize = 256 << 10;

/// While more than one of so many bytes of a class is on its way, threads that need a slot wait for
/// one of those chunks. So a small class does not get a whole chunk for each thread.
const COMING: usize = 16;

/// Slots in use for each whole chunk's bytes, at most, where a draining class is all but empty.
const STRAGGLERS: usize = 64;

const _: () = assert!(CLASSES <= u128::BITS as usize);

/// The bit of a class.
pub fn bit(class: usize) -> u128 {
    1 << class
}

struct Chunk {
    class: usize,
    /// Its first page.
    first: u32,
    pages: u32,
    slots: usize,
    /// The number of free slots, and which they are.
    free: usize,
    bits: Bits,
    /// Whether it is a compaction candidate: slots come from other chunks first.
    leaves: bool,
}

impl Chunk {
    fn used(&self) -> usize {
        self.slots - self.free
    }

    /// Its addresses, as `(offset, bytes)`.
    fn range(&self) -> (usize, usize) {
        (self.first as usize * PAGE, self.pages as usize * PAGE)
    }

    /// Its place in the order of its class's chunks with free slots.
    fn place(&self) -> (bool, u32) {
        (self.leaves, self.first)
    }
}

/// All chunks of one tier.
pub struct Chunks {
    chunk_bytes: usize,
    vacant: Vacant,
    /// By number; a removed chunk leaves a gap.
    chunks: Vec<Option<Chunk>>,
    gaps: Vec<u32>,
    /// By page: 1 + the number of its chunk, or 0 without a chunk.
    chunk_at: Vec<u32>,
    /// By class, the chunks with free slots as `(is a compaction candidate, first page)`, so that
    /// candidates come last.
    partial: [BTreeSet<(bool, u32)>; CLASSES],
    /// By class, the number of pages in its chunks.
    pages: [usize; CLASSES],
    /// By class, the number of pages that are being committed for it.
    coming: [usize; CLASSES],
    /// By class, the number of free slots.
    free: [usize; CLASSES],
    /// The number of compaction candidates.
    leaving: usize,
    /// Whether slots of all chunks bypass the thread caches.
    draining: bool,
    /// A bit for each class whose slots do.
    drained: u128,
    /// Whether the candidates are emptied for a lower limit: no slot is taken from them.
    evacuating: bool,
}

impl Chunks {
    /// No chunks yet, in `bytes` of addresses: a multiple of `most`, the most bytes of a chunk.
    pub fn new(chunk_bytes: usize, most: usize, bytes: usize) -> Self {
        Chunks {
            chunk_bytes,
            vacant: Vacant::new((bytes / PAGE) as u32, (most / PAGE).ilog2()),
            chunks: Vec::new(),
            gaps: Vec::new(),
            chunk_at: Vec::new(),
            partial: std::array::from_fn(|_| BTreeSet::new()),
            pages: [0; CLASSES],
            coming: [0; CLASSES],
            free: [0; CLASSES],
            leaving: 0,
            draining: false,
            drained: 0,
            evacuating: false,
        }
    }

    /// Takes up to `most` free slots in order of address, those of compaction candidates last. O(1)
    /// each.
    pub fn take(&mut self, class: usize, most: usize) -> Vec<usize> {
        let mut slots = Vec::with_capacity(most);
        while slots.len() < most
            && let Some(&(leaves, first)) = self.partial[class].first()
            && !(leaves && self.evacuating)
        {
            self.take_from(first, most, &mut slots);
        }
        slots
    }

    /// Takes free slots of the chunk at a page, until there are `most`.
    fn take_from(&mut self, first: u32, most: usize, slots: &mut Vec<usize>) {
        let index = self.chunk_at[first as usize] - 1;
        let chunk = self.chunks[index as usize].as_mut().expect("it has pages");
        let (class, start) = (chunk.class, first as usize * PAGE);
        let (size, left) = (size_of_class(class), most - slots.len());
        let taken = chunk.bits.pop(left, |slot| slots.push(start + slot * size));
        chunk.free -= taken;
        if chunk.free == 0 {
            self.partial[class].remove(&chunk.place());
        }
        self.free[class] -= taken;
    }

    /// The wanted bytes of the next chunk of `class`, then the smaller sizes to fall back on.
    pub fn sizes(&self, class: usize) -> impl Iterator<Item = usize> + use<> {
        let size = size_of_class(class);
        let least = size.next_power_of_two().max(PAGE);
        let most = self.chunk_bytes.max(least);
        let wanted = (self.pages[class] * PAGE).max(FIRST).clamp(least, most);
        let whole = self.chunk_bytes;
        (least.ilog2()..=wanted.ilog2()).rev().map(move |order| {
            let bytes = 1 << order;
            // Pages without a slot are left out, except in a whole chunk, for its huge pages.
            if bytes == whole {
                bytes
            } else {
                (bytes / size * size).next_multiple_of(PAGE)
            }
        })
    }

    /// Reserves addresses for a chunk of `bytes` bytes, which is on its way until it is
    /// [added](Chunks::add) or [given up](Chunks::give_up). Returns their offset.
    pub fn begin(&mut self, class: usize, bytes: usize) -> Option<usize> {
        let first = self.vacant.take((bytes / PAGE) as u32)?;
        self.coming[class] += bytes / PAGE;
        Some(first as usize * PAGE)
    }

    /// Whether so much is on its way for a class that a thread waits for it instead of committing
    /// one more chunk.
    pub fn enough_coming(&self, class: usize) -> bool {
        self.coming[class] * COMING > self.pages[class]
    }

    /// Whether a chunk for a class is on its way.
    pub fn is_coming(&self, class: usize) -> bool {
        self.coming[class] > 0
    }

    /// Whether any chunk is on its way.
    pub fn any_coming(&self) -> bool {
        self.coming.iter().any(|&pages| pages > 0)
    }

    /// The memory of a chunk could not be committed.
    pub fn give_up(&mut self, class: usize, offset: usize, bytes: usize) {
        self.coming[class] -= bytes / PAGE;
        self.vacate(offset, bytes);
    }

    /// Releases reserved addresses.
    fn vacate(&mut self, offset: usize, bytes: usize) {
        self.vacant
            .give((offset / PAGE) as u32, (bytes / PAGE) as u32);
    }

    /// Adds a chunk for slots of `class`, whose memory is committed now, and takes up to `most` of
    /// its slots. They are of no other chunk, though others may have some again by now: a chunk is
    /// removed with its last used slot, so it would stay if it never had one.
    pub fn add(&mut self, class: usize, offset: usize, bytes: usize, most: usize) -> Vec<usize> {
        self.coming[class] -= bytes / PAGE;
        self.end_drain();
        self.drained &= !bit(class);
        let slots = bytes / size_of_class(class);
        let (first, pages) = ((offset / PAGE) as u32, (bytes / PAGE) as u32);
        let chunk = Some(Chunk {
            class,
            first,
            pages,
            slots,
            free: slots,
            bits: Bits::all_below(slots),
            leaves: false,
        });
        let index = match self.gaps.pop() {
            Some(index) => {
                self.chunks[index as usize] = chunk;
                index
            }
            None => {
                self.chunks.push(chunk);
                self.chunks.len() as u32 - 1
            }
        };
        let end = (offset + bytes) / PAGE;
        if self.chunk_at.len() < end {
            self.chunk_at.resize(end, 0);
        }
        self.chunk_at[offset / PAGE..end].fill(index + 1);
        self.partial[class].insert((false, first));
        self.pages[class] += pages as usize;
        self.free[class] += slots;
        let mut taken = Vec::with_capacity(most);
        self.take_from(first, most, &mut taken);
        taken
    }

    /// Frees a slot. If that empties its chunk, removes the chunk and returns its `(offset,
    /// bytes)`, which the caller decommits before it unlocks the chunks.
    ///
    /// # Panics
    /// If the slot is not taken.
    pub fn put(&mut self, class: usize, offset: usize) -> Option<(usize, usize)> {
        let index = self.chunk_at[offset / PAGE].checked_sub(1);
        let index = index.unwrap_or_else(|| panic!("slot {offset:#x} freed twice: it is gone"));
        let chunk = self.chunks[index as usize].as_mut().expect("it has pages");
        let size = size_of_class(class) as u32;
        assert!(
            chunk.class == class,
            "slot {offset:#x} of {} bytes freed as one of {size}",
            size_of_class(chunk.class)
        );
        // A chunk is smaller than 4 GiB, and a 32-bit division is about three times as fast.
        let within = (offset - chunk.first as usize * PAGE) as u32;
        let slot = (within / size) as usize;
        assert!(
            within.is_multiple_of(size) && slot < chunk.slots,
            "no slot of {size} bytes starts at {offset:#x}"
        );
        assert!(chunk.bits.insert(slot), "slot {offset:#x} freed twice");
        chunk.free += 1;
        self.free[class] += 1;
        if chunk.free == 1 {
            self.partial[class].insert(chunk.place());
        }
        if chunk.free < chunk.slots {
            return None;
        }
        let (first, pages, place) = (chunk.first, chunk.pages, chunk.place());
        self.free[class] -= chunk.slots;
        self.leaving -= usize::from(chunk.leaves);
        self.chunks[index as usize] = None;
        self.gaps.push(index);
        let (offset, bytes) = (first as usize * PAGE, pages as usize * PAGE);
        self.chunk_at[offset / PAGE..(offset + bytes) / PAGE].fill(0);
        self.partial[class].remove(&place);
        self.pages[class] -= pages as usize;
        self.vacate(offset, bytes);
        Some((offset, bytes))
    }

    /// Chooses the compaction candidates anew, as `(offset, bytes)`: in each class, the chunks with
    /// the fewest used slots, if at most seven eighths of a chunk's slots are used, and as long as
    /// the other chunks have free slots for these and for the thread caches.
    ///
    /// During an evacuation, returns its candidates.
    pub fn choose_candidates(&mut self) -> Vec<(usize, usize)> {
        if self.evacuating {
            let chunks = self.chunks.iter().flatten();
            return chunks.filter(|it| it.leaves).map(Chunk::range).collect();
        }
        let mut chosen = Vec::new();
        let full = |chunk: &&mut Chunk| chunk.free == 0;
        for chunk in self.chunks.iter_mut().flatten().filter(full) {
            chunk.leaves = false;
        }
        for (class, partial) in self.partial.iter_mut().enumerate() {
            let chunk_at = |first: u32| self.chunk_at[first as usize] as usize - 1;
            let mut partly: Vec<usize> = partial.iter().map(|&(_, it)| chunk_at(it)).collect();
            let chunk = |index: usize| self.chunks[index].as_ref().expect("it has pages");
            partly.sort_by_key(|&index| chunk(index).used());
            let mut free: usize = partly.iter().map(|&index| chunk(index).free).sum();
            free = free.saturating_sub(2 * batch(class));
            partial.clear();
            for index in partly {
                let chunk = self.chunks[index].as_mut().expect("it has pages");
                // To move nearly a chunk's nodes wins a whole chunk.
                let is_sparse = chunk.free >= chunk.slots / 8;
                chunk.leaves = is_sparse && chunk.used() + chunk.free <= free;
                if chunk.leaves {
                    free -= chunk.used() + chunk.free;
                    chosen.push(chunk.range());
                }
                partial.insert(chunk.place());
            }
        }
        self.leaving = chosen.len();
        chosen
    }

    /// Chooses the chunks that an evacuation empties, as `(offset, bytes)`: those with the smallest
    /// fraction of used slots, until these have `excess` bytes. With an excess of 0 the evacuation
    /// ends. O(chunks × log chunks).
    pub fn choose_to_evacuate(&mut self, excess: usize) -> Vec<(usize, usize)> {
        let mut chosen = Vec::new();
        if excess == 0 && !self.evacuating {
            return chosen;
        }
        // Earlier choices come first; otherwise nodes could move back and forth between two chunks.
        let goes_on = self.evacuating;
        self.evacuating = excess > 0;
        let mut chunks: Vec<&mut Chunk> = self.chunks.iter_mut().flatten().collect();
        chunks.sort_by_key(|chunk| {
            // Slots have at least 8 bytes, so a chunk has fewer than 2^32 of them.
            let in_use = ((chunk.used() as u64) << 32) / chunk.slots as u64;
            (!(goes_on && chunk.leaves), in_use)
        });
        self.partial.iter_mut().for_each(BTreeSet::clear);
        let mut bytes = 0;
        for chunk in chunks {
            chunk.leaves = bytes < excess;
            if chunk.leaves {
                chosen.push(chunk.range());
                bytes += chunk.range().1;
            }
            if chunk.free > 0 {
                self.partial[chunk.class].insert(chunk.place());
            }
        }
        self.leaving = chosen.len();
        chosen
    }

    /// Makes slots of all chunks bypass the thread caches, until the drain ends or another chunk is
    /// needed. Returns whether no drain was under way.
    pub fn begin_drain(&mut self) -> bool {
        !std::mem::replace(&mut self.draining, true)
    }

    /// Ends a drain: only slots of compaction candidates bypass the thread caches from now on.
    pub fn end_drain(&mut self) {
        self.draining = false;
    }

    /// The same for slots of one class, if most of its memory is free; until more of its slots are
    /// needed. Returns whether this begins now.
    pub fn begin_drain_of(&mut self, class: usize) -> bool {
        let bytes = self.pages[class] * PAGE;
        let free = self.free[class] * size_of_class(class);
        let begins =
            bytes >= LEAST_TO_DRAIN && free >= bytes / 8 * 7 && self.drained & bit(class) == 0;
        if begins {
            self.drained |= bit(class);
        }
        begins
    }

    /// Ends the drain of one class.
    pub fn end_drain_of(&mut self, class: usize) {
        self.drained &= !bit(class);
    }

    /// Whether a class is draining, alone or with its tier, and all but empty.
    pub fn is_all_but_empty(&self, class: usize) -> bool {
        let bytes = self.pages[class] * PAGE;
        let used = (bytes / size_of_class(class)).saturating_sub(self.free[class]);
        let chunks = bytes.div_ceil(self.chunk_bytes);
        let drains = self.draining || self.drained & bit(class) != 0;
        drains && used <= STRAGGLERS * chunks
    }

    /// A bit for each class of which slots of any chunk bypass the thread caches.
    pub fn bypassing(&self) -> u128 {
        match self.leaving > 0 || self.draining {
            true => u128::MAX,
            false => self.drained,
        }
    }

    /// Whether a freed slot bypasses the thread caches: its chunk is a compaction candidate, or the
    /// tier or its class is draining.
    pub fn bypasses(&self, offset: usize) -> bool {
        let index = self.chunk_at[offset / PAGE].checked_sub(1);
        let chunk = index.and_then(|index| self.chunks[index as usize].as_ref());
        let goes = |chunk: &Chunk| chunk.leaves || self.drained & bit(chunk.class) != 0;
        self.draining || chunk.is_some_and(goes)
    }

    /// The chunks, as `(offset, bytes)`.
    pub fn committed(&self) -> impl Iterator<Item = (usize, usize)> {
        self.chunks.iter().flatten().map(Chunk::range)
    }
}

#[cfg(test)]
mod tests;

//! A dense leaf: records of neighbouring keys, which differ only in their last byte, in one leaf.
//!
//! ```text
//!  0  version          8  least key    16  greatest key   24  heat u16 · count u16 · capacity u16
//! 32  which of 256 are there            64  values[capacity]     256, 512 or 2112 bytes
//! ```
//!
//! Where neighbours are dense, a leaf for each costs a miss, and up to three times the memory. A
//! dense leaf for 256 has a place for each key, so its header and a value can be prefetched
//! together. Smaller dense leaves hold their values contiguously, in order; the presence bits
//! locate them.
//!
//! If a dense leaf has all 256 records, the link to it tells so, and a lookup reads the value
//! alone: one line, and no version. When a record is removed, its link is replaced first, under the
//! same locks. A reader may still have the former one: then it finds, where the record was, the
//! last value that it had, which was the record's since the read began; or a value that is just
//! being inserted there, which is the record's from then on, as no other reader passes the leaf's
//! lock. (A lookup compares no key then: it has come by the leaf's seven bytes.)
//!
//! The keys that a dense leaf covers never change, nor does its capacity. The version guards
//! everything else, as in an inner node. Dense leaves hold only words, with keys of eight bytes.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU16, AtomicU64};

use timberline_sync::Versioned;
use timberline_sync::shim::step;

use super::guess::Guess;
use super::link::MOST_ALIGN;
use super::shared::{LockedShared, Shared};
use crate::value::Loan;

/// Keys that a dense leaf covers.
pub const DENSE_KEYS: usize = 256;
/// The length of the prefix that all its keys share.
pub const DENSE_DEPTH: usize = 7;
/// The bytes before the values.
pub const DENSE_HEAD: usize = 64;

const _: () = assert!(DENSE_HEAD == size_of::<Versioned<Records>>());

/// A dense leaf's capacity in records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DenseCapacity(u16);

impl DenseCapacity {
    /// The capacity of a new dense leaf.
    pub const LEAST: DenseCapacity = DenseCapacity(24);
    const MIDDLE: DenseCapacity = DenseCapacity(56);
    const ALL: DenseCapacity = DenseCapacity(DENSE_KEYS as u16);

    /// Bytes of a dense leaf with this capacity.
    pub const fn bytes(self) -> usize {
        DENSE_HEAD + 8 * self.0 as usize
    }

    /// The next larger capacity. Callers that need one never have the largest.
    pub fn larger(self) -> DenseCapacity {
        match self {
            DenseCapacity::LEAST => DenseCapacity::MIDDLE,
            _ => DenseCapacity::ALL,
        }
    }

    /// The next smaller capacity; `None`: a dense leaf no longer.
    pub fn smaller(self) -> Option<DenseCapacity> {
        match self {
            DenseCapacity::LEAST => None,
            DenseCapacity::MIDDLE => Some(DenseCapacity::LEAST),
            _ => Some(DenseCapacity::MIDDLE),
        }
    }

    /// At this many records a smaller dense leaf suffices; it is less than that dense leaf holds,
    /// so that dense leaves do not alternate between the two.
    pub fn is_too_much_for(self, records: usize) -> bool {
        records
            <= match self {
                DenseCapacity::LEAST => 2,
                DenseCapacity::MIDDLE => 16,
                _ => 44,
            }
    }
}

/// The start of a dense leaf, which may be read without a version.
#[repr(C)]
#[derive(Debug)]
struct Head {
    _version: AtomicU64,
    least: [u8; 8],
    greatest: [u8; 8],
    heat: AtomicU16,
    _count: AtomicU16,
    capacity: u16,
}

/// The data that a dense leaf's version guards. The values follow.
#[repr(C)]
#[derive(Debug)]
pub struct Records {
    least: AtomicU64,
    greatest: AtomicU64,
    heat: AtomicU16,
    count: AtomicU16,
    capacity: AtomicU16,
    _pad: AtomicU16,
    there: [AtomicU64; DENSE_KEYS / 64],
}

/// The index of a key's value in a dense leaf with a place for each key.
#[inline(always)]
pub const fn value_offset(byte: u8) -> usize {
    DENSE_HEAD + 8 * byte as usize
}

/// A dense leaf.
pub type DenseLeaf<'g> = Shared<'g, Records>;

/// The exclusive right to change a dense leaf.
pub type LockedDense<'g> = LockedShared<'g, Records>;

impl<'g> DenseLeaf<'g> {
    /// Makes an empty dense leaf for the keys that differ from `key` only in their last byte. The
    /// memory is not shared yet.
    ///
    /// # Safety
    /// It is not.
    pub(super) unsafe fn write(
        self,
        key: &[u8; 8],
        capacity: DenseCapacity,
        heat: u16,
    ) -> LockedDense<'g> {
        // SAFETY: as the caller promises.
        let held = unsafe { self.claim() };
        let ending_in = |byte| {
            let mut key = *key;
            key[DENSE_DEPTH] = byte;
            u64::from_ne_bytes(key)
        };
        held.least.store(ending_in(0), Relaxed);
        held.greatest.store(ending_in(u8::MAX), Relaxed);
        held.heat.store(heat, Relaxed);
        held.count.store(0, Relaxed);
        held.capacity.store(capacity.0, Relaxed);
        held.there.iter().for_each(|bits| bits.store(0, Relaxed));
        held
    }

    /// The least key of a dense leaf, if there is one there.
    pub fn probe(guess: &Guess<'_>) -> Option<[u8; 8]> {
        if !guess.address.is_multiple_of(MOST_ALIGN) || !guess.has(DENSE_HEAD) {
            return None;
        }
        let least = guess.address + size_of::<u64>();
        let least = std::ptr::with_exposed_provenance::<AtomicU64>(least);
        // SAFETY: readable and aligned. Atomic, as it may be written at this moment.
        let least = unsafe { &*least };
        Some(least.load(Relaxed).to_ne_bytes())
    }

    fn head(self) -> &'g Head {
        // SAFETY: the first bytes are laid out like this, and the keys among them are written
        // before the dense leaf is linked, and not changed as long as it is alive.
        unsafe { &*std::ptr::with_exposed_provenance(self.address()) }
    }

    /// The least key that it covers.
    #[inline(always)]
    pub fn least(self) -> &'g [u8; 8] {
        &self.head().least
    }

    /// The greatest key that it covers.
    #[inline(always)]
    pub fn greatest(self) -> &'g [u8; 8] {
        &self.head().greatest
    }

    /// The index of a key's record in the dense leaf, if the dense leaf covers the key.
    #[inline(always)]
    pub fn place_of(self, key: &[u8]) -> Option<u8> {
        let key = u64::from_be_bytes(key.try_into().ok()?);
        let same = key ^ u64::from_be_bytes(*self.least()) < DENSE_KEYS as u64;
        same.then_some(key as u8)
    }

    /// Two bytes of heat for a placement.
    pub fn heat(self) -> &'g AtomicU16 {
        &self.head().heat
    }

    /// The value at a place of a dense leaf to which a link led that told that it has all records.
    #[inline(always)]
    pub fn value_at(self, at: u8) -> Loan<'g> {
        step();
        let value =
            std::ptr::with_exposed_provenance::<AtomicU64>(self.address() + value_offset(at));
        // SAFETY: such a dense leaf has a place for each key.
        let value = unsafe { &*value };
        self.lend(value.load(Acquire))
    }

    /// Its capacity in records.
    #[inline(always)]
    pub fn capacity(self) -> DenseCapacity {
        DenseCapacity(self.head().capacity)
    }
}

impl Records {
    /// The number of records.
    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.count.load(Relaxed))
    }

    /// Whether it is full.
    pub fn is_full(&self) -> bool {
        self.count.load(Relaxed) >= self.capacity.load(Relaxed)
    }

    /// Whether it has a record for each of its keys.
    pub fn has_all(&self) -> bool {
        self.count() == DENSE_KEYS
    }

    #[inline(always)]
    fn values(&self) -> &[AtomicU64] {
        let address = std::ptr::from_ref(self).addr() - size_of::<u64>() + DENSE_HEAD;
        let values = std::ptr::with_exposed_provenance::<AtomicU64>(address);
        // SAFETY: a dense leaf's slot has this many values behind its header, and its capacity does
        // not change as long as it is alive.
        unsafe { std::slice::from_raw_parts(values, usize::from(self.capacity.load(Relaxed))) }
    }

    /// The number of records before a place.
    fn rank(&self, at: u8) -> usize {
        let group = usize::from(at) / 64;
        let before = self.there[..group].iter();
        let before: u32 = before.map(|bits| bits.load(Relaxed).count_ones()).sum();
        let below = self.there[group].load(Relaxed) & ((1 << (at % 64)) - 1);
        (before + below.count_ones()) as usize
    }

    /// The index of a place's value in a dense leaf of this many values.
    #[inline(always)]
    fn index(&self, values: usize, at: u8) -> usize {
        match values < DENSE_KEYS {
            true => self.rank(at),
            false => usize::from(at),
        }
    }

    /// The value of a place, if there is a record.
    #[inline(always)]
    fn cell(&self, at: u8) -> Option<&AtomicU64> {
        let there = self.there[usize::from(at) / 64].load(Relaxed) >> (at % 64) & 1;
        if there == 0 {
            return None;
        }
        let values = self.values();
        // Beyond the end only for bits of another version.
        values.get(self.index(values.len(), at))
    }

    /// The value at a place, if there is a record.
    #[inline(always)]
    pub fn get(&self, at: u8) -> Option<u64> {
        Some(self.cell(at)?.load(Relaxed))
    }

    /// Copies those of 64 places that are wanted and present. Returns which; each value goes to its
    /// own place.
    #[inline(always)]
    pub fn copy_group(&self, group: u8, wanted: u64, values: &mut [u64; 64]) -> u64 {
        let there = self.there[usize::from(group) % 4].load(Relaxed);
        let cells = self.values();
        let packed = cells.len() < DENSE_KEYS;
        if !packed && there & wanted == wanted && wanted != 0 {
            let places = wanted.trailing_zeros() as usize..64 - wanted.leading_zeros() as usize;
            let cells = cells.get(64 * usize::from(group)..).unwrap_or(&[]);
            if let Some(cells) = cells.get(places.clone()) {
                for (value, cell) in values[places].iter_mut().zip(cells) {
                    *value = cell.load(Relaxed);
                }
                return wanted;
            }
        }
        let mut rank = match packed {
            true => self.rank(64 * group),
            false => 0,
        };
        let mut left = if packed { there } else { there & wanted };
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            let index = match packed {
                true => rank,
                false => 64 * usize::from(group) + at,
            };
            values[at] = cells.get(index).map_or(0, |value| value.load(Relaxed));
            rank += 1;
            left &= left - 1;
        }
        there & wanted
    }

    /// Passes all records in order to the visitor.
    pub fn each(&self, mut show: impl FnMut(u8, u64)) {
        for group in 0..4 {
            let mut values = [0; 64];
            let mut left = self.copy_group(group, !0, &mut values);
            while left != 0 {
                let at = left.trailing_zeros() as u8;
                show(64 * group + at, values[usize::from(at)]);
                left &= left - 1;
            }
        }
    }
}

impl LockedDense<'_> {
    /// The value of a place, to be replaced, if there is a record.
    #[inline(always)]
    pub fn place(&self, at: u8) -> Option<&AtomicU64> {
        self.cell(at)
    }

    /// Inserts a record that is absent, and for which there is room.
    #[inline(always)]
    pub fn insert(&self, at: u8, value: u64) {
        let (values, count) = (self.values(), self.count());
        if let Some(place) = values.get(usize::from(at))
            && values.len() == DENSE_KEYS
        {
            place.store(value, Relaxed);
        } else {
            self.squeeze_in(at, value);
        }
        let there = &self.there[usize::from(at) / 64];
        there.store(there.load(Relaxed) | 1 << (at % 64), Relaxed);
        self.count.store(count as u16 + 1, Relaxed);
    }

    /// Writes a value between those of the records before and behind.
    #[inline(never)]
    fn squeeze_in(&self, at: u8, value: u64) {
        let (values, index) = (self.values(), self.rank(at));
        for from in (index..self.count()).rev() {
            values[from + 1].store(values[from].load(Relaxed), Relaxed);
        }
        values[index].store(value, Relaxed);
    }

    /// Removes a record that is present.
    pub fn remove(&self, at: u8) {
        let there = &self.there[usize::from(at) / 64];
        let (values, count) = (self.values(), self.count());
        let index = self.index(values.len(), at);
        if values.len() < DENSE_KEYS {
            for to in index..count - 1 {
                values[to].store(values[to + 1].load(Relaxed), Relaxed);
            }
        }
        there.store(there.load(Relaxed) & !(1 << (at % 64)), Relaxed);
        self.count.store(count as u16 - 1, Relaxed);
    }

    /// Adds all records of another dense leaf; there is capacity for them.
    pub fn take_over(&self, other: &Records) {
        other.each(|at, value| self.insert(at, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C, align(128))]
    struct Slot([u64; DenseCapacity::ALL.bytes() / 8]);

    fn dense_of(slot: &Slot) -> DenseLeaf<'_> {
        let address = std::ptr::from_ref(slot).expose_provenance();
        // SAFETY: memory of the largest dense leaf's size, and owned by this test.
        unsafe { DenseLeaf::at(address) }
    }

    #[test]
    fn a_dense_holds_what_was_set_whatever_its_room() {
        for capacity in [
            DenseCapacity::LEAST,
            DenseCapacity::MIDDLE,
            DenseCapacity::ALL,
        ] {
            let slot = Box::new(Slot([0; DenseCapacity::ALL.bytes() / 8]));
            let dense = dense_of(&slot);
            // SAFETY: the test has it alone.
            let locked = unsafe { dense.write(b"timber\0x", capacity, 3) };
            for at in [255, 64, 0, 63, 7] {
                locked.insert(at, u64::from(at) + 2);
            }
            assert_eq!(locked.count(), 5);
            locked.remove(63);
            drop(locked);
            assert_eq!(
                (dense.capacity(), dense.heat().load(Relaxed)),
                (capacity, 3)
            );
            assert_eq!(
                (dense.least(), dense.greatest()),
                (b"timber\0\0", b"timber\0\xff")
            );
            let probed =
                DenseLeaf::probe(&Guess::of(dense.address()..dense.address() + DENSE_HEAD));
            assert_eq!(probed, Some(*b"timber\0\0"));
            assert_eq!(dense.place_of(b"timber\0x"), Some(b'x'));
            for other in [&b"timber\x01x"[..], b"timber\0", b"timber\0xy", b""] {
                assert_eq!(dense.place_of(other), None);
            }
            let (reader, mut values) = (dense.read().unwrap(), [0; 64]);
            let got = |at| reader.get(|records| records.get(at)).unwrap();
            let all = [0, 1, 7, 63, 64, 255].map(got);
            assert_eq!(all, [Some(2), None, Some(9), None, Some(66), Some(257)]);
            let there = reader.get(|records| records.copy_group(0, !1, &mut values));
            assert_eq!((there, values[7]), (Ok(1 << 7), 9));
            let there = reader.get(|records| records.copy_group(3, !0, &mut values));
            assert_eq!((there, values[63]), (Ok(1 << 63), 257));

            dense.lock().unwrap().retire();
            assert!(dense.is_obsolete() && dense.read().is_err() && dense.lock().is_err());
            let last = dense.read_last();
            assert_eq!(last.get(|records| records.get(64)), Ok(Some(66)));
        }
    }

    #[test]
    fn dense_leaves_grow_and_shrink_with_slack() {
        let (small, large) = (Box::new(Slot([0; 264])), Box::new(Slot([0; 264])));
        // SAFETY: the test has both alone.
        let locked = unsafe { dense_of(&small).write(&[0; 8], DenseCapacity::LEAST, 0) };
        for at in 0..24 {
            assert!(!locked.is_full());
            locked.insert(10 * at, u64::from(at));
        }
        assert!(locked.is_full() && !locked.has_all());
        let capacity = DenseCapacity::LEAST.larger();
        assert_eq!(capacity.smaller(), Some(DenseCapacity::LEAST));
        assert!(!capacity.is_too_much_for(25) && capacity.is_too_much_for(16));
        // SAFETY: as above.
        let larger = unsafe { dense_of(&large).write(&[0; 8], capacity, 0) };
        larger.take_over(&locked);
        let mut all = Vec::new();
        larger.each(|at, value| all.push((at, value)));
        assert!(
            all.into_iter()
                .eq((0..24).map(|at| (10 * at, u64::from(at))))
        );
        assert!(!larger.is_full());
        assert_eq!(
            (DenseCapacity::LEAST.smaller(), capacity.larger().larger()),
            (None, DenseCapacity::ALL)
        );
    }
}

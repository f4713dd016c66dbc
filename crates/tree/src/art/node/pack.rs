//! A pack: two or three records whose paths have not diverged yet, in one cache line.
//!
//! ```text
//!  0  version   8  heat u16 · count u16 · depth u16   16  keys[3]   40  values[3]   64 bytes
//! ```
//!
//! With single leaves, a third of random records hang below nodes of two or three, which cost one
//! more miss each, and half of the leaf's memory again. Keys are numbers, ordered as their bytes,
//! ascending. Every key that leads to a pack belongs into it, so its records share at least the
//! path as their prefix.
//!
//! The path gets shorter when the node above the pack is left with no other entry, and goes. A key
//! that only then leads to the pack takes a new one: the old one may be among the links that a scan
//! has walked to and not shown yet, and has to stay between its neighbours of that moment. So a
//! pack knows its `depth`: how many bytes led to it at first.
//!
//! The version guards everything but the heat. A key that is read without a version still begins
//! with the pack's path: only such keys are ever written.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU16, AtomicU64};

use timberline_sync::Versioned;

use super::guess::Guess;
use super::shared::{LockedShared, Shared};

/// The maximum number of records.
pub const PACKED: usize = 3;
/// Bytes of a pack, and its alignment.
pub const PACK_BYTES: usize = size_of::<Versioned<PackedRecords>>();

const _: () = assert!(PACK_BYTES == 64);

/// The offset of the first key.
const KEYS: usize = 16;

/// The start of a pack, which may be read without a version.
#[repr(C)]
#[derive(Debug)]
struct Head {
    _version: AtomicU64,
    heat: AtomicU16,
}

/// The data that a pack's version guards.
#[repr(C)]
#[derive(Debug)]
pub struct PackedRecords {
    heat: AtomicU16,
    count: AtomicU16,
    depth: AtomicU16,
    _pad: AtomicU16,
    keys: [AtomicU64; PACKED],
    values: [AtomicU64; PACKED],
}

/// A record of words.
pub type Record = (u64, u64);

/// A pack.
pub type Pack<'g> = Shared<'g, PackedRecords>;

/// The exclusive right to change a pack.
pub type LockedPack<'g> = LockedShared<'g, PackedRecords>;

impl<'g> Pack<'g> {
    /// Makes a pack of records in ascending order of keys, to which `depth` bytes lead. The memory
    /// is not shared yet.
    ///
    /// # Safety
    /// It is not.
    pub(super) unsafe fn write(
        self,
        depth: usize,
        records: &[Record],
        heat: u16,
    ) -> LockedPack<'g> {
        // SAFETY: as the caller promises.
        let held = unsafe { self.claim() };
        held.heat.store(heat, Relaxed);
        held.depth.store(depth as u16, Relaxed);
        held.put(records);
        held
    }

    /// The first key of a pack, if there is one there.
    pub fn probe(guess: &Guess<'_>) -> Option<u64> {
        if !guess.address.is_multiple_of(PACK_BYTES) || !guess.has(PACK_BYTES) {
            return None;
        }
        let first = std::ptr::with_exposed_provenance::<AtomicU64>(guess.address + KEYS);
        // SAFETY: readable and aligned. Atomic, as it may be written at this moment.
        let first = unsafe { &*first };
        Some(first.load(Relaxed))
    }

    /// A key that leads here: the first one, or its previous or next value.
    #[inline(always)]
    pub fn key(self) -> u64 {
        let first = std::ptr::with_exposed_provenance::<AtomicU64>(self.address() + KEYS);
        // SAFETY: it is the first of the keys, and alive with the pack.
        let first = unsafe { &*first };
        first.load(Relaxed)
    }

    /// Two bytes of heat for a placement.
    pub fn heat(self) -> &'g AtomicU16 {
        // SAFETY: the first bytes are laid out like this.
        let head: &'g Head = unsafe { &*std::ptr::with_exposed_provenance(self.address()) };
        &head.heat
    }

    /// Its contents, or its last ones: like a leaf's, they do not change any more.
    #[inline(always)]
    pub fn last(self) -> PackSnapshot {
        loop {
            if let Ok(held) = self.read_last().get(PackedRecords::all) {
                return held;
            }
        }
    }
}

/// A pack's records.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackSnapshot {
    records: [Record; PACKED],
    count: usize,
}

impl PackSnapshot {
    /// A record, if there are as many.
    #[inline(always)]
    pub fn record(&self, at: usize) -> Option<Record> {
        (at < self.count).then(|| self.records[at])
    }

    /// The same records in the reverse order.
    #[inline(always)]
    pub fn reversed(self) -> Self {
        // Each place by its number, so that records may be in registers.
        let [first, second, third] = self.records;
        let records = match self.count {
            3 => [third, second, first],
            _ => [second, first, third],
        };
        match self.count {
            ..2 => self,
            count => PackSnapshot { records, count },
        }
    }
}

impl std::ops::Deref for PackSnapshot {
    type Target = [Record];

    #[inline(always)]
    fn deref(&self) -> &[Record] {
        &self.records[..self.count]
    }
}

impl PackedRecords {
    /// The number of records.
    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.count.load(Relaxed)).min(PACKED)
    }

    /// The bytes that its records have in common with every key that it takes: all that led to it
    /// when it was made.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        usize::from(self.depth.load(Relaxed))
    }

    /// Whether it takes this key as it is, and has room for it.
    #[inline(always)]
    pub fn has_room_for(&self, key: u64) -> bool {
        let same = (self.keys[0].load(Relaxed) ^ key).leading_zeros() as usize / 8;
        self.count() < PACKED && same >= self.depth()
    }

    /// The index of a key's value, if there is a record.
    #[inline(always)]
    fn cell(&self, key: u64) -> Option<&AtomicU64> {
        // The branch would be unpredictable, so all keys are compared without one. Slots behind the
        // last may hold anything.
        let lane = |at: usize| u32::from(self.keys[at].load(Relaxed) == key) << at;
        let found = lane(0) | lane(1) | lane(2);
        let found = found & ((1 << self.count()) - 1);
        (found != 0).then(|| &self.values[(found.trailing_zeros() as usize).min(2)])
    }

    /// The value of a key.
    #[inline(always)]
    pub fn get(&self, key: u64) -> Option<u64> {
        Some(self.cell(key)?.load(Relaxed))
    }

    /// All records, in order.
    #[inline(always)]
    pub fn all(&self) -> PackSnapshot {
        let record = |at: usize| (self.keys[at].load(Relaxed), self.values[at].load(Relaxed));
        PackSnapshot {
            records: std::array::from_fn(record),
            count: self.count(),
        }
    }

    fn put(&self, records: &[Record]) {
        for (at, &(key, value)) in records.iter().enumerate() {
            self.keys[at].store(key, Relaxed);
            self.values[at].store(value, Relaxed);
        }
        self.count.store(records.len() as u16, Relaxed);
    }
}

impl LockedPack<'_> {
    /// The value of a key, to be replaced, if there is a record.
    #[inline(always)]
    pub fn place(&self, key: u64) -> Option<&AtomicU64> {
        self.cell(key)
    }

    /// Inserts a record that is not present, and for which there is a slot.
    #[inline]
    pub fn insert(&self, key: u64, value: u64) {
        let all = self.all();
        let at = all.partition_point(|&(other, _)| other < key);
        let mut records = [(key, value); PACKED];
        records[..at].copy_from_slice(&all[..at]);
        records[at + 1..=all.len()].copy_from_slice(&all[at..]);
        self.put(&records[..=all.len()]);
    }

    /// Removes a record that is present; another one remains.
    pub fn remove(&self, key: u64) {
        let all = self.all();
        let mut left = all.iter().copied().filter(|&(other, _)| other != key);
        let left: [Record; PACKED - 1] = std::array::from_fn(|_| left.next().unwrap_or_default());
        self.put(&left[..all.len() - 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C, align(64))]
    struct Slot([u64; PACK_BYTES / 8]);

    #[test]
    fn a_pack_keeps_its_records_in_order() {
        let slot = Box::new(Slot([0; PACK_BYTES / 8]));
        let address = std::ptr::from_ref(&*slot).expose_provenance();
        // SAFETY: memory of a pack's size, and owned by this test.
        let pack = unsafe { Pack::at(address) };
        // SAFETY: the test has it alone.
        let locked = unsafe { pack.write(6, &[(3, 30), (7, 70)], 5) };
        locked.insert(5, 50);
        locked.place(7).unwrap().store(71, Relaxed);
        assert_eq!(locked.all()[..], [(3, 30), (5, 50), (7, 71)]);
        drop(locked);
        assert_eq!(pack.heat().load(Relaxed), 5);
        assert_eq!(pack.read().unwrap().get(PackedRecords::depth), Ok(6));
        assert_eq!(
            (pack.key(), Pack::probe(&Guess::of(address..address + 64))),
            (3, Some(3))
        );
        let reader = pack.read().unwrap();
        let got = [3, 4, 5, 7].map(|key| reader.get(|few| few.get(key)).unwrap());
        assert_eq!(got, [Some(30), None, Some(50), Some(71)]);

        let locked = pack.lock().unwrap();
        locked.remove(3);
        locked.remove(7);
        assert_eq!((locked.count(), locked.get(7)), (1, None));
        locked.retire();
        assert!(pack.is_obsolete() && pack.read().is_err() && pack.lock().is_err());
        assert_eq!(pack.last()[..], [(5, 50)]);
    }
}

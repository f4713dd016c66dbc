//! A row: the records of 256 neighbouring keys, which differ in their last byte only, in one leaf.
//!
//! ```text
//!  0  version        8  least key        16  greatest key       24  heat u16 · count u16
//! 32  which are there: 256 bits          64  values[256]                                2112 bytes
//! ```
//!
//! Where many neighbours are there, a leaf for each costs a miss, and three times the memory. A row's values begin
//! a line, and the key tells where its value is, so header and value are asked for at once.
//!
//! The keys that a row covers never change. All else is guarded by the version, as an inner node is. Rows hold words only, and keys of
//! eight bytes.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU16, AtomicU64};

use timberline_sync::{Exclusive, Restart, Snapshot, Versioned};

/// Keys of a row.
const KEYS: usize = 256;
/// How many bytes all its keys begin with.
pub const ROW_DEPTH: usize = 7;
/// Bytes of a row.
pub const ROW_BYTES: usize = size_of::<Versioned<Records>>();
/// The bytes before the values. Rows are aligned to as many.
pub const ROW_HEAD: usize = 64;
/// With so many records left, leaves of their own are better.
pub const ROW_LEAST: usize = 24;

const _: () = assert!(ROW_BYTES == ROW_HEAD + 8 * KEYS && ROW_HEAD == 8 + HEAD_WORDS * 8);

/// Words between version and values.
const HEAD_WORDS: usize = 7;

/// What lies at a row's start, and may be used without a version.
#[repr(C)]
#[derive(Debug)]
struct Head {
    _version: AtomicU64,
    least: [u8; 8],
    greatest: [u8; 8],
    heat: AtomicU16,
}

/// What a row's version guards.
#[repr(C)]
#[derive(Debug)]
pub struct Records {
    least: AtomicU64,
    greatest: AtomicU64,
    heat: AtomicU16,
    count: AtomicU16,
    _pad: [AtomicU16; 2],
    there: [AtomicU64; KEYS / 64],
    values: [AtomicU64; KEYS],
}

/// Where a key's value is in its row.
#[inline(always)]
pub const fn value_offset(byte: u8) -> usize {
    ROW_HEAD + 8 * byte as usize
}

/// A row that is alive as long as the thread stays pinned.
#[derive(Clone, Copy, Debug)]
pub struct Row<'g> {
    records: &'g Versioned<Records>,
}

impl<'g> Row<'g> {
    /// The row at this address.
    ///
    /// # Safety
    /// A row was written there, and the memory is not used again for `'g`.
    #[inline(always)]
    pub(super) unsafe fn at(address: usize) -> Row<'g> {
        let records = std::ptr::with_exposed_provenance::<Versioned<Records>>(address);
        // SAFETY: as the caller promises; all fields are atomics.
        let records = unsafe { &*records };
        Row { records }
    }

    /// Makes an empty row for the keys that differ from `key` in their last byte only. The caller alone has the memory.
    pub(super) fn write(self, key: &[u8; 8]) -> LockedRow<'g> {
        let held = self.records.claim();
        let ending_in = |byte| {
            let mut key = *key;
            key[ROW_DEPTH] = byte;
            u64::from_ne_bytes(key)
        };
        held.least.store(ending_in(0), Relaxed);
        held.greatest.store(ending_in(u8::MAX), Relaxed);
        held.heat.store(0, Relaxed);
        held.count.store(0, Relaxed);
        held.there.iter().for_each(|bits| bits.store(0, Relaxed));
        LockedRow { row: self, held }
    }

    /// What would be the least key of a row at `address`, if there is one: any memory of the arenas will do, whatever is in
    /// it. `end` is where readable memory ends.
    pub fn probe(address: usize, end: usize) -> Option<[u8; 8]> {
        if !address.is_multiple_of(ROW_HEAD) || address + ROW_HEAD > end {
            return None;
        }
        let least = std::ptr::with_exposed_provenance::<AtomicU64>(address + size_of::<u64>());
        // SAFETY: readable and aligned. Atomic, as it may be written at this moment.
        let least = unsafe { &*least };
        Some(least.load(Relaxed).to_ne_bytes())
    }

    fn head(self) -> &'g Head {
        // SAFETY: the first bytes are laid out like this, and the keys among them are written before the row is linked, and not
        // changed as long as it is alive.
        unsafe { &*std::ptr::from_ref(self.records).cast() }
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

    /// Whether it covers a key: where its record is, if it is there.
    #[inline(always)]
    pub fn place_of(self, key: &[u8]) -> Option<u8> {
        let key: &[u8; 8] = key.try_into().ok()?;
        let same = u64::from_be_bytes(*key) ^ u64::from_be_bytes(*self.least()) < KEYS as u64;
        same.then_some(key[ROW_DEPTH])
    }

    /// Two bytes for a placement's heat.
    pub fn heat(self) -> &'g AtomicU16 {
        &self.head().heat
    }

    /// Is at least as warm as a leaf that it takes in.
    pub fn warm(self, heat: &AtomicU16) {
        self.heat().fetch_max(heat.load(Relaxed), Relaxed);
    }

    /// Where it lies.
    #[inline(always)]
    pub fn address(self) -> usize {
        std::ptr::from_ref(self.records).addr()
    }

    /// Whether it was dissolved, or moved.
    pub fn is_obsolete(self) -> bool {
        self.records.is_retired()
    }

    /// Begins to read.
    ///
    /// # Errors
    /// It was dissolved, or moved.
    #[inline(always)]
    pub fn read(self) -> Result<Snapshot<'g, Records>, Restart> {
        self.records.read()
    }

    /// Begins to read what it holds, or held at last: like a leaf's, that does not change any more.
    pub fn read_last(self) -> Snapshot<'g, Records> {
        self.records.read_last()
    }

    /// Locks it. Waits while another thread holds the lock.
    ///
    /// # Errors
    /// It was dissolved, or moved.
    pub fn lock(self) -> Result<LockedRow<'g>, Restart> {
        let held = self.records.lock()?;
        Ok(LockedRow { row: self, held })
    }

    /// Locks it, if nothing changed since this snapshot of it was taken.
    ///
    /// # Errors
    /// Something changed, or a writer holds the lock.
    #[inline(always)]
    pub fn upgrade(self, seen: Snapshot<'g, Records>) -> Result<LockedRow<'g>, Restart> {
        let held = seen.upgrade()?;
        Ok(LockedRow { row: self, held })
    }
}

impl Records {
    /// How many there are.
    #[inline(always)]
    pub fn count(&self) -> usize {
        usize::from(self.count.load(Relaxed))
    }

    /// The value at a place, if there is a record.
    #[inline(always)]
    pub fn get(&self, at: u8) -> Option<u64> {
        let there = self.there[usize::from(at) / 64].load(Relaxed) >> (at % 64) & 1;
        (there == 1).then(|| self.values[usize::from(at)].load(Relaxed))
    }

    /// Copies those of 64 places that are wanted and taken. Returns which; their values go each to its place.
    #[inline(always)]
    pub fn copy_group(&self, group: u8, wanted: u64, values: &mut [u64; 64]) -> u64 {
        let group = usize::from(group) % 4;
        let there = self.there[group].load(Relaxed) & wanted;
        let mut left = there;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            values[at] = self.values[64 * group + at].load(Relaxed);
            left &= left - 1;
        }
        there
    }
}

/// The only one who may change a row; unlocks when dropped.
#[derive(Debug)]
pub struct LockedRow<'g> {
    row: Row<'g>,
    held: Exclusive<'g, Records>,
}

impl<'g> LockedRow<'g> {
    /// The row.
    pub fn row(&self) -> Row<'g> {
        self.row
    }

    /// What it holds.
    #[inline(always)]
    pub fn records(&self) -> &Records {
        &self.held
    }

    /// Inserts or replaces a record.
    #[inline(always)]
    pub fn set(&self, at: u8, value: u64) {
        let there = &self.held.there[usize::from(at) / 64];
        let (bits, bit) = (there.load(Relaxed), 1 << (at % 64));
        self.held.values[usize::from(at)].store(value, Relaxed);
        if bits & bit == 0 {
            there.store(bits | bit, Relaxed);
            self.held.count.store(self.held.count() as u16 + 1, Relaxed);
        }
    }

    /// Removes a record that is there.
    pub fn remove(&self, at: u8) {
        let there = &self.held.there[usize::from(at) / 64];
        there.store(there.load(Relaxed) & !(1 << (at % 64)), Relaxed);
        self.held.count.store(self.held.count() as u16 - 1, Relaxed);
    }

    /// Adds all records of another row.
    pub fn take_over(&self, other: &Records) {
        for at in 0..=u8::MAX {
            if let Some(value) = other.get(at) {
                self.set(at, value);
            }
        }
    }

    /// Unlocks as if nothing had happened; nothing was changed.
    pub fn unchanged(self) {
        self.held.unchanged();
    }

    /// Unlocks for good: the row is unlinked.
    pub fn retire(self) {
        self.held.retire();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C, align(64))]
    struct Slot([u64; ROW_BYTES / 8]);

    #[test]
    fn a_row_holds_what_was_set() {
        let slot = Box::new(Slot([0; ROW_BYTES / 8]));
        let address = std::ptr::from_ref(&*slot).expose_provenance();
        // SAFETY: memory of a row's size, and nobody else's.
        let row = unsafe { Row::at(address) };
        let locked = row.write(b"timber\0x");
        for at in [0, 63, 64, 255] {
            locked.set(at, u64::from(at) + 1);
            locked.set(at, u64::from(at) + 2);
        }
        assert_eq!(locked.records().count(), 4);
        locked.remove(63);
        drop(locked);
        assert_eq!(
            (row.least(), row.greatest()),
            (b"timber\0\0", b"timber\0\xff")
        );
        assert_eq!(
            Row::probe(address, address + ROW_BYTES),
            Some(*b"timber\0\0")
        );
        assert_eq!(row.place_of(b"timber\0x"), Some(b'x'));
        for other in [&b"timber\x01x"[..], b"timber\0", b"timber\0xy", b""] {
            assert_eq!(row.place_of(other), None);
        }
        let (reader, mut values) = (row.read().unwrap(), [0; 64]);
        let got = |at| reader.get(|records| records.get(at)).unwrap();
        let all = [0, 1, 63, 64, 255].map(got);
        assert_eq!(all, [Some(2), None, None, Some(66), Some(257)]);
        let there = reader.get(|records| records.copy_group(3, !0, &mut values));
        assert_eq!((there, values[63]), (Ok(1 << 63), 257));

        row.lock().unwrap().retire();
        assert!(row.is_obsolete() && row.read().is_err() && row.lock().is_err());
        let last = row.read_last();
        assert_eq!(last.get(|records| records.get(64)), Ok(Some(66)));
    }
}

//! The trait that every contender implements: a few operations on a handle.
//!
//! Each request thread has a clone of the handle. For most maps it is an `Arc` of the map; a map
//! with its own handles (`concurrent-map`) clones those. If a crate needs an epoch or a guard, its
//! adapter takes one for each operation, as the crate's own examples do. Our maps do so internally.
//!
//! Values are 8 bytes. If a map lends readers shared references to values, the adapter stores
//! `AtomicU64` and updates in place, as users of the map would: that is its fastest way.

/// A map from `K` to 64-bit values.
pub trait Index<K: ?Sized>: Clone + Send + Sized + 'static {
    /// Whether it supports scans in key order.
    const SCANS: bool = true;

    /// An empty map for about `records` records, which sizes its arenas.
    ///
    /// # Errors
    /// One line that says why it cannot be created.
    fn new(setting: &Setting) -> Result<Self, String>;

    /// Inserts a record with a new key. `false` if the map refuses.
    fn insert(&self, key: &K, value: u64) -> bool;

    /// The value of `key`.
    fn get(&self, key: &K) -> Option<u64>;

    /// Replaces the value of an existing key. `false` if the map does not find it.
    fn update(&self, key: &K, value: u64) -> bool;

    /// Reads the values of up to `limit` records (at most [`LONGEST_SCAN`]) in key order, from the
    /// first key ≥ `from` on, in the cheapest way the map offers.
    fn scan(&self, from: &K, limit: usize) -> Scanned;

    /// Bytes that the map has committed outside the allocator.
    fn committed(&self) -> u64 {
        0
    }
}

/// The longest scan, in records.
pub const LONGEST_SCAN: usize = 100;

/// The sizing of a map.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Records to expect, including those inserted while measuring.
    pub records: u64,
    /// The longest key, bytes.
    pub longest_key: usize,
    /// Whether our own arenas ask for 2 MiB pages.
    pub huge_pages: bool,
}

/// The result of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Records read.
    pub count: usize,
    /// The sum of their values, wrapping.
    pub sum: u64,
}

impl Scanned {
    /// Adds one record. Returns whether the scan continues.
    #[inline]
    pub fn take(&mut self, value: u64, limit: usize) -> bool {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.count < limit
    }

    /// Scans the first `limit` of `values`.
    #[inline]
    pub fn of(values: impl Iterator<Item = u64>, limit: usize) -> Scanned {
        values
            .take(limit)
            .fold(Scanned::default(), |mut scanned, value| {
                scanned.take(value, limit);
                scanned
            })
    }
}

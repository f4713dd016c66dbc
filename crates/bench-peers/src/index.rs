//! The one trait that every subject implements: a few operations on a handle.
//!
//! Each request thread has a clone of the handle. For most maps it is an `Arc` of the map; a map
//! with its own handles (`concurrent-map`) clones those. If a crate needs an epoch or a guard, its
//! adapter takes one for each operation, as the crate's own examples do. Our maps do so internally.
//!
//! Values are 8 bytes. If a map lends readers shared references to values, the adapter stores
//! `AtomicU64` and updates in place, as users of the map would: that is its fastest way.

use std::borrow::Borrow;

/// A map from `K` to 64-bit values.
pub trait Index<K: ?Sized>: Clone + Send + Sized + 'static {
    /// Whether it supports scans in key order.
    const SCANS: bool = true;
    /// Whether it stores anything: `empty` does not, and nobody checks its answers.
    const STORES: bool = true;

    /// An empty map.
    ///
    /// # Errors
    /// One line that says why it cannot be created.
    fn new(setting: &Setting) -> Result<Self, String>;

    /// Inserts a record with a new key. `false` if the map refuses.
    fn insert(&self, key: &K, value: u64) -> bool;

    /// Inserts records with new keys, in no order, in the fastest way the map offers. `false` if it
    /// refuses one. By default one by one.
    #[inline]
    fn insert_many<'k>(&self, mut records: impl Iterator<Item = (&'k K, u64)>) -> bool
    where
        K: 'k,
    {
        records.all(|(key, value)| self.insert(key, value))
    }

    fn get(&self, key: &K) -> Option<u64>;

    /// Replaces the value of an existing key. `false` if the map does not find it. By default an
    /// insert, which in most maps replaces, too.
    #[inline]
    fn update(&self, key: &K, value: u64) -> bool {
        !self.insert(key, value)
    }

    /// Reads the values of up to `limit` records (at most [`LONGEST_SCAN`]) in key order, from the
    /// first key ≥ `from` on, in the cheapest way the map offers.
    fn scan(&self, from: &K, limit: usize) -> Scanned;
}

/// The longest scan, in records.
pub const LONGEST_SCAN: usize = 100;

/// What a map is told when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The longest key, bytes.
    pub longest_key: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    pub count: usize,
    pub first: u64,
    /// The sum of the values, wrapping.
    pub sum: u64,
}

impl Scanned {
    /// Adds one record. Returns whether the scan continues.
    #[inline]
    pub fn take(&mut self, value: u64, limit: usize) -> bool {
        if self.count == 0 {
            self.first = value;
        }
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.count < limit
    }

    /// Scans the first `limit` of `values`.
    #[inline]
    pub fn of(values: impl Iterator<Item = u64>, limit: usize) -> Scanned {
        let mut scanned = Scanned::default();
        for value in values.take(limit) {
            scanned.take(value, limit);
        }
        scanned
    }
}

/// A key as a map owns it.
pub trait Owned<K: ?Sized>: Borrow<K> + Clone + Ord + Send + Sync + 'static {
    /// A copy of `key`.
    fn copy(key: &K) -> Self;
}

impl Owned<u64> for u64 {
    #[inline]
    fn copy(key: &u64) -> u64 {
        *key
    }
}

impl Owned<[u8]> for Vec<u8> {
    #[inline]
    fn copy(key: &[u8]) -> Vec<u8> {
        key.into()
    }
}

impl Owned<[u8]> for Box<[u8]> {
    #[inline]
    fn copy(key: &[u8]) -> Box<[u8]> {
        key.into()
    }
}

/// A map of byte strings under 64-bit keys, as big-endian strings of 8 bytes.
#[derive(Clone)]
pub struct BigEndian<I>(I);

impl<I: Index<[u8]>> Index<u64> for BigEndian<I> {
    fn new(setting: &Setting) -> Result<Self, String> {
        I::new(setting).map(BigEndian)
    }

    #[inline]
    fn insert(&self, key: &u64, value: u64) -> bool {
        self.0.insert(&key.to_be_bytes(), value)
    }

    #[inline]
    fn get(&self, key: &u64) -> Option<u64> {
        self.0.get(&key.to_be_bytes())
    }

    #[inline]
    fn update(&self, key: &u64, value: u64) -> bool {
        self.0.update(&key.to_be_bytes(), value)
    }

    #[inline]
    fn scan(&self, from: &u64, limit: usize) -> Scanned {
        self.0.scan(&from.to_be_bytes(), limit)
    }
}

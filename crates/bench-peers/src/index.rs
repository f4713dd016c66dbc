//! What every contender is to this benchmark: a few operations on a handle.
//!
//! A handle is cloned for each request thread. For most maps it is an `Arc` of the map; a map with
//! handles of its own (`concurrent-map`) hands out those. Where a crate wants an epoch or a guard,
//! an adapter takes it once an operation, as the crate's own examples do, and so does ours inside.
//!
//! Values are 8 bytes. A map whose readers see shared references to values keeps them as
//! `AtomicU64` and updates in place: what its users would do, and the fastest way it has.

/// A map from `K` to 64-bit values.
pub trait Index<K: ?Sized>: Clone + Send + Sized + 'static {
    /// Whether it can scan in key order.
    const SCANS: bool = true;

    /// An empty map that is to hold about `records` records; arenas are reserved by it.
    ///
    /// # Errors
    /// One line that says why there is no such map.
    fn new(setting: &Setting) -> Result<Self, String>;

    /// Adds a record whose key is not there. `false` if the map refuses.
    fn insert(&self, key: &K, value: u64) -> bool;

    /// The value of `key`.
    fn get(&self, key: &K) -> Option<u64>;

    /// Replaces the value of a key that is there. `false` if the map says it is not.
    fn update(&self, key: &K, value: u64) -> bool;

    /// Reads the values of up to `limit` records (at most [`LONGEST_SCAN`]) in key order, from the
    /// first with a key not below `from` on, in the cheapest way the map has.
    fn scan(&self, from: &K, limit: usize) -> Scanned;

    /// Bytes the map has committed outside of the allocator.
    fn committed(&self) -> u64 {
        0
    }
}

/// The longest scan that is asked for, in records.
pub const LONGEST_SCAN: usize = 100;

/// What a map is made for.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Records to come, those that are inserted while measuring included.
    pub records: u64,
    /// The longest key, bytes.
    pub longest_key: usize,
    /// Whether arenas of our own ask for 2 MiB pages.
    pub huge_pages: bool,
}

/// What a scan came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Records read.
    pub count: usize,
    /// The sum of their values, wrapping.
    pub sum: u64,
}

impl Scanned {
    /// Adds one record. Whether `limit` has room for another.
    #[inline]
    pub fn take(&mut self, value: u64, limit: usize) -> bool {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.count < limit
    }

    /// The first `limit` of `values`.
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

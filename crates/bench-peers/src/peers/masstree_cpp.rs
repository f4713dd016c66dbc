//! `masstree-cpp`: the authors' own Masstree (Mao, Kohler, Morris, EuroSys 2012), in C++.
//!
//! Built with `--features masstree-cpp` from the sources in `MASSTREE_SOURCES`; `masstree.cc` is
//! the other half of this adapter.
#![cfg_attr(feature = "masstree-cpp", allow(unsafe_code))]

/// Words.
pub type Words = crate::index::BigEndian<Bytes>;
pub use adapter::Bytes;

#[cfg(feature = "masstree-cpp")]
mod adapter {
    use std::ffi::c_void;
    use std::sync::Arc;

    use crate::index::{Index, LONGEST_SCAN, Scanned, Setting};

    unsafe extern "C" {
        fn masstree_new() -> *mut c_void;
        fn masstree_insert(map: *mut c_void, key: *const u8, bytes: usize, value: u64) -> bool;
        fn masstree_update(map: *mut c_void, key: *const u8, bytes: usize, value: u64) -> bool;
        fn masstree_get(map: *mut c_void, key: *const u8, bytes: usize, value: *mut u64) -> bool;
        /// Writes up to `limit` values to `values`, and returns their number.
        fn masstree_scan(
            map: *mut c_void,
            from: *const u8,
            bytes: usize,
            values: *mut u64,
            limit: usize,
        ) -> usize;
    }

    /// A table that lives until the process ends.
    struct Table(*mut c_void);

    // SAFETY: the table may be used from all threads; `masstree.cc` gives each its thread record.
    unsafe impl Send for Table {}
    // SAFETY: as above.
    unsafe impl Sync for Table {}

    /// Byte strings.
    #[derive(Clone)]
    pub struct Bytes(Arc<Table>);

    impl Index<[u8]> for Bytes {
        fn new(_: &Setting) -> Result<Self, String> {
            // SAFETY: it takes nothing, and ends the process if memory is short.
            Ok(Bytes(Arc::new(Table(unsafe { masstree_new() }))))
        }

        #[inline]
        fn insert(&self, key: &[u8], value: u64) -> bool {
            // SAFETY: the table lives, and the key is `key.len()` bytes.
            unsafe { masstree_insert(self.0.0, key.as_ptr(), key.len(), value) }
        }

        #[inline]
        fn get(&self, key: &[u8]) -> Option<u64> {
            let mut value = 0;
            // SAFETY: as in `insert`; `value` is written before it returns.
            let found = unsafe { masstree_get(self.0.0, key.as_ptr(), key.len(), &raw mut value) };
            found.then_some(value)
        }

        #[inline]
        fn update(&self, key: &[u8], value: u64) -> bool {
            // SAFETY: as in `insert`.
            unsafe { masstree_update(self.0.0, key.as_ptr(), key.len(), value) }
        }

        #[inline]
        fn scan(&self, from: &[u8], limit: usize) -> Scanned {
            let mut values = [0; LONGEST_SCAN];
            let room = &mut values[..limit];
            let (key, bytes) = (from.as_ptr(), from.len());
            // SAFETY: as in `insert`; there is room for `limit` values.
            let count = unsafe { masstree_scan(self.0.0, key, bytes, room.as_mut_ptr(), limit) };
            Scanned::of(room[..count].iter().copied(), limit)
        }
    }
}

#[cfg(not(feature = "masstree-cpp"))]
mod adapter {
    use std::convert::Infallible;

    use crate::index::{Index, Scanned, Setting};

    /// Byte strings; not built.
    #[derive(Clone)]
    pub struct Bytes(Infallible);

    impl Index<[u8]> for Bytes {
        fn new(_: &Setting) -> Result<Self, String> {
            Err("not built: give --features masstree-cpp and MASSTREE_SOURCES=DIR".into())
        }

        fn insert(&self, _: &[u8], _: u64) -> bool {
            match self.0 {}
        }

        fn get(&self, _: &[u8]) -> Option<u64> {
            match self.0 {}
        }

        fn update(&self, _: &[u8], _: u64) -> bool {
            match self.0 {}
        }

        fn scan(&self, _: &[u8], _: usize) -> Scanned {
            match self.0 {}
        }
    }
}

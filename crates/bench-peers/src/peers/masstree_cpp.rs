//! `masstree-cpp`: the authors' own Masstree (Mao, Kohler, Morris, EuroSys 2012), in C++.
//!
//! Built with `--features masstree-cpp` from the sources in `MASSTREE_SOURCES`; `masstree.cc` is
//! the other half of this adapter.
#![cfg_attr(feature = "masstree-cpp", allow(unsafe_code))]

pub type Words = crate::index::BigEndian<Bytes>;
pub use adapter::Bytes;

#[cfg(feature = "masstree-cpp")]
mod adapter {
    use std::ffi::c_void;
    use std::sync::Arc;

    use crate::index::{Index, LONGEST_SCAN, Scanned, Setting};
    use crate::peers::subject;

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

    #[derive(Clone)]
    pub struct Bytes(Arc<Table>);

    subject! {
        [] Bytes: Index<[u8]>,
        // SAFETY: it takes nothing, and ends the process if memory is short.
        new |_| Ok(Bytes(Arc::new(Table(unsafe { masstree_new() }))));
        insert |map, key, value| {
            // SAFETY: the table lives, and the key is `key.len()` bytes.
            unsafe { masstree_insert(map.0.0, key.as_ptr(), key.len(), value) }
        };
        get |map, key| {
            let mut value = 0;
            // SAFETY: as in `insert`; `value` is written before it returns.
            let found = unsafe { masstree_get(map.0.0, key.as_ptr(), key.len(), &raw mut value) };
            found.then_some(value)
        };
        update |map, key, value| {
            // SAFETY: as in `insert`.
            unsafe { masstree_update(map.0.0, key.as_ptr(), key.len(), value) }
        };
        scan |map, from, limit| {
            let mut values = [0; LONGEST_SCAN];
            let room = &mut values[..limit];
            let (key, bytes) = (from.as_ptr(), from.len());
            // SAFETY: as in `insert`; there is room for `limit` values.
            let count = unsafe { masstree_scan(map.0.0, key, bytes, room.as_mut_ptr(), limit) };
            Scanned::of(room[..count].iter().copied(), limit)
        };
    }
}

#[cfg(not(feature = "masstree-cpp"))]
mod adapter {
    use std::convert::Infallible;

    use crate::index::{Index, Scanned, Setting};
    use crate::peers::subject;

    /// Byte strings; not built.
    #[derive(Clone)]
    pub struct Bytes(Infallible);

    subject! {
        [] Bytes: Index<[u8]>,
        new |_| Err("not built: give --features masstree-cpp and MASSTREE_SOURCES=DIR".into());
        insert |map, _, _| match map.0 {};
        get |map, _| match map.0 {};
        scan |map, _, _| match map.0 {};
    }
}

//! `rocksdb`: RocksDB by its C interface, with the feature of that name.
//!
//! Set up as its guides say for data beyond memory: a cache of blocks with the tables' indexes and
//! filters in it, Bloom filters, direct reads, no compression (values here would compress to
//! nothing).
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::null_mut;

use timberline_bench::store::{Engine, Setting};

use crate::engines::{cache_bytes, text, write_buffer_bytes};

#[link(name = "rocksdb")]
unsafe extern "C" {
    fn rocksdb_options_create() -> *mut c_void;
    fn rocksdb_options_set_create_if_missing(options: *mut c_void, on: c_uchar);
    fn rocksdb_options_set_use_direct_reads(options: *mut c_void, on: c_uchar);
    fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(
        options: *mut c_void,
        on: c_uchar,
    );
    fn rocksdb_options_set_compression(options: *mut c_void, kind: c_int);
    fn rocksdb_options_set_max_background_jobs(options: *mut c_void, jobs: c_int);
    fn rocksdb_options_set_write_buffer_size(options: *mut c_void, bytes: usize);
    fn rocksdb_options_set_block_based_table_factory(options: *mut c_void, table: *mut c_void);
    fn rocksdb_block_based_options_create() -> *mut c_void;
    fn rocksdb_block_based_options_set_block_cache(table: *mut c_void, cache: *mut c_void);
    fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(
        table: *mut c_void,
        on: c_uchar,
    );
    fn rocksdb_block_based_options_set_filter_policy(table: *mut c_void, filter: *mut c_void);
    fn rocksdb_cache_create_lru(bytes: usize) -> *mut c_void;
    fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> *mut c_void;
    fn rocksdb_open(
        options: *const c_void,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut c_void;
    fn rocksdb_close(database: *mut c_void);
    fn rocksdb_readoptions_create() -> *mut c_void;
    fn rocksdb_writeoptions_create() -> *mut c_void;
    fn rocksdb_put(
        database: *mut c_void,
        options: *const c_void,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_get_pinned(
        database: *mut c_void,
        options: *const c_void,
        key: *const c_char,
        key_bytes: usize,
        error: *mut *mut c_char,
    ) -> *mut c_void;
    fn rocksdb_pinnableslice_value(slice: *const c_void, bytes: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(slice: *mut c_void);
    fn rocksdb_flush_wal(database: *mut c_void, sync: c_uchar, error: *mut *mut c_char);
    fn rocksdb_free(pointer: *mut c_void);
}

/// A database and the options of its calls, which stay until the process ends.
struct RocksDb {
    database: *mut c_void,
    read: *mut c_void,
    write: *mut c_void,
}

// SAFETY: RocksDB's calls on a database may come from any thread, and options are only read.
unsafe impl Sync for RocksDb {}

/// Opens one.
pub fn open(folder: &Path, setting: &Setting) -> Result<Box<dyn Engine>, String> {
    let name = CString::new(folder.as_os_str().as_encoded_bytes()).map_err(text)?;
    // SAFETY: each pointer comes from the function that makes such an object, and the functions
    // get the number of arguments and the types of `rocksdb/c.h` of version 7.8.
    unsafe {
        let table = rocksdb_block_based_options_create();
        let cache = rocksdb_cache_create_lru(cache_bytes(setting) as usize);
        rocksdb_block_based_options_set_block_cache(table, cache);
        rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
        let filter = rocksdb_filterpolicy_create_bloom_full(10.0);
        rocksdb_block_based_options_set_filter_policy(table, filter);
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_use_direct_reads(options, 1);
        rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, 1);
        rocksdb_options_set_compression(options, 0);
        rocksdb_options_set_max_background_jobs(options, 2);
        rocksdb_options_set_write_buffer_size(options, write_buffer_bytes(setting) as usize);
        rocksdb_options_set_block_based_table_factory(options, table);
        let database = checked(|error| rocksdb_open(options, name.as_ptr(), error))?;
        Ok(Box::new(RocksDb {
            database,
            read: rocksdb_readoptions_create(),
            write: rocksdb_writeoptions_create(),
        }))
    }
}

/// Calls a function that may report an error, and takes that.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut error = null_mut();
    let result = call(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: an error is a string that the caller frees.
    unsafe {
        let said = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        Err(said)
    }
}

impl Engine for RocksDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        // SAFETY: the database is open, and reads the key and the value during the call.
        checked(|error| unsafe {
            let (key, key_bytes) = (key.as_ptr().cast(), key.len());
            let (value, value_bytes) = (value.as_ptr().cast(), value.len());
            let (database, options) = (self.database, self.write);
            rocksdb_put(database, options, key, key_bytes, value, value_bytes, error);
        })
    }

    fn get(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        // SAFETY: the database is open, and reads the key during the call.
        let slice = checked(|error| unsafe {
            let (key, bytes) = (key.as_ptr().cast(), key.len());
            rocksdb_get_pinned(self.database, self.read, key, bytes, error)
        })?;
        if slice.is_null() {
            return Ok(false);
        }
        let mut bytes = 0;
        // SAFETY: the slice is the result of a get, and has its bytes until it is destroyed.
        unsafe {
            let value = rocksdb_pinnableslice_value(slice, &mut bytes);
            show(std::slice::from_raw_parts(value.cast(), bytes));
            rocksdb_pinnableslice_destroy(slice);
        }
        Ok(true)
    }

    fn sync(&self) -> Result<(), String> {
        // SAFETY: the database is open.
        checked(|error| unsafe { rocksdb_flush_wal(self.database, 1, error) })
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: nothing uses the database after this.
        unsafe { rocksdb_close(self.database) }
    }
}

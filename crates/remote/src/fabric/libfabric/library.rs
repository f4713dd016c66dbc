//! The library, and the functions of the shim in C, which call it.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::sync::OnceLock;

/// The library's name, with the version of its binary interface.
const LIBRARY: &CStr = c"libfabric.so.1";

/// An object of the shim.
#[repr(C)]
pub struct Opaque([u8; 0]);

/// A completion, as the shim tells it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RawEvent {
    pub context: u64,
    pub bytes: u64,
    pub error: i64,
}

unsafe extern "C" {
    pub fn tl_load(name: *const c_char) -> *const c_char;
    pub fn tl_error(error: c_int) -> *const c_char;
    pub fn tl_domain_open(
        provider: *const c_char,
        source: *const c_char,
        out: *mut *mut Opaque,
    ) -> c_int;
    pub fn tl_domain_close(domain: *mut Opaque);
    pub fn tl_domain_registers_own(domain: *const Opaque) -> c_int;
    pub fn tl_domain_names_addresses(domain: *const Opaque) -> c_int;
    pub fn tl_domain_key_bytes(domain: *const Opaque) -> u64;
    pub fn tl_queue_open(
        domain: *mut Opaque,
        entries: u64,
        waits: c_int,
        out: *mut *mut Opaque,
    ) -> c_int;
    pub fn tl_queue_close(queue: *mut Opaque) -> c_int;
    pub fn tl_queue_take(queue: *mut Opaque, events: *mut RawEvent, most: u64) -> i64;
    pub fn tl_queue_descriptor(queue: *mut Opaque) -> c_int;
    pub fn tl_wait(one: c_int, other: c_int, milliseconds: c_int);
    pub fn tl_endpoint_open(
        domain: *mut Opaque,
        queue: *mut Opaque,
        out: *mut *mut Opaque,
    ) -> c_int;
    pub fn tl_endpoint_close(endpoint: *mut Opaque) -> c_int;
    pub fn tl_endpoint_name(endpoint: *mut Opaque, name: *mut c_void, most: u64) -> i64;
    pub fn tl_endpoint_peer(endpoint: *mut Opaque, name: *const c_void) -> c_int;
    pub fn tl_region_open(
        domain: *mut Opaque,
        endpoint: *mut Opaque,
        memory: *mut c_void,
        bytes: u64,
        for_peer: c_int,
        wish: u64,
        out: *mut *mut Opaque,
    ) -> c_int;
    pub fn tl_region_key(region: *mut Opaque) -> u64;
    pub fn tl_region_close(region: *mut Opaque) -> c_int;
    pub fn tl_read(
        endpoint: *mut Opaque,
        words: *mut u64,
        count: u64,
        region: *mut Opaque,
        at: u64,
        key: u64,
        context: u64,
    ) -> i64;
    pub fn tl_write(
        endpoint: *mut Opaque,
        words: *const u64,
        count: u64,
        region: *mut Opaque,
        at: u64,
        key: u64,
        context: u64,
    ) -> i64;
    pub fn tl_compare_exchange(
        endpoint: *mut Opaque,
        words: *mut u64,
        region: *mut Opaque,
        at: u64,
        key: u64,
        context: u64,
    ) -> i64;
    pub fn tl_fetch_add(
        endpoint: *mut Opaque,
        words: *mut u64,
        region: *mut Opaque,
        at: u64,
        key: u64,
        context: u64,
    ) -> i64;
    pub fn tl_send(
        endpoint: *mut Opaque,
        words: *mut u64,
        count: u64,
        region: *mut Opaque,
        context: u64,
    ) -> i64;
    pub fn tl_receive(
        endpoint: *mut Opaque,
        words: *mut u64,
        count: u64,
        region: *mut Opaque,
        context: u64,
    ) -> i64;
}

/// What libfabric says of a call, in a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed(String);

impl Failed {
    pub fn because(reason: impl Into<String>) -> Failed {
        Failed(reason.into())
    }

    pub fn by(what: &str, error: i64) -> Failed {
        Failed(format!("{what}: {}", text_of(error)))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What libfabric says of an error.
pub fn text_of(error: i64) -> String {
    let error = c_int::try_from(error.unsigned_abs()).unwrap_or(c_int::MAX);
    // SAFETY: an error of libfabric means that the library was loaded. Its text is static.
    let text = unsafe { CStr::from_ptr(tl_error(error)) };
    text.to_string_lossy().into_owned()
}

/// Proof that the library is loaded, for as long as the process lives.
#[derive(Clone, Copy, Debug)]
pub struct Library(());

impl Library {
    /// Loads the library, once.
    ///
    /// # Errors
    /// It is not installed.
    pub fn load() -> Result<Library, Failed> {
        static LOADED: OnceLock<Result<Library, Failed>> = OnceLock::new();
        LOADED.get_or_init(|| Library::load_from(LIBRARY)).clone()
    }

    fn load_from(name: &CStr) -> Result<Library, Failed> {
        // SAFETY: the name ends with a zero byte. The shim's pointers to functions are written
        // here alone, before anybody can have the proof that they are: in the tests, which load
        // another one, that fails before it writes any.
        let why = unsafe { tl_load(name.as_ptr()) };
        if why.is_null() {
            return Ok(Library(()));
        }
        // SAFETY: it is not null, so a text that stays until this thread opens a library again.
        let why = unsafe { CStr::from_ptr(why) };
        Err(Failed(format!(
            "libfabric cannot be loaded: {}",
            why.to_string_lossy()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_a_line() {
        let absent = Library::load_from(c"libfabric-absent.so.1").unwrap_err();
        let line = absent.to_string();
        assert!(line.starts_with("libfabric cannot be loaded: "), "{line}");
        assert!(line.contains("libfabric-absent.so.1"), "{line}");
        // A library, but not this one.
        let other = Library::load_from(c"libc.so.6").unwrap_err();
        assert!(other.to_string().contains("lacks functions"), "{other}");
    }
}

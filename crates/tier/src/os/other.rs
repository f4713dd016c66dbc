//! Unix systems other than Linux: memory of one kind works. The system commits it at the first
//! access, so it has no error for having none left.

use std::io;

pub use super::unix::{memory_bytes, unmap};

const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;

/// See [`Reservation::new`](super::Reservation::new).
pub fn map(bytes: usize) -> io::Result<usize> {
    // SAFETY: the address is not fixed.
    unsafe { super::unix::map(0, bytes, FLAGS) }
}

/// See [`Reservation::decommit`](super::Reservation::decommit).
///
/// # Safety
/// It is a range of the caller's, and no reference leads into it, except to atomics.
pub unsafe fn decommit(start: usize, bytes: usize) {
    // `MADV_DONTNEED` keeps contents on some systems; a new mapping is zero on all.
    // SAFETY: as the caller says.
    let _ = unsafe { super::unix::map(start, bytes, FLAGS | libc::MAP_FIXED) };
}

/// See [`Reservation::commit`](super::Reservation::commit).
pub fn commit(_: usize, _: usize) -> io::Result<()> {
    Ok(())
}

/// There is no such advice.
pub fn use_huge_pages(_: usize, _: usize, _: bool) {}

/// See [`Reservation::bind`](super::Reservation::bind).
pub fn bind(_: usize, _: usize, _: &[u32]) -> io::Result<()> {
    Err(needs_linux())
}

/// See [`Reservation::unbind`](super::Reservation::unbind).
pub fn unbind(_: usize, _: usize) -> io::Result<()> {
    Err(needs_linux())
}

/// See [`Reservation::lock`](super::Reservation::lock).
pub fn lock(_: usize, _: usize) -> io::Result<()> {
    Err(needs_linux())
}

/// See [`super::nodes_of_pages`].
pub fn nodes_of_pages(_: &[usize]) -> io::Result<Vec<i32>> {
    Err(needs_linux())
}

fn needs_linux() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "memory tiers need Linux")
}

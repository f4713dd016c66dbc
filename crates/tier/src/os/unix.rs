//! Calls of all Unix systems.

use std::io;

/// Maps readable and writable memory of zeros, at `address` if the flags say that it is fixed.
///
/// # Safety
/// Mappings at a fixed address belong to the caller, and are no longer used.
pub unsafe fn map(address: usize, bytes: usize, flags: libc::c_int) -> io::Result<usize> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new anonymous mapping at an address of the system's choice aliases nothing; for
    // others, see above.
    let mapped = unsafe { libc::mmap(address as *mut _, bytes, access, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(mapped as usize)
}

/// Ends a mapping.
///
/// # Safety
/// It is the caller's, and nothing uses it any more.
pub unsafe fn unmap(start: usize, bytes: usize) {
    // SAFETY: as the caller says.
    unsafe { libc::munmap(start as *mut _, bytes) };
}

/// See [`super::memory_bytes`].
pub fn memory_bytes() -> usize {
    // SAFETY: questions without side effects.
    let answers = unsafe { [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|it| libc::sysconf(it)) };
    let [pages, bytes] = answers.map(|answer| usize::try_from(answer).unwrap_or(0));
    pages.saturating_mul(bytes)
}

//! Linux: all of it.

use std::io;

use crate::seeded::{self, Bug};

/// Addresses without memory behind them.
const FLAGS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

pub use super::unix::{memory_bytes, unmap};

/// See [`Reservation::new`](super::Reservation::new).
pub fn map(bytes: usize) -> io::Result<usize> {
    // SAFETY: the address is not fixed.
    unsafe { super::unix::map(0, bytes, FLAGS) }
}

/// See [`Reservation::bind`](super::Reservation::bind).
pub fn bind(start: usize, bytes: usize, nodes: &[u32]) -> io::Result<()> {
    if seeded::has(Bug::ForgetsToBind) {
        return Ok(());
    }
    const BITS: usize = u64::BITS as usize;
    let highest = nodes.iter().max().map_or(0, |&node| node as usize);
    let mut mask = vec![0u64; highest / BITS + 1];
    for &node in nodes {
        mask[node as usize / BITS] |= 1 << (node as usize % BITS);
    }
    set_policy(start, bytes, libc::MPOL_BIND, &mask)
}

/// See [`Reservation::unbind`](super::Reservation::unbind).
pub fn unbind(start: usize, bytes: usize) -> io::Result<()> {
    set_policy(start, bytes, libc::MPOL_DEFAULT, &[])
}

/// `mask` has a bit for each node, or none.
fn set_policy(start: usize, bytes: usize, policy: i32, mask: &[u64]) -> io::Result<()> {
    // SAFETY: the range is the caller's, and the kernel reads `mask` for the given number of bits
    // (it takes one more than it uses).
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start,
            bytes,
            policy,
            mask.as_ptr(),
            mask.len() * u64::BITS as usize + 1,
            0,
        )
    };
    check(result)
}

/// See [`Reservation::lock`](super::Reservation::lock).
pub fn lock(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: a range of the caller's; its contents stay as they are.
    let result = unsafe { libc::mlock(start as *const _, bytes) };
    check(result.into())
}

/// See [`Reservation::use_huge_pages`](super::Reservation::use_huge_pages).
pub fn use_huge_pages(start: usize, bytes: usize, huge: bool) {
    let advice = if huge {
        libc::MADV_HUGEPAGE
    } else {
        libc::MADV_NOHUGEPAGE
    };
    // SAFETY: advice about a range of the caller's.
    unsafe { libc::madvise(start as *mut _, bytes, advice) };
}

/// See [`Reservation::commit`](super::Reservation::commit).
pub fn commit(start: usize, bytes: usize) -> io::Result<()> {
    // SAFETY: populating a range of the caller's; it holds nothing yet.
    let result = unsafe { libc::madvise(start as *mut _, bytes, libc::MADV_POPULATE_WRITE) };
    match check(result.into()) {
        // Kernels before 5.14 commit at the first access instead.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        other => other,
    }
}

/// See [`Reservation::decommit`](super::Reservation::decommit).
///
/// # Safety
/// It is a range of the caller's, and no reference leads into it, except to atomics.
pub unsafe fn decommit(start: usize, bytes: usize) {
    // SAFETY: as the caller says.
    unsafe { libc::madvise(start as *mut _, bytes, libc::MADV_DONTNEED) };
}

/// See [`super::nodes_of_pages`].
pub fn nodes_of_pages(addresses: &[usize]) -> io::Result<Vec<i32>> {
    let mut status = vec![0i32; addresses.len()];
    // SAFETY: with no target nodes the call only fills `status`, one entry an address.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            addresses.len(),
            addresses.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    check(result).map(|()| status)
}

fn check(result: i64) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

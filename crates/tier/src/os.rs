//! The system calls that map, bind, commit and inspect memory. Nothing else maps memory.
#![allow(unsafe_code)]

use crate::seeded::{self, Bug};
use std::io;
use std::ops::Range;

/// Bytes in a page, the least that is committed.
pub const PAGE: usize = 4096;

/// Bytes in a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// A reserved range of addresses: readable and writable from the start, so that a stale read
/// never faults, and without memory behind it until it is committed.
pub struct Reservation {
    base: usize,
    mapped: Range<usize>,
}

impl Reservation {
    /// Reserves `bytes`, aligned to `align` (a power of two, at least a page).
    pub fn new(bytes: usize, align: usize) -> io::Result<Self> {
        let padded = bytes.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                padded,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = address as usize;
        Ok(Reservation {
            base: start.next_multiple_of(align),
            mapped: start..start + padded,
        })
    }

    /// The first address.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Binds `bytes` from `offset` on to NUMA `nodes`: pages committed later come from there only.
    pub fn bind(&self, offset: usize, bytes: usize, nodes: &[u32]) -> io::Result<()> {
        if seeded::has(Bug::ForgetsToBind) {
            return Ok(());
        }
        const BITS: usize = u64::BITS as usize;
        let highest = nodes.iter().max().map_or(0, |&node| node as usize);
        let mut mask = vec![0u64; highest / BITS + 1];
        for &node in nodes {
            mask[node as usize / BITS] |= 1 << (node as usize % BITS);
        }
        self.set_policy(offset, bytes, libc::MPOL_BIND, &mask)
    }

    /// `mask` has a bit for each node, or none.
    fn set_policy(&self, offset: usize, bytes: usize, policy: i32, mask: &[u64]) -> io::Result<()> {
        // SAFETY: the range is ours, and the kernel reads `mask` for the given number of bits (it
        // takes one more than it uses).
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.base + offset,
                bytes,
                policy,
                mask.as_ptr(),
                mask.len() * u64::BITS as usize + 1,
                0,
            )
        };
        check(result)
    }

    /// Lets the kernel choose where later pages go, and move those that are there.
    pub fn unbind(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.set_policy(offset, bytes, libc::MPOL_DEFAULT, &[])
    }

    /// Locks committed pages: they are not reclaimed, so not demoted.
    pub fn lock(&self, offset: usize, bytes: usize) -> io::Result<()> {
        // SAFETY: a range of ours; its contents stay as they are.
        let result = unsafe { libc::mlock((self.base + offset) as *const _, bytes) };
        check(result.into())
    }

    /// Asks for 2 MiB pages in a range, or forbids them: where only a part is to be committed, one
    /// such page would commit the rest too. A kernel without them says no; nothing else changes
    /// then.
    pub fn use_huge_pages(&self, offset: usize, bytes: usize, huge: bool) {
        let advice = if huge {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        // SAFETY: advice about a range of ours.
        unsafe { libc::madvise((self.base + offset) as *mut _, bytes, advice) };
    }

    /// Puts zeroed memory behind a range now, so that being out of memory is an error here
    /// instead of a signal at a later access.
    pub fn commit(&self, offset: usize, bytes: usize) -> io::Result<()> {
        // SAFETY: populating a range of ours; it holds nothing yet.
        let result = unsafe {
            libc::madvise(
                (self.base + offset) as *mut _,
                bytes,
                libc::MADV_POPULATE_WRITE,
            )
        };
        match check(result.into()) {
            // Kernels before 5.14 commit at the first access instead.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other,
        }
    }

    /// Gives the memory behind a range back. It reads as zero from then on.
    pub fn decommit(&self, offset: usize, bytes: usize) {
        // SAFETY: a range of ours that, by the caller's accounting, holds nothing any more.
        unsafe { libc::madvise((self.base + offset) as *mut _, bytes, libc::MADV_DONTNEED) };
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: exactly the mapped range, which nothing uses after its reservation is dropped.
        unsafe { libc::munmap(self.mapped.start as *mut _, self.mapped.len()) };
    }
}

/// The NUMA node of each page, or the negative errno of a page that has none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_committed_and_given_back() {
        let range = Reservation::new(8 << 20, 2 << 20).unwrap();
        assert_eq!(range.base() % (2 << 20), 0);
        range.commit(0, 2 * PAGE).unwrap();
        let pages = [range.base(), range.base() + PAGE, range.base() + (4 << 20)];
        let Ok(nodes) = nodes_of_pages(&pages) else {
            eprintln!("skipped: this kernel has no move_pages");
            return;
        };
        assert!(nodes[0] >= 0 && nodes[1] >= 0, "{nodes:?}");
        assert!(nodes[2] < 0, "an untouched page is nowhere: {nodes:?}");
        range.decommit(0, 2 * PAGE);
        assert!(nodes_of_pages(&pages).unwrap()[0] < 0);
    }

    #[test]
    fn binding_to_a_missing_node_fails() {
        let range = Reservation::new(PAGE, PAGE).unwrap();
        assert!(range.bind(0, PAGE, &[1000]).is_err());
    }
}

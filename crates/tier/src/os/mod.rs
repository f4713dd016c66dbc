//! The system calls that map, bind, commit and inspect memory. Nothing else maps memory.
//!
//! | file | system |
//! |---|---|
//! | `linux.rs` | Linux: huge pages, memory bound to NUMA nodes, commits that can fail |
//! | `unix.rs` | what Linux has in common with other Unix systems |
//! | `other.rs` | other Unix systems: memory of one kind |
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
mod unix;

use std::io;
use std::ops::Range;

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use other as system;

/// Bytes in a page, the least that is committed.
pub const PAGE: usize = if cfg!(all(target_vendor = "apple", target_arch = "aarch64")) {
    16 << 10
} else {
    4 << 10
};

/// Bytes in a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// Has the C library give blocks of the heap of 128 KiB and more mappings of their own, for good.
/// Otherwise it begins to take them from the heap once one was freed, and they leave holes there:
/// a program that keeps small values and writes large buffers took half as much again. Only the GNU
/// library does so; elsewhere this does nothing.
pub fn keep_large_blocks_apart() {
    // SAFETY: it sets a number.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}

/// Has all threads share one heap of the C library, for good: call it before there are others.
/// Otherwise each gets its own, and what one thread frees is not used by the others: a program that
/// filled a cache on one thread and changed it on another took a fifth more. Only the GNU library
/// does so; elsewhere this does nothing.
pub fn share_one_heap() {
    // SAFETY: it sets a number.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Has the C library give the heap's free pages back to the system. A program that has freed many
/// small blocks keeps their memory otherwise, between others that are in use. Takes about a
/// millisecond for ten megabytes. Only the GNU library does so; elsewhere this does nothing.
pub fn give_back_free_pages() {
    // SAFETY: it changes nothing that a program can see of its heap.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

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
        let start = system::map(padded)?;
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
        system::bind(self.base + offset, bytes, nodes)
    }

    /// Lets the kernel choose where later pages go, and move those that are there.
    pub fn unbind(&self, offset: usize, bytes: usize) -> io::Result<()> {
        system::unbind(self.base + offset, bytes)
    }

    /// Locks committed pages: they are not reclaimed, so not demoted.
    pub fn lock(&self, offset: usize, bytes: usize) -> io::Result<()> {
        system::lock(self.base + offset, bytes)
    }

    /// Asks for 2 MiB pages in a range, or forbids them: where only a part is to be committed, one
    /// such page would commit the rest too. A kernel without them says no; nothing else changes
    /// then.
    pub fn use_huge_pages(&self, offset: usize, bytes: usize, huge: bool) {
        system::use_huge_pages(self.base + offset, bytes, huge);
    }

    /// Puts zeroed memory behind a range that holds nothing now, so that being out of memory is an
    /// error here instead of a signal at a later access.
    pub fn commit(&self, offset: usize, bytes: usize) -> io::Result<()> {
        system::commit(self.base + offset, bytes)
    }

    /// Gives the memory behind a range back. It reads as zero from then on.
    ///
    /// # Safety
    /// No reference leads into the range, except to atomics.
    ///
    /// # Panics
    /// If the range is not within the reservation.
    pub unsafe fn decommit(&self, offset: usize, bytes: usize) {
        let mapped = self.mapped.end - self.base;
        assert!(
            offset <= mapped && bytes <= mapped - offset,
            "{bytes} bytes from {offset} on of {mapped}"
        );
        // SAFETY: a range of ours, and as the caller says.
        unsafe { system::decommit(self.base + offset, bytes) };
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: exactly the mapped range, which nothing uses after its reservation is dropped.
        unsafe { system::unmap(self.mapped.start, self.mapped.len()) };
    }
}

/// Bytes of memory that this machine has.
pub fn memory_bytes() -> usize {
    system::memory_bytes()
}

/// The NUMA node of each page, or the negative errno of a page that has none.
pub fn nodes_of_pages(addresses: &[usize]) -> io::Result<Vec<i32>> {
    system::nodes_of_pages(addresses)
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
        // SAFETY: nothing refers to it.
        unsafe { range.decommit(0, 2 * PAGE) };
        assert!(nodes_of_pages(&pages).unwrap()[0] < 0);
    }

    #[test]
    fn binding_to_a_missing_node_fails() {
        let range = Reservation::new(PAGE, PAGE).unwrap();
        assert!(range.bind(0, PAGE, &[1000]).is_err());
    }
}

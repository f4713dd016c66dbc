//! Pages: buckets that fill the slot of a node in fast memory, and the directory that finds them.
#![allow(unsafe_code)]

use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use timberline_sync::epoch::{Guard, Pinned};
use timberline_tier::{Arenas, Limit, Memory, Table, TierId};

use super::bucket::{BYTES, Bucket};
use crate::node::retired::Retired;
use crate::store::Store;

/// A page that no directory has: fresh, or taken out of one.
pub struct Page {
    slot: NonNull<u8>,
    bytes: usize,
}

impl Page {
    /// A page of empty buckets in a free slot of fast memory, if there is one.
    fn allocate(store: &Store<impl Memory>, bytes: usize, pinned: &Guard) -> Option<Page> {
        let slot = store.allocate_in(TierId::FAST, bytes).ok()?.keep();
        let page = Page { slot, bytes };
        // The slot has arbitrary content. No thread has a snapshot of it: it was reclaimed by
        // epoch.
        for bucket in page.buckets(pinned) {
            // SAFETY: no other thread can reach the page yet.
            unsafe { bucket.claim() }.reset();
        }
        Some(page)
    }

    fn buckets<'g>(&self, pinned: impl Into<Pinned<'g>>) -> &'g [Bucket] {
        // SAFETY: `allocate` made it of a slot of this size.
        unsafe { buckets(self.slot.as_ptr() as usize, self.bytes, pinned) }
    }

    /// Retires its buckets, and frees its slot once no thread can reach it any more. The store is
    /// the one that it was allocated in.
    pub fn reclaim<M: Memory>(self, store: &Store<M>, guard: &Guard) {
        for bucket in self.buckets(guard) {
            if let Ok(held) = bucket.lock() {
                held.retire();
            }
        }
        // SAFETY: `allocate` made the page of a slot of this size. No directory has it, and this
        // consumes it.
        let retired = unsafe { Retired::new(self.slot.as_ptr() as usize, self.bytes, false) };
        retired.reclaim(store, guard);
    }
}

/// Where each page lies: the slot's number in fast memory, from 1. 0: it is not there.
///
/// Only pages are stored, so a stored address leads to one.
pub struct Directory {
    slots: Table<AtomicU32>,
    fast: Range<usize>,
    page_bytes: usize,
}

impl Directory {
    /// One for at most this many pages, none of which is allocated. `None` where there are no
    /// addresses to keep account of them. Chunks leave it [memory](Directory::leave) for them all.
    pub fn new(arenas: &Arenas, pages: usize, page_bytes: usize) -> Option<Directory> {
        let fast = arenas.range_of(TierId::FAST);
        // Slots have numbers of this length.
        u32::try_from(fast.len() / page_bytes).ok()?;
        Some(Directory {
            slots: Table::new(arenas, pages).ok()?,
            fast,
            page_bytes,
        })
    }

    /// The most pages that there may ever be.
    pub fn most(&self) -> usize {
        self.slots.len()
    }

    /// Has chunks leave it memory for the places of so many pages.
    pub fn leave(&self, arenas: &Arenas, pages: usize) {
        self.slots.leave(arenas, pages);
    }

    /// Takes memory for the places of this many pages, and gives back the others'.
    pub fn resize(&self, arenas: &Arenas, pages: usize) -> Result<(), Limit> {
        self.slots.resize(arenas, pages)
    }

    /// A page, to be put in here.
    pub fn allocate(&self, store: &Store<impl Memory>, pinned: &Guard) -> Option<Page> {
        Page::allocate(store, self.page_bytes, pinned)
    }

    /// The buckets of a page, if it is allocated, valid as long as the thread stays pinned.
    #[inline(always)]
    pub fn buckets<'g>(&self, page: usize, pinned: impl Into<Pinned<'g>>) -> Option<&'g [Bucket]> {
        let address = self.address(self.slots[page].load(Acquire))?;
        // SAFETY: `put` stored it for a page of this size, which is not freed while a thread is
        // pinned that may have found it here.
        Some(unsafe { buckets(address, self.page_bytes, pinned) })
    }

    /// The address of a page, if it is allocated, to prefetch it.
    #[inline(always)]
    pub fn address_of(&self, page: usize) -> Option<usize> {
        self.address(self.slots[page].load(Relaxed))
    }

    #[inline(always)]
    fn address(&self, entry: u32) -> Option<usize> {
        let slot = entry.checked_sub(1)? as usize;
        Some(self.fast.start + slot * self.page_bytes)
    }

    /// Puts a page where none is.
    ///
    /// # Panics
    /// If it is of another cache.
    pub fn put(&self, at: usize, page: Page) {
        let address = page.slot.as_ptr() as usize;
        assert!(self.fast.contains(&address) && page.bytes == self.page_bytes);
        let slot = (address - self.fast.start) / self.page_bytes;
        self.slots[at].store(slot as u32 + 1, Release);
    }

    /// Removes a page, if it is allocated.
    pub fn take(&self, page: usize) -> Option<Page> {
        let address = self.address(self.slots[page].swap(0, AcqRel))?;
        Some(Page {
            slot: NonNull::new(address as *mut u8).expect("no page lies at 0"),
            bytes: self.page_bytes,
        })
    }
}

/// The buckets of a page, alive as long as the thread stays pinned.
///
/// # Safety
/// A page of this size lies there, and is not freed while the thread is pinned.
#[inline(always)]
unsafe fn buckets<'g>(
    address: usize,
    bytes: usize,
    _pinned: impl Into<Pinned<'g>>,
) -> &'g [Bucket] {
    // SAFETY: a page is a slot of this size, aligned to a line. Arenas stay mapped while the tree
    // or a deferred free needs them. All fields are atomics, for which any words will do.
    unsafe { slice::from_raw_parts(address as *const Bucket, bytes / BYTES) }
}

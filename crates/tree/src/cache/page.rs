//! A page: buckets that fill the slot of a node in fast memory.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use timberline_sync::epoch::{Guard, Pinned};
use timberline_tier::Arenas;

use super::bucket::{BYTES, Bucket};

/// Where a page lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page(usize);

impl Page {
    /// Makes a slot of so many bytes, which was just handed out, a page of empty buckets.
    pub fn new(slot: NonNull<u8>, bytes: usize, pinned: &Guard) -> Page {
        let page = Page(slot.as_ptr() as usize);
        // What lay there before left any words behind. Nobody has a snapshot of them: the epoch
        // gave the slot back.
        for bucket in page.buckets(bytes, pinned) {
            bucket.claim().reset();
        }
        page
    }

    /// The page in the slot at an address, which is a page's.
    pub fn at(address: usize) -> Page {
        Page(address)
    }

    pub fn address(self) -> usize {
        self.0
    }

    /// One of its buckets; the page is `bytes` long.
    #[inline(always)]
    pub fn bucket<'g>(
        self,
        index: usize,
        bytes: usize,
        pinned: impl Into<Pinned<'g>>,
    ) -> &'g Bucket {
        &self.buckets(bytes, pinned)[index]
    }

    /// All of its buckets, alive as long as the thread stays pinned.
    #[inline(always)]
    pub fn buckets<'g>(self, bytes: usize, _pinned: impl Into<Pinned<'g>>) -> &'g [Bucket] {
        // SAFETY: a page is made of a slot of a tree's arenas of this size, aligned to a line, or
        // is an address that came out of a directory, which holds such slots only. Arenas stay
        // mapped while the tree or a deferred free needs them, and a slot is not reused while a
        // thread is pinned that may have found it in the directory. All fields are atomics, for
        // which any words will do.
        unsafe { std::slice::from_raw_parts(self.0 as *const Bucket, bytes / BYTES) }
    }

    /// Gives the slot back. It is in no directory, and nobody can look at it any more.
    pub fn free(self, bytes: usize, arenas: &Arenas) {
        let slot = NonNull::new(self.0 as *mut u8).expect("no page lies at 0");
        // SAFETY: as for `buckets`; a page is freed once, by whoever took it out of the directory,
        // when the epoch says that all others are gone.
        unsafe { arenas.free(slot, bytes) };
    }
}

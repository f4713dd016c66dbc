//! A leaf: one record.
//!
//! # What may be read without a version
//!
//! A reader reaches a leaf through a link that it validated in the parent, so the leaf was linked
//! at that moment. From then on it needs no version: the leaf's key never changes, and its value is
//! one word. If the leaf is unlinked meanwhile, what is read is still right: the thread that
//! unlinks it (to remove or move it) holds its lock and marks it obsolete, and an obsolete leaf
//! never changes. So its value was the record's when it was unlinked, which lies within the read.
//!
//! A writer of a value holds the leaf's lock (one bit) and no other. The lock orders writes with
//! each other and with the leaf's removal or move. An obsolete leaf cannot be locked, so a late
//! writer restarts and finds the record where it is now.
//!
//! The same holds for values in blocks: a value's word is read after the thread is pinned, from a
//! leaf that was linked then, and the block is retired after the word was replaced or the leaf
//! unlinked. The word is published after the block is complete.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use timberline_sync::Restart;
use timberline_sync::shim::pause;

use super::guess::Guess;
use crate::value::{Loan, RetiredValue};

const LOCKED: u16 = 1;
const OBSOLETE: u16 = 2;
const UNLOCKED: u16 = 0;

#[repr(C)]
#[derive(Debug)]
struct Head {
    state: AtomicU16,
    heat: AtomicU16,
    len: AtomicU32,
    value: AtomicU64,
}

/// Bytes of a leaf with a key of `len` bytes.
pub const fn leaf_bytes(len: usize) -> usize {
    size_of::<Head>() + len.next_multiple_of(8)
}

/// A leaf that is alive as long as the thread stays pinned.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'g> {
    head: &'g Head,
}

impl<'g> Leaf<'g> {
    /// The leaf at this address.
    ///
    /// # Safety
    /// A leaf was written there, and the memory is not reused for `'g`.
    #[inline(always)]
    pub(super) unsafe fn at(address: usize) -> Leaf<'g> {
        let head = std::ptr::with_exposed_provenance::<Head>(address);
        // SAFETY: as the caller promises; slots are aligned to eight bytes.
        let head = unsafe { &*head };
        Leaf { head }
    }

    /// Makes a leaf in a slot.
    ///
    /// # Safety
    /// The slot is the caller's alone, aligned to eight bytes, and of [`leaf_bytes`] of the key's
    /// length at least.
    #[inline(always)]
    pub(super) unsafe fn write(address: usize, key: &[u8], value: u64, heat: u16) {
        // SAFETY: as the caller promises.
        let leaf = unsafe { Leaf::at(address) };
        leaf.head.state.store(UNLOCKED, Relaxed);
        leaf.head.heat.store(heat, Relaxed);
        leaf.head.len.store(key.len() as u32, Relaxed);
        leaf.head.value.store(value, Relaxed);
        let store = |index: usize, word: [u8; 8]| {
            let at = address + size_of::<Head>() + 8 * index;
            // SAFETY: within the slot. Atomic, for `probe` may read this memory at this moment.
            let cell = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(at) };
            cell.store(u64::from_ne_bytes(word), Relaxed);
        };
        let (words, rest) = key.as_chunks::<8>();
        for (index, &word) in words.iter().enumerate() {
            store(index, word);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            store(words.len(), last);
        }
    }

    /// The key of a leaf, if there is one there.
    pub fn probe(guess: &Guess<'_>, key: &mut Vec<u8>) -> bool {
        key.clear();
        let address = guess.address;
        if !address.is_multiple_of(8) || !guess.has(size_of::<Head>()) {
            return false;
        }
        // SAFETY: readable, aligned, and read through atomics only.
        let leaf: Leaf<'_> = unsafe { Leaf::at(address) };
        let len = leaf.head.len.load(Relaxed) as usize;
        let start = address + size_of::<Head>();
        if leaf.head.state.load(Relaxed) & OBSOLETE != 0
            || len > crate::MAX_KEY
            || !guess.has(leaf_bytes(len))
        {
            return false;
        }
        // Words, as they are written, so that reads and writes at one moment are of one size.
        for at in (start..start + len).step_by(8) {
            // SAFETY: readable and aligned; the slot's last word may hold more than the key.
            let word = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(at) };
            key.extend_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        key.truncate(len);
        true
    }

    /// The key.
    #[inline(always)]
    pub fn key(self) -> &'g [u8] {
        let len = self.head.len.load(Relaxed) as usize;
        let start = std::ptr::from_ref(self.head).addr() + size_of::<Head>();
        // SAFETY: written before the leaf was linked, and not changed as long as it is alive. Bytes
        // of an atomic's memory that nobody writes.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(start), len) }
    }

    /// The value.
    #[inline(always)]
    pub fn value(self) -> Loan<'g> {
        // SAFETY: see the module's text.
        unsafe { Loan::new(self.head.value.load(Acquire)) }
    }

    /// Sets the value of a leaf that is not linked yet.
    #[inline(always)]
    pub(super) fn set_first(self, value: u64) {
        self.head.value.store(value, Relaxed);
    }

    /// Two bytes of heat for a placement.
    pub fn heat(self) -> &'g AtomicU16 {
        &self.head.heat
    }

    /// Its address.
    #[inline(always)]
    pub fn address(self) -> usize {
        std::ptr::from_ref(self.head).addr()
    }

    /// Bytes of the leaf.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        leaf_bytes(self.head.len.load(Relaxed) as usize)
    }

    /// Whether it was removed, or moved.
    pub fn is_obsolete(self) -> bool {
        self.head.state.load(Acquire) & OBSOLETE != 0
    }

    /// Whether it is linked, and no thread holds its lock.
    pub fn is_unlocked(self) -> bool {
        self.head.state.load(Acquire) == UNLOCKED
    }

    /// Locks the leaf. Waits while another thread holds the lock.
    ///
    /// # Errors
    /// It was removed, or moved.
    #[inline(always)]
    pub fn lock(self) -> Result<LockedLeaf<'g>, Restart> {
        let state = &self.head.state;
        if state
            .compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed)
            .is_err()
        {
            self.wait()?;
        }
        Ok(LockedLeaf { leaf: self })
    }

    #[cold]
    fn wait(self) -> Result<(), Restart> {
        let state = &self.head.state;
        for attempt in 0.. {
            match state.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed) {
                Ok(_) => return Ok(()),
                Err(state) if state & OBSOLETE != 0 => return Err(Restart),
                Err(_) => pause(attempt),
            }
        }
        unreachable!("waited forever")
    }
}

/// The exclusive right to change a leaf's value; unlocks when dropped.
#[derive(Debug)]
pub struct LockedLeaf<'g> {
    leaf: Leaf<'g>,
}

impl<'g> LockedLeaf<'g> {
    /// The leaf.
    pub fn leaf(&self) -> Leaf<'g> {
        self.leaf
    }

    /// Replaces the value. Returns the previous one.
    #[inline(always)]
    pub fn replace(&self, value: u64) -> RetiredValue<'g> {
        let before = self.leaf.value();
        self.leaf.head.value.store(value, Release);
        // SAFETY: the leaf had it, and no other; it has another now.
        unsafe { RetiredValue::new(before) }
    }

    /// Unlocks for good: the leaf is unlinked.
    pub(super) fn retire(self) {
        self.leaf.head.state.store(OBSOLETE, Release);
        std::mem::forget(self);
    }
}

impl Drop for LockedLeaf<'_> {
    fn drop(&mut self) {
        self.leaf.head.state.store(UNLOCKED, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_what_was_written() {
        let slot = vec![0u64; 16].into_boxed_slice();
        let address = slot.as_ptr().expose_provenance();
        for key in [&b""[..], b"a", b"12345678", b"123456789", &[0, 255, 0]] {
            // SAFETY: as large as the longest of these, and owned by this test.
            unsafe { Leaf::write(address, key, 7, 3) };
            // SAFETY: just written, to memory that lives on.
            let leaf = unsafe { Leaf::at(address) };
            assert_eq!((leaf.key(), leaf.value().word()), (key, 7));
            assert_eq!(leaf.heat().load(Relaxed), 3);
            assert_eq!(leaf.bytes(), 16 + key.len().next_multiple_of(8));
            let mut probed = Vec::new();
            assert!(Leaf::probe(&Guess::of(address..address + 128), &mut probed));
            assert_eq!(probed, key);
            let locked = leaf.lock().unwrap();
            assert_eq!(locked.replace(8).loan().word(), 7);
            drop(locked);
            leaf.lock().unwrap().retire();
            assert!(leaf.lock().is_err());
            assert!(!Leaf::probe(
                &Guess::of(address..address + 128),
                &mut probed
            ));
            assert_eq!(leaf.value().word(), 8);
        }
    }

    #[test]
    fn u64_to_u64_takes_24_bytes() {
        assert_eq!(leaf_bytes(8), 24);
    }
}

//! A place for a node in a compute server's memory.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};

use timberline_tree::btree::page::{Page, PageLock};

use crate::address::Address;
use crate::image::Lines;

/// Names a frame of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FrameId(pub u32);

/// What a frame is used for. It changes only under the lock of the frame's page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// For nothing; or it was taken for a node that is on its way.
    Free,
    /// A swizzled word, or the root pointer, leads here.
    Hot,
    /// No word leads here: it is found by its address, and goes next.
    Cooling,
}

/// A node and what the cache knows about it.
///
/// A frame is never unmapped and its version never returns, so a reader may look at any frame at
/// any time: what it read is of the node it meant if its view is still valid.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Frame {
    page: Page,
    address: AtomicU64,
    state: AtomicU8,
    /// The lines in which the node differs from its image in the pool.
    changed: AtomicU16,
}

impl Frame {
    pub fn new() -> Frame {
        Frame {
            page: Page::new(),
            address: AtomicU64::new(0),
            state: AtomicU8::new(State::Free as u8),
            changed: AtomicU16::new(0),
        }
    }

    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Where the node lies in the pool.
    pub fn address(&self) -> Address {
        Address::of_word(self.address.load(Relaxed))
    }

    pub fn state(&self) -> State {
        match self.state.load(Relaxed) {
            0 => State::Free,
            1 => State::Hot,
            _ => State::Cooling,
        }
    }

    /// Where the node differs from its image in the pool.
    pub fn changed(&self) -> Lines {
        Lines::of_bits(self.changed.load(Relaxed))
    }

    /// Whether it does.
    pub fn is_dirty(&self) -> bool {
        self.changed() != Lines::NONE
    }

    pub fn set_state(&self, state: State, _: &PageLock<'_>) {
        self.state.store(state as u8, Relaxed);
    }

    pub fn set_address(&self, address: Address, _: &PageLock<'_>) {
        self.address.store(address.word(), Relaxed);
    }

    /// Notes that the pool has other words in these lines, too.
    pub fn mark(&self, lines: Lines, _: &PageLock<'_>) {
        // Only who has the lock stores.
        let all = self.changed().bits() | lines.bits();
        self.changed.store(all, Relaxed);
    }

    /// Notes that the pool has the same.
    pub fn mark_clean(&self, _: &PageLock<'_>) {
        self.changed.store(0, Relaxed);
    }
}

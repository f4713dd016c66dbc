//! A place for a node in a compute server's memory.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use timberline_tree::btree::page::{Page, PageLock};

use crate::address::Address;

/// Names a frame of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FrameId(pub u32);

/// What a word of an inner node in the cache leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Child {
    /// A node in the cache: the word is swizzled.
    Cached(FrameId),
    /// A node in the pool, of which the cache may have a cooling copy.
    Remote(Address),
}

impl Child {
    /// What a word stands for. Nodes' addresses are multiples of 1 KiB, so a set bit says that the
    /// word is a frame.
    #[inline(always)]
    pub fn of_word(word: u64) -> Child {
        if word & 1 == 1 {
            Child::Cached(FrameId((word >> 1) as u32))
        } else {
            Child::Remote(Address::of_word(word))
        }
    }

    /// The word.
    pub fn word(self) -> u64 {
        match self {
            Child::Cached(FrameId(number)) => u64::from(number) << 1 | 1,
            Child::Remote(address) => address.word(),
        }
    }
}

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
    /// The node differs from its image in the pool.
    dirty: AtomicBool,
}

impl Frame {
    pub fn new() -> Frame {
        Frame {
            page: Page::new(),
            address: AtomicU64::new(0),
            state: AtomicU8::new(State::Free as u8),
            dirty: AtomicBool::new(false),
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

    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Relaxed)
    }

    pub fn set_state(&self, state: State, _: &PageLock<'_>) {
        self.state.store(state as u8, Relaxed);
    }

    pub fn set_address(&self, address: Address, _: &PageLock<'_>) {
        self.address.store(address.word(), Relaxed);
    }

    pub fn set_dirty(&self, dirty: bool, _: &PageLock<'_>) {
        self.dirty.store(dirty, Relaxed);
    }
}

//! Nodes that nothing links to any more, until no thread can look at them.

use std::ptr::NonNull;

use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use crate::store::Store;

/// A node that was unlinked and retired, which its lock did: so there is one of these for each.
#[must_use = "its memory is lost if it is not reclaimed"]
pub struct Retired {
    address: usize,
    bytes: usize,
    /// Whether it held records: the placement may know it.
    is_terminal: bool,
}

impl Retired {
    /// An inner node, or one that held records.
    pub(super) fn new(address: usize, bytes: usize, is_terminal: bool) -> Self {
        Retired {
            address,
            bytes,
            is_terminal,
        }
    }

    /// Frees its slot once no thread can reach it any more.
    pub fn reclaim<M: Memory>(self, store: &Store<M>, guard: &Guard) {
        let Retired {
            address,
            bytes,
            is_terminal,
        } = self;
        store.reclaim(guard, move |state| {
            if is_terminal {
                state.forget_leaf(address);
            }
            let slot = NonNull::new(address as *mut u8).expect("no node lies at 0");
            // SAFETY: nodes are made of slots of their size. This one was retired once, by the
            // thread that unlinked it, and the epoch says that all others are gone.
            unsafe { state.arenas().free(slot, bytes) };
        });
    }
}

//! Slots that nothing leads to any more, until no thread can look at them.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use crate::store::Store;

/// A slot whose content was unlinked. Threads that came to it before may still be there.
#[must_use = "its memory is lost if it is not reclaimed"]
pub struct Retired {
    address: usize,
    bytes: usize,
    /// Whether it was a leaf, which the placement may know.
    is_leaf: bool,
}

impl Retired {
    /// # Safety
    /// A slot of this many bytes was [kept](timberline_tier::Slot::keep) for what lies there.
    /// Nothing leads to that any more, and this is the only one of it.
    pub unsafe fn new(address: usize, bytes: usize, is_leaf: bool) -> Self {
        Retired {
            address,
            bytes,
            is_leaf,
        }
    }

    /// Frees it once no thread can be there any more. The guard and the store are its map's.
    pub fn reclaim(self, store: &Store<impl Memory>, guard: &Guard) {
        let Retired {
            address,
            bytes,
            is_leaf,
        } = self;
        let slot = NonNull::new(address as *mut u8).expect("no slot lies at 0");
        // A map that outgrew its nodes of this size may never retire another one: then nothing
        // would free those that still wait.
        if store.arenas().is_straggler(slot, bytes) {
            guard.flush_at_end();
        }
        store.reclaim(guard, bytes, move |state| {
            if is_leaf {
                state.forget_leaf(address);
            }
            let slot = NonNull::new(address as *mut u8).expect("no slot lies at 0");
            // SAFETY: as `new` was promised, and the epoch says that all others are gone.
            unsafe { state.arenas().free(slot, bytes) };
        });
    }
}

//! What nodes need where they lie, alive until the last of them is freed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use timberline_placement::Placement;
use timberline_sync::epoch::Guard;
use timberline_tier::{Arenas, Memory};

/// The memory and the placement of a map's nodes.
pub struct Home<M> {
    pub memory: M,
    pub placement: Arc<dyn Placement>,
}

impl<M: Memory> Home<M> {
    /// The arenas that nodes lie in.
    #[inline(always)]
    pub fn arenas(&self) -> &Arenas {
        self.memory.arenas()
    }

    /// Tells the placement that a former leaf is about to be free. That happens in whichever thread pins next, in the middle of
    /// anything, so a panic would hit somebody who knows nothing of it; it ends here, told of by the panic hook alone.
    pub fn forget_leaf(&self, address: usize) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.placement.leaf_freed(address)));
    }
}

/// The home of nodes that threads of one stripe retired, each of which holds it. Counted stripe by stripe: a single count would be
/// written by all threads, and the line that it is in is read by all.
pub struct Waiting<M>(OnceLock<Arc<Held<M>>>);

#[repr(align(128))]
struct Held<M>(Arc<Home<M>>);

impl<M> Default for Waiting<M> {
    fn default() -> Self {
        Waiting(OnceLock::new())
    }
}

impl<M: Memory> Waiting<M> {
    /// Has `free` run once nobody can look at a node any more that is unlinked and retired.
    pub fn add(
        &self,
        home: &Arc<Home<M>>,
        guard: &Guard,
        free: impl FnOnce(&Home<M>) + Send + 'static,
    ) {
        let held = self.0.get_or_init(|| Arc::new(Held(home.clone()))).clone();
        guard.defer(move || free(&held.0));
    }

    /// How many nodes are not freed yet.
    pub fn count(&self) -> usize {
        let held = self.0.get();
        held.map_or(0, |held| Arc::strong_count(held) - 1)
    }
}

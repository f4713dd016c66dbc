//! The memory and placement of nodes, alive until the last node is freed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use timberline_placement::Placement;
use timberline_sync::epoch::Guard;
use timberline_tier::{Arenas, Memory};

/// The memory and the placement of a map's nodes.
pub struct SharedState<M> {
    pub memory: M,
    pub placement: Arc<dyn Placement>,
}

impl<M: Memory> SharedState<M> {
    /// The arenas that hold the nodes.
    #[inline(always)]
    pub fn arenas(&self) -> &Arenas {
        self.memory.arenas()
    }

    /// Tells the placement that a former leaf is about to be freed. This runs in whichever thread
    /// pins next, so a panic would hit an unrelated operation. It ends here; only the panic hook
    /// reports it.
    pub fn forget_leaf(&self, address: usize) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.placement.leaf_freed(address)));
    }
}

/// Shared state of the nodes that threads of one lane retired; each such node holds it. It is
/// counted by lane: all threads would write a single count, and all read the line it is in.
pub struct RetiredCount<M>(OnceLock<Arc<LaneState<M>>>);

#[repr(align(128))]
struct LaneState<M>(Arc<SharedState<M>>);

impl<M> Default for RetiredCount<M> {
    fn default() -> Self {
        RetiredCount(OnceLock::new())
    }
}

impl<M: Memory> RetiredCount<M> {
    /// Runs `free`, which frees about `bytes` bytes, once no thread can reach a node any more that
    /// was unlinked and retired.
    pub fn add(
        &self,
        state: &Arc<SharedState<M>>,
        guard: &Guard,
        bytes: usize,
        free: impl FnOnce(&SharedState<M>) + Send + 'static,
    ) {
        let held = self
            .0
            .get_or_init(|| Arc::new(LaneState(state.clone())))
            .clone();
        guard.defer_freeing(bytes, move || free(&held.0));
    }

    /// The number of retired nodes that are not freed yet.
    pub fn count(&self) -> usize {
        let held = self.0.get();
        held.map_or(0, |held| Arc::strong_count(held) - 1)
    }
}

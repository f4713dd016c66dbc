//! The tree's parts, its counters, and its reports to a placement.

use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use timberline_placement::{Access, Fence, LeafRef, NewNode, Placement};
use timberline_sync::epoch::{Domain, Guard};
use timberline_sync::{Restart, Versioned};
use timberline_tier::{Memory, OutOfMemory, TierId};

use super::node::{Fresh, LeafView, LockedNode, Page, Root, Unlinked, address};
use crate::range::{Ordered, Way};
use crate::store::{self, Store};
use crate::value::{Represent, RetiredValue, dispose_of_all};

/// A concurrent B+tree from byte strings to words of values that are stored as `H` says.
pub struct Tree<M: Memory, const WORDS: usize, H: Represent> {
    pub store: Store<M>,
    pub(super) root: Versioned<Root<WORDS>>,
    /// How many leaves there are.
    pub(super) leaves: AtomicUsize,
    values: PhantomData<H>,
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Bytes of a node.
    pub const BYTES: usize = Page::<WORDS>::BYTES;

    /// An empty tree.
    pub fn new(
        memory: M,
        placement: Arc<dyn Placement>,
        domain: Domain,
    ) -> Result<Self, OutOfMemory> {
        let store = Store::new::<H>(memory, placement, domain);
        let new = NewNode {
            height: 0,
            level: 0,
            parent: TierId::FAST,
            split_from: TierId::FAST,
        };
        let root = Fresh::first(store.allocate(new, Self::BYTES)?);
        let root = Versioned::new(Root::new(root));
        Ok(Tree {
            store,
            root,
            leaves: AtomicUsize::new(1),
            values: PhantomData,
        })
    }

    pub(super) fn memory(&self) -> &M {
        &self.store.memory
    }

    /// Frees a node, which is retired, once no thread can reach it any more.
    pub(super) fn reclaim(&self, node: Unlinked<'_, WORDS>, guard: &Guard) {
        self.count_leaf(node.height(), usize::MAX);
        node.reclaim(&self.store, guard);
    }

    /// Releases what a value owns, once no thread can read it.
    #[inline(always)]
    pub(super) fn reclaim_value(&self, value: RetiredValue<'_>, guard: &Guard) {
        if H::DISPOSE.is_some() {
            value.reclaim(&self.store, guard);
        }
    }

    /// Counts a leaf that came (1), or went (-1, wrapped).
    pub(super) fn count_leaf(&self, height: u8, change: usize) {
        if height == 0 {
            self.leaves.fetch_add(change, Relaxed);
        }
    }

    /// The tier of what lies at an address.
    pub(super) fn tier_at(&self, address: usize) -> TierId {
        self.memory().arenas().tier_of(address)
    }

    /// Runs an optimistic attempt until no writer gets in between.
    #[inline(always)]
    pub(super) fn retry<R>(&self, attempt: impl FnMut() -> Result<R, Restart>) -> R {
        store::retry(attempt)
    }

    /// Reports an access to a leaf, if it is this thread's turn.
    #[inline(always)]
    pub(super) fn note(&self, leaf: LeafView<'_, WORDS>, access: Access, guard: &Guard) {
        if self.store.report_is_due(guard) {
            self.report(leaf, access, guard);
        }
    }

    /// Unlocks a leaf that was written, and reports the access.
    #[inline(always)]
    pub(super) fn note_unlocked<'g>(
        &self,
        held: LockedNode<'g, WORDS>,
        leaf: LeafView<'g, WORDS>,
        access: Access,
        guard: &Guard,
    ) {
        drop(held);
        if self.store.report_is_due(guard) {
            match leaf.link().read().map(|now| now.leaf()) {
                Ok(Some(now)) => self.report(now, access, guard),
                // It went; the next access will do.
                _ => guard.set_countdown(1),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn report(&self, leaf: LeafView<'_, WORDS>, access: Access, guard: &Guard) {
        self.store.report(access, guard, |on_access| {
            let fence = leaf.lower(self.memory())?;
            leaf.get(|page| on_access(self.leaf_ref(leaf.address(), page, &fence)))
        });
    }

    /// A leaf as a placement sees it.
    pub(super) fn leaf_ref<'a>(
        &self,
        address: usize,
        page: &'a Page<WORDS>,
        fence: &'a [u8],
    ) -> LeafRef<'a> {
        LeafRef {
            address,
            tier: self.tier_at(address),
            fence: Fence::of_bytes(fence),
            heat: page.heat(),
        }
    }

    /// The address of a locked node.
    pub(super) fn address_of(node: &LockedNode<'_, WORDS>) -> usize {
        address(node.of())
    }
}

impl<M: Memory, const WORDS: usize, H: Represent> Drop for Tree<M, WORDS, H> {
    fn drop(&mut self) {
        dispose_of_all(&self.store, |show| {
            self.walk_values(
                Way::Forward,
                std::ops::Bound::Unbounded,
                usize::MAX,
                |value| {
                    show(value);
                    ControlFlow::Continue(())
                },
            );
        });
    }
}

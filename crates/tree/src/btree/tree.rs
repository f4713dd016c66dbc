//! The tree of words: its parts, its counters, and its reports to a placement.
//!
//! Reads take no lock. A descent steps from parent to child as the protocol in
//! [`timberline_sync::version`] says. There are no parent pointers and no sibling links: to find a
//! parent, an operation descends again, which also finds out whether the node is still there.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use timberline_placement::{Access, Fence, LeafRef, NewNode, Placement};
use timberline_sync::epoch::{Domain, Guard};
use timberline_sync::{Restart, Snapshot, Versioned};
use timberline_tier::{Memory, OutOfMemory, TierId};

use super::node::{Body, Fresh, Name, Root, Search, Unlinked};
pub(crate) use super::node::{LockedNode, address};
use super::payload::{Payload, Words};
use crate::cache::Copies;
use crate::store::{self, Store};
use crate::value::dispose_of_all;

/// A concurrent B+tree from words to words. See [`BTree`](super::BTree), its map.
///
/// With a [`Payload`] that leads to layers it is a forest: trees whose roots hang below leaves of
/// others, in one memory, under one placement, all with the same nodes and the same structure
/// modifications.
pub struct Tree<M: Memory, const WORDS: usize, P: Payload = Words> {
    pub store: Store<M>,
    pub root: Versioned<Root<WORDS>>,
    pub search: Search,
    /// Whether layers have names beside them: see [`Name`].
    pub has_names: bool,
    /// The longest path that was met, in nodes.
    pub deepest: AtomicU8,
    /// How many leaves there are; counted where values lie beside them.
    pub leaves: AtomicUsize,
    /// Where leaves are looked at next to be merged for their memory.
    pub compacted_to: AtomicU64,
    /// Copies of hot records, if the placement wants any.
    pub copies: Copies,
    payload: PhantomData<P>,
}

impl<M: Memory, const WORDS: usize, P: Payload> Tree<M, WORDS, P> {
    pub const CAPACITY: usize = Body::<WORDS>::CAPACITY;
    pub const BYTES: usize = Body::<WORDS>::BYTES;

    /// An empty tree.
    pub fn new(
        memory: M,
        placement: Arc<dyn Placement>,
        domain: Domain,
    ) -> Result<Self, OutOfMemory> {
        let copies = match P::CACHED {
            true => Copies::new(memory.arenas(), Self::BYTES, &*placement),
            false => Copies::none(),
        };
        let has_names = P::LINKS && (memory.arenas().tiers() > 1 || placement.reads_names());
        let store = Store::new::<P::Values>(memory, placement, domain);
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
            copies,
            root,
            search: Search::detect(),
            has_names,
            deepest: AtomicU8::new(1),
            leaves: AtomicUsize::new(1),
            compacted_to: AtomicU64::new(0),
            payload: PhantomData,
        })
    }

    pub fn memory(&self) -> &M {
        &self.store.memory
    }

    /// Frees a node, which is retired, once no thread can reach it any more.
    pub fn reclaim(&self, node: Unlinked<'_, WORDS>, guard: &Guard) {
        self.count_leaf(node.height(), usize::MAX);
        node.reclaim(&self.store, guard);
    }

    /// Counts a leaf that came (1), or went (-1, wrapped).
    pub fn count_leaf(&self, height: u8, change: usize) {
        if P::VALUES && height == 0 {
            self.leaves.fetch_add(change, Relaxed);
        }
    }

    /// Where a node lies.
    pub fn tier_of(&self, node: Snapshot<'_, Body<WORDS>>) -> TierId {
        self.memory().arenas().tier_of(address(node.of()))
    }

    /// Takes notice of a node this many steps below the topmost root.
    #[inline]
    pub fn reaches(&self, level: u8) {
        let levels = level.saturating_add(1);
        if P::LINKS && self.deepest.load(Relaxed) < levels {
            self.deepest.fetch_max(levels, Relaxed);
        }
    }

    /// Runs an optimistic attempt until no writer gets in between.
    #[inline(always)]
    pub fn retry<R>(&self, attempt: impl FnMut() -> Result<R, Restart>) -> R {
        store::retry(attempt)
    }

    /// Reports an access to a leaf, if it is this thread's turn.
    #[inline(always)]
    pub fn note(&self, leaf: Snapshot<'_, Body<WORDS>>, access: Access, guard: &Guard) {
        if self.store.report_is_due(guard) {
            self.report(leaf, access, guard);
        }
    }

    /// Unlocks a leaf that was written, and reports the access.
    #[inline(always)]
    pub fn note_unlocked(&self, held: LockedNode<'_, WORDS>, access: Access, guard: &Guard) {
        let node = held.of();
        drop(held);
        if self.store.report_is_due(guard) {
            match node.read() {
                Ok(leaf) => self.report(leaf, access, guard),
                // It went; the next access will do.
                Err(Restart) => guard.set_countdown(1),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn report(&self, leaf: Snapshot<'_, Body<WORDS>>, access: Access, guard: &Guard) {
        let link = address(leaf.of());
        self.store.report(access, guard, |on_access| {
            leaf.get(|body| on_access(self.leaf_ref(link, body)))
        });
    }

    /// A leaf as a placement sees it. Where layers have no names, its fence lacks the path.
    pub fn leaf_ref<'a>(&self, address: usize, body: &'a Body<WORDS>) -> LeafRef<'a> {
        let tier = self.memory().arenas().tier_of(address);
        LeafRef {
            address,
            tier,
            fence: Fence {
                prefix: match P::LINKS {
                    true => Name::path_of(self.memory().arenas(), body),
                    false => &[],
                },
                word: Some(body.lower()),
            },
            heat: body.heat(),
        }
    }

    /// Counts records that came or went.
    pub fn count(&self, change: i64) {
        self.store.count(change);
    }

    pub fn len(&self) -> usize {
        self.store.records()
    }

    pub fn moves(&self) -> (u64, u64) {
        self.store.moves()
    }
}

/// A body starts one word after its node.
#[inline(always)]
pub(crate) fn node_address<const WORDS: usize>(body: &Body<WORDS>) -> usize {
    std::ptr::from_ref(body) as usize - size_of::<u64>()
}

impl<M: Memory, const WORDS: usize, P: Payload> Drop for Tree<M, WORDS, P> {
    fn drop(&mut self) {
        dispose_of_all(&self.store, |show| P::each_value(self, show));
    }
}

//! Nodes that come and go: memory for those that are not linked yet, and what becomes of those that
//! are not any more.

use timberline_placement::NewNode;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, OutOfMemory, TierId};

use super::node::{DenseCapacity, Kind, Link, PACK_BYTES, Reach, Terminal, leaf_bytes};
use super::tree::{Parent, Tree};

/// A slot whose content is not linked yet; freed if it never is.
pub struct Fresh<'t, M: Memory, R: Reach> {
    tree: &'t Tree<M, R>,
    pub link: Link,
    bytes: usize,
}

impl<M: Memory, R: Reach> Fresh<'_, M, R> {
    /// It is about to be linked. Returns its link.
    pub fn keep(self) -> Link {
        let link = self.link;
        std::mem::forget(self);
        link
    }
}

impl<M: Memory, R: Reach> Drop for Fresh<'_, M, R> {
    fn drop(&mut self) {
        let Tree { store, base, .. } = self.tree;
        self.link.free(*base, self.bytes, store.arenas());
    }
}

/// What a placement is told of a leaf that comes to hang below a node in this tier.
pub(super) fn leaf_below(tier: TierId, level: u8) -> NewNode {
    NewNode {
        height: 0,
        level,
        parent: tier,
        split_from: tier,
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// What a placement is told of a node that takes the place of an old one, or comes between that
    /// and its parent.
    pub fn in_place_of(&self, old: Link, height: u8, parent: &Parent<'_, R>, level: u8) -> NewNode {
        NewNode {
            height,
            level,
            parent: self.tier_of_parent(parent),
            split_from: self.tier_of(old),
        }
    }

    /// Memory for a leaf, with the key in it. The value comes when it is linked.
    pub fn fresh_leaf(&self, new: NewNode, key: &[u8]) -> Result<Fresh<'_, M, R>, OutOfMemory> {
        self.fresh(new, leaf_bytes(key.len()), |address| {
            let link = Link::to_leaf(self.base, address);
            link.claim_leaf(self.base, key, 0, 0);
            link
        })
    }

    /// Memory for a pack.
    pub fn fresh_pack(&self, new: NewNode) -> Result<Fresh<'_, M, R>, OutOfMemory> {
        let to = |address| Link::to_pack(self.base, address);
        self.fresh(new, PACK_BYTES, to)
    }

    /// Memory for a dense leaf.
    pub fn fresh_dense(
        &self,
        new: NewNode,
        room: DenseCapacity,
    ) -> Result<Fresh<'_, M, R>, OutOfMemory> {
        let to = |address| Link::to_dense(self.base, address);
        self.fresh(new, room.bytes(), to)
    }

    /// Memory for an inner node.
    pub fn fresh_inner(&self, new: NewNode, kind: Kind) -> Result<Fresh<'_, M, R>, OutOfMemory> {
        let to = |address| Link::to_inner(self.base, address, kind);
        self.fresh(new, kind.bytes::<R>(), to)
    }

    #[inline(always)]
    fn fresh(
        &self,
        new: NewNode,
        bytes: usize,
        link: impl FnOnce(usize) -> Link,
    ) -> Result<Fresh<'_, M, R>, OutOfMemory> {
        let slot = self.store.allocate(new, bytes)?.keep();
        Ok(Fresh {
            tree: self,
            link: link(slot.as_ptr().expose_provenance()),
            bytes,
        })
    }

    /// Memory for a copy of a node in a certain tier.
    pub fn fresh_in(
        &self,
        tier: TierId,
        old: Link,
        bytes: usize,
    ) -> Result<Fresh<'_, M, R>, OutOfMemory> {
        let slot = self.store.allocate_in(tier, bytes)?.keep();
        let address = slot.as_ptr().expose_provenance();
        Ok(Fresh {
            tree: self,
            link: old.moved_to(self.base, address),
            bytes,
        })
    }

    /// Frees what holds records once no thread can reach it any more. It is unlinked and retired.
    pub fn reclaim_terminal(&self, terminal: Terminal<'_>, guard: &Guard) {
        let (base, link, bytes) = (self.base, self.link_to(terminal), terminal.bytes());
        self.store.reclaim(guard, move |state| {
            state.forget_leaf(link.address(base));
            link.free(base, bytes, state.arenas());
        });
    }

    /// Frees an inner node once no thread can reach it any more. It is unlinked and retired.
    pub fn reclaim_inner(&self, link: Link, guard: &Guard) {
        let (base, bytes) = (self.base, link.kind().bytes::<R>());
        self.store
            .reclaim(guard, move |state| link.free(base, bytes, state.arenas()));
    }
}

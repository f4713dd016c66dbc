//! Nodes that are complete and not linked yet. They own their slots: a node that is never linked is
//! freed, and a node is linked once.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_sync::epoch::Pinned;
use timberline_tier::{Slot, TierId};

use super::base::Base;
use super::body::{AT_END, Position};
use super::leaf::LockedLeaf;
use super::link::{Kind, StoredLink};
use super::locked_inner::LockedInner;
use super::reach::Reach;
use super::{
    DenseCapacity, DenseLeaf, Leaf, LockedDense, PACK_BYTES, Pack, Record, Terminal, leaf_bytes,
};
use crate::node::retired::Retired;
use crate::value::RetiredValue;

/// A complete node that has no link to it yet.
pub trait Linkable {
    /// Gives up the node: the returned link is stored now.
    fn keep(self) -> StoredLink;
}

/// A leaf, pack or dense leaf that is not linked yet; freed if it never is.
#[must_use = "it is freed if it is not linked"]
pub struct Fresh<'t> {
    slot: Slot<'t>,
    link: StoredLink,
}

impl<'t> Fresh<'t> {
    /// A pack of records in ascending order of their keys, which share their first `depth` bytes.
    pub fn pack<R>(
        slot: Slot<'t>,
        base: Base<R>,
        depth: usize,
        records: &[Record],
        heat: u16,
    ) -> Self {
        let (link, address) = (StoredLink::to_pack(base, slot.address()), slot.address());
        assert!(slot.bytes() >= PACK_BYTES, "a slot for a pack");
        forget_versions(&slot);
        // SAFETY: the slot is large enough, aligned as the link requires, and owned by this.
        drop(unsafe { Pack::at(address).write(depth, records, heat) });
        Fresh { slot, link }
    }

    /// A dense leaf for keys with the first bytes of this one; `fill` inserts its records.
    pub fn dense<R>(
        slot: Slot<'t>,
        base: Base<R>,
        key: &[u8; 8],
        capacity: DenseCapacity,
        heat: u16,
        fill: impl FnOnce(&LockedDense<'_>),
    ) -> Self {
        let address = slot.address();
        assert!(slot.bytes() >= capacity.bytes(), "a slot for a dense leaf");
        forget_versions(&slot);
        // SAFETY: as for a pack.
        let dense = unsafe { DenseLeaf::at(address).write(key, capacity, heat) };
        fill(&dense);
        let link = StoredLink::to_dense(base, address, dense.has_all());
        drop(dense);
        Fresh { slot, link }
    }

    /// The node.
    pub fn terminal<R>(&self, base: Base<R>) -> Terminal<'_> {
        // SAFETY: it is complete, in this slot.
        let link = unsafe { self.link.alive() };
        link.terminal(base).expect("it holds records")
    }

    /// The node's tier.
    pub fn tier(&self) -> TierId {
        self.slot.tier()
    }
}

impl Linkable for Fresh<'_> {
    #[inline(always)]
    fn keep(self) -> StoredLink {
        let Fresh { slot, link } = self;
        slot.keep();
        link
    }
}

/// A leaf without a value yet; freed if it is not linked.
#[must_use = "it is freed if it is not linked"]
pub struct FreshLeaf<'t>(Fresh<'t>);

impl<'t> Deref for FreshLeaf<'t> {
    type Target = Fresh<'t>;

    fn deref(&self) -> &Fresh<'t> {
        &self.0
    }
}

impl<'t> FreshLeaf<'t> {
    /// A leaf of this key.
    #[inline(always)]
    pub fn new<R>(slot: Slot<'t>, base: Base<R>, key: &[u8], heat: u16) -> Self {
        assert!(slot.bytes() >= leaf_bytes(key.len()), "a slot for a leaf");
        let link = StoredLink::to_leaf(base, slot.address());
        // SAFETY: the slot is large enough, aligned to eight bytes as all are, and owned by this.
        unsafe { Leaf::write(slot.address(), key, 0, heat) };
        FreshLeaf(Fresh { slot, link })
    }

    /// The leaf with a copy of the value of `old`, which it replaces. Returns that value, too.
    pub fn with_copy<'g>(self, old: &LockedLeaf<'g>, copy: u64) -> (Fresh<'t>, RetiredValue<'g>) {
        // SAFETY: the old leaf is unlinked when this one is linked.
        let value = unsafe { RetiredValue::new(old.leaf().value()) };
        (self.with(copy), value)
    }

    /// The leaf with a value, ready to be linked.
    #[inline(always)]
    pub fn with(self, value: u64) -> Fresh<'t> {
        // SAFETY: `new` wrote it, into the slot that this still owns.
        unsafe { Leaf::at(self.0.slot.address()) }.set_first(value);
        self.0
    }
}

/// An inner node that is not linked yet; freed if it never is.
#[must_use = "it is freed if it is not linked"]
pub struct FreshInner<'g, R: Reach> {
    // Unlocked before its slot is freed.
    node: LockedInner<'g, R>,
    slot: Slot<'g>,
    /// The node whose entries this one took.
    original: Option<LockedInner<'g, R>>,
}

impl<'g, R: Reach> Deref for FreshInner<'g, R> {
    type Target = LockedInner<'g, R>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.node
    }
}

impl<'g, R: Reach> FreshInner<'g, R> {
    /// A node without entries.
    pub fn new(
        slot: Slot<'g>,
        base: Base<R>,
        kind: Kind,
        prefix: &[u8],
        pinned: impl Into<Pinned<'g>>,
    ) -> Self {
        let new = FreshInner::of(slot, base, kind, !prefix.is_empty(), pinned);
        new.node.set_prefix(prefix.len(), prefix.iter().copied());
        new
    }

    /// A node without entries, and without its prefix yet, if it `has_prefix`.
    fn of(
        slot: Slot<'g>,
        base: Base<R>,
        kind: Kind,
        has_prefix: bool,
        _pinned: impl Into<Pinned<'g>>,
    ) -> Self {
        let link = StoredLink::to_inner(base, slot.address(), kind, has_prefix);
        assert!(slot.bytes() >= kind.bytes::<R>(), "a slot for this kind");
        forget_versions(&slot);
        // SAFETY: the slot is large enough, aligned as the link requires, and owned by this.
        let node = unsafe { LockedInner::claim(link, base) };
        FreshInner {
            node,
            slot,
            original: None,
        }
    }

    /// A copy of another node, which it replaces.
    pub fn copy_of(
        slot: Slot<'g>,
        base: Base<R>,
        old: LockedInner<'g, R>,
        pinned: impl Into<Pinned<'g>>,
    ) -> Self {
        let (prefix, _) = old.prefix();
        let mut new = FreshInner::of(slot, base, old.kind(), !prefix.is_empty(), pinned);
        new.node
            .set_prefix(old.prefix_len(), prefix.iter().copied());
        new.take_over(old, None);
        new
    }

    /// Adds all entries of another node, which this replaces, except the one at a position.
    pub fn take_over(&mut self, old: LockedInner<'g, R>, but: Option<Position>) {
        assert!(self.original.is_none(), "the entries of one node");
        old.each(AT_END, |at, link| {
            if Some(at) != but {
                self.node.put(at, link);
            }
            true
        });
        self.original = Some(old);
    }

    /// The node whose entries this took, which it replaces now.
    pub(super) fn original(&mut self) -> LockedInner<'g, R> {
        self.original.take().expect("a copy")
    }

    /// The node's tier.
    pub fn tier(&self) -> TierId {
        self.slot.tier()
    }
}

impl<R: Reach> Linkable for FreshInner<'_, R> {
    fn keep(self) -> StoredLink {
        // The entries would be linked from two nodes. Checked while the node is whole, as it is
        // unlocked before its slot is freed.
        assert!(
            self.original.is_none(),
            "a copy takes the place of its original"
        );
        let FreshInner { node, slot, .. } = self;
        let link = **node.link();
        drop(node);
        slot.keep();
        link
    }
}

/// A complete node, with all that is below it, which nothing leads to yet.
#[must_use = "its memory is lost if it is neither linked nor given up"]
pub struct Grown(StoredLink);

impl Grown {
    /// A node that is complete.
    pub fn of(new: impl Linkable) -> Grown {
        Grown(new.keep())
    }

    /// The node, as a link stores it.
    pub fn link(&self) -> StoredLink {
        self.0
    }

    /// Gives up all of it, whose values own nothing: passes each node on to be freed.
    pub fn give_up<R: Reach>(self, base: Base<R>, mut free: impl FnMut(Retired)) {
        const ALONE: &str = "nobody else knows it";
        let mut rest = vec![self.0];
        while let Some(link) = rest.pop() {
            // SAFETY: what is below a node of this is kept and complete, as it is.
            let link = unsafe { link.alive() };
            if let Some(inner) = link.inner() {
                let held = inner.lock(base).expect(ALONE);
                held.each(AT_END, |_, child| {
                    rest.push(child);
                    true
                });
                // SAFETY: only this led to it.
                free(unsafe { held.retire() });
            } else if let Some(terminal) = link.terminal(base) {
                // SAFETY: only this led to it.
                free(unsafe { terminal.lock().expect(ALONE).retire() });
            }
        }
    }
}

impl Linkable for Grown {
    fn keep(self) -> StoredLink {
        self.0
    }
}

/// The slot may have been a leaf, whose words are no versions. So versions start anew: the epoch
/// keeps readers of the former node from seeing the next one.
fn forget_versions(slot: &Slot<'_>) {
    // SAFETY: the caller owns the slot, which is at least a word long.
    let word = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(slot.address()) };
    word.store(0, Relaxed);
}

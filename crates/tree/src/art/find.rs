//! The descent from the root to a key's record in one go, where the CPU prefetches by itself.
//!
//! From the root down to the last node of 256 without a prefix, a descent reads no versions, and of
//! each node nothing but the entry: [`Direct`] tells why it may. In a large tree that is all the
//! way to the leaf. There a lookup takes half of the instructions, and a line less of each node; as
//! it is short, a CPU has begun with the next lookup or two while it waits for this one's leaf.
//!
//! Below, a step follows the protocol in [`timberline_sync::version`]: child's link from the
//! parent's validated read, child's snapshot, parent validated again. The root pointer is the
//! topmost node's parent; both are one step. A leaf needs no version of its own ([`Leaf`] tells
//! why); packs and dense leaves are read like inner nodes. Part of a prefix may be skipped without
//! comparing it, so the whole key is compared at the end.

use timberline_sync::epoch::Pinned;
use timberline_sync::{Restart, Snapshot};
use timberline_tier::Memory;

use super::node::{
    DENSE_DEPTH, DenseLeaf, Direct, Inner, Leaf, Link, Pack, PackedRecords, Parent, Position,
    Reach, Terminal, leaf_bytes, number, position, value_offset,
};
use super::tree::Tree;

/// The place of a key's record, present or not.
#[derive(Clone, Copy)]
pub enum Cursor<'t> {
    /// In this leaf.
    Leaf(Leaf<'t>),
    /// In this pack, with this value.
    InPack(Pack<'t>, u64),
    /// At this place of a dense leaf; the value if it is there.
    InDense(DenseLeaf<'t>, u8, Option<u64>),
}

/// An inner node without a child for the key's next byte: a leaf for the key belongs there.
pub struct Gap<'t, R> {
    pub inner: Inner<'t, R>,
    pub at: Position,
    /// Inner nodes above.
    pub level: u8,
}

/// Where a record that is absent belongs.
pub enum Miss<'t, R> {
    Gap(Gap<'t, R>),
    /// In this node, which was reached like this. It had no child for the key's next byte.
    Hole(Direct<'t>, Passed),
    /// In this pack, at this version, if that takes it.
    Pack(Pack<'t>, Snapshot<'t, PackedRecords>),
    /// Finding that takes a second descent.
    Elsewhere,
}

/// What a descent has passed on the way to a node.
#[derive(Clone, Copy, Default)]
pub struct Passed {
    /// The key's first bytes, this many, lead there.
    depth: usize,
    nodes: usize,
    /// Whether part of a prefix was not compared.
    trusts: bool,
}

impl Passed {
    /// Also a node, to a child of which so many bytes lead.
    #[inline(always)]
    fn and_below(self, depth: usize, trusts: bool) -> Self {
        Passed {
            depth,
            nodes: self.nodes + 1,
            trusts: self.trusts | trusts,
        }
    }

    /// The level of the node.
    fn level(self) -> u8 {
        u8::try_from(self.nodes).unwrap_or(u8::MAX)
    }
}

/// The place of a key's record, if there is one.
pub type Found<'t, R> = Result<Cursor<'t>, Miss<'t, R>>;

/// The topmost inner node, or the end of a descent without one.
pub enum Top<'t, R> {
    Inner(Inner<'t, R>),
    End(Found<'t, R>),
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// Passes the place of a key's record to `end`, after one descent, where the CPU prefetches by
    /// itself. `end` is compiled into each exit, or what it gets would be built in memory. Callers
    /// retry out of line, so that the first attempt is no loop: in a loop, the compiler would
    /// compute what packs and dense leaves need of the key on the way to every leaf.
    #[inline(always)]
    pub fn find<'g, T>(
        &'g self,
        key: &[u8],
        pinned: Pinned<'g>,
        end: impl FnOnce(Found<'g, R>) -> T,
    ) -> Result<T, Restart> {
        let (parent, link) = self.root.read::<R>(pinned)?;
        let way = Passed::default();
        if let Some(direct) = link.direct() {
            return self.dive(direct, way, key, end);
        }
        match self.enter_top(link, key, parent)? {
            Top::Inner(node) => self.find_below::<true, T>(node, way, key, end),
            Top::End(found) => Ok(end(found)),
        }
    }

    /// The same from a node on of which no version is needed.
    #[inline(always)]
    fn dive<'g, T>(
        &'g self,
        mut direct: Direct<'g>,
        mut way: Passed,
        key: &[u8],
        end: impl FnOnce(Found<'g, R>) -> T,
    ) -> Result<T, Restart> {
        let base = self.base;
        while let Some(&byte) = key.get(way.depth) {
            self.charge_direct(direct, byte);
            let link = direct.child(base, byte);
            if let Some(next) = link.direct() {
                direct = next;
                way = way.and_below(way.depth + 1, false);
                continue;
            }
            if let Some(leaf) = link.leaf(base) {
                return Ok(end(self.arrive(leaf, key).ok_or(Miss::Elsewhere)));
            }
            if link.is_full()
                && way.depth + 1 == DENSE_DEPTH
                && !way.trusts
                && let (Some(dense), Some(&at)) = (link.dense(base), key.get(DENSE_DEPTH))
            {
                let value = dense.address() + value_offset(at);
                self.memory().charge_access(value, size_of::<u64>());
                let value = dense.value_at(at).word();
                return Ok(end(Ok(Cursor::InDense(dense, at, Some(value)))));
            }
            if let Some(shared) = link.shared(base) {
                return self.look_in(shared, key, || Ok(())).map(end);
            }
            if link.is_none() {
                return Ok(end(Err(match way.trusts {
                    true => Miss::Elsewhere,
                    false => Miss::Hole(direct, way),
                })));
            }
            break;
        }
        self.find_above(direct, way, key).map(end)
    }

    /// The same from there with versions down to the end, if the next node needs one, which takes
    /// this one's.
    #[inline(never)]
    fn find_above<'g>(
        &'g self,
        direct: Direct<'g>,
        way: Passed,
        key: &[u8],
    ) -> Result<Found<'g, R>, Restart> {
        let node = self.enter_direct(direct)?;
        self.find_below::<false, _>(node, way, key, |found| found)
    }

    /// The same from a node on, with versions, or with `DIVES` as far as they are needed.
    #[inline(always)]
    fn find_below<'g, const DIVES: bool, T>(
        &'g self,
        mut node: Inner<'g, R>,
        mut way: Passed,
        key: &[u8],
        end: impl FnOnce(Found<'g, R>) -> T,
    ) -> Result<T, Restart> {
        let base = self.base;
        loop {
            self.charge_node(node.link(), key, way.depth);
            let (child, below, trusts) = node.child_for(key, way.depth)?;
            if child.is_none() {
                let is_gap = below > 0 && !way.trusts && !trusts;
                return Ok(end(Err(match is_gap {
                    true => Miss::Gap(Gap {
                        inner: node,
                        at: position(key, below - 1),
                        level: way.level(),
                    }),
                    false => Miss::Elsewhere,
                })));
            }
            way = way.and_below(below, trusts);
            if DIVES && let Some(direct) = child.direct() {
                return self.dive(direct, way, key, end);
            }
            if let Some(leaf) = child.leaf(base) {
                return Ok(end(self.arrive(leaf, key).ok_or(Miss::Elsewhere)));
            }
            if let Some(shared) = child.shared(base) {
                return self.look_in(shared, key, || node.validate()).map(end);
            }
            let Some(link) = child.inner() else {
                return Ok(end(Err(Miss::Elsewhere)));
            };
            let parent = node;
            node = link.read(base)?;
            parent.validate()?;
        }
    }

    /// A snapshot of a node that was read without. Its entries are at the same depth.
    ///
    /// # Errors
    /// It was replaced, or has a prefix by now.
    #[inline(always)]
    pub fn enter_direct<'g>(&self, direct: Direct<'g>) -> Result<Inner<'g, R>, Restart> {
        let node = direct.inner().read(self.base)?;
        match node.get(|body| body.prefix_len())? {
            0 => Ok(node),
            _ => Err(Restart),
        }
    }

    /// The gap for a key in a node that had no child for it.
    ///
    /// # Errors
    /// It has one by now, or was replaced.
    pub fn gap_at<'g>(
        &self,
        direct: Direct<'g>,
        way: Passed,
        key: &[u8],
    ) -> Result<Gap<'g, R>, Restart> {
        let (inner, at) = (self.enter_direct(direct)?, position(key, way.depth));
        let level = way.level();
        match inner.child(at)?.is_none() {
            true => Ok(Gap { inner, at, level }),
            false => Err(Restart),
        }
    }

    /// The topmost inner node, if there is one.
    #[inline(always)]
    pub fn top_inner<'g>(
        &'g self,
        pinned: impl Into<Pinned<'g>>,
    ) -> Result<Option<Inner<'g, R>>, Restart> {
        let (parent, link) = self.root.read::<R>(pinned.into())?;
        link.inner()
            .map(|link| self.enter(link, &parent))
            .transpose()
    }

    /// Enters the topmost node, to which this link leads.
    #[inline(always)]
    pub fn enter_top<'g>(
        &'g self,
        link: Link<'g>,
        key: &[u8],
        parent: Parent<'g, R>,
    ) -> Result<Top<'g, R>, Restart> {
        if let Some(leaf) = link.leaf(self.base) {
            let end = self.arrive(leaf, key);
            return Ok(Top::End(end.ok_or(Miss::Elsewhere)));
        }
        if let Some(shared) = link.shared(self.base) {
            let end = self.look_in(shared, key, || parent.validate())?;
            return Ok(Top::End(end));
        }
        let Some(link) = link.inner() else {
            return Ok(Top::End(Err(Miss::Elsewhere)));
        };
        Ok(Top::Inner(self.enter(link, &parent)?))
    }

    /// The leaf, if it has this key.
    #[inline(always)]
    pub fn arrive<'g>(&self, leaf: Leaf<'g>, key: &[u8]) -> Option<Cursor<'g>> {
        self.memory()
            .charge_access(leaf.address(), leaf_bytes(key.len()));
        (leaf.key() == key).then_some(Cursor::Leaf(leaf))
    }

    /// Searches a pack or a dense leaf for a key's record, after `is_linked` has validated the
    /// link.
    #[inline(always)]
    pub fn look_in<'g>(
        &self,
        shared: Terminal<'g>,
        key: &[u8],
        is_linked: impl FnOnce() -> Result<(), Restart>,
    ) -> Result<Found<'g, R>, Restart> {
        match shared {
            Terminal::Leaf(leaf) => Ok(self.arrive(leaf, key).ok_or(Miss::Elsewhere)),
            Terminal::Pack(pack) => {
                let records = pack.read()?;
                is_linked()?;
                let value = records.get(
                    #[inline(always)]
                    |records| {
                        self.visit_pack(pack);
                        records.get(number(key))
                    },
                )?;
                Ok(match value {
                    Some(value) => Ok(Cursor::InPack(pack, value)),
                    None => Err(Miss::Pack(pack, records)),
                })
            }
            Terminal::DenseLeaf(dense) => {
                let records = dense.read()?;
                is_linked()?;
                let Some(at) = dense.place_of(key) else {
                    return Ok(Err(Miss::Elsewhere));
                };
                let value = records.get(
                    #[inline(always)]
                    |records| {
                        self.visit_dense(dense, at);
                        records.get(at)
                    },
                )?;
                Ok(Ok(Cursor::InDense(dense, at, value)))
            }
        }
    }

    /// Charges the read of an entry alone.
    #[inline(always)]
    pub fn charge_direct(&self, direct: Direct<'_>, byte: u8) {
        let entry = direct.entry(self.base, byte);
        self.memory().charge_access(entry, size_of::<R>());
    }
}

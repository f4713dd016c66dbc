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
use timberline_tier::{Memory, hint};

use super::node::{
    DENSE_DEPTH, DenseLeaf, Direct, Inner, Leaf, Link, Pack, PackedRecords, Parent, Reach, Records,
    Terminal, leaf_bytes, number, position, value_offset,
};
use super::tree::Tree;

/// The place of a key's record.
#[derive(Clone, Copy)]
pub enum Cursor<'t> {
    /// In this leaf.
    Leaf(Leaf<'t>),
    /// In this pack, with this value.
    InPack(Pack<'t>, u64),
    /// At this place of a dense leaf, with this value.
    InDense(DenseLeaf<'t>, u8, u64),
}

/// The end of a key's path at which its record was not: no link, or one to a leaf of another key.
pub struct End<'t, R> {
    /// The place of the link.
    pub parent: Parent<'t, R>,
    pub leaf: Option<Leaf<'t>>,
    /// The key's first bytes, this many, lead to it.
    pub depth: usize,
    /// Inner nodes above.
    pub level: u8,
    /// Whether part of a prefix was not compared: the key may belong above.
    pub trusts: bool,
}

/// Where a record that is absent belongs.
pub enum Miss<'t, R> {
    /// At the end of its path.
    At(End<'t, R>),
    /// In this pack, at this version, if that takes it.
    Pack(Pack<'t>, Snapshot<'t, PackedRecords>),
    /// At this place of a dense leaf, at this version, if that has room.
    DenseLeaf(DenseLeaf<'t>, u8, Snapshot<'t, Records>),
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

    /// The end of a path below what was passed.
    #[inline(always)]
    fn end<'t, R>(self, parent: Parent<'t, R>, leaf: Option<Leaf<'t>>) -> Miss<'t, R> {
        Miss::At(End {
            parent,
            leaf,
            depth: self.depth,
            level: self.nodes.min(u8::MAX.into()) as u8,
            trusts: self.trusts,
        })
    }

    /// The end of a path at a node's entry, which is for the last of the key's first bytes, so
    /// many; 0: there is none.
    #[inline(always)]
    fn end_in<'t, R: Reach>(
        self,
        node: Inner<'t, R>,
        key: &[u8],
        below: usize,
        leaf: Option<Leaf<'t>>,
    ) -> Miss<'t, R> {
        match below.checked_sub(1) {
            None => Miss::Elsewhere,
            Some(last) => self.end(Parent::Node(node, position(key, last)), leaf),
        }
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
    /// compute what packs and dense leaves need of the key on the way to every leaf. With `WRITES`,
    /// a dense leaf's value is asked for together with its header.
    #[inline(always)]
    pub fn find<'g, const WRITES: bool, B: AsRef<[u8]> + ?Sized, T>(
        &'g self,
        key: &B,
        pinned: Pinned<'g>,
        end: impl FnOnce(Found<'g, R>) -> T,
    ) -> Result<T, Restart> {
        match cfg!(debug_assertions) {
            true => self.find_first::<WRITES, B>(key, pinned).map(end),
            false => self.find_and::<WRITES, B, T>(key, pinned, end),
        }
    }

    /// The place that debug builds pass on. With `end` in each exit an insert was a function of
    /// 60 KB, which took the compiler long.
    #[inline(never)]
    fn find_first<'g, const WRITES: bool, B: AsRef<[u8]> + ?Sized>(
        &'g self,
        key: &B,
        pinned: Pinned<'g>,
    ) -> Result<Found<'g, R>, Restart> {
        self.find_and::<WRITES, B, _>(key, pinned, |found| found)
    }

    #[inline(always)]
    fn find_and<'g, const WRITES: bool, B: AsRef<[u8]> + ?Sized, T>(
        &'g self,
        key: &B,
        pinned: Pinned<'g>,
        end: impl FnOnce(Found<'g, R>) -> T,
    ) -> Result<T, Restart> {
        let (parent, link) = self.root.read::<R>(pinned)?;
        let way = Passed::default();
        if let Some(direct) = link.direct() {
            return self.dive::<WRITES, _, _>(direct, way, key, end);
        }
        match self.enter_top(link, key.as_ref(), parent)? {
            Top::Inner(node) => self.find_below::<true, WRITES, T>(node, way, key.as_ref(), end),
            Top::End(found) => Ok(end(found)),
        }
    }

    /// The same from a node on of which no version is needed.
    #[inline(always)]
    fn dive<'g, const WRITES: bool, B: AsRef<[u8]> + ?Sized, T>(
        &'g self,
        mut direct: Direct<'g>,
        mut way: Passed,
        key: &B,
        end: impl FnOnce(Found<'g, R>) -> T,
    ) -> Result<T, Restart> {
        let (base, asked, key) = (self.base, key, key.as_ref());
        while let Some(&byte) = key.get(way.depth) {
            self.charge_direct(direct, byte);
            let link = direct.child(base, byte);
            if let Some(next) = link.direct() {
                direct = next;
                way = way.and_below(way.depth + 1, false);
                continue;
            }
            let below = way.and_below(way.depth + 1, false);
            if let Some(leaf) = link.leaf(base) {
                return Ok(end(match self.arrive(leaf, key) {
                    Some(cursor) => Ok(cursor),
                    None => {
                        let place = direct.place(base, byte, link);
                        Err(below.end(Parent::Entry(place), Some(leaf)))
                    }
                }));
            }
            if link.is_full()
                && below.depth == DENSE_DEPTH
                && !way.trusts
                && let (Some(dense), Some(&at)) = (link.dense(base), key.get(DENSE_DEPTH))
            {
                let value = dense.address() + value_offset(at);
                self.memory().charge_access(value, size_of::<u64>());
                let value = dense.value_at(at).word();
                return Ok(end(Ok(Cursor::InDense(dense, at, value))));
            }
            if let Some(shared) = link.shared(base) {
                if WRITES && let (Some(dense), Some(&at)) = (link.dense(base), key.last()) {
                    hint::prefetch_lines(dense.address() + value_offset(at), 1);
                }
                return self.look_in(shared, key, || Ok(())).map(end);
            }
            if link.is_none() {
                let place = direct.place(base, byte, link);
                return Ok(end(Err(below.end(Parent::Entry(place), None))));
            }
            let Passed {
                depth,
                nodes,
                trusts,
            } = way;
            let found = self.find_with_versions(direct, (byte, link), depth, nodes, trusts, asked);
            return found.map(end);
        }
        let node = self.enter_direct(direct)?;
        self.find_below::<false, WRITES, _>(node, way, key, end)
    }

    /// The same below a node without a prefix, whose entry for a byte led to one that needs
    /// versions, this one's too, down to the end. (What was passed comes in parts, and `end` does
    /// not, or callers would have both in memory on all other ways, too: stores of a search that
    /// waits for memory keep the next one waiting.)
    #[inline(never)]
    fn find_with_versions<'g, B: AsRef<[u8]> + ?Sized>(
        &'g self,
        direct: Direct<'g>,
        (byte, link): (u8, Link<'g>),
        depth: usize,
        nodes: usize,
        trusts: bool,
        key: &B,
    ) -> Result<Found<'g, R>, Restart> {
        let way = Passed {
            depth,
            nodes,
            trusts,
        };
        let parent = direct.inner().read::<R>(self.base)?;
        // Again, as of this version. Its own prefix lies above, whatever it is by now.
        let is_there = direct.child(self.base, byte) == link;
        let (true, Some(below)) = (is_there, link.inner()) else {
            return Err(Restart);
        };
        let node = below.read(self.base)?;
        parent.validate()?;
        let way = way.and_below(way.depth + 1, false);
        self.find_below::<false, false, _>(node, way, key.as_ref(), |found| found)
    }

    /// The same from a node on, with versions, or with `DIVES` as far as they are needed.
    #[inline(always)]
    fn find_below<'g, const DIVES: bool, const WRITES: bool, T>(
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
            way = way.and_below(below, trusts);
            if child.is_none() {
                return Ok(end(Err(way.end_in(node, key, below, None))));
            }
            if DIVES && let Some(direct) = child.direct() {
                return self.dive::<WRITES, _, _>(direct, way, key, end);
            }
            if let Some(leaf) = child.leaf(base) {
                return Ok(end(match self.arrive(leaf, key) {
                    Some(cursor) => Ok(cursor),
                    None => Err(way.end_in(node, key, below, Some(leaf))),
                }));
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
                Ok(match value {
                    Some(value) => Ok(Cursor::InDense(dense, at, value)),
                    None => Err(Miss::DenseLeaf(dense, at, records)),
                })
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

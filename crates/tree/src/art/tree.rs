//! The tree of byte strings: its parts, and what it tells a placement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use timberline_placement::{Access, Fence, LeafRef, NodeKey, Placement};
use timberline_sync::epoch::{Domain, Guard, Pinned};
use timberline_sync::{Exclusive, Restart, Snapshot, Versioned};
use timberline_tier::{Memory, TierId};

use super::node::{
    AT_END, Base, Body, DENSE_DEPTH, DENSE_HEAD, DenseLeaf, Leaf, Link, PACK_BYTES, Pack, Position,
    Reach, Terminal, TerminalKey, value_offset,
};
use crate::store::{self, Store};
use crate::value::ValueBlock;

/// The link to the topmost node, guarded like a node: it is that node's parent.
#[repr(align(128))]
pub struct Root {
    link: AtomicU64,
}

// Not generic, so a call from other crates if it is not said: one in each operation.
impl Root {
    #[inline(always)]
    pub fn link(&self) -> Link {
        Link::from_word(self.link.load(Relaxed))
    }

    pub fn set(&self, link: Link) {
        self.link.store(link.to_word(), Relaxed);
    }
}

/// A concurrent radix tree from byte strings to words. See [`Art`](super::Art), its map.
pub struct Tree<M: Memory, R: Reach> {
    pub store: Store<M>,
    pub root: Versioned<Root>,
    pub base: Base,
    /// Whether values are strings, in blocks of their own.
    pub in_blocks: bool,
    /// Whether records may be in packs and dense leaves: keys have eight bytes each, and values are
    /// words.
    pub shares: bool,
    /// The most inner nodes that were on a path so far.
    deepest: AtomicU8,
    reach: std::marker::PhantomData<R>,
}

/// An inner node, as of one version.
pub struct Inner<'g, R> {
    pub link: Link,
    pub node: Snapshot<'g, Body<R>>,
}

impl<R> Clone for Inner<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Inner<'_, R> {}

/// Where a node hangs.
pub enum Parent<'g, R> {
    Root(Snapshot<'g, Root>),
    Node(Inner<'g, R>, Position),
}

impl<R> Clone for Parent<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Parent<'_, R> {}

/// A locked parent, to hang another node there.
pub enum LockedParent<'g, R> {
    Root(Exclusive<'g, Root>),
    Node(Exclusive<'g, Body<R>>, Position),
}

impl<'g, R: Reach> Parent<'g, R> {
    pub fn upgrade(self) -> Result<LockedParent<'g, R>, Restart> {
        Ok(match self {
            Parent::Root(root) => LockedParent::Root(root.upgrade()?),
            Parent::Node(inner, at) => LockedParent::Node(inner.node.upgrade()?, at),
        })
    }

    pub fn validate(&self) -> Result<(), Restart> {
        match self {
            Parent::Root(root) => root.validate(),
            Parent::Node(inner, _) => inner.node.validate(),
        }
    }
}

impl<R: Reach> LockedParent<'_, R> {
    /// Hangs another node there.
    pub fn set(&self, link: Link) {
        match self {
            LockedParent::Root(root) => root.set(link),
            LockedParent::Node(node, at) => node.replace(*at, link),
        }
    }
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// An empty tree for keys of `key_len` bytes, if all have as many. The arenas are within reach.
    pub fn new(
        memory: M,
        placement: Arc<dyn Placement>,
        domain: Domain,
        in_blocks: bool,
        key_len: Option<usize>,
    ) -> Self {
        let base = Base::of(memory.arenas());
        Tree {
            store: Store::new(memory, placement, domain),
            root: Versioned::new(Root {
                link: AtomicU64::new(Link::NONE.to_word()),
            }),
            base,
            in_blocks,
            shares: key_len == Some(DENSE_DEPTH + 1) && !in_blocks,
            deepest: AtomicU8::new(0),
            reach: std::marker::PhantomData,
        }
    }

    pub fn memory(&self) -> &M {
        &self.store.memory
    }

    /// Runs an optimistic attempt until no writer gets in between.
    #[inline(always)]
    pub fn retry<T>(&self, attempt: impl FnMut() -> Result<T, Restart>) -> T {
        store::retry(attempt)
    }

    /// The tier of what a link leads to.
    pub fn tier_of(&self, link: Link) -> TierId {
        self.store.arenas().tier_of(link.address(self.base))
    }

    pub fn is_fast(&self, link: Link) -> bool {
        self.tier_of(link).is_fast()
    }

    /// Where a parent lies; the root's counts as fast.
    pub fn tier_of_parent(&self, parent: &Parent<'_, R>) -> TierId {
        match parent {
            Parent::Root(_) => TierId::FAST,
            Parent::Node(inner, _) => self.tier_of(inner.link),
        }
    }

    /// Begins to read an inner node, below a parent that is then still the same.
    #[inline(always)]
    pub fn enter<'g>(
        &'g self,
        link: Link,
        parent: &Parent<'g, R>,
        guard: &'g Guard<'g>,
    ) -> Result<Inner<'g, R>, Restart> {
        let node = link.node(self.base, guard).read()?;
        parent.validate()?;
        Ok(Inner { link, node })
    }

    /// The leaf at a validated link.
    #[inline(always)]
    pub fn leaf_at<'g>(&'g self, link: Link, pinned: impl Into<Pinned<'g>>) -> Leaf<'g> {
        link.leaf(self.base, pinned)
    }

    /// The pack at a validated link.
    #[inline(always)]
    pub fn pack_at<'g>(&'g self, link: Link, pinned: impl Into<Pinned<'g>>) -> Pack<'g> {
        link.pack(self.base, pinned)
    }

    /// The dense leaf at a validated link.
    #[inline(always)]
    pub fn dense_at<'g>(&'g self, link: Link, pinned: impl Into<Pinned<'g>>) -> DenseLeaf<'g> {
        link.dense(self.base, pinned)
    }

    /// What holds records at a validated link; `None` for an inner node.
    #[inline(always)]
    pub fn terminal_at<'g>(
        &'g self,
        link: Link,
        pinned: impl Into<Pinned<'g>>,
    ) -> Option<Terminal<'g>> {
        link.terminal(self.base, pinned)
    }

    /// The link to what holds records.
    pub fn link_to(&self, terminal: Terminal<'_>) -> Link {
        match terminal {
            Terminal::Leaf(leaf) => Link::to_leaf(self.base, leaf.address()),
            Terminal::Pack(pack) => Link::to_pack(self.base, pack.address()),
            Terminal::DenseLeaf(dense) => Link::to_dense(self.base, dense.address()),
        }
    }

    /// Levels of the longest path so far, the leaf included.
    pub fn levels(&self) -> u8 {
        self.deepest.load(Relaxed).saturating_add(1)
    }

    /// A leaf came to hang below this many inner nodes.
    pub fn reaches(&self, level: u8) {
        if level > self.deepest.load(Relaxed) {
            self.deepest.fetch_max(level, Relaxed);
        }
    }

    /// Tells the placement if an inner node came to lie below the boundary with children above it.
    pub fn check_boundary(&self, link: Link, node: &Body<R>, path: &[u8]) {
        if !self.is_fast(link) && self.has_fast_child(node) {
            self.store.placement.boundary_broken(NodeKey {
                key: path.into(),
                height: 1,
            });
        }
    }

    /// Whether a child of this inner node is fast. Addresses tell; no child is touched.
    pub fn has_fast_child(&self, node: &Body<R>) -> bool {
        let mut found = false;
        node.each(AT_END, |_, link| {
            found = self.is_fast(link);
            !found
        });
        found
    }

    /// Tells the memory what a search for `key` at this depth reads of a node.
    #[inline(always)]
    pub fn charge_node(&self, link: Link, key: &[u8], depth: usize) {
        let address = link.address(self.base);
        let (head, more) = link
            .kind()
            .reads::<R>(key.get(depth).copied().unwrap_or_default());
        self.memory().charge_access(address, head);
        if let Some(offset) = more {
            self.memory().charge_lines(address + offset, size_of::<R>());
        }
    }

    /// Tells the memory that a leaf is read.
    #[inline(always)]
    pub fn visit_leaf(&self, leaf: Leaf<'_>) {
        self.memory().charge_access(leaf.address(), leaf.bytes());
    }

    /// Tells the memory that a pack is read.
    #[inline(always)]
    pub fn visit_pack(&self, pack: Pack<'_>) {
        self.memory().charge_access(pack.address(), PACK_BYTES);
    }

    /// Tells the memory that one record of a dense leaf is read.
    #[inline(always)]
    pub fn visit_dense(&self, dense: DenseLeaf<'_>, at: u8) {
        self.memory().charge_access(dense.address(), DENSE_HEAD);
        let value = dense.address() + value_offset(at);
        self.memory().charge_lines(value, size_of::<u64>());
    }

    /// What lies beside a leaf.
    pub fn block_of(&self, terminal: Terminal<'_>) -> Option<ValueBlock> {
        match terminal {
            Terminal::Leaf(leaf) if self.in_blocks => ValueBlock::of(leaf.value()),
            _ => None,
        }
    }

    /// Reports an access to a record, if it is this thread's turn.
    #[inline(always)]
    pub fn note(&self, terminal: Terminal<'_>, access: Access, guard: &Guard) {
        if self.store.report_is_due(guard) {
            self.report(terminal, access, guard);
        }
    }

    #[cold]
    #[inline(never)]
    fn report(&self, terminal: Terminal<'_>, access: Access, guard: &Guard) {
        self.store.report(access, guard, |touched| {
            Ok(touched(self.leaf_ref(terminal)))
        });
    }

    /// What holds records, as a placement sees it.
    pub fn leaf_ref<'g>(&self, terminal: Terminal<'g>) -> LeafRef<'g> {
        let address = terminal.address();
        LeafRef {
            address,
            tier: self.store.arenas().tier_of(address),
            fence: match terminal {
                Terminal::Leaf(leaf) => Fence::of_bytes(leaf.key()),
                Terminal::Pack(pack) => Fence::of_word(pack.key()),
                Terminal::DenseLeaf(dense) => Fence::of_bytes(dense.least()),
            },
            heat: terminal.heat(),
        }
    }

    /// Some key below an inner node, which begins with the node's path.
    pub fn key_below<'g>(
        &'g self,
        mut inner: Inner<'g, R>,
        guard: &'g Guard<'g>,
    ) -> Result<TerminalKey<'g>, Restart> {
        loop {
            let link = inner.node.get(Body::first)?;
            if let Some(terminal) = self.terminal_at(link, guard) {
                return Ok(terminal.key());
            }
            inner = self.enter(link, &Parent::Node(inner, AT_END), guard)?;
        }
    }
}

/// How many bytes two keys have in common at their beginning.
pub(super) fn common(one: &[u8], two: &[u8]) -> usize {
    one.iter()
        .zip(two)
        .take_while(|(one, two)| one == two)
        .count()
}

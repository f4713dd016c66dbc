//! The tree of byte strings: its parts, and its reports to a placement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use timberline_placement::{Access, Fence, LeafRef, NodeKey, Placement};
use timberline_sync::Restart;
use timberline_sync::epoch::{Domain, Guard};
use timberline_tier::{Memory, TierId};

use super::node::{
    AT_END, Base, Body, DENSE_DEPTH, DENSE_HEAD, DenseLeaf, FreshInner, Inner, InnerLink, Leaf,
    Link, PACK_BYTES, Pack, Parent, Reach, Root, StoredLink, Terminal, TerminalKey, value_offset,
};
use crate::store::{self, Store};
use crate::value::{Represent, ValueBlock};

/// A concurrent radix tree from byte strings to words. See [`Art`](super::Art), its map.
pub struct Tree<M: Memory, R: Reach> {
    pub store: Store<M>,
    pub root: Root,
    pub base: Base<R>,
    /// Whether values are strings, in blocks of their own.
    pub in_blocks: bool,
    /// Whether records may be in packs and dense leaves: keys have eight bytes, and values are
    /// words.
    pub shares: bool,
    /// The greatest number of inner nodes on a path so far.
    deepest: AtomicU8,
}

impl<M: Memory, R: Reach> Tree<M, R> {
    /// An empty tree for keys of `key_len` bytes, if all have as many. Links can reach the whole
    /// arenas.
    pub fn new<H: Represent>(
        memory: M,
        placement: Arc<dyn Placement>,
        domain: Domain,
        key_len: Option<usize>,
    ) -> Self {
        let base = Base::of(memory.arenas());
        Tree {
            store: Store::new::<H>(memory, placement, domain),
            root: Root::new(),
            base,
            in_blocks: H::IN_BLOCKS,
            shares: key_len == Some(DENSE_DEPTH + 1) && H::DISPOSE.is_none(),
            deepest: AtomicU8::new(0),
        }
    }

    pub fn memory(&self) -> &M {
        &self.store.memory
    }

    /// Repeats an optimistic attempt until no writer interferes.
    #[inline(always)]
    pub fn retry<T>(&self, attempt: impl FnMut() -> Result<T, Restart>) -> T {
        store::retry(attempt)
    }

    /// The tier of a link's target.
    pub fn tier_of(&self, link: StoredLink) -> TierId {
        self.store.arenas().tier_of(link.address(self.base))
    }

    pub fn is_fast(&self, link: StoredLink) -> bool {
        self.tier_of(link).is_fast()
    }

    /// The tier of a parent; the root pointer counts as fast.
    #[inline(always)]
    pub fn tier_of_parent(&self, parent: &Parent<'_, R>) -> TierId {
        parent
            .address()
            .map_or(TierId::FAST, |address| self.store.arenas().tier_of(address))
    }

    /// Starts to read an inner node, and validates its parent.
    #[inline(always)]
    pub fn enter<'g>(
        &self,
        link: InnerLink<'g>,
        parent: &Parent<'g, R>,
    ) -> Result<Inner<'g, R>, Restart> {
        let inner = link.read(self.base)?;
        parent.validate()?;
        Ok(inner)
    }

    /// Levels of the longest path so far, the leaf included.
    pub fn levels(&self) -> u8 {
        self.deepest.load(Relaxed).saturating_add(1)
    }

    /// Records that a leaf was linked below this many inner nodes.
    #[inline(always)]
    pub fn reaches(&self, level: u8) {
        if level > self.deepest.load(Relaxed) {
            self.deepest.fetch_max(level, Relaxed);
        }
    }

    /// Reports to the placement if a new inner node is in a slower tier than a child, or than a
    /// node that is about to become one.
    pub fn check_boundary(&self, node: &FreshInner<'_, R>, beside: TierId, path: &[u8]) {
        if node.tier().is_fast() {
            return;
        }
        let mut fastest = beside;
        node.each(AT_END, |_, link| {
            fastest = fastest.min(self.tier_of(link));
            !fastest.is_fast()
        });
        self.check_child(node.tier(), fastest, path);
    }

    /// Reports to the placement if the inner node at the end of this path is in a slower tier than
    /// one that is about to become its child.
    pub fn check_child(&self, node: TierId, child: TierId, path: &[u8]) {
        if child < node {
            let (key, height) = (path.into(), 1);
            let node = NodeKey { key, height };
            self.store.placement.boundary_broken(node, child);
        }
    }

    /// Whether a child of this inner node is in a faster tier than the node. Addresses tell, so no
    /// child is read.
    pub fn has_child_faster_than(&self, tier: TierId, node: &Body<R>) -> bool {
        let mut found = false;
        node.each(AT_END, |_, link| {
            found = self.tier_of(link) < tier;
            !found
        });
        found
    }

    /// Charges what a search for `key` reads of a node at this depth.
    #[inline(always)]
    pub fn charge_node(&self, link: InnerLink<'_>, key: &[u8], depth: usize) {
        let address = link.address(self.base);
        let (head, more) = link
            .kind()
            .reads::<R>(key.get(depth).copied().unwrap_or_default());
        self.memory().charge_access(address, head);
        if let Some(offset) = more {
            self.memory().charge_lines(address + offset, size_of::<R>());
        }
    }

    /// Charges the read of a leaf.
    #[inline(always)]
    pub fn visit_leaf(&self, leaf: Leaf<'_>) {
        // The length is not read for nothing.
        if M::CHARGES {
            self.memory().charge_access(leaf.address(), leaf.bytes());
        }
    }

    /// Charges the read of a pack.
    #[inline(always)]
    pub fn visit_pack(&self, pack: Pack<'_>) {
        self.memory().charge_access(pack.address(), PACK_BYTES);
    }

    /// Charges the read of one record of a dense leaf.
    #[inline(always)]
    pub fn visit_dense(&self, dense: DenseLeaf<'_>, at: u8) {
        self.memory().charge_access(dense.address(), DENSE_HEAD);
        let value = dense.address() + value_offset(at);
        self.memory().charge_lines(value, size_of::<u64>());
    }

    /// The block beside a leaf.
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
        self.store.report(access, guard, |on_access| {
            Ok(on_access(self.leaf_ref(terminal)))
        });
    }

    /// A leaf, pack or dense leaf, as a placement sees it.
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

    /// The same for the target of a link.
    #[inline(always)]
    pub fn note_at(&self, link: Link<'_>, access: Access, guard: &Guard) {
        if self.store.report_is_due(guard)
            && let Some(terminal) = link.terminal(self.base)
        {
            self.report(terminal, access, guard);
        }
    }

    /// A key below an inner node, which starts with the node's path.
    pub fn key_below<'g>(&self, mut inner: Inner<'g, R>) -> Result<TerminalKey<'g>, Restart> {
        loop {
            let first = inner.first()?;
            match first.inner() {
                Some(link) => inner = self.enter(link, &Parent::Node(inner, AT_END))?,
                None => {
                    let terminal = first.terminal(self.base).ok_or(Restart)?;
                    return Ok(terminal.key());
                }
            }
        }
    }
}

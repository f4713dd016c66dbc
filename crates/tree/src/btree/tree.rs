//! The tree of words: its parts, the descent, and point operations that need no new node.
//!
//! Reads take no lock. A descent steps from parent to child as the protocol in
//! [`timberline_sync::version`] says. There are no parent pointers and no sibling links: whoever
//! needs a parent descends again, which also finds out whether the node is still there.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use timberline_placement::{Access, Fence, KeyBytes, LeafRef, NewNode, NodeKey, Placement};
use timberline_sync::epoch::{Domain, Guard};
use timberline_sync::{Exclusive, Restart, Snapshot, Versioned};
use timberline_tier::{Memory, OutOfMemory, TierId, hint};

use super::copies;
use super::descent::{Get, Leaf, Seek, Slot};
use super::node::{Body, HEADER, Lanes, Lines, Link, Search, Share, WINDOW};
use super::payload::{Payload, Values, Words};
use crate::InsertError;
use crate::abort::{Abort, attempt};
use crate::cache::RecordCache;
use crate::store::{self, Store};
use crate::value::{Change, Keep};

/// The root's address and height, guarded like a node: it is the root's parent.
#[repr(align(128))]
pub struct Root {
    node: AtomicU64,
    height: AtomicU64,
}

impl Root {
    pub fn node(&self) -> Link {
        Link::from_word(self.node.load(Relaxed))
    }

    pub fn height(&self) -> u8 {
        self.height.load(Relaxed) as u8
    }

    pub fn set(&self, node: Link, height: u8) {
        self.node.store(node.to_word(), Relaxed);
        self.height.store(height.into(), Relaxed);
    }
}

/// A concurrent B+tree from words to words. See [`BTree`](super::BTree) for its typed face.
///
/// With a [`Payload`] that leads to layers it is a forest: trees whose roots hang below leaves of
/// others, in one memory, under one placement, all with the same nodes and the same structure
/// modifications.
pub struct Tree<M: Memory, const WORDS: usize, P: Payload = Words> {
    pub store: Store<M>,
    pub root: Versioned<Root>,
    pub search: Search,
    /// The longest path that was met, in nodes.
    pub deepest: AtomicU8,
    /// How many leaves there are; counted where values lie beside them.
    pub leaves: AtomicUsize,
    /// Where leaves are looked at next to be merged for their memory.
    pub compacted_to: AtomicU64,
    /// Copies of hot records, if the placement wants any.
    pub cache: Option<RecordCache>,
    /// Records of leaves from this address on may have copies: of slow leaves, if of any.
    pub copied_from: usize,
    payload: PhantomData<P>,
}

/// A [`NodeKey`] taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct At<'p> {
    /// The words that lead to the node's layer, each of eight bytes; empty for the topmost tree.
    pub path: &'p [u8],
    pub key: u64,
    /// Steps above the leaves of its layer.
    pub height: u8,
}

impl<'p> At<'p> {
    /// The leaf of the topmost tree that covers `key`.
    pub fn leaf(key: u64) -> At<'static> {
        let path = &[];
        At {
            path,
            key,
            height: 0,
        }
    }

    /// The node that a placement calls so.
    pub fn named(name: &'p NodeKey) -> At<'p> {
        let words = name.key.len().saturating_sub(1) / 8;
        let (path, rest) = name.key.split_at(8 * words);
        At {
            path,
            key: KeyBytes::from(rest).word(),
            height: name.height,
        }
    }

    /// The node's name for those who know no words.
    pub fn name(self) -> NodeKey {
        let fence = Fence {
            prefix: self.path,
            word: Some(self.key),
        };
        NodeKey {
            key: fence.to_bytes(),
            height: self.height,
        }
    }

    /// The node so many steps above the leaves, on the same path.
    pub fn at_height(self, height: u8) -> At<'p> {
        At { height, ..self }
    }
}

/// Where a node hangs.
pub enum Parent<'g, const WORDS: usize> {
    Root(Snapshot<'g, Root>),
    Node(Snapshot<'g, Body<WORDS>>),
    /// A leaf of another layer, and its entry for this one, that a layer's root hangs below.
    Leaf(Snapshot<'g, Body<WORDS>>, At<'g>),
}

/// A node found by key, with its parent; valid as long as both snapshots are.
pub struct Place<'g, const WORDS: usize> {
    /// What was looked for; a leaf above it, if its layer is gone.
    pub at: At<'g>,
    /// Steps below the topmost root.
    pub level: u8,
    pub parent: Parent<'g, WORDS>,
    pub link: Link,
    pub node: Snapshot<'g, Body<WORDS>>,
}

/// A locked parent, to point at another node.
pub enum HeldParent<'g, const WORDS: usize> {
    Root(Exclusive<'g, Root>),
    Node(Exclusive<'g, Body<WORDS>>),
    Leaf(Exclusive<'g, Body<WORDS>>, At<'g>),
}

impl<'g, const WORDS: usize> Parent<'g, WORDS> {
    pub fn upgrade(self) -> Result<HeldParent<'g, WORDS>, Restart> {
        Ok(match self {
            Parent::Root(root) => HeldParent::Root(root.upgrade()?),
            Parent::Node(node) => HeldParent::Node(node.upgrade()?),
            Parent::Leaf(leaf, entry) => HeldParent::Leaf(leaf.upgrade()?, entry),
        })
    }

    /// Where the parent lies; the root's parent counts as fast.
    pub fn tier<M: Memory>(&self, memory: &M) -> TierId {
        match self {
            Parent::Root(_) => TierId::FAST,
            Parent::Node(node) | Parent::Leaf(node, _) => {
                memory.arenas().tier_of(address(node.of()))
            }
        }
    }

    pub fn validate(&self) -> Result<(), Restart> {
        match self {
            Parent::Root(root) => root.validate(),
            Parent::Node(node) | Parent::Leaf(node, _) => node.validate(),
        }
    }
}

impl<const WORDS: usize> HeldParent<'_, WORDS> {
    /// Makes this the parent of another node with a lower fence of `lower`.
    pub fn adopt<P: Payload>(&self, search: Search, lower: u64, node: Link, height: u8) {
        match self {
            HeldParent::Root(cell) => cell.set(node, height),
            HeldParent::Node(above) => {
                above.set_payload(above.child_for(search, lower), node.to_word());
            }
            HeldParent::Leaf(above, entry) => {
                let index = above.find(search, entry.key).expect("a layer has an entry");
                above.set_payload(index, P::with_root(above.payload(index), node));
            }
        }
    }
}

/// Where a node lies.
pub(crate) fn address<T>(node: &Versioned<T>) -> usize {
    std::ptr::from_ref(node) as usize
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
        let cache = match M::TIERED && P::CACHED {
            true => copies::cache(memory.arenas(), Self::BYTES, &*placement),
            false => None,
        };
        let copied_from = match cache {
            Some(_) => memory.arenas().range_of(TierId::FAST).end,
            None => usize::MAX,
        };
        let tree = Tree {
            store: Store::new(memory, placement, domain),
            cache,
            copied_from,
            root: Versioned::new(Root {
                node: AtomicU64::new(0),
                height: AtomicU64::new(0),
            }),
            search: Search::detect(),
            deepest: AtomicU8::new(1),
            leaves: AtomicUsize::new(1),
            compacted_to: AtomicU64::new(0),
            payload: PhantomData,
        };
        let new = NewNode {
            height: 0,
            level: 0,
            parent: TierId::FAST,
            split_from: TierId::FAST,
        };
        let root = tree.allocate(new)?;
        let guard = tree.store.pin();
        root.node::<WORDS>(&guard).claim().reset(0, 0, 0, u64::MAX);
        drop(guard);
        tree.root.claim().set(root, 0);
        Ok(tree)
    }

    pub fn memory(&self) -> &M {
        &self.store.memory
    }

    /// Memory for a node: see [`Store::allocate`].
    pub fn allocate(&self, new: NewNode) -> Result<Link, OutOfMemory> {
        self.store.allocate(new, Self::BYTES).map(Link::to_slot)
    }

    /// Frees a node once nobody can look at it any more. It is unlinked and retired.
    pub fn reclaim(&self, link: Link, height: u8, guard: &Guard) {
        self.count_leaf(height, usize::MAX);
        self.store.reclaim(guard, move |home| {
            if height == 0 {
                home.forget_leaf(link.address());
            }
            link.free::<WORDS>(home.arenas());
        });
    }

    /// Counts a leaf that came (1), or went (-1, wrapped).
    pub fn count_leaf(&self, height: u8, change: usize) {
        if P::VALUES && height == 0 {
            self.leaves.fetch_add(change, Relaxed);
        }
    }

    /// The node at a height on the path to a key, and its parent. `Ok(None)`: the tree is lower.
    /// Where a layer on the way is gone, the leaf that would lead to it stands for the layer's
    /// leaves.
    #[inline]
    pub fn find<'g>(
        &'g self,
        at: At<'g>,
        guard: &'g Guard<'g>,
    ) -> Result<Option<Place<'g, WORDS>>, Restart> {
        self.find_passing(at, |_, _| {}, guard)
    }

    /// The same, showing each node on the way to `pass`.
    #[inline]
    pub fn find_passing<'g>(
        &'g self,
        at: At<'g>,
        mut pass: impl FnMut(At<'g>, Link),
        guard: &'g Guard<'g>,
    ) -> Result<Option<Place<'g, WORDS>>, Restart> {
        let root = self.root.read()?;
        let (mut link, mut height) = root.get(|root| (root.node(), root.height()))?;
        let mut node = link.node(guard).read()?;
        let mut parent = Parent::Root(root);
        parent.validate()?;
        let (mut level, mut known) = (0u8, 0);
        loop {
            let next = at.path[known..].first_chunk().map(|word| At {
                path: &at.path[..known],
                key: u64::from_be_bytes(*word),
                height: 0,
            });
            let here = next.unwrap_or(at);
            if height < here.height {
                return Ok(None);
            }
            while height > here.height {
                pass(here.at_height(height), link);
                let child = node.get(|body| self.find_child(self.search, body, here.key).1)?;
                self.prefetch_all(child);
                let snapshot = child.node(guard).read()?;
                node.validate()?;
                parent = Parent::Node(node);
                (link, node, height) = (child, snapshot, height - 1);
                level = level.saturating_add(1);
            }
            pass(here.at_height(height), link);
            let entry = match next {
                None => None,
                Some(entry) => node.get(|body| {
                    self.charge_node(body);
                    let index = body.find(self.search, entry.key).ok()?;
                    Some(body.payload(index))
                })?,
            };
            let below = entry.and_then(|payload| {
                P::enter(here.key, payload, &at.path[known + size_of::<u64>()..])
            });
            let Some((root, skipped)) = below else {
                let found = Place {
                    at: here,
                    level,
                    parent,
                    link,
                    node,
                };
                return Ok((next.is_none() || at.height == 0).then_some(found));
            };
            let snapshot = root.node::<WORDS>(guard).read()?;
            node.validate()?;
            parent = Parent::Leaf(node, here);
            (link, node) = (root, snapshot);
            height = node.get(Body::height)?;
            level = level.saturating_add(1);
            known += size_of::<u64>() + skipped;
        }
    }

    /// Where a node lies.
    pub fn tier_of(&self, node: Snapshot<'_, Body<WORDS>>) -> TierId {
        self.memory().arenas().tier_of(address(node.of()))
    }

    /// Takes notice of a node so many steps below the topmost root.
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

    /// Has the CPU fetch what a search in this node will read.
    #[inline(always)]
    pub fn prefetch(&self, link: Link) {
        hint::prefetch_lines(
            link.address(),
            (HEADER + 8 * Self::CAPACITY).div_ceil(hint::LINE),
        );
    }

    /// Has the CPU fetch all of a node, to read one entry after the other.
    #[inline(always)]
    pub fn prefetch_all(&self, link: Link) {
        hint::prefetch_lines(link.address(), Self::BYTES / hint::LINE);
    }

    /// Has the CPU fetch the lines of a leaf that a search will likely read.
    #[inline(always)]
    pub fn prefetch_near(&self, link: Link, lines: Lines) {
        let line = |line: usize| link.address() + line * hint::LINE;
        hint::prefetch_lines(line(0), 1);
        hint::prefetch_lines(line(lines.keys), Lines::KEYS);
        hint::prefetch_lines(line(lines.payloads), Lines::PAYLOADS);
    }

    /// As [`prefetch_near`](Self::prefetch_near), of an inner node.
    #[inline(always)]
    pub fn prefetch_inner(&self, link: Link, lines: Lines) {
        self.prefetch(link);
        let payloads = link.address() + lines.payloads * hint::LINE;
        hint::prefetch_lines(payloads, Lines::PAYLOADS);
    }

    /// A record's index in its leaf, or where it would have to go. Looks first where a key of this
    /// share should be.
    #[inline(always)]
    pub fn seek(
        &self,
        lanes: impl Lanes,
        body: &Body<WORDS>,
        key: u64,
        share: Share,
    ) -> Result<usize, usize> {
        if !Body::<WORDS>::GUESSED {
            self.charge_node(body);
            return body.find(lanes, key);
        }
        self.memory().charge_access(node_address(body), HEADER);
        let first = body.window_of(share);
        self.charge_window(body, first);
        if let Some(index) = body.find_near(lanes, key, first) {
            return Ok(index);
        }
        let index = match body.rank_near(lanes, key, first) {
            Ok(index) => index,
            Err(Ordering::Less) => self.rank_far(body, key, first.saturating_sub(WINDOW)),
            Err(_) => self.rank_far(body, key, first + WINDOW),
        };
        body.entry_at(index, key)
    }

    /// The rank of a key that is not where it was expected: next to that, or anywhere.
    // Returns one word: a call that returns two is never inlined into code for another CPU, nor
    // what contains it.
    #[cold]
    fn rank_far(&self, body: &Body<WORDS>, key: u64, next: usize) -> usize {
        self.charge_window(body, next);
        body.rank_near(self.search, key, next).unwrap_or_else(|_| {
            // A wait of its own: none of these lines was asked for.
            self.prefetch(Link::from_word(node_address(body) as u64));
            self.charge_node(body);
            body.rank(self.search, key)
        })
    }

    /// Tells the memory that a window of keys is read in the same visit.
    #[inline(always)]
    fn charge_window(&self, body: &Body<WORDS>, first: usize) {
        self.memory()
            .charge_lines(node_address(body) + HEADER + 8 * first, 8 * WINDOW);
    }

    /// Tells the memory that a node's header and keys are read.
    #[inline(always)]
    pub fn charge_node(&self, body: &Body<WORDS>) {
        if M::TIERED {
            self.memory()
                .charge_access(node_address(body), HEADER + 8 * body.count());
        }
    }

    /// Reads which child covers a key, and where it is. The memory is told of both.
    #[inline(always)]
    pub fn find_child(&self, lanes: impl Lanes, body: &Body<WORDS>, key: u64) -> (usize, Link) {
        self.charge_node(body);
        let index = body.child_for(lanes, key);
        self.charge_payload(body, index);
        (index, body.child(index))
    }

    /// Tells the memory that a payload is read in the same visit.
    #[inline(always)]
    pub fn charge_payload(&self, body: &Body<WORDS>, index: usize) {
        self.memory()
            .charge_lines(node_address(body) + Body::<WORDS>::payload_offset(index), 8);
    }

    /// Reports an access to a leaf, if it is this thread's turn.
    #[inline(always)]
    pub fn note(&self, leaf: Snapshot<'_, Body<WORDS>>, access: Access) {
        if self.store.report_is_due() {
            self.report(leaf, access);
        }
    }

    /// Unlocks a leaf that was written, and reports the access.
    #[inline(always)]
    pub fn note_unlocked(&self, held: Held<'_, WORDS>, access: Access) {
        let node = held.of();
        drop(held);
        if M::TIERED
            && let Ok(leaf) = node.read()
        {
            self.note(leaf, access);
        }
    }

    #[cold]
    #[inline(never)]
    fn report(&self, leaf: Snapshot<'_, Body<WORDS>>, access: Access) {
        let link = address(leaf.of());
        self.store.report(access, |touched| {
            leaf.get(|body| touched(self.leaf_ref(link, body)))
        });
    }

    /// A leaf as a placement sees it.
    pub fn leaf_ref<'a>(&self, address: usize, body: &'a Body<WORDS>) -> LeafRef<'a> {
        let tier = self.memory().arenas().tier_of(address);
        LeafRef {
            address,
            tier,
            fence: Fence {
                prefix: P::path(self.memory().arenas(), body.layer()),
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

/// Lookups where there is one tree.
impl<M: Memory, const WORDS: usize, H: Keep> Tree<M, WORDS, Values<H>> {
    /// The leaf that covers `key`.
    #[inline(always)]
    pub fn leaf<'g>(&'g self, key: u64, guard: &'g Guard<'g>) -> Snapshot<'g, Body<WORDS>> {
        self.leaf_near(key, guard).0
    }

    /// The leaf that covers `key`, and the key's part of its range.
    #[inline(always)]
    pub fn leaf_near<'g>(
        &'g self,
        key: u64,
        guard: &'g Guard<'g>,
    ) -> (Snapshot<'g, Body<WORDS>>, Share) {
        self.search.run(Leaf {
            tree: self,
            key,
            guard,
        })
    }

    /// The place of `key` in its leaf. `SHIFTS`: others may have to move aside for it.
    #[inline(always)]
    pub fn slot<'g, const SHIFTS: bool>(
        &'g self,
        key: u64,
        guard: &'g Guard<'g>,
    ) -> Result<Slot<'g, WORDS>, Restart> {
        let tree = self;
        let leaf = Leaf { tree, key, guard };
        self.search.run(Seek::<_, _, _, SHIFTS>(leaf))
    }

    /// What `out` makes of the value of a key.
    #[inline(always)]
    pub fn get<R>(&self, key: u64, out: impl FnOnce(u64) -> R) -> Option<R> {
        let guard = &self.store.pin();
        let found = self.search.run(Get {
            tree: self,
            key,
            guard,
        });
        found.map(out)
    }

    /// A record's value, from a leaf that may be changing.
    #[inline(always)]
    pub fn look_up(
        &self,
        lanes: impl Lanes,
        body: &Body<WORDS>,
        key: u64,
        share: Share,
    ) -> Option<u64> {
        let index = self.seek(lanes, body, key, share).ok()?;
        self.charge_payload(body, index);
        Some(body.payload(index))
    }

    /// The leaf of a present record, and the record's index there.
    pub fn record<'g>(
        &'g self,
        key: u64,
        guard: &'g Guard<'g>,
    ) -> Result<Option<(Snapshot<'g, Body<WORDS>>, usize)>, Restart> {
        let Slot { leaf, found, .. } = self.slot::<false>(key, guard)?;
        Ok(found.ok().map(|index| (leaf, index)))
    }

    /// Replaces a present record's value by `change` of it, atomically. Returns what `out` makes of
    /// the value before.
    pub fn modify<R>(
        &self,
        key: u64,
        mut change: impl Change,
        mut out: impl FnMut(u64) -> R,
    ) -> Result<Option<R>, InsertError> {
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            attempt(|| self.try_modify(key, change, &mut out, &guard))
        })
    }

    fn try_modify<R, C: Change>(
        &self,
        key: u64,
        change: &mut C,
        out: &mut impl FnMut(u64) -> R,
        guard: &Guard,
    ) -> Result<Option<R>, Abort> {
        let Some((leaf, index)) = self.record(key, guard)? else {
            return Ok(None);
        };
        if C::PREPARES {
            let before = leaf.get(|body| body.payload(index))?;
            change.prepare(Some(before), self.tier_of(leaf))?;
        }
        let held = leaf.upgrade()?;
        self.charge_payload(&held, index);
        let before = held.payload(index);
        match change.change(Some(before)) {
            Some(after) => {
                held.set_payload(index, after);
                let access = self.rewrite_copy(&held, key, after, guard);
                self.reclaim_value(before, guard);
                self.note_unlocked(held, access);
            }
            None => held.unchanged(),
        }
        Ok(Some(out(before)))
    }
}

/// A body lies one word behind the start of its node.
#[inline(always)]
pub(crate) fn node_address<const WORDS: usize>(body: &Body<WORDS>) -> usize {
    std::ptr::from_ref(body) as usize - size_of::<u64>()
}

pub(crate) type Held<'g, const WORDS: usize> = Exclusive<'g, Body<WORDS>>;

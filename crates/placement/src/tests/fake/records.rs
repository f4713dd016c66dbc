//! A tree with a leaf for each record, as a radix tree has them: tiny leaves, inner nodes of many
//! sizes that take a fifth of it. For simulations of a hundred thousand leaves, so every call is
//! cheap, and the single boundary is kept by counts of fast children rather than checked from
//! outside.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::Relaxed};

use timberline_tier::TierId;

use crate::{
    Compaction, Fence, Fill, KeyBytes, LeafRef, Move, NodeKey, Placement, RecordCache, Relocate,
    Walk,
};

/// Leaves below a node of each height, and its bytes. The last height is the root's.
const SHAPES: [(usize, usize); 4] = [(1, 24), (16, 96), (2048, 1056), (usize::MAX, 2080)];
/// Bytes between leaves in the arenas.
const APART: usize = 32;

/// All nodes start slow.
pub struct FakeRecords {
    placement: Arc<dyn Placement>,
    /// Where leaves lie, fast and slow.
    arenas: [usize; 2],
    limit: usize,
    used: AtomicUsize,
    /// Bytes of fast leaves.
    in_leaves: AtomicUsize,
    /// The most there may be, and the most of inner nodes, where memory is divided once and for
    /// all.
    divided: Option<[usize; 2]>,
    heats: Vec<AtomicU16>,
    levels: Vec<Vec<Node>>,
    moves: AtomicUsize,
}

#[derive(Default)]
struct Node {
    is_fast: AtomicBool,
    fast_children: AtomicUsize,
}

impl FakeRecords {
    /// `leaves` records, room for `limit` bytes of fast nodes; `fast` and `slow` are addresses, 32
    /// bytes for each leaf.
    pub fn new(
        leaves: usize,
        limit: usize,
        placement: Arc<dyn Placement>,
        [fast, slow]: [Range<usize>; 2],
    ) -> Self {
        assert!(fast.len().min(slow.len()) >= leaves * APART);
        let nodes = |below: usize| (0..leaves.div_ceil(below)).map(|_| Node::default());
        FakeRecords {
            placement,
            arenas: [fast.start, slow.start],
            limit,
            used: AtomicUsize::new(0),
            in_leaves: AtomicUsize::new(0),
            divided: None,
            heats: (0..leaves).map(|_| AtomicU16::new(0)).collect(),
            levels: SHAPES.iter().map(|&(it, _)| nodes(it).collect()).collect(),
            moves: AtomicUsize::new(0),
        }
    }

    /// From now on fast leaves and fast inner nodes do without each other's memory, and a twentieth
    /// more would be free if it were not in slots that fit neither.
    pub fn divide(&mut self) {
        let leaves = self.in_leaves.load(Relaxed);
        self.divided = Some([leaves, self.used.load(Relaxed) - leaves]);
        self.limit += self.limit / 20;
    }

    /// Addresses that it needs in each tier, bytes.
    pub fn addresses(leaves: usize) -> usize {
        leaves * APART
    }

    /// Bytes of a tree of this many leaves.
    pub fn bytes(leaves: usize) -> usize {
        let nodes = |&(below, bytes): &(usize, usize)| leaves.div_ceil(below) * bytes;
        SHAPES.iter().map(nodes).sum()
    }

    /// Whether the nth leaf is fast, and how many nodes on its path are, of how many.
    pub fn fast_on_path(&self, n: usize) -> (bool, usize, usize) {
        let fast = |height| self.node(height, n).is_fast.load(Relaxed);
        let on_path = (0..SHAPES.len()).filter(|&height| fast(height)).count();
        (fast(0), on_path, SHAPES.len())
    }

    /// Nodes moved since the last call.
    pub fn moves(&self) -> usize {
        self.moves.swap(0, Relaxed)
    }

    /// Shows the nth leaf.
    pub fn with_leaf<T>(&self, n: usize, visit: impl FnOnce(LeafRef<'_>) -> T) -> T {
        let is_fast = self.node(0, n).is_fast.load(Relaxed);
        visit(self.leaf_in(n, if is_fast { TierId::FAST } else { TierId::SLOW }))
    }

    /// The nth leaf's name.
    pub fn leaf(n: usize) -> KeyBytes {
        KeyBytes::of_word(n as u64)
    }

    fn leaf_in(&self, n: usize, tier: TierId) -> LeafRef<'_> {
        LeafRef {
            address: self.arenas[tier.index()] + n * APART,
            tier,
            fence: Fence::of_word(n as u64),
            heat: &self.heats[n],
        }
    }

    fn node(&self, height: usize, leaf: usize) -> &Node {
        &self.levels[height][leaf / SHAPES[height].0]
    }

    fn has_room(&self, height: usize, bytes: usize) -> bool {
        let (used, leaves) = (self.used.load(Relaxed), self.in_leaves.load(Relaxed));
        let in_class = match (self.divided, height) {
            (None, _) => true,
            (Some([most, _]), 0) => leaves + bytes <= most,
            (Some([_, most]), _) => used - leaves + bytes <= most,
        };
        in_class && used + bytes <= self.limit
    }

    fn move_to(&self, height: usize, leaf: usize, tier: TierId) -> Move {
        let (node, bytes) = (self.node(height, leaf), SHAPES[height].1);
        let above = (height + 1 < SHAPES.len()).then(|| self.node(height + 1, leaf));
        if node.is_fast.load(Relaxed) == tier.is_fast() {
            return Move::AlreadyThere;
        }
        if tier.is_fast() {
            if !self.has_room(height, bytes) {
                return Move::Full;
            }
            assert!(above.is_none_or(|it| it.is_fast.load(Relaxed)));
            self.used.fetch_add(bytes, Relaxed);
            above.inspect(|it| _ = it.fast_children.fetch_add(1, Relaxed));
        } else {
            if node.fast_children.load(Relaxed) > 0 {
                return Move::Blocked;
            }
            self.used.fetch_sub(bytes, Relaxed);
            above.inspect(|it| _ = it.fast_children.fetch_sub(1, Relaxed));
        }
        if height == 0 {
            match tier.is_fast() {
                true => self.in_leaves.fetch_add(bytes, Relaxed),
                false => self.in_leaves.fetch_sub(bytes, Relaxed),
            };
            let from = self.with_leaf(leaf, |leaf| leaf.tier);
            let (from, to) = (self.leaf_in(leaf, from), self.leaf_in(leaf, tier));
            self.placement.leaf_moved(from, to);
            self.placement.leaf_freed(from.address);
        }
        node.is_fast.store(tier.is_fast(), Relaxed);
        self.moves.fetch_add(1, Relaxed);
        Move::Moved(1)
    }

    fn first_below(&self, node: &NodeKey) -> usize {
        let below = SHAPES[usize::from(node.height)].0;
        node.key.word() as usize / below * below
    }

    fn name(height: usize, leaf: usize) -> NodeKey {
        let below = SHAPES[height].0;
        NodeKey::of_word((leaf / below * below) as u64, height as u8)
    }
}

impl Walk for FakeRecords {
    fn levels(&self) -> u8 {
        SHAPES.len() as u8
    }

    fn level_of(&self, node: &NodeKey) -> u8 {
        self.levels() - 1 - node.height
    }

    fn node_bytes(&self) -> usize {
        SHAPES[0].1
    }

    fn fill(&self, tier: TierId) -> Fill {
        let used = self.used.load(Relaxed);
        match tier.is_fast() {
            true => Fill {
                used,
                limit: self.limit,
            },
            false => Fill {
                used: Self::bytes(self.heats.len()) - used,
                limit: usize::MAX,
            },
        }
    }

    fn each_leaf(&self, from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>) {
        for n in KeyBytes::from(from).word() as usize..self.heats.len() {
            if self.with_leaf(n, &mut *visit).is_break() {
                return;
            }
        }
    }

    fn each_leaf_in(
        &self,
        tier: TierId,
        from: &[u8],
        visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>,
    ) {
        assert!(tier.is_fast(), "a tree of two tiers");
        let mut n = KeyBytes::from(from).word() as usize;
        while n < self.heats.len() {
            // The highest slow node above: nothing below it is fast.
            let fast = |&height: &usize| self.node(height, n).is_fast.load(Relaxed);
            match (0..SHAPES.len() - 1).rev().find(|height| !fast(height)) {
                Some(height) => n = (n / SHAPES[height].0 + 1) * SHAPES[height].0,
                None if self.with_leaf(n, &mut *visit).is_break() => return,
                None => n += 1,
            }
        }
    }

    fn lowest_fast_inner(&self, draw: u64) -> Option<NodeKey> {
        let bottom = &self.levels[1];
        let start = draw as usize % bottom.len();
        let index = (start..bottom.len())
            .chain(0..start)
            .find(|&index| bottom[index].is_fast.load(Relaxed))?;
        Some(Self::name(1, index * SHAPES[1].0))
    }

    fn parent_of(&self, node: &NodeKey) -> Option<NodeKey> {
        let height = usize::from(node.height) + 1;
        (height < SHAPES.len()).then(|| Self::name(height, self.first_below(node)))
    }

    fn fence_at(&self, address: usize) -> Option<KeyBytes> {
        let [fast, slow] = self.arenas;
        let start = if (fast..fast + self.heats.len() * APART).contains(&address) {
            fast
        } else {
            slow
        };
        let n = (address - start) / APART;
        (n < self.heats.len()).then(|| Self::leaf(n))
    }
}

impl Relocate for FakeRecords {
    /// Memory is free at once.
    fn reclaim(&self) {}

    fn tiers(&self) -> u8 {
        2
    }

    fn promote_to(&self, node: &NodeKey, to: TierId) -> Move {
        assert_eq!(to, TierId::FAST);
        let leaf = self.first_below(node);
        let mut moved = 0;
        for height in (usize::from(node.height)..SHAPES.len()).rev() {
            match self.move_to(height, leaf, TierId::FAST) {
                Move::Moved(nodes) => moved += nodes,
                Move::AlreadyThere => {}
                other => return other,
            }
        }
        match moved {
            0 => Move::AlreadyThere,
            nodes => Move::Moved(nodes),
        }
    }

    fn demote_to(&self, node: &NodeKey, to: TierId) -> Move {
        assert_eq!(to, TierId::SLOW);
        self.move_to(
            usize::from(node.height),
            self.first_below(node),
            TierId::SLOW,
        )
    }

    fn demote_subtree_to(&self, node: &NodeKey, to: TierId) -> Move {
        assert_eq!(to, TierId::SLOW);
        let first = self.first_below(node);
        let end = first.saturating_add(SHAPES[usize::from(node.height)].0);
        let mut moved = 0;
        let heights = SHAPES.iter().enumerate().take(1 + usize::from(node.height));
        for (height, &(below, _)) in heights {
            for leaf in (first..end.min(self.heats.len())).step_by(below) {
                moved += usize::from(self.move_to(height, leaf, TierId::SLOW) == Move::Moved(1));
            }
        }
        Move::Moved(moved)
    }
}

impl Compaction for FakeRecords {}

impl RecordCache for FakeRecords {}

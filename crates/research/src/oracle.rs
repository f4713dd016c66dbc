//! `oracle`: static placement from exact frequencies. It is told how often each leaf will be
//! accessed, places the nodes once, and never moves them again. Adaptive placements can beat it.
//!
//! The frequencies come from a rehearsal: while it counts, every access to a leaf is reported to
//! it.
//!
//! An access to a leaf visits its ancestors too, and a visit to any node touches about as many
//! lines. So the most fast lines for a byte are those of the node with the most accesses at or
//! below it for its size: nodes are taken in this order, each with the ancestors it still lacks.
//! (The best choice is a knapsack with precedences, which this greedy order comes close to where
//! nodes are small beside the budget.)

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timberline_tier::Striped;
use timberline_tier::TierId;

use timberline_placement::NodeQueue;
use timberline_placement::workers::lock;
use timberline_placement::{
    Access, LeafRef, MAX_SAMPLE_INTERVAL, Move, NewNode, NodeKey, Placed, Placement,
};

use crate::table::{Kind, Made, Make, Row, Style};

pub(crate) const ROW: Row = Row {
    more_tiers: true,
    kind: Kind::Oracle,
    style: Style::of("#7b4bb8", "#c09bf0").dashed("6 4"),
    ..Row::new(
        "oracle",
        "static placement of nodes from exact frequencies; adaptive ones can beat it",
        Make::Nodes(|_| {
            let oracle = Arc::new(Oracle::default());
            let made = Made::with_workers(oracle.clone(), Vec::new());
            let oracle = Some(oracle);
            Ok(Made { oracle, ..made })
        }),
    )
};

/// Accesses of each leaf that was touched, by its address.
type Counts = HashMap<usize, u64>;

/// Static placement from exact frequencies: [`Oracle::arrange`] places the nodes once.
#[derive(Default)]
pub struct Oracle {
    counting: AtomicBool,
    counts: Striped<Mutex<Counts>>,
    /// Slow nodes that got a fast child.
    broken: NodeQueue,
}

impl Placement for Oracle {
    fn on_access(&self, leaf: LeafRef<'_>, access: Access) -> u32 {
        if !self.counting.load(Relaxed) {
            return MAX_SAMPLE_INTERVAL;
        }
        if access != Access::Insert {
            *lock(self.counts.assigned())
                .entry(leaf.address)
                .or_default() += 1;
        }
        1
    }

    /// While loading, inner nodes are fast and leaves slow; the halves of a split stay together.
    fn place(&self, node: NewNode) -> TierId {
        match node.height {
            0 => node.split_from.max(node.parent),
            _ => node.parent,
        }
    }

    fn boundary_broken(&self, node: NodeKey, _: TierId) {
        self.broken.push(node);
    }
}

impl Oracle {
    /// From now on, counts every access to a leaf. (A thread that was told to let accesses pass
    /// does so before: at most [`MAX_SAMPLE_INTERVAL`].)
    pub fn begin_counting(&self) {
        self.counting.store(true, Relaxed);
    }

    /// Stops counting, and places the nodes of a quiet tree in which nothing moved meanwhile: those
    /// with the most accesses are fast, as many as fit while `reserve` nodes' worth of fast memory
    /// stays free. Returns how many leaves are fast.
    ///
    /// Sleeps a millisecond at a time while the memory of demoted nodes cannot be reclaimed.
    pub fn arrange(&self, tree: &dyn Placed, reserve: usize) -> usize {
        const MOMENT: Duration = Duration::from_millis(1);
        self.arrange_pausing(tree, reserve, || std::thread::sleep(MOMENT))
    }

    /// As [`arrange`](Self::arrange), but calls `pause` after each attempt that reclaimed nothing.
    /// It gives up after 300 of these in a row.
    pub fn arrange_pausing(&self, tree: &dyn Placed, reserve: usize, pause: impl FnMut()) -> usize {
        self.counting.store(false, Relaxed);
        let mut counts = Counts::default();
        for lane in self.counts.iter() {
            for (address, count) in lock(lane).drain() {
                *counts.entry(address).or_default() += count;
            }
        }
        let ranked = rank(tree, &counts);
        let Some((_, _, top)) = ranked.first() else {
            return 0;
        };
        for node in self.broken.take() {
            tree.demote_subtree(&node);
        }
        make_room(tree, top, pause);
        promote(tree, &ranked, reserve)
    }
}

/// A node, accesses at or below it for each of its bytes, and whether it is a leaf.
type Ranked = (f64, bool, NodeKey);

/// The nodes that are accessed, most accesses a byte first.
fn rank(tree: &dyn Placed, counts: &Counts) -> Vec<Ranked> {
    let mut leaves: Vec<(u64, NodeKey)> = Vec::new();
    tree.each_leaf(&[], &mut |leaf| {
        if let Some(&count) = counts.get(&leaf.address) {
            leaves.push((count, NodeKey::leaf(leaf.fence.to_bytes())));
        }
        ControlFlow::Continue(())
    });
    // Accesses and parent of each inner node; a leaf's parent is looked up once, an inner node's
    // once for all below it.
    let mut inner: HashMap<NodeKey, (u64, Option<NodeKey>)> = HashMap::new();
    for (count, leaf) in &leaves {
        let mut above = tree.parent_of(leaf);
        while let Some(name) = above {
            let (below, parent) = inner
                .entry(name)
                .or_insert_with_key(|name| (0, tree.parent_of(name)));
            *below += count;
            above = parent.clone();
        }
    }
    let by_byte = |count: u64, node: &NodeKey| count as f64 / tree.bytes_of(node).max(1) as f64;
    let inner = inner
        .into_iter()
        .map(|(node, (count, _))| (by_byte(count, &node), false, node));
    let leaves = leaves
        .into_iter()
        .map(|(count, leaf)| (by_byte(count, &leaf), true, leaf));
    let mut ranked: Vec<Ranked> = inner.chain(leaves).collect();
    ranked.sort_unstable_by(|one, two| two.0.total_cmp(&one.0).then_with(|| one.2.cmp(&two.2)));
    ranked
}

/// Demotes all nodes: it is not known in advance which ones would block a hotter node.
fn make_room(tree: &dyn Placed, any: &NodeKey, pause: impl FnMut()) {
    // If fast memory was full while the tree grew, slow nodes may lie above fast leaves. So leaves
    // are demoted first, each by its name.
    let slowest = TierId(tree.tiers() - 1);
    let mut fast = Vec::new();
    tree.each_leaf(&[], &mut |leaf| {
        if leaf.tier < slowest {
            fast.push(NodeKey::leaf(leaf.fence.to_bytes()));
        }
        ControlFlow::Continue(())
    });
    for leaf in &fast {
        tree.demote_to(leaf, slowest);
    }
    let root = std::iter::successors(Some(any.clone()), |node| tree.parent_of(node)).last();
    tree.demote_subtree_to(&root.expect("the node itself at least"), slowest);
    await_memory(tree, pause);
}

/// Waits until all tiers but the slowest are empty, or until many attempts in a row have reclaimed
/// nothing. On a busy machine, a thread that is pinned but not running holds back retired memory,
/// and nodes that do not fit meanwhile would stay slow.
fn await_memory(tree: &dyn Placed, mut pause: impl FnMut()) {
    /// With pauses of a millisecond, longer than the scheduler keeps a thread waiting.
    const NOTHING_CAME: u32 = 300;
    let (mut least, mut nothing_came) = (usize::MAX, 0);
    while least > 0 && nothing_came < NOTHING_CAME {
        tree.reclaim();
        let faster = (0..tree.tiers() - 1).map(|tier| tree.fill(TierId(tier)).used);
        let used = faster.sum();
        if used < least {
            (least, nothing_came) = (used, 0);
        } else {
            nothing_came += 1;
            pause();
        }
    }
}

/// Promotes the nodes in this order: as many as fit to the fast tier, then to the next. Returns how
/// many leaves are fast.
fn promote(tree: &dyn Placed, ranked: &[Ranked], reserve: usize) -> usize {
    /// Where nodes differ in size, one that does not fit says little about the next.
    const REFUSALS: usize = 64;
    let mut nodes = ranked.iter().peekable();
    let mut fast_leaves = 0;
    for tier in (0..tree.tiers() - 1).map(TierId) {
        let (mut leaves, mut refused) = (0, 0);
        // The tier is empty now. After a refused promotion, the effective capacity would be too low
        // for smaller nodes.
        let limit = tree.fill(tier).limit;
        while let Some((_, is_leaf, node)) = nodes.peek() {
            let used = tree.fill(tier).used;
            if used + (reserve + 1) * tree.node_bytes() > limit || refused == REFUSALS {
                break;
            }
            match tree.promote_to(node, tier) {
                Move::Moved(_) | Move::AlreadyThere => leaves += usize::from(*is_leaf),
                Move::Stale | Move::Blocked => {}
                Move::Full => refused += 1,
            }
            nodes.next();
        }
        if tier.is_fast() {
            fast_leaves = leaves;
        }
    }
    fast_leaves
}

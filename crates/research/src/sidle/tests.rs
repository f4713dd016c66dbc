//! The workers together, on a small tree, in a time of the test's own.

use std::ops::ControlFlow;

use super::*;
use timberline_placement::fake::{Clockwork, FakeTree};
use timberline_placement::workers::{Next, Workers};
use timberline_placement::{Relocate, Walk};

const NOW: Duration = Duration::ZERO;

fn sidle() -> Arc<Sidle> {
    Sidle::new(SidleConfig::default())
}

fn params(l_fast: u8, l_demote: u8, p_hot: u8, p_cold: u8) -> Params {
    Params {
        l_fast,
        l_demote,
        p_hot,
        p_cold,
    }
}

fn node(key: u64, height: u8) -> NodeKey {
    NodeKey::of_word(key, height)
}

/// Two scans: the first fills the histogram, the second judges by it.
fn scan_twice(sidle: &Arc<Sidle>, tree: &FakeTree) {
    let mut trigger = trigger::Trigger::new(sidle.clone());
    trigger.step(tree, NOW);
    trigger.step(tree, NOW);
}

pub fn drain(queue: &NodeQueue) -> Vec<NodeKey> {
    std::iter::from_fn(|| queue.pop()).collect()
}

/// The nodes that became slow since last asked, in order.
pub fn demotions(tree: &FakeTree) -> Vec<NodeKey> {
    let moves = tree.moves().into_iter();
    moves
        .filter(|(_, tier)| !tier.is_fast())
        .map(|(node, _)| node)
        .collect()
}

#[test]
fn new_nodes_go_by_layer_and_parent() {
    let sidle = sidle();
    let place = |level, height, parent, split_from| {
        sidle.place(NewNode {
            height,
            level,
            parent,
            split_from,
        })
    };
    let (fast, slow) = (TierId::FAST, TierId::SLOW);
    assert_eq!(
        place(9, 0, fast, fast),
        fast,
        "at first all levels are fast"
    );
    sidle.params.store(params(2, 2, 5, 80));
    assert_eq!(place(1, 1, fast, fast), fast);
    assert_eq!(place(1, 1, slow, fast), slow, "below a slow parent");
    assert_eq!(place(2, 0, fast, fast), slow, "below the fast layers");
    assert_eq!(place(2, 1, fast, slow), slow, "below the fast layers");
    assert_eq!(place(2, 1, fast, fast), fast, "takes over fast children");
}

#[test]
fn heat_counts_every_access_saturates_and_follows_the_leaf() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(2, 3, 9));
    for _ in 0..3 {
        assert_eq!(
            tree.with_leaf(0, |leaf| sidle.on_access(leaf, Access::Reuse)),
            1
        );
    }
    assert_eq!(tree.heat(0), 3);
    tree.with_leaf(0, |left| {
        tree.with_leaf(1, |right| sidle.leaf_split(left, right));
    });
    assert_eq!((tree.heat(0), tree.heat(1)), (2, 1));
    tree.with_leaf(0, |from| {
        tree.with_leaf(2, |to| sidle.leaf_moved(from, to));
    });
    assert_eq!(tree.heat(2), 2);
    tree.set_heat(0, u16::MAX - 1);
    for _ in 0..3 {
        tree.with_leaf(0, |leaf| sidle.on_access(leaf, Access::Reuse));
    }
    assert_eq!(tree.heat(0), u16::MAX);
}

/// Figure 10(b): leaves A, B, C, D below E = {A, B} and F = {C, D}; all but D are to go.
fn figure_10b() -> (FakeTree, [NodeKey; 4], [NodeKey; 3]) {
    let tree = FakeTree::uniform(3, 2, 7);
    tree.set_all(TierId::FAST);
    let leaves = [0, 1, 2, 3].map(FakeTree::leaf);
    (tree, leaves, [node(0, 1), node(20, 1), node(0, 2)])
}

#[test]
fn algorithm_1_demotes_in_the_published_order() {
    let (sidle, (tree, [a, b, c, d], [e, f, root])) = (sidle(), figure_10b());
    for l_demote in [0, 1] {
        tree.set_all(TierId::FAST);
        sidle.params.store(params(3, l_demote, 5, 80));
        for leaf in [&a, &b, &c] {
            sidle.demotions.push(leaf.clone());
        }
        demoter::Demoter::new(sidle.clone()).step(&tree, NOW);
        assert_eq!(
            demotions(&tree),
            [&a, &b, &c, &e].map(NodeKey::clone),
            "L_demote {l_demote}"
        );
        for fast in [&d, &f, &root] {
            assert!(tree.tier(fast).is_fast(), "{fast:?}");
        }
        assert!(sidle.demotions.is_empty());
    }
    assert_eq!(sidle.snapshot().demoted, 8);
}

#[test]
fn nodes_above_l_demote_stay() {
    let (sidle, (tree, leaves, _)) = (sidle(), figure_10b());
    let demoted = |l_demote| {
        tree.set_all(TierId::FAST);
        sidle.params.store(params(3, l_demote, 5, 80));
        leaves
            .iter()
            .for_each(|leaf| sidle.demotions.push(leaf.clone()));
        demoter::Demoter::new(sidle.clone()).step(&tree, NOW);
        demotions(&tree).len()
    };
    assert_eq!([3, 2, 1, 0].map(demoted), [0, 4, 6, 7]);
}

#[test]
fn the_trigger_queues_hot_slow_and_cold_fast_leaves() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, 7));
    tree.promote_node(&FakeTree::leaf(0));
    tree.promote_node(&FakeTree::leaf(1));
    for (leaf, heat) in [(0, 0), (1, 200), (2, 3), (3, 300)] {
        tree.set_heat(leaf, heat);
    }
    sidle.params.store(params(3, 2, 50, 25));
    scan_twice(&sidle, &tree);
    let snapshot = sidle.snapshot();
    assert_eq!((snapshot.t_hot, snapshot.t_cold), (4, 2));
    assert_eq!(snapshot.histogram.iter().sum::<u64>(), 4);
    assert_eq!(drain(&sidle.promotions), [FakeTree::leaf(3)]);
    assert_eq!(drain(&sidle.demotions), [FakeTree::leaf(0)]);
    assert!(sidle.wake_promoter.take() && sidle.wake_demoter.take());
}

#[test]
fn the_first_scan_judges_nothing() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, 7));
    sidle.params.store(params(3, 0, 100, 0));
    tree.set_heat(2, 50);
    trigger::Trigger::new(sidle.clone()).step(&tree, NOW);
    assert!(sidle.promotions.is_empty() && sidle.demotions.is_empty());
}

#[test]
fn a_promotion_takes_the_whole_path() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, 7));
    sidle.promotions.push(FakeTree::leaf(3));
    promoter::Promoter::new(sidle.clone()).step(&tree, NOW);
    let path = [node(30, 2), node(30, 1), node(30, 0)];
    assert_eq!(tree.moves(), path.map(|node| (node, TierId::FAST)));
    assert_eq!(sidle.snapshot().promoted, 3);
}

#[test]
fn promotions_wait_while_halted() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, 7));
    let mut promoter = promoter::Promoter::new(sidle.clone());
    sidle.strained.store(true, Ordering::Relaxed);
    sidle.promotions.push(FakeTree::leaf(0));
    promoter.step(&tree, NOW);
    assert_eq!(tree.moves(), []);
    sidle.strained.store(false, Ordering::Relaxed);
    promoter.step(&tree, NOW);
    assert_eq!(tree.moves().len(), 3);
}

#[test]
fn a_promotion_into_full_memory_calls_the_watermark() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, 2));
    sidle.promotions.push(FakeTree::leaf(0));
    let next = promoter::Promoter::new(sidle.clone()).step(&tree, NOW);
    assert_eq!(next, Next::WhenWoken);
    assert!(sidle.wake_watermark.take());
    assert!(tree.has_single_boundary());
}

#[test]
fn cooling_halves_heat_and_shifts_bins_and_thresholds() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, 7));
    for (leaf, heat) in [(0, 0), (1, 1), (2, 9), (3, u16::MAX)] {
        tree.set_heat(leaf, heat);
    }
    sidle.params.store(params(3, 3, 25, 50));
    trigger::Trigger::new(sidle.clone()).step(&tree, NOW);
    let before = sidle.snapshot();
    assert_eq!((before.t_hot, before.t_cold), (16, 8));
    cooler::Cooler::new(sidle.clone()).step(&tree, NOW);
    assert_eq!([0, 1, 2, 3].map(|leaf| tree.heat(leaf)), [0, 0, 4, 32767]);
    let cooled = sidle.snapshot();
    assert_eq!((cooled.t_hot, cooled.t_cold), (8, 4));
    trigger::Trigger::new(sidle.clone()).step(&tree, NOW);
    assert_eq!(sidle.snapshot().histogram, cooled.histogram);
}

#[test]
fn cold_slow_leaves_free_their_ancestors() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 4, 21));
    (0..4).for_each(|n| tree.set_tier(&node(n * 40, 1), TierId::FAST));
    tree.set_tier(&node(0, 2), TierId::FAST);
    sidle.params.store(params(3, 2, 5, 80));
    let mut trigger = trigger::Trigger::new(sidle.clone());
    let mut demoter = demoter::Demoter::new(sidle.clone());
    let mut scan = || {
        trigger.step(&tree, NOW);
        demoter.step(&tree, NOW);
        demotions(&tree)
    };
    (0..10).for_each(|_| assert_eq!(scan(), [], "L_demote protects inner nodes"));
    sidle.params.store(params(3, 1, 5, 80));
    let mut freed: Vec<_> = (0..100).flat_map(|_| scan()).collect();
    freed.sort();
    assert_eq!(freed, [0, 40, 80, 120].map(|key| node(key, 1)));
}

/// 85 nodes, 40 of which fit into fast memory and fill it: the paths to the first leaves.
fn strained_tree() -> FakeTree {
    let tree = FakeTree::uniform(4, 4, 40);
    for leaf in 0.. {
        if tree.promote_node(&FakeTree::leaf(leaf)) == timberline_placement::Move::Full {
            break;
        }
    }
    assert_eq!(fast_usage(&tree), 1.0);
    tree.moves();
    tree
}

#[test]
fn a_strain_ends_between_the_watermarks_and_averages() {
    let (sidle, tree) = (sidle(), strained_tree());
    // 53 of 64 leaves are cool: more than 82 %, so that the third turn of the loop is the first to
    // find them cold. The others are hot and slow.
    tree.each_leaf(&[], &mut |leaf| {
        let heat = if leaf.address < 53 { 8 } else { 200 };
        leaf.heat.store(heat, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    Clockwork::new(sidle.workers()).run_for(&tree, Duration::ZERO);
    let after = sidle.snapshot();
    // From (4, 4, 5, 80) by three turns to (1, 1, 2, 83), L_min being 1, and half the way back.
    let [l_fast, l_demote, p_hot, p_cold] = [2, 2, 3, 82];
    assert_eq!(sidle.params.load(), params(l_fast, l_demote, p_hot, p_cold));
    assert!(!after.strained, "promotions go on");
    assert_eq!(after.demoted, 7, "it stops as soon as usage is below U_low");
    assert_eq!(tree.fill(TierId::FAST).used, 33 * tree.node_bytes());
    assert!(tree.has_single_boundary());
}

#[test]
fn a_strain_that_nothing_relieves_ends_too() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, 0));
    let mut clockwork = Clockwork::new(sidle.workers());
    clockwork.run_for(&tree, Duration::ZERO);
    let after = sidle.snapshot();
    assert!(!after.strained);
    assert_eq!((after.p_hot, after.p_cold), (2, 90));
    clockwork.run_for(&tree, Duration::from_secs(10));
    assert_eq!(tree.moves(), []);
}

#[test]
fn threads_relieve_a_strain_without_waiting_for_their_periods() {
    let hour = Duration::from_secs(3600);
    let sidle = Sidle::new(SidleConfig {
        trigger_period: hour,
        cooler_period: hour,
        watermark_period: hour,
        ..SidleConfig::default()
    });
    let tree = Arc::new(strained_tree());
    let mut workers = Workers::start(sidle.workers(), tree.clone()).unwrap();
    while sidle.snapshot().demoted == 0 || sidle.is_strained() {
        std::thread::yield_now();
    }
    workers.stop();
    assert_eq!(workers.panicked(), None);
    assert!(fast_usage(&*tree) < 0.95);
    assert!(tree.has_single_boundary());
}

#[test]
fn abundance_steps_once_a_period_and_moves_nothing() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, 7));
    sidle.params.store(params(1, 1, 98, 2));
    let mut watermark = watermark::Watermark::new(sidle.clone());
    for expected in [(2, 2, 99, 1), (3, 3, 100, 0), (3, 3, 100, 0)] {
        watermark.step(&tree, NOW);
        let now = sidle.params.load();
        assert_eq!((now.l_fast, now.l_demote, now.p_hot, now.p_cold), expected);
        assert!(!sidle.wake_trigger.take() && !sidle.is_strained());
    }
}

#[test]
fn between_the_watermarks_nothing_changes() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, 10));
    tree.set_all(TierId::FAST);
    let tree_of_nine = FakeTree::uniform(2, 8, 10);
    tree_of_nine.set_all(TierId::FAST);
    sidle.params.store(params(1, 1, 10, 20));
    let mut watermark = watermark::Watermark::new(sidle.clone());
    watermark.step(&tree_of_nine, NOW);
    assert_eq!(sidle.params.load(), params(1, 1, 10, 20));
    watermark.step(&tree, NOW);
    assert_ne!(sidle.params.load(), params(1, 1, 10, 20));
}

#[test]
fn a_broken_boundary_is_mended_upwards_or_downwards() {
    for room in [7, 3] {
        let (sidle, tree) = (sidle(), FakeTree::uniform(3, 2, room));
        tree.set_tier(&node(0, 2), TierId::FAST);
        tree.set_tier(&node(0, 0), TierId::FAST);
        tree.set_tier(&node(10, 0), TierId::FAST);
        sidle.boundary_broken(node(0, 1), TierId::FAST);
        assert!(sidle.wake_demoter.take());
        demoter::Demoter::new(sidle.clone()).step(&tree, NOW);
        assert!(tree.has_single_boundary());
        assert_eq!(tree.tier(&node(0, 0)).is_fast(), room == 7);
        assert!(tree.tier(&node(0, 2)).is_fast());
    }
}

#[test]
fn in_the_long_run_hot_leaves_are_fast() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(4, 6, 60));
    let mut clockwork = Clockwork::new(sidle.workers());
    for round in 0..600_u32 {
        // 10 of 216 leaves get most accesses; after half of the time, 10 others.
        let hot = if round < 300 { 20..30 } else { 150..160 };
        for leaf in 0..216_usize {
            let is_hot = hot.contains(&leaf);
            let touches = if is_hot {
                20
            } else {
                (leaf + round as usize) % 7 / 6
            };
            (0..touches).for_each(|_| {
                tree.with_leaf(leaf, |leaf| sidle.on_access(leaf, Access::Reuse));
            });
        }
        clockwork.run_for(&tree, Duration::from_millis(100));
        assert!(tree.has_single_boundary());
        if round == 299 || round == 599 {
            for leaf in hot {
                assert!(
                    tree.tier(&FakeTree::leaf(leaf)).is_fast(),
                    "leaf {leaf}, {round}"
                );
            }
            let usage = fast_usage(&tree);
            assert!(usage > 0.6 && usage <= 1.0, "{usage}");
        }
    }
    let end = sidle.snapshot();
    assert!(end.promoted > 0 && end.demoted > 0);
}

#[test]
fn what_it_believes_can_be_looked_at() {
    let (sidle, tree) = (sidle(), FakeTree::uniform(2, 4, 5));
    let first = sidle.view().unwrap();
    assert_eq!(first.bins[..4], [0, 2, 4, 8]);
    assert!(first.thresholds.is_empty(), "nothing is hot or cold yet");
    scan_twice(&sidle, &tree);
    let view = sidle.view().unwrap();
    assert_eq!(view.counts[0].1.iter().sum::<u64>(), 4);
    assert_eq!(view.counts[0].1.len(), view.bins.len());
    assert_eq!(view.thresholds.len(), 2);
    assert_eq!(view.watermarks[1], ("high watermark", 0.95));
    let layering = Sidle::new(SidleConfig {
        up_to: Technique::Layering,
        ..SidleConfig::default()
    });
    assert_eq!(layering.view(), None);
}

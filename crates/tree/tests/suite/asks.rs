//! All that a placement's workers may ask of a map, or have it do, beside whatever else goes on.

use std::ops::ControlFlow;

use timberline_placement::relocation::Relocation;
use timberline_placement::{LeafRef, NodeKey, Placed};
use timberline_tier::TierId;

use super::draw::Draw;
use super::names;

/// How many calls [`ask`] chooses from.
const QUESTIONS: u64 = 22;

/// Makes each call at least once.
pub fn ask_all(placed: &dyn Placed, leaf: &NodeKey, draw: &mut Draw) {
    (0..QUESTIONS).for_each(|question| ask(placed, leaf.clone(), question, draw));
}

/// Makes one call of [`Placed`], about a leaf or a node on the path to it. What it says is checked
/// elsewhere; here, it says something.
pub fn ask(placed: &dyn Placed, leaf: NodeKey, question: u64, draw: &mut Draw) {
    let node = names::on_path(placed, leaf.clone(), draw);
    let mut left = 1 + draw.below(8);
    let mut some = |_: LeafRef<'_>| {
        left -= 1;
        match left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    match question % QUESTIONS {
        0 => assert!(placed.levels() > 0),
        1 => _ = placed.level_of(&node),
        2 => assert!(placed.node_bytes() > 0),
        3 => _ = placed.bytes_of(&node),
        4 => {
            let fast = placed.fill(TierId::FAST);
            assert!(fast.ratio() >= 0.0);
        }
        5 => placed.each_leaf(&[], &mut some),
        6 => placed.each_fast_leaf(&leaf.key, &mut some),
        7 => placed.each_fast_leaf(&[], &mut some),
        8..11 => {
            let lowest = placed.lowest_fast_inner(draw.word());
            if let Some(node) = lowest {
                assert!(node.height > 0 || !node.key.is_empty(), "{node:?}");
                placed.demote(&node);
            }
        }
        11 => _ = placed.promote_path(leaf.key),
        12 => _ = placed.promote_node(&node),
        13 => _ = placed.demote(&node),
        14 => _ = placed.demote_subtree(&node),
        15 => {
            let tier = TierId(draw.below(placed.tiers().into()) as u8);
            let candidates = placed.compaction_candidates(tier);
            let mut walk = Relocation::down_to(tier);
            walk.step(placed, &candidates, draw.below(100) as usize);
        }
        16 => {
            let (now, most) = placed.record_pages();
            assert!(now <= most);
            placed.add_record_page();
        }
        17 => _ = placed.drop_record_page(),
        18 => _ = placed.parent_of(&node),
        19 => placed.reclaim(),
        20 => placed.refit_record_pages(),
        _ => {
            // Once the guard is gone, anything may lie there.
            let mut addresses = Vec::new();
            placed.each_leaf(&[], &mut |leaf| {
                addresses.push(leaf.address);
                some(leaf)
            });
            for address in addresses {
                _ = placed.fence_at(address);
            }
        }
    }
}

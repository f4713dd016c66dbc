//! Names of nodes, in maps of any shape.

use std::ops::ControlFlow;

use timberline_placement::{KeyBytes, NodeKey, Placed};

use super::draw::Draw;

/// The fences of all leaves, in order.
pub fn fences(placed: &dyn Placed) -> Vec<KeyBytes> {
    let mut fences = Vec::new();
    placed.each_leaf(&[], &mut |leaf| {
        fences.push(leaf.fence.to_bytes());
        ControlFlow::Continue(())
    });
    fences
}

/// The root, found from the first leaf upwards.
pub fn root(placed: &dyn Placed) -> NodeKey {
    let mut node = None;
    placed.each_leaf(&[], &mut |leaf| {
        node = Some(NodeKey::leaf(leaf.fence.to_bytes()));
        ControlFlow::Break(())
    });
    let leaf = node.expect("a map with a leaf");
    std::iter::successors(Some(leaf), |node| placed.parent_of(node))
        .last()
        .expect("the leaf at least")
}

/// The node this many steps above a leaf, or the root.
pub fn above(placed: &dyn Placed, leaf: NodeKey, steps: u8) -> NodeKey {
    std::iter::successors(Some(leaf), |node| placed.parent_of(node))
        .take(usize::from(steps) + 1)
        .last()
        .expect("the leaf at least")
}

/// Some node on the path to a leaf.
pub fn on_path(placed: &dyn Placed, leaf: NodeKey, draw: &mut Draw) -> NodeKey {
    let steps = draw.below(placed.levels().into());
    above(placed, leaf, steps as u8)
}

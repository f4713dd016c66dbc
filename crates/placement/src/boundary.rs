//! The single boundary: mends it where a tree, for want of fast memory, made a node slow above fast
//! children, and moves it up where nothing below needs an inner node to be fast.

use crate::queue::NodeQueue;
use crate::{Move, NodeKey, Placed, Relocate};

/// What mending moved.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Nodes promoted.
    pub promoted: usize,
    /// Nodes demoted.
    pub demoted: usize,
    /// Whether no broken place is left; else neither tier has room, and the rest waits in the
    /// queue.
    pub wholly: bool,
}

/// Makes the queued nodes, slow above fast ones, fast again or, for want of room, what is below
/// them slow. `make_room` is asked for room before that, and says whether there may be some now.
pub fn mend(
    broken: &NodeQueue,
    tree: &dyn Relocate,
    mut make_room: impl FnMut() -> bool,
) -> Mended {
    let mut mended = Mended::default();
    while let Some(node) = broken.pop() {
        let mut outcome = tree.promote_node(&node);
        if outcome == Move::Full && make_room() {
            outcome = tree.promote_node(&node);
        }
        match outcome {
            Move::Moved(nodes) => mended.promoted += nodes,
            Move::AlreadyThere | Move::Stale | Move::Blocked => {}
            Move::Full => match tree.demote_subtree(&node) {
                Move::Moved(nodes) => mended.demoted += nodes,
                Move::AlreadyThere | Move::Stale | Move::Blocked => {}
                Move::Full => {
                    broken.push(node);
                    return mended;
                }
            },
        }
    }
    mended.wholly = true;
    mended
}

/// Demotes an inner node and its ancestors, as far as they have no fast child; never the root, nor
/// a leaf that leads to a layer: that has heat of its own, and its turn will come.
pub fn demote_idle(tree: &dyn Placed, inner: NodeKey) {
    let mut next = Some(inner);
    while let Some(inner) = next.filter(|it| it.height > 0) {
        let parent = tree.parent_of(&inner);
        next = match parent.is_some() && matches!(tree.demote(&inner), Move::Moved(_)) {
            true => parent,
            false => None,
        };
    }
}

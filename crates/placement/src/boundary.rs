//! The single boundary: restores it where fast memory was full and a node became slow above fast
//! children, and demotes inner nodes without fast children.

use crate::queue::NodeQueue;
use crate::{Move, NodeKey, Placed, Relocate};

/// What [`mend`] moved.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Nodes promoted.
    pub promoted: usize,
    /// Nodes demoted.
    pub demoted: usize,
    /// Whether the boundary holds; if not, both tiers are full, and the queue has the rest.
    pub wholly: bool,
}

/// Promotes the queued nodes, which are slow above fast children, or, if fast memory is full,
/// demotes the nodes below them. Before that it calls `make_room`, which returns whether there may
/// be room now.
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

/// Demotes an inner node and its ancestors as far as they have no fast child. It spares the root,
/// and leaves that lead to a layer: these have heat of their own.
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

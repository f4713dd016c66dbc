//! The single boundary: no node is in a slower tier than its child. Restores that where a tier was
//! full when a node above children in it was made, and demotes inner nodes without such children.

use timberline_tier::TierId;

use crate::queue::NodeQueue;
use crate::{Move, NodeKey, Placed, Relocate};

/// What [`mend`] moved.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Nodes promoted.
    pub promoted: usize,
    /// Nodes demoted.
    pub demoted: usize,
    /// Whether the boundary holds; if not, all tiers are full, and the queue has the rest.
    pub wholly: bool,
}

/// Promotes the queued nodes, which are above children in `tier`, to that tier. If it is full even
/// after `make_room`, which returns whether there may be room now, what is below them goes to the
/// next slower tier where both have room.
pub fn mend(
    broken: &NodeQueue,
    tier: TierId,
    tree: &dyn Relocate,
    mut make_room: impl FnMut() -> bool,
) -> Mended {
    let mut mended = Mended::default();
    while let Some(node) = broken.pop() {
        let mut outcome = tree.promote_to(&node, tier);
        if outcome == Move::Full && make_room() {
            outcome = tree.promote_to(&node, tier);
        }
        if let Move::Moved(nodes) = outcome {
            mended.promoted += nodes;
        }
        for slower in tier.0 + 1..tree.tiers() {
            if outcome != Move::Full {
                break;
            }
            outcome = tree.demote_subtree_to(&node, TierId(slower));
            if let Move::Moved(nodes) = outcome {
                mended.demoted += nodes;
            }
            // Its children may be there now while it is in a slower tier still.
            if outcome != Move::Full {
                outcome = tree.promote_to(&node, TierId(slower));
                if let Move::Moved(nodes) = outcome {
                    mended.promoted += nodes;
                }
            }
        }
        if outcome == Move::Full {
            broken.push(node);
            return mended;
        }
    }
    mended.wholly = true;
    mended
}

/// Demotes an inner node and its ancestors out of `tier` as far as they have no child there or in a
/// faster one. It spares the root, and leaves that lead to a layer: these have heat of their own.
pub fn demote_idle(tree: &dyn Placed, tier: TierId, inner: NodeKey) {
    let mut next = Some(inner);
    while let Some(inner) = next.filter(|it| it.height > 0) {
        let parent = tree.parent_of(&inner);
        let is_below = parent.is_some();
        next = match is_below && matches!(tree.demote_out_of(tier, &inner), Move::Moved(_)) {
            true => parent,
            false => None,
        };
    }
}

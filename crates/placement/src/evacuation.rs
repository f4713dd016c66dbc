//! Evacuation: empties chunks of fast memory because its limit was lowered.
//!
//! It ignores the placement's policy. A node for which other chunks have room is relocated, and a
//! leaf for which they have none is demoted, whatever its heat. A policy's worker that runs beside
//! it exchanges hot leaves for cold ones afterwards, as after any change of the hot set.
//!
//! The single boundary may be broken meanwhile: where fast memory was full when an inner node was
//! split, there are fast leaves below slow nodes.

use std::ops::ControlFlow;

use timberline_tier::{CompactionCandidates, TierId};

use crate::boundary::demote_idle;
use crate::relocation::Relocation;
use crate::{KeyBytes, LeafRef, Move, NodeKey, Placed};

/// Nodes looked at between two reclamations.
const STRIDE: usize = 4096;

/// How far an evacuation goes. Each of these moves more than those before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reach {
    /// Nodes in the chunks that only fast nodes lead to; it walks over these only.
    FastPaths,
    /// All nodes in the chunks.
    AllPaths,
    /// In addition all inner nodes without fast children, wherever they are.
    Idle,
    /// All nodes of fast memory.
    All,
}

/// Moves nodes out of these chunks. `false` where slow memory was full before that.
pub fn evacuate(tree: &dyn Placed, chunks: &CompactionCandidates, reach: Reach) -> bool {
    let everything = reach == Reach::All;
    let leaves = |from: &[u8], visit: &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>| match reach {
        Reach::FastPaths => tree.each_fast_leaf(from, visit),
        _ => tree.each_leaf(from, visit),
    };
    if !everything {
        let slowest = match reach {
            Reach::FastPaths => TierId::FAST,
            _ => TierId(tree.tiers() - 1),
        };
        let mut walk = Relocation::down_to(slowest);
        while !walk.has_ended() {
            walk.step(tree, chunks, STRIDE);
            tree.reclaim();
        }
    }
    let mut is_full = false;
    each_stride(tree, leaves, |found| {
        for leaf in found {
            let leaves_it = leaf.is_fast && (everything || chunks.contains(leaf.address));
            if !leaves_it && reach < Reach::Idle {
                continue;
            }
            let leaf = NodeKey::leaf(leaf.fence.clone());
            if leaves_it && tree.demote(&leaf) == Move::Full {
                is_full = true;
                return ControlFlow::Break(());
            }
            if let Some(parent) = tree.parent_of(&leaf) {
                demote_idle(tree, TierId::FAST, parent);
            }
        }
        ControlFlow::Continue(())
    });
    if everything && !is_full {
        is_full = demote_top(tree) == Move::Full;
        tree.reclaim();
    }
    !is_full
}

/// Demotes the topmost node and all fast nodes below it.
fn demote_top(tree: &dyn Placed) -> Move {
    let mut top = NodeKey::leaf(KeyBytes::default());
    while let Some(parent) = tree.parent_of(&top) {
        top = parent;
    }
    tree.demote_subtree(&top)
}

/// A leaf, as it was found.
struct Found {
    fence: KeyBytes,
    address: usize,
    is_fast: bool,
}

/// Calls `work` with the leaves that `walk` visits, some at a time, and reclaims memory after each
/// call.
fn each_stride(
    tree: &dyn Placed,
    walk: impl Fn(&[u8], &mut dyn FnMut(LeafRef<'_>) -> ControlFlow<()>),
    mut work: impl FnMut(&[Found]) -> ControlFlow<()>,
) {
    let mut next = Some(KeyBytes::default());
    while let Some(from) = next.take() {
        let mut found = Vec::with_capacity(STRIDE);
        walk(&from, &mut |leaf| {
            let fence = leaf.fence.to_bytes();
            if found.len() == STRIDE {
                next = Some(fence);
                return ControlFlow::Break(());
            }
            found.push(Found {
                fence,
                address: leaf.address,
                is_fast: leaf.tier.is_fast(),
            });
            ControlFlow::Continue(())
        });
        let flow = work(&found);
        tree.reclaim();
        if flow.is_break() {
            return;
        }
    }
}

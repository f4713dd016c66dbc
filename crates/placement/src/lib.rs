//! Heat, thresholds, watermarks and the workers that act on them: decides which node is in which
//! tier and moves nodes, knowing no tree.

mod seam;

pub use seam::{Fill, LeafRef, Move, NewNode, NodeKey, Placed, Placement, SELDOM};

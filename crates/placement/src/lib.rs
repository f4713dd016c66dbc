//! Heat, thresholds, watermarks and the workers that act on them: decides which node is in which
//! tier and moves nodes, knowing no tree.

pub mod boundary;
pub mod draws;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod name;
mod one_tier;
mod queue;
mod seam;
mod timberline;
mod view;
pub mod workers;

pub use name::{Fence, KeyBytes, NodeKey};
pub use seam::{Access, Fill, LeafRef, Move, NewNode, Placed, Placement, SELDOM};

pub use one_tier::{AllFast, AllSlow};
pub use queue::NodeQueue;
pub use timberline::{HeatIn, Timberline, TimberlineConfig};
pub use view::{View, powers_of_two};

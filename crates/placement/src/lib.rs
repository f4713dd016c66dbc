//! Heat, thresholds, watermarks and the workers that act on them: decides which node is in which
//! tier and moves nodes, knowing no tree.

mod boundary;
mod draws;
#[cfg(test)]
mod fake;
mod fixed;
mod name;
mod oracle;
pub mod pages;
mod queue;
mod random;
mod seam;
pub mod sidle;
mod timberline;
mod view;
pub mod workers;

pub use name::{Fence, KeyBytes, NodeKey};
pub use seam::{Access, Fill, LeafRef, Move, NewNode, Placed, Placement, SELDOM};

pub use fixed::{AllFast, AllSlow, InnerFast, Interleave};
pub use oracle::Oracle;
pub use random::Random;
pub use sidle::{Sidle, SidleConfig};
pub use timberline::{HeatIn, Timberline, TimberlineConfig};
pub use view::View;

//! Heat, thresholds, watermarks and the workers that act on them: decides which node is in which
//! tier and moves nodes, knowing no tree.

pub mod boundary;
pub mod draws;
pub mod evacuation;
mod name;
mod one_tier;
mod placed;
mod queue;
pub mod relocation;
mod seam;
mod timberline;
mod view;
pub mod workers;

#[cfg(any(test, feature = "fake"))]
pub use tests::fake;

pub use name::{Fence, KeyBytes, NodeKey};
pub use placed::{Compaction, Fill, Move, Placed, RecordCache, Relocate, Walk};
pub use seam::{Access, LeafRef, MAX_SAMPLE_INTERVAL, NewNode, Placement};

pub use one_tier::{AllFast, AllSlow};
pub use queue::NodeQueue;
pub use timberline::{HeatIn, Timberline, TimberlineConfig};
pub use view::{View, powers_of_two};

#[cfg(any(test, feature = "fake"))]
mod tests {
    pub mod fake;
}

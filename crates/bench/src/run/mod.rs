//! Runs workloads on placements, side by side.
//!
//! All maps of a workload are loaded first; then they take turns on the same threads, A B C A B C …, so that whatever
//! disturbs the machine disturbs all of them. The workers of a map that is not its turn are paused.
//! Round `i` of one placement is comparable with round `i` of another.

mod contender;
mod crew;
mod hog;
mod index;
mod indexes;
mod plan;
mod recovery;
mod runner;
mod source;

pub use index::{Index, Keys, PlacedIndex};
pub use plan::{BadPlan, Budget, INDEXES, PLACEMENTS, Plan, What, indexes, placements};
pub use runner::run;
pub use source::{Requests, Source};

//! Runs workloads on placements, side by side.
//!
//! All maps of a workload are loaded first. Then they take turns on the same threads, A B C B C A
//! …, so that a disturbance of the machine affects all of them. During a turn the workers of all
//! other maps are paused. Round `i` of one placement is comparable with round `i` of another.

mod caveats;
mod cores;
mod index;
mod indexes;
pub mod instrument;
mod leaf_counts;
mod measurement;
mod memory_hog;
mod paged;
mod plan;
mod record_format;
mod recovery;
mod request_setting;
mod request_threads;
mod runner;
mod schedule;
mod setting;
mod source;
mod subject;
mod threads;
mod tiers;

pub use timberline_research::pages::PageCosts;
pub use timberline_research::table;

pub use index::{Index, PlacedIndex};
pub use plan::{
    Budget, INDEXES, Load, PROFILES, Plan, count, cpu_cache, indexes, placements, profile,
    watermarks,
};
pub use record_format::{Keys, RecordFormat};
pub use request_setting::RequestSetting;
pub use runner::{Measured, emulated, native};
pub use setting::Setting;
#[cfg(test)]
pub(crate) use setting::tests;
pub use source::{Requests, Source};
pub use tiers::MemoryTiers;

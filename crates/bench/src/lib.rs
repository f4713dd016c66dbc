//! (being built)
pub mod report;
pub mod trace;
pub mod workload;

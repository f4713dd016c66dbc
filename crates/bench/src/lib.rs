//! The benchmark: workloads and traces, placements compared side by side, and the report.
#![expect(
    missing_docs,
    reason = "no user sees this crate: what a name says needs no line"
)]

mod bad_input;
pub mod bound;
pub mod eval;
pub mod live;
pub mod micro;
mod names;
mod page;
mod ready;
pub mod remote;
pub mod report;
mod rounds;
pub mod run;
pub mod store;
pub mod substrate;
pub mod tier_check;
pub mod trace;
pub mod workload;

pub use bad_input::BadInput;
pub use ready::have_ready;
pub use rounds::Rounds;

//! The results of a run: as JSON, as one table for the terminal, as one page for a browser.
//!
//! A runner fills one [`Outcome`] for each placement × workload, calls [`fill_comparisons`] once
//! all of them are there, and hands the [`Report`] to [`table::render`] or writes it to files.
//! Nothing in here measures, moves or decides anything, and nothing here opens the network.

pub mod compare;
pub mod machine;
pub mod progress;
pub mod result;
pub mod table;
pub mod written;

pub(crate) mod figures;
pub(crate) mod groups;
mod kernel;

#[cfg(test)]
mod samples;

pub use compare::fill_comparisons;
pub use machine::Machine;
pub use progress::{Progress, Silent};
pub use result::{Bounds, LevelFill, Meta, Outcome, Sample, fast_share, median};
pub use written::{Report, check_writable, write_file};

//! What a run leaves behind: figures as JSON, one table for the terminal, one page for a browser.
//!
//! A runner fills one [`Outcome`] for each placement × workload, calls [`fill_comparisons`] once all
//! of them are there, and hands the [`Report`] to [`table::render`] and [`html::render`]. Nothing in
//! here measures, moves or decides anything, and nothing here opens the network.

pub mod compare;
pub mod html;
pub mod machine;
pub mod progress;
pub mod result;
pub mod table;
pub mod written;

pub(crate) mod bar_chart;
mod bars;
pub(crate) mod figures;
pub(crate) mod groups;
mod html_table;
mod kernel;
pub(crate) mod legend;
pub(crate) mod panels;
pub(crate) mod shell;
pub(crate) mod svg;
mod time_frame;

#[cfg(test)]
mod samples;

pub use compare::fill_comparisons;
pub use machine::{Machine, utc_date};
pub use progress::{Progress, Silent};
pub use result::{Bounds, LevelFill, Meta, Outcome, Sample, fast_share, median};
pub(crate) use svg::placement_class;
pub use written::{Report, write_file};

//! The results of a run: as JSON, as a table for the terminal, and as a page for a browser.
//!
//! A runner fills one [`Outcome`] for each placement × workload, calls [`fill_comparisons`] once
//! all are complete, and passes the [`Report`] to [`table::render`] or writes it to files. This
//! module measures, moves and decides nothing, and opens no network connection.

pub mod combine;
pub mod compare;
pub mod csv;
pub mod grid;
pub mod machine;
pub mod markdown;
pub mod paired;
pub mod progress;
pub mod result;
pub mod side_by_side;
pub mod table;
pub mod written;

mod columns;
pub(crate) mod figures;
pub(crate) mod groups;
mod kernel;

pub use combine::combine;
pub use compare::fill_comparisons;
pub use machine::Machine;
pub use paired::{Ratio, Standing};
pub use progress::{Progress, Silent};
pub use result::{
    Bounds, Calibration, LevelFill, Meta, Outcome, Sample, TierFill, fast_share, latencies, median,
    percentiles,
};
pub use written::{Report, check_writable, write_file};

#[cfg(test)]
mod tests {
    pub mod samples;
}

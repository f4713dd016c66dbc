//! Placements that only comparisons need: those of papers, the page placements of kernels, and
//! static placements from exact frequencies. The library for users does not depend on this crate.

mod copies;
mod fixed;
mod kernel;
mod oracle;
pub mod pages;
mod random;
pub mod sidle;
pub mod table;
mod timberline;

pub use fixed::{InnerFast, Interleave};
pub use oracle::Oracle;
pub use random::Random;
pub use sidle::{Sidle, SidleConfig};

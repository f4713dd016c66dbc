//! The evaluation: every published figure about placement, rebuilt beside the published values.
//!
//! A [`Figure`] names its [`Run`]s and the published [`Claim`]s about it. A run is a
//! [`Setting`](crate::run::Setting), and a [`ResultCache`] keeps its results under that setting. So
//! figures share runs, and an interrupted evaluation resumes. The [`Matrix`] runs the settings
//! without cached results; a [`Summary`] shows the results beside the published values, as JSON and
//! as one page.

mod claim;
mod figure;
mod figures;
mod matrix;
mod quantity;
mod result_cache;
mod summary;
mod view;

pub use claim::Claim;
pub use figure::{Figure, Run, View, choose};
pub use figures::{Scale, all};
pub use matrix::{Ground, Matrix, span};
pub use quantity::{Measure, Over, Quantity};
pub use result_cache::{CachedRun, ResultCache};
pub use summary::Summary;

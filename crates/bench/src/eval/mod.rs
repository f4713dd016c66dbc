//! The evaluation: published figures, rebuilt beside the published values.
//!
//! A [`Figure`] names its [`Run`]s and the published [`Claim`]s about it. A run is a [`Setting`]:
//! of maps, of a simulated cluster, of a store, or of the microbenchmark. A [`ResultCache`] keeps
//! its results under that setting. So figures share runs, and an interrupted evaluation resumes.
//! The [`Matrix`] runs the settings without cached results; a [`Summary`] shows the results beside
//! the published values, as JSON and as one page.

mod claim;
mod figure;
mod figures;
mod matrix;
mod measure;
mod quantity;
mod ranged;
mod result_cache;
mod results;
mod setting;
mod subject;
mod summary;
mod view;

pub use claim::Claim;
pub use figure::{Figure, Run, View, choose};
pub use figures::{Scale, all};
pub use matrix::{Ground, Matrix, span};
pub use measure::Measure;
pub use quantity::{Over, Quantity};
pub use result_cache::ResultCache;
pub use results::{CachedRun, Results, Substitute, Table};
pub use setting::Setting;
pub use subject::{Row, Values};
pub use summary::Summary;

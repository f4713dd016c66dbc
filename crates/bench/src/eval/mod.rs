//! The evaluation: every published figure about placement, rebuilt beside the published values.
//!
//! A [`Figure`] names the [`Run`]s it is drawn from and the [`Claim`]s that were published with it.
//! A run is a [`Setting`](crate::run::Setting), and its results lie on a [`ResultCache`] under it,
//! so that the figures share runs and an evaluation that was cut short goes on where it was. The
//! [`Matrix`] runs what is not in the result cache yet; a [`Summary`] holds all of it beside what
//! was published, as JSON and as one page.

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

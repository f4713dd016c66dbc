//! The evaluation: every published figure about placement, rebuilt beside the published values.
//!
//! A [`Figure`] names the [`Run`]s it is drawn from and the [`Claim`]s that were published with it. A run is a [`Setting`], and its results
//! lie on a [`Shelf`] under it, so that the figures share runs and an evaluation that was cut short goes on where it was. The
//! [`Matrix`] runs what is not on the shelf yet; a [`Summary`] holds all of it beside what was published, as JSON and as one page.

mod claim;
mod figure;
mod figures;
mod matrix;
mod quantity;
mod setting;
mod shelf;
mod summary;
mod view;

pub use claim::Claim;
pub use figure::{Figure, Run, View, choose};
pub use figures::{Scale, all};
pub use matrix::{Ground, Matrix, span};
pub use quantity::{Measure, Over, Quantity};
pub use setting::{Load, Setting};
pub use shelf::{Kept, Shelf};
pub use summary::Summary;

//! What the nodes of all maps have in common.

pub mod racing;
pub mod retired;

//! Pieces that the nodes of all maps share.

pub mod racing;
pub mod retired;

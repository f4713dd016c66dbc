//! The maps that can be measured.

mod btree;
mod bytes;

pub use bytes::Bytes;

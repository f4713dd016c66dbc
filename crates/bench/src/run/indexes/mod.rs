//! The maps that can be measured.

mod btree;
mod bytes;
mod value;

pub use btree::Words;
pub use bytes::Bytes;

//! The versioned optimistic lock and epoch reclamation: what lets readers run beside writers and
//! beside nodes that move. Start with [`version`], which holds the protocol.

pub mod epoch;
pub mod shim;
pub mod version;

pub use version::{Exclusive, Restart, Snapshot, Versioned};

#[cfg(all(test, loom))]
mod models;

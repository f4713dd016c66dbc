//! A server of the store for Redis' clients (`docs/server.md`).
//!
//! `resp` turns bytes into commands and replies into bytes, without I/O. `keyspace` makes typed
//! keys that expire of the store's records, and has the locks that make commands atomic. `command`
//! has one table of all commands, with a file for each family. `acl` has users and their rights.
//! `cluster` makes the server one of several whose keys are in the memory of other servers. A
//! `connection` runs the commands that a client sent at a time and answers with one write; the
//! `server` has a store, a thread a core, and sockets.

mod acl;
mod ahead;
mod blocked;
mod certificates;
mod channels;
mod client;
mod cluster;
mod command;
mod config;
mod connection;
mod cpu;
mod files;
mod info;
mod keyspace;
mod memory;
mod metrics;
mod options;
mod outbox;
mod pause;
pub mod resp;
#[cfg(target_os = "linux")]
mod ring;
mod seldom;
mod server;
mod session;
mod shared;
mod slowlog;
mod stream;
#[cfg(feature = "tls")]
mod tls;
mod watchman;

pub use cluster::{Balance, ClusterOptions, Reloaded, reload};
pub use options::{Durability, INDEX_MAP, Options, TlsClients, TlsOptions, bytes};
pub use server::{Error, Handle, Server};

/// The version of Redis whose answers these are. Client libraries ask for it.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

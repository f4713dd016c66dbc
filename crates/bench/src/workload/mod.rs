//! The requests to a map: records, operations, and their order.
//!
//! A [`Workload`] is a mix of operations over a [`Distribution`] of records. From a [`KeySpace`]
//! and a seed it makes one [`Stream`] of requests for each thread. [`Tpcc`] is a workload with keys
//! of its own.
//!
//! Invariants, on which the runner and the `oracle` placement rely:
//!
//! - The same (workload, key space, seed, thread, threads, hot epochs) gives the same requests,
//!   whatever the other threads do. So a second stream can count the requests in advance. (Another
//!   platform's logarithm may round differently, and move one Zipf rank in many millions by one.)
//! - Every key that is read, updated or scanned from is loaded, or was inserted earlier by the same
//!   stream.
//! - Drawing a request allocates nothing, divides nothing and writes no shared memory.
//!
//! The mixes are those of SIDLE, Table 1 and §6.1; each distribution cites its paper.

mod distribution;
mod frequencies;
mod hotspot;
mod key_space;
mod latest;
mod lines;
mod mix;
mod permutation;
mod rng;
mod self_similar;
mod spec;
mod stream;
mod tpcc;
mod zipf;

pub use distribution::Distribution;
pub use hotspot::{HotEpoch, HotRegion};
pub use key_space::{KeySpace, LoadOrder, load_order};
pub use lines::Lines;
pub use mix::Mix;
pub use permutation::Permutation;
pub use rng::Rng;
pub use self_similar::SelfSimilar;
pub use spec::Workload;
pub use stream::{Op, Request, Stream};
pub use tpcc::{Tpcc, TpccStream};
pub use zipf::Zipf;

#[cfg(test)]
mod tests {
    pub mod chi_square;
}

//! Partitions that follow the load, by themselves.
//!
//! | file | noun |
//! |---|---|
//! | `demand.rs` | what a compute server is asked for, counted and sampled |
//! | `policy.rs` | which keys go where: a function of what members report, and nothing else |
//!
//! What members report is in `pool/reports.rs`; `member/balance.rs` measures, reports, and moves.

mod demand;
pub(crate) mod policy;

use std::time::Duration;

pub(crate) use demand::{Demand, Sample, Seen};

/// How partitions follow the load (`Options::balancing`). All members that take part should have
/// the same.
///
/// The member that is asked for most gives a part of its keys to one that is asked for less: cut
/// so that both have as much to do afterwards, as far as samples tell. One move is made at a time;
/// after it every member measures anew, for half a period at least.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Balancing {
    /// For so long requests are counted before members compare, and up to 16 times as long where
    /// they are less than a thousand. Longer than a quarter of the lease, and than caches take to
    /// warm up.
    pub period: Duration,
    /// Keys move only if a member is asked for so many times the mean: at least 1.
    pub imbalance: f64,
    /// A move has to lower the load of the two, where it is highest, by so much of the mean: more
    /// than 0.
    pub gain: f64,
    /// One request in so many is sampled, at least 1: its key is kept.
    pub sampled: u32,
    /// Partitions are cut at multiples of two to the power of this, less than 64.
    pub aligned_bits: u32,
}

impl Default for Balancing {
    /// Five seconds, 1.3 times the mean, a gain of a tenth of it, one request in 32, and cuts at
    /// any key.
    fn default() -> Balancing {
        Balancing {
            period: Duration::from_secs(5),
            imbalance: 1.3,
            gain: 0.1,
            sampled: 32,
            aligned_bits: 0,
        }
    }
}

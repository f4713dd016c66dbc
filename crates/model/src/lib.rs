//! Closed-form models: the cost of slow memory to a key-value store that keeps its records on SSD,
//! and its savings. No I/O, no clock, no state.
//!
//! An operation walks through an index in slow memory, then reads its record from SSD. Each core
//! interleaves many operations: it prefetches the next line of one and switches to another. The
//! equations are those of Bando et al. (`docs/papers.md`), whose numbers stand at the functions,
//! from the simplest to the most complete:
//!
//! - [`memory`] (1–4): a walk through slow memory, without I/O;
//! - [`masking`] (5–8): with I/O, when the two never overlap, and when they always do;
//! - [`overlap`] (9–13): when they overlap by chance, as in practice; and with a
//!   [`Machine`](overlap::Machine) (14, 15) whose bandwidth, IOPS or caches are short, or that has
//!   part of the index in DRAM;
//! - [`cost`] (16): whether it is worth its price.
//!
//! [`plan`] applies them to records, requests and prices, with the frequencies of [`skew`];
//! [`dimms`] has the prices of memory alone, after Weisgut et al.
//!
//! All times are in seconds (`_s`), of one core, for one operation: the reciprocal of throughput.
//! Arguments are finite and not negative.

pub mod cost;
pub mod dimms;
pub mod masking;
pub mod memory;
pub mod overlap;
pub mod plan;
pub mod skew;

/// A core, and how it interleaves operations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Core {
    /// Time to switch from one operation to another: T_sw. About 50 ns between user-level threads.
    pub switch_s: f64,
    /// Prefetches that a core has in flight at most: P. About ten on today's processors.
    pub prefetches: u32,
}

/// One operation: a walk of dependent accesses to memory, then one read or write on SSD.
///
/// An operation with S of those is S operations with `accesses` ÷ S (§3.2.3).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Operation {
    /// Accesses to memory, each of which needs the one before: M.
    pub accesses: f64,
    /// Time to compute from one access to the next, without waiting: T_mem.
    pub access_s: f64,
    /// Time to submit the I/O: T_IO^pre.
    pub submit_s: f64,
    /// Time to see that it is complete and to use its data: T_IO^post.
    pub complete_s: f64,
}

impl Operation {
    /// Time of a core for all but memory: E (equation 6). The two switches are those at the I/O.
    pub fn io_s(&self, core: &Core) -> f64 {
        self.submit_s + self.complete_s + 2.0 * core.switch_s
    }

    /// Time of a core when no access waits: the least that an operation can take.
    pub fn busy_s(&self, core: &Core) -> f64 {
        self.accesses * (self.access_s + core.switch_s) + self.io_s(core)
    }
}

/// Throughput lost when an operation takes `slow_s` instead of `fast_s`: a fraction below 1.
pub fn degradation(fast_s: f64, slow_s: f64) -> f64 {
    1.0 - fast_s / slow_s
}

#[cfg(test)]
mod example {
    use super::{Core, Operation};

    /// The example values of Bando et al., Table 1.
    pub const CORE: Core = Core {
        switch_s: 50e-9,
        prefetches: 10,
    };
    pub const OPERATION: Operation = Operation {
        accesses: 10.0,
        access_s: 100e-9,
        submit_s: 4e-6,
        complete_s: 3e-6,
    };
    pub const DRAM_S: f64 = 100e-9;

    /// Whether two figures agree as far as the second was published.
    pub fn near(computed: f64, published: f64, by: f64) -> bool {
        (computed - published).abs() <= by
    }
}

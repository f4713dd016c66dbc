//! Parameters of the operations that are measured.

use serde::{Deserialize, Serialize};

/// All combinations of these values are measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Grid {
    /// Accesses to memory in an operation: M.
    pub accesses: Vec<u32>,
    /// Nanoseconds that are added to each access.
    pub access_ns: Vec<f64>,
    /// Microseconds that are added to each submission.
    pub submit_us: Vec<f64>,
    /// Microseconds that are added to each completion.
    pub complete_us: Vec<f64>,
    /// Latencies of memory, in microseconds.
    pub latency_us: Vec<f64>,
}

impl Grid {
    /// All latencies, in seconds.
    pub fn latencies_s(&self) -> impl Iterator<Item = f64> {
        self.latency_us.iter().map(|us| us * 1e-6)
    }

    /// All operations: accesses, and the seconds that are added to an access, to a submission, and
    /// to a completion.
    pub fn operations(&self) -> Vec<(u32, [f64; 3])> {
        let mut all = Vec::new();
        for &accesses in &self.accesses {
            for access_ns in &self.access_ns {
                for submit_us in &self.submit_us {
                    for complete_us in &self.complete_us {
                        let added_s = [access_ns * 1e-9, submit_us * 1e-6, complete_us * 1e-6];
                        all.push((accesses, added_s));
                    }
                }
            }
        }
        all
    }
}

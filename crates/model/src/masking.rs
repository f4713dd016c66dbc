//! Memory and I/O, at the two ends: operations that are aligned, so that I/O and prefetches never
//! overlap, and operations that are spread perfectly. Both assume enough operations in flight to
//! hide the latency of the SSD.

use crate::{Core, Operation, memory};

/// All operations walk at the same time and then do I/O at the same time, so that I/O hides no
/// memory latency (equation 5): the upper limit of an operation's time.
pub fn aligned_s(core: &Core, operation: &Operation, latency_s: f64) -> f64 {
    let access_s = memory::limited_s(core, operation.access_s, latency_s, f64::INFINITY);
    operation.accesses * access_s + operation.io_s(core)
}

/// The prefetch queue never runs empty (equation 7): the lower limit of an operation's time.
pub fn spread_s(core: &Core, operation: &Operation, latency_s: f64) -> f64 {
    let by_prefetches = operation.accesses * latency_s / f64::from(core.prefetches);
    operation.busy_s(core).max(by_prefetches)
}

/// The longest latency that a perfect spread hides completely (equation 8).
pub fn hidden_latency_s(core: &Core, operation: &Operation) -> f64 {
    let by_io = f64::from(core.prefetches) * operation.io_s(core) / operation.accesses;
    memory::hidden_latency_s(core, operation.access_s) + by_io
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::degradation;
    use crate::example::{CORE, DRAM_S, OPERATION, near};

    #[test]
    fn the_published_example_loses_29_percent_at_5_us() {
        let at = |latency_s| aligned_s(&CORE, &OPERATION, latency_s);
        assert!(near(degradation(at(DRAM_S), at(5e-6)), 0.29, 0.005));
    }

    #[test]
    fn the_published_example_could_hide_8_6_us() {
        let hidden = hidden_latency_s(&CORE, &OPERATION);
        assert!(near(hidden, 8.6e-6, 1e-9));
        let at = |latency_s| spread_s(&CORE, &OPERATION, latency_s);
        assert_eq!(at(hidden * 0.999), at(DRAM_S));
        assert!(at(hidden * 1.01) > at(DRAM_S));
    }
}

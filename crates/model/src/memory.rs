//! Memory alone: the time of one access of a walk, with the computation that goes with it.

use crate::Core;

/// One walk at a time: each access waits for memory (equation 1).
pub fn alone_s(access_s: f64, latency_s: f64) -> f64 {
    access_s + latency_s
}

/// `walks` interleaved on a core that could prefetch without limit (equation 2).
pub fn interleaved_s(core: &Core, access_s: f64, latency_s: f64, walks: f64) -> f64 {
    (access_s + core.switch_s).max(alone_s(access_s, latency_s) / walks)
}

/// `walks` interleaved on a core that has [`Core::prefetches`] in flight at most (equation 3). With
/// `f64::INFINITY` walks, only that limit and the core's own work remain.
pub fn limited_s(core: &Core, access_s: f64, latency_s: f64, walks: f64) -> f64 {
    let by_prefetches = latency_s / f64::from(core.prefetches);
    interleaved_s(core, access_s, latency_s, walks).max(by_prefetches)
}

/// The longest latency that interleaving hides completely (equation 4).
pub fn hidden_latency_s(core: &Core, access_s: f64) -> f64 {
    f64::from(core.prefetches) * (access_s + core.switch_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{CORE, near};

    #[test]
    fn the_published_example_hides_a_microsecond_and_a_half() {
        assert!(near(hidden_latency_s(&CORE, 100e-9), 1.5e-6, 1e-9));
    }

    #[test]
    fn each_limit_governs_in_its_own_range() {
        let at = |latency_s, walks| limited_s(&CORE, 100e-9, latency_s, walks);
        assert!(near(at(1e-6, 1.0), alone_s(100e-9, 1e-6), 1e-15));
        assert!(near(at(1e-6, 4.0), 1.1e-6 / 4.0, 1e-15));
        assert!(near(at(1e-6, 100.0), 150e-9, 1e-15));
        assert!(near(at(5e-6, 100.0), 500e-9, 1e-15));
        let hidden = hidden_latency_s(&CORE, 100e-9);
        assert!(near(at(hidden, f64::INFINITY), 150e-9, 1e-15));
        assert!(at(hidden * 1.01, f64::INFINITY) > 150e-9);
    }
}

//! How often each record is wanted.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::workload::{Permutation, Rng, Zipf};

/// Which record is wanted next.
pub type Draw = Arc<dyn Fn(&mut Rng) -> u64 + Send + Sync>;

/// How often each record is wanted. Which ones are wanted most has nothing to do with their keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// Zipf's law with this θ, in `[0, 2)`.
    Zipf(f64),
    /// The normal distribution over the records in an order, whose standard deviation is a quarter
    /// of them, as CacheBench has it (CacheLib's `NormalDistribution.h`).
    Gaussian,
    /// As measured in the leaders of a cache of a social graph's edges: CacheBench's workload
    /// `graph_cache_leader_assocs`.
    GraphLeader,
}

/// Of [`Popularity::GraphLeader`]: the part of all requests that this part of the records has,
/// those that are wanted most. From the 563 buckets of CacheLib's
/// `test_configs/hit_ratio/graph_cache_leader_assocs/pop.json`, 224 million requests for 28 million
/// records.
const GRAPH_LEADER: [(f64, f64); 13] = [
    (0.0, 0.0),
    (0.000_001, 0.1545),
    (0.000_010_1, 0.2018),
    (0.000_101_3, 0.2140),
    (0.001_003_6, 0.2409),
    (0.003_014_5, 0.2694),
    (0.010_08, 0.3270),
    (0.031_54, 0.4132),
    (0.113_3, 0.5725),
    (0.210_2, 0.6839),
    (0.301_5, 0.7570),
    (0.621_8, 0.9059),
    (1.0, 1.0),
];

impl Popularity {
    /// Draws of so many records, of which the same seed scatters the same way.
    pub fn draw(self, records: u64, seed: u64) -> Draw {
        let scattered = Permutation::new(records, Rng::new(seed, 2));
        match self {
            Popularity::Uniform => Arc::new(move |rng| rng.below(records)),
            Popularity::Zipf(theta) => {
                let zipf = Zipf::new(records, theta);
                Arc::new(move |rng| scattered.at(zipf.rank(rng)))
            }
            Popularity::Gaussian => {
                Arc::new(move |rng| scattered.at(nth(standard_in_range(rng), records)))
            }
            Popularity::GraphLeader => {
                Arc::new(move |rng| scattered.at(nth(part(&GRAPH_LEADER, rng.unit()), records)))
            }
        }
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Popularity::Uniform => f.write_str("uniform"),
            Popularity::Zipf(theta) => write!(f, "Zipf {theta}"),
            Popularity::Gaussian => f.write_str("Gaussian"),
            Popularity::GraphLeader => f.write_str("graph leader"),
        }
    }
}

/// The record at this part of the way through all.
fn nth(part: f64, records: u64) -> u64 {
    ((part * records as f64) as u64).min(records - 1)
}

/// A part of the way through all records, normally distributed around their middle: two standard
/// deviations on either side, and what lies beyond is drawn again.
fn standard_in_range(rng: &mut Rng) -> f64 {
    loop {
        // Box and Muller, normal deviates.
        let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
        let deviations = radius * (std::f64::consts::TAU * rng.unit()).cos();
        let part = 0.5 + deviations / 4.0;
        if (0.0..1.0).contains(&part) {
            return part;
        }
    }
}

/// The part of the records up to which this part of the requests goes, by a curve of both, in which
/// records between two points are wanted alike.
fn part(curve: &[(f64, f64)], requests: f64) -> f64 {
    let next = curve.partition_point(|it| it.1 <= requests);
    let next = next.clamp(1, curve.len() - 1);
    let ((from, low), (to, high)) = (curve[next - 1], curve[next]);
    from + (to - from) * (requests - low) / (high - low)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const RECORDS: u64 = 100_000;
    const DRAWS: u64 = 400_000;

    /// How often records are drawn, those first that are drawn most.
    fn counts(popularity: Popularity) -> Vec<u64> {
        let (draw, mut rng) = (popularity.draw(RECORDS, 1), Rng::new(1, 3));
        let mut counts = HashMap::new();
        for _ in 0..DRAWS {
            let id = draw(&mut rng);
            assert!(id < RECORDS);
            *counts.entry(id).or_insert(0) += 1;
        }
        let mut counts: Vec<u64> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn the_graphs_records_have_the_part_of_the_requests_that_was_measured() {
        let counts = counts(Popularity::GraphLeader);
        for (part, requests) in &GRAPH_LEADER[4..9] {
            let records = (part * RECORDS as f64) as usize;
            let drawn = counts[..records].iter().sum::<u64>() as f64 / DRAWS as f64;
            // Those that were drawn most by chance are among the first, so it may be more.
            assert!(
                (-0.01..0.05).contains(&(drawn - requests)),
                "{part}: {drawn}"
            );
        }
    }

    #[test]
    fn two_thirds_of_the_normal_draws_are_within_a_deviation() {
        let mut rng = Rng::new(1, 3);
        let mut near = 0.0;
        for _ in 0..DRAWS {
            let part = standard_in_range(&mut rng);
            assert!((0.0..1.0).contains(&part));
            near += f64::from((0.25..0.75).contains(&part));
        }
        // 0.6827 of all, and 0.9545 of all are not drawn again.
        let near = near / DRAWS as f64;
        assert!((near - 0.6827 / 0.9545).abs() < 0.005, "{near}");
    }

    #[test]
    fn uniform_draws_reach_all_and_skewed_ones_some_more_often() {
        let uniform = counts(Popularity::Uniform);
        // Of 4 draws each, e⁻⁴ have none.
        let missed = 1.0 - uniform.len() as f64 / RECORDS as f64;
        assert!((missed - 0.0183).abs() < 0.005, "{missed}");
        assert!(counts(Popularity::Zipf(0.99))[0] > 20 * uniform[0]);
    }

    #[test]
    fn a_curve_is_read_between_its_points() {
        let curve = [(0.0, 0.0), (0.2, 0.8), (1.0, 1.0)];
        for (requests, records) in [(0.0, 0.0), (0.4, 0.1), (0.8, 0.2), (0.9, 0.6), (1.0, 1.0)] {
            let found = part(&curve, requests);
            assert!((found - records).abs() < 1e-9, "{requests}: {found}");
        }
    }
}

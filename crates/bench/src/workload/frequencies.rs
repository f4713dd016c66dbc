//! The access frequency of each record, from a workload's distribution: the input for the bounds of
//! placements.

use super::distribution::Distribution;
use super::hotspot::HotRegion;
use super::key_space::{KeySpace, whole_load_order};
use super::mix::LONGEST_SCAN;
use super::permutation::Permutation;
use super::rng::{self, Rng};
use super::spec::Workload;

impl Workload {
    /// The access frequency of each loaded record, in order of ids and in an arbitrary unit. A scan
    /// accesses all records it reads; inserts access no loaded record. A hot region is at its
    /// current place.
    ///
    /// For `latest`, the frequencies are those before the first insert: the last loaded records are
    /// the newest. Each insert makes all older records one older, so these frequencies hold for one
    /// moment only. But later moments have no higher bound: each thread reads by the same
    /// distribution of ages, from as many records, which are as far apart, and several threads have
    /// different newest records. `None` for `latest` if [inserts are
    /// adjacent](KeySpace::scatters_inserts), since later moments then have higher bounds.
    pub fn frequencies(&self, space: &KeySpace, seed: u64) -> Option<Vec<f32>> {
        let wanted = wanted(&self.distribution(), space, seed, self.hot_epoch().get())?;
        let mix = self.mix();
        let (points, scans) = (mix.read + mix.update + mix.read_modify_write, mix.scan);
        if scans == 0 {
            return Some(wanted);
        }
        let scanned = scanned(&wanted);
        let both = wanted.iter().zip(scanned);
        let touched = both.map(|(one, all)| f32::from(points) * one + f32::from(scans) * all);
        Some(touched.collect())
    }
}

/// The probability of each record to be a request's key.
fn wanted(
    distribution: &Distribution,
    space: &KeySpace,
    seed: u64,
    epoch: u64,
) -> Option<Vec<f32>> {
    let records = space.records();
    let by_rank = |weight: &dyn Fn(u64) -> f64, id: &dyn Fn(u64) -> u64| {
        let weights: Vec<f64> = (0..records).map(weight).collect();
        let all: f64 = weights.iter().sum();
        let mut shares = vec![0.0; records as usize];
        for (rank, weight) in (0..).zip(weights) {
            shares[id(rank) as usize] = (weight / all) as f32;
        }
        shares
    };
    let order = Permutation::new(records, Rng::new(seed, rng::SCRAMBLE));
    let placed = |scrambled| move |rank| if scrambled { order.at(rank) } else { rank };
    let zipf = |theta: f64| move |rank| (rank as f64 + 1.0).powf(-theta);
    match *distribution {
        Distribution::Uniform => Some(by_rank(&|_| 1.0, &placed(false))),
        Distribution::Zipfian { theta, scrambled } => {
            Some(by_rank(&zipf(theta), &placed(scrambled)))
        }
        Distribution::SelfSimilar { h, scrambled } => {
            // The first fraction x of the records gets x^power of the draws.
            let power = (-h).ln_1p() / h.ln();
            let below = |rank: u64| (rank as f64 / records as f64).powf(power);
            Some(by_rank(
                &|rank| below(rank + 1) - below(rank),
                &placed(scrambled),
            ))
        }
        Distribution::Hotspot { size, share } => {
            let region = HotRegion::new(records, size, seed);
            let (hot, others) = (region.ids() as f64, (records - region.ids()) as f64);
            let share = if others == 0.0 { 1.0 } else { share };
            let of = |id| match region.contains(epoch, id) {
                true => share / hot,
                false => (1.0 - share) / others,
            };
            Some(by_rank(&of, &placed(false)))
        }
        Distribution::Latest { theta } => space.scatters_inserts().then(|| {
            let loaded = whole_load_order(records, seed);
            by_rank(&zipf(theta), &|back| loaded.at(records - 1 - back))
        }),
    }
}

/// The read frequency of each record by scans that begin as `wanted` says, with lengths uniform in
/// 1 to [`LONGEST_SCAN`].
fn scanned(wanted: &[f32]) -> Vec<f32> {
    // A record d after a scan's first is read by the fraction 1 - d / LONGEST of the scans. From
    // one record to the next, each active scan loses 1 / LONGEST.
    let longest = LONGEST_SCAN as usize;
    let (mut reading, mut begun) = (0.0, 0.0);
    let read = |(id, &first): (usize, &f32)| {
        reading += f64::from(first) - begun / longest as f64;
        begun += f64::from(first);
        if let Some(ended) = id.checked_sub(longest) {
            begun -= f64::from(wanted[ended]);
        }
        reading.max(0.0) as f32
    };
    wanted.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::HashMap;

    use super::*;
    use crate::workload::latest::Latest;
    use crate::workload::stream::Inserts;
    use crate::workload::tests::chi_square;
    use crate::workload::{Op, load_order};

    /// The counted accesses of a stream and the predicted frequencies, for ids in order.
    fn check(workload: &str, distribution: &str) {
        const RECORDS: u64 = 150;
        let space = KeySpace::new(RECORDS).unwrap();
        let distribution = Distribution::parse(distribution).unwrap();
        let workload = Workload::parse(workload).unwrap();
        let workload = workload.with_distribution(distribution);
        let promised = workload.frequencies(&space, 3).unwrap();
        let all: f64 = promised.iter().copied().map(f64::from).sum();

        let mut counts = vec![0u64; RECORDS as usize];
        let mut stream = workload.stream(&space, 3, 0, 1);
        let id_of = |key| (0..RECORDS).find(|&id| space.key(id) == key).unwrap() as usize;
        for _ in 0..100_000 {
            let request = stream.next();
            match request.op {
                Op::Insert => {}
                Op::Scan(length) => {
                    let first = id_of(request.key);
                    let read = counts[first..].iter_mut().take(length.into());
                    read.for_each(|count| *count += 1);
                }
                _ => counts[id_of(request.key)] += 1,
            }
        }
        let shares: Vec<f64> = promised.iter().map(|it| f64::from(*it) / all).collect();
        if workload.mix().scan == 0 {
            return chi_square::assert_fits(&counts, &shares);
        }
        // The records of one scan are not independent draws.
        let touched = counts.iter().sum::<u64>() as f64;
        for (id, (count, share)) in counts.iter().zip(&shares).enumerate() {
            let (count, expected) = (*count as f64, share * touched);
            assert!(
                (count - expected).abs() < 0.08 * expected + 30.0,
                "{id}: {count}, {expected}"
            );
        }
    }

    #[test]
    fn they_are_what_streams_ask_for() {
        for distribution in [
            "uniform",
            "zipfian:0.99",
            "zipfian:1.25:unscrambled",
            "selfsimilar:0.2",
            "selfsimilar:0.1:scrambled",
            "hotspot:0.05:0.9",
            "hotspot:1:0.5",
        ] {
            check("ycsb-a", distribution);
        }
        // Without inserts, the frequencies stay the same.
        check("ycsb-c", "latest:0.99");
        check("ycsb-e", "zipfian:0.99");
        check("ycsb-e", "hotspot:0.05:0.9");
    }

    #[test]
    fn a_hot_region_is_where_it_is_now() {
        let space = KeySpace::new(1000).unwrap();
        let workload = Workload::parse("hs-c").unwrap();
        let region = workload.hot_region(&space, 3).unwrap();
        for epoch in 0..3 {
            workload.hot_epoch().set(epoch);
            let shares = workload.frequencies(&space, 3).unwrap();
            let hot = (0..1000).filter(|&id| shares[id as usize] > 0.01);
            assert!(hot.eq((0..1000).filter(|&id| region.contains(epoch, id))));
        }
    }

    /// Four records with weights 1, 1/2, 1/3 and 1/4 get 12, 6, 4 and 3 of 25 draws.
    #[test]
    fn the_last_to_be_loaded_are_the_newest() {
        let space = KeySpace::new(4).unwrap();
        let latest = Distribution::parse("latest:1").unwrap();
        let workload = Workload::parse("ycsb-d").unwrap();
        let workload = workload.with_distribution(latest);
        let shares = workload.frequencies(&space, 9).unwrap();
        let newest_first = load_order(4, 9, 0, 1).collect::<Vec<_>>().into_iter().rev();
        let shares = newest_first.map(|id| shares[id as usize]);
        for (share, expected) in shares.zip([0.48, 0.24, 0.16, 0.12]) {
            assert!((share - expected).abs() < 1e-6, "{share}, {expected}");
        }
        let dense = KeySpace::dense(4).unwrap();
        assert_eq!(workload.frequencies(&dense, 9), None);
    }

    /// The fraction of reads that the hottest records get after both of two threads have made this
    /// many inserts.
    #[test]
    fn no_later_moment_of_latest_allows_more() {
        const READS: u64 = 100_000;
        let space = KeySpace::new(100).unwrap();
        let workload = Workload::parse("ycsb-d").unwrap();
        let mut promised = workload.frequencies(&space, 5).unwrap();
        promised.sort_unstable_by(|one, two| two.total_cmp(one));
        for made in [0, 10, 1000] {
            let mut counts = HashMap::new();
            for thread in 0..2 {
                let inserts = Inserts {
                    made,
                    thread,
                    threads: 2,
                };
                let (latest, mut rng) = (Latest::new(&space, 0.99, 5), Rng::new(1, thread));
                for _ in 0..READS / 2 {
                    *counts
                        .entry(latest.key(&mut rng, &space, &inserts))
                        .or_insert(0) += 1;
                }
            }
            let mut counts: Vec<u64> = counts.into_values().collect();
            counts.sort_unstable_by_key(|&count| Reverse(count));
            for most in [1, 5, 20, 50] {
                let share = counts[..most].iter().sum::<u64>() as f64 / READS as f64;
                let bound: f32 = promised[..most].iter().sum();
                let above = share - f64::from(bound);
                assert!(above < 0.01, "{made}, {most}: {share} above {bound}");
                assert!(
                    made > 0 || above > -0.01,
                    "{most}: {share} far below {bound}"
                );
            }
        }
    }
}

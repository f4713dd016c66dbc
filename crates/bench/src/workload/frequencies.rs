//! How often a workload touches each record, as its distribution says: what the bounds of placements are computed from.

use super::distribution::Distribution;
use super::hotspot::HotRegion;
use super::key_space::KeySpace;
use super::mix::LONGEST_SCAN;
use super::permutation::Permutation;
use super::rng::{self, Rng};
use super::spec::Workload;

impl Workload {
    /// How often each loaded record is touched, in order of ids, in a unit of its own. A scan touches all records it reads;
    /// inserts touch none that is loaded. A hot region is where it is now. `None` where the frequencies change as the workload
    /// runs: of `latest`.
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

/// How likely each record is the one asked for.
fn wanted(
    distribution: &Distribution,
    space: &KeySpace,
    seed: u64,
    epoch: u64,
) -> Option<Vec<f32>> {
    let records = space.records();
    let by_rank = |weight: &dyn Fn(u64) -> f64, scrambled: bool| {
        let order = scrambled.then(|| Permutation::new(records, Rng::new(seed, rng::SCRAMBLE)));
        let weights: Vec<f64> = (0..records).map(weight).collect();
        let all: f64 = weights.iter().sum();
        let mut shares = vec![0.0; records as usize];
        for (rank, weight) in (0..).zip(weights) {
            let id = order.as_ref().map_or(rank, |order| order.at(rank));
            shares[id as usize] = (weight / all) as f32;
        }
        shares
    };
    match *distribution {
        Distribution::Uniform => Some(by_rank(&|_| 1.0, false)),
        Distribution::Zipfian { theta, scrambled } => {
            Some(by_rank(&|rank| (rank as f64 + 1.0).powf(-theta), scrambled))
        }
        Distribution::SelfSimilar { h, scrambled } => {
            // The first x of the records get x^power of the draws.
            let power = (-h).ln_1p() / h.ln();
            let below = |rank: u64| (rank as f64 / records as f64).powf(power);
            Some(by_rank(&|rank| below(rank + 1) - below(rank), scrambled))
        }
        Distribution::Hotspot { size, share } => {
            let region = HotRegion::new(records, size, seed);
            let (hot, others) = (region.ids() as f64, (records - region.ids()) as f64);
            let share = if others == 0.0 { 1.0 } else { share };
            let of = |id| match region.contains(epoch, id) {
                true => share / hot,
                false => (1.0 - share) / others,
            };
            Some(by_rank(&of, false))
        }
        Distribution::Latest { .. } => None,
    }
}

/// How often each record is read by scans that begin as `wanted` says, with lengths from 1 to [`LONGEST_SCAN`], all as likely.
fn scanned(wanted: &[f32]) -> Vec<f32> {
    // A record d behind a scan's first is read by the share 1 - d / LONGEST of the scans. From one record to the next,
    // each scan under way loses 1 / LONGEST.
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
    use super::*;
    use crate::workload::{Op, chi_square};

    /// What a stream asks for, counted, beside what is promised, for ids in order.
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
        // Records of one scan are not drawn independently.
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

    #[test]
    fn what_changes_with_time_has_none() {
        let space = KeySpace::new(10).unwrap();
        assert_eq!(
            Workload::parse("ycsb-d").unwrap().frequencies(&space, 1),
            None
        );
    }
}

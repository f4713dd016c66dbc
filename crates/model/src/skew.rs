//! Which share of the accesses the hottest part of the data gets.

/// Records that are read with Zipf's frequencies: the one of rank r as often as r^-`exponent`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Zipf {
    /// Number of records, at least 1.
    pub records: f64,
    /// 0 is uniform; YCSB has 0.99.
    pub exponent: f64,
}

/// Ranks whose sum is taken one by one; behind them an integral is exact enough.
const HEAD: f64 = 4096.0;

impl Zipf {
    /// The sum of the frequencies of the first `ranks` records, in units of the first one's.
    fn sum(&self, ranks: f64) -> f64 {
        let head = ranks.min(HEAD).floor();
        let exact: f64 = (1..=head as u32)
            .map(|rank| self.weight(f64::from(rank)))
            .sum();
        if ranks <= HEAD {
            return exact + (ranks - head) * self.weight(head + 1.0);
        }
        exact + self.integral(head + 0.5, ranks + 0.5)
    }

    fn weight(&self, rank: f64) -> f64 {
        rank.powf(-self.exponent)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        let power = 1.0 - self.exponent;
        match power.abs() < 1e-9 {
            true => (to / from).ln(),
            false => (to.powf(power) - from.powf(power)) / power,
        }
    }

    /// Fraction of the accesses that go to the hottest `fraction` of the records.
    pub fn served(&self, fraction: f64) -> f64 {
        let ranks = fraction.clamp(0.0, 1.0) * self.records;
        self.sum(ranks) / self.sum(self.records)
    }
}

/// Fraction of the accesses that the hottest blocks get, when a block (a leaf of an index) holds
/// records of all ranks, as it does when keys say nothing about frequencies.
#[derive(Clone, PartialEq, Debug)]
pub struct Blocks {
    /// Blocks and accesses, as fractions of all, hottest blocks first: both sums.
    curve: Vec<(f64, f64)>,
}

/// Blocks that are drawn for those without one of the most frequent records.
const DRAWN: u32 = 20_000;
/// Most frequent records that are looked at one by one.
const FREQUENT: f64 = 65_536.0;

impl Blocks {
    /// Blocks of `size` records each, at least 1. The same arguments give the same curve.
    pub fn new(zipf: &Zipf, size: f64) -> Blocks {
        let blocks = (zipf.records / size).max(1.0);
        let all = zipf.sum(zipf.records);
        // So few that two of them rarely share a block.
        let frequent = FREQUENT.min((blocks / 32.0).floor());
        let rest = (all - zipf.sum(frequent)) / (zipf.records - frequent).max(1.0);
        let with_one = |rank: u32| zipf.weight(f64::from(rank)) + (size - 1.0) * rest;

        // Number of blocks that each stands for, and accesses to each of them.
        let mut heat: Vec<(f64, f64)> = (1..=frequent as u32)
            .map(|rank| (1.0, with_one(rank)))
            .collect();
        let each = (blocks - frequent) / f64::from(DRAWN);
        let mut draws = Draws(1);
        heat.extend((0..DRAWN).map(|_| {
            let ranks = (0..size.round() as u32)
                .map(|_| frequent + 1.0 + draws.next() * (zipf.records - frequent));
            (each, ranks.map(|rank| zipf.weight(rank)).sum())
        }));
        heat.sort_by(|a, b| b.1.total_cmp(&a.1));

        let total: f64 = heat
            .iter()
            .map(|(number, accesses)| number * accesses)
            .sum();
        let (mut number, mut accesses) = (0.0, 0.0);
        let sums = heat.iter().map(|(blocks_each, accesses_each)| {
            number += blocks_each / blocks;
            accesses += blocks_each * accesses_each / total;
            (number, accesses)
        });
        let curve = std::iter::once((0.0, 0.0)).chain(sums).collect();
        Blocks { curve }
    }

    /// Fraction of the accesses that go to the hottest `fraction` of the blocks.
    pub fn served(&self, fraction: f64) -> f64 {
        if fraction <= 0.0 {
            return 0.0;
        }
        let above = self.curve.partition_point(|(number, _)| *number < fraction);
        let (true, Some(&(right, served_right))) = (fraction < 1.0, self.curve.get(above)) else {
            return 1.0;
        };
        let (left, served_left) = self.curve[above - 1];
        served_left + (served_right - served_left) * (fraction - left) / (right - left)
    }
}

/// A splitmix64 generator of numbers from 0 to below 1: the same ones at each run.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, by: f64) -> bool {
        (a - b).abs() <= by
    }

    #[test]
    fn the_share_of_records_is_the_sum_of_their_frequencies() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.3] {
            let zipf = Zipf {
                records: 100_000.0,
                exponent,
            };
            let sum = |ranks: u32| {
                (1..=ranks)
                    .map(|rank| f64::from(rank).powf(-exponent))
                    .sum::<f64>()
            };
            for ranks in [1, 100, 4096, 5000, 50_000, 100_000] {
                let served = zipf.served(f64::from(ranks) / 1e5);
                assert!(
                    close(served, sum(ranks) / sum(100_000), 1e-6),
                    "{exponent} {ranks} {served}"
                );
            }
        }
    }

    #[test]
    fn blocks_of_one_record_are_records() {
        let zipf = Zipf {
            records: 10e6,
            exponent: 0.99,
        };
        let blocks = Blocks::new(&zipf, 1.0);
        for fraction in [0.001, 0.01, 0.1, 0.5, 1.0] {
            let (ours, exact) = (blocks.served(fraction), zipf.served(fraction));
            assert!(close(ours, exact, 0.005), "{fraction}: {ours} {exact}");
        }
    }

    /// Leaves that are filled with records of random ranks, all of them.
    #[test]
    fn larger_blocks_get_what_a_simulation_shows() {
        let (records, size) = (1_000_000usize, 20);
        let zipf = Zipf {
            records: records as f64,
            exponent: 0.99,
        };
        let mut ranks: Vec<usize> = (1..=records).collect();
        let mut draws = Draws(7);
        for at in (1..records).rev() {
            ranks.swap(at, (draws.next() * (at + 1) as f64) as usize);
        }
        let mut heat: Vec<f64> = ranks
            .chunks(size)
            .map(|leaf| leaf.iter().map(|rank| zipf.weight(*rank as f64)).sum())
            .collect();
        heat.sort_by(|a, b| b.total_cmp(a));
        let all: f64 = heat.iter().sum();
        let blocks = Blocks::new(&zipf, size as f64);
        for fraction in [0.01, 0.05, 0.2, 0.5, 0.9] {
            let hottest = heat.iter().take((fraction * heat.len() as f64) as usize);
            let simulated = hottest.sum::<f64>() / all;
            let ours = blocks.served(fraction);
            assert!(
                close(ours, simulated, 0.01),
                "{fraction}: {ours} {simulated}"
            );
        }
    }

    #[test]
    fn extreme_data_has_a_curve() {
        for (records, exponent, size) in [
            (1.0, 0.99, 1.0),
            (3.0, 0.0, 50.0),
            (1e12, 2.0, 20.0),
            (1e12, 0.0, 1.0),
        ] {
            let blocks = Blocks::new(&Zipf { records, exponent }, size);
            assert_eq!(blocks.served(0.0), 0.0);
            assert!(close(blocks.served(1.0), 1.0, 1e-6));
            assert!(
                blocks.served(0.5) >= 0.5 - 0.02,
                "{records} {exponent} {size}"
            );
        }
    }
}

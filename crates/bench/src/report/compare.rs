//! Compares each outcome with its reference placements, within one run.
//!
//! `regained = (T − T_interleave) / (T_all-fast − T_interleave)`. Placements run interleaved (A B C
//! A B C …), so round `i` of one is comparable with round `i` of another, even if the machine's
//! speed drifts. So each figure is computed round by round, and the report shows the median of the
//! rounds with its 95 % interval ([`Ratio`]). A round in which all-fast is not faster than
//! interleave has no `regained`.
//!
//! Where `all-fast+copies` is faster than `all-fast`, `regained` is measured against it: a
//! copy saves cache misses in fast memory, too, and that is no gain of placement.
//!
//! `regained` divides by the gap between two throughputs. Where this gap is small or within its own
//! noise, the quotient says nothing: it is absent, and the report says why.
//!
//! `regained` is also computed once for the whole run, by what the emulator charged a request, by
//! throughput per second of the request threads' CPU time, and by the median latency: the first is
//! free of noise, the second of the workers' share of the cores.
//!
//! A reference is an outcome with the same index, workload, records and threads. `interleave` and
//! `oracle` must also have the same budget; `all-fast` has none, so any budget matches.

use super::paired::{Ratio, ratios};
use super::result::{Outcome, median};

/// The placement whose throughput is 0 of `regained`.
pub const FLOOR: &str = "interleave";
/// The placement whose throughput is 1 of `regained`.
pub const ROOF: &str = "all-fast";
/// The same where copies of hot records make it faster.
pub const ROOF_WITH_COPIES: &str = "all-fast+copies";
/// The reference of `fast_share`.
pub const ORACLE: &str = "oracle";

/// The smallest gap to divide by, over `interleave`'s throughput: an error of 5 % in a throughput
/// would be one of 100 % in `regained`.
pub const SMALLEST_GAP: f64 = 0.05;

/// Figures of the whole run that `regained` is computed by: charge, throughput per CPU time, and
/// median latency. Higher is better.
fn whole(outcome: &Outcome) -> [f64; 3] {
    [
        -outcome.charged_ns_per_op,
        outcome.ops_per_cpu_s,
        -(outcome.p50_ns as f64),
    ]
}

/// Sets `regained` and all ratios to references, with their ranges and intervals; overwrites old
/// values.
pub fn fill_comparisons(results: &mut [Outcome]) {
    for i in 0..results.len() {
        Compared::of(&results[i], results).fill(&mut results[i]);
    }
}

/// What an outcome is compared by; figures of rounds are given by process.
struct Compared {
    to_interleave: Vec<Vec<f64>>,
    to_all_fast: Vec<Vec<f64>>,
    to_oracle: Vec<Vec<f64>>,
    gap: Option<(f64, f64)>,
    regained: Vec<Vec<f64>>,
    /// By [`whole`] figures.
    regained_otherwise: [Option<f64>; 3],
    /// The oracle's.
    regained_limit: Option<f64>,
    fast_share_limit: Option<f64>,
}

impl Compared {
    fn of(own: &Outcome, results: &[Outcome]) -> Self {
        let interleave = reference(results, own, FLOOR, false);
        let all_fast = reference(results, own, ROOF, true);
        let with_copies = reference(results, own, ROOF_WITH_COPIES, true);
        let oracle = reference(results, own, ORACLE, false);
        let bounds = interleave.zip(all_fast.map(|it| stronger(it, with_copies)));
        let gap = bounds.and_then(|(floor, roof)| gap_of(&ratios(roof, floor).concat()));
        let is_clear = gap.is_some_and(|(gap, noise)| gap > SMALLEST_GAP.max(noise));
        let regained_by = |own: &Outcome| match bounds {
            Some((floor, roof)) if is_clear => regained_rounds(own, floor, roof),
            _ => Vec::new(),
        };
        let own_whole = whole(own);
        let regained_whole = |at: usize| {
            let (floor, roof) = bounds.map(|(floor, roof)| (whole(floor)[at], whole(roof)[at]))?;
            let is_clear = (roof - floor).abs() > SMALLEST_GAP * floor.abs();
            is_clear.then(|| regained(own_whole[at], floor, roof))?
        };
        let to = |other: Option<&Outcome>| other.map_or_else(Vec::new, |it| ratios(own, it));
        Compared {
            to_interleave: to(interleave),
            to_all_fast: to(all_fast),
            to_oracle: to(oracle),
            gap,
            regained: regained_by(own),
            regained_otherwise: [0, 1, 2].map(regained_whole),
            regained_limit: oracle.and_then(|it| median(&regained_by(it).concat())),
            fast_share_limit: oracle.and_then(|it| it.fast_share),
        }
    }

    fn fill(self, outcome: &mut Outcome) {
        fill(
            &self.to_interleave,
            &mut outcome.ratio_to_interleave,
            &mut outcome.ratio_to_interleave_low,
            &mut outcome.ratio_to_interleave_high,
        );
        fill(
            &self.to_all_fast,
            &mut outcome.ratio_to_all_fast,
            &mut outcome.ratio_to_all_fast_low,
            &mut outcome.ratio_to_all_fast_high,
        );
        fill(
            &self.to_oracle,
            &mut outcome.ratio_to_oracle,
            &mut outcome.ratio_to_oracle_low,
            &mut outcome.ratio_to_oracle_high,
        );
        fill(
            &self.regained,
            &mut outcome.regained,
            &mut outcome.regained_low,
            &mut outcome.regained_high,
        );
        (outcome.gap, outcome.gap_noise) = self.gap.unzip();
        let rounds = self.regained.concat();
        outcome.regained_min = rounds.iter().copied().reduce(f64::min);
        outcome.regained_max = rounds.iter().copied().reduce(f64::max);
        [
            outcome.regained_by_charge,
            outcome.regained_by_cpu,
            outcome.regained_by_p50,
        ] = self.regained_otherwise;
        let ratio = |(own, limit): (f64, f64)| (limit > 0.0).then(|| own / limit);
        outcome.regained_to_oracle = outcome.regained.zip(self.regained_limit).and_then(ratio);
        let shares = outcome.fast_share.zip(self.fast_share_limit);
        outcome.fast_share_to_oracle = shares.and_then(ratio);
    }
}

/// The faster one of two roofs.
pub fn stronger<'a>(roof: &'a Outcome, other: Option<&'a Outcome>) -> &'a Outcome {
    other
        .filter(|other| other.ops_per_s > roof.ops_per_s)
        .unwrap_or(roof)
}

/// Sets the median of a figure of each round, and the ends of its interval.
fn fill(
    rounds: &[Vec<f64>],
    middle: &mut Option<f64>,
    low: &mut Option<f64>,
    high: &mut Option<f64>,
) {
    *middle = median(&rounds.concat());
    (*low, *high) = Ratio::of(rounds).map(|it| (it.low, it.high)).unzip();
}

/// The median of the gaps between two references over the lower one, and its noise: twice the
/// standard error of a median, by the median deviation, which one disturbed round does not change
/// much. The references are given as the ratio of the upper one to the lower one in each round.
fn gap_of(ratios: &[f64]) -> Option<(f64, f64)> {
    /// A normal distribution's standard deviation over its median deviation.
    const NORMAL: f64 = 1.4826;
    /// The standard error of a median over that of a mean, of many normal values.
    const OF_MEDIAN: f64 = 1.2533;
    let middle = median(ratios)?;
    let deviations: Vec<f64> = ratios.iter().map(|it| (it - middle).abs()).collect();
    let deviation = NORMAL * OF_MEDIAN * median(&deviations)?;
    let noise = 2.0 * deviation / (ratios.len() as f64).sqrt();
    Some((middle - 1.0, noise))
}

/// `regained` of each round; a round without room between the references is left out.
fn regained_rounds(own: &Outcome, floor: &Outcome, roof: &Outcome) -> Vec<Vec<f64>> {
    let bounds = floor.processes().into_iter().zip(roof.processes());
    let processes = own.processes().into_iter().zip(bounds);
    let of_process = |(own, (floor, roof)): (&[f64], (&[f64], &[f64]))| {
        let rounds = own.iter().zip(floor.iter().zip(roof));
        let rounds = rounds.filter_map(|(&own, (&floor, &roof))| regained(own, floor, roof));
        rounds.collect()
    };
    processes.map(of_process).collect()
}

/// The position of a value between `floor` and `roof`; absent unless the roof is above the floor.
fn regained(own: f64, floor: f64, roof: f64) -> Option<f64> {
    (roof > floor).then(|| (own - floor) / (roof - floor))
}

fn reference<'a>(
    results: &'a [Outcome],
    own: &Outcome,
    placement: &str,
    any_budget: bool,
) -> Option<&'a Outcome> {
    let peers = || {
        results.iter().filter(|peer| {
            peer.placement == placement
                && peer.index == own.index
                && peer.workload == own.workload
                && peer.records == own.records
                && peer.threads == own.threads
        })
    };
    let same_budget = peers().find(|peer| peer.fast_budget_ratio == own.fast_budget_ratio);
    same_budget.or_else(|| peers().next().filter(|_| any_budget))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(placement: &str, workload: &str, rounds: &[f64]) -> Outcome {
        let mut outcome = Outcome {
            index: "btree".into(),
            placement: placement.into(),
            workload: workload.into(),
            records: 1000,
            threads: 2,
            fast_budget_ratio: 0.2,
            ..Outcome::default()
        };
        outcome.set_rounds(rounds.to_vec());
        outcome
    }

    fn close(value: Option<f64>, expected: f64) {
        let value = value.expect("a figure");
        assert!(
            (value - expected).abs() < 1e-12,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn by_hand() {
        let mut results = vec![
            outcome("interleave", "hs-c", &[40.0, 50.0, 60.0]),
            outcome("all-fast", "hs-c", &[80.0, 100.0, 110.0]),
            outcome("oracle", "hs-c", &[90.0, 90.0, 90.0]),
            outcome("timberline", "hs-c", &[70.0, 85.0, 100.0]),
        ];
        let whole = [
            (50.0, 40.0, 500),
            (0.0, 80.0, 250),
            (5.0, 72.0, 300),
            (10.0, 70.0, 350),
        ];
        for (outcome, (charged, per_cpu, p50)) in results.iter_mut().zip(whole) {
            outcome.charged_ns_per_op = charged;
            outcome.ops_per_cpu_s = per_cpu;
            outcome.p50_ns = p50;
        }
        results[2].fast_share = Some(0.8);
        results[3].fast_share = Some(0.6);
        fill_comparisons(&mut results);

        // By round: 30/40, 35/50, 40/50.
        let ours = &results[3];
        close(ours.regained, 0.75);
        close(ours.regained_min, 0.7);
        close(ours.regained_max, 0.8);
        close(ours.ratio_to_interleave, 1.7);
        // By round: 70/80, 85/100, 100/110.
        close(ours.ratio_to_all_fast, 0.875);
        close(ours.ratio_to_oracle, 85.0 / 90.0);
        // The oracle's `regained`, by round: 50/40, 40/50, 30/50.
        close(ours.regained_to_oracle, 0.75 / 0.8);
        close(ours.fast_share_to_oracle, 0.75);

        close(ours.regained_by_charge, 0.8);
        close(ours.regained_by_cpu, 0.75);
        close(ours.regained_by_p50, 0.6);

        close(results[0].regained, 0.0);
        close(results[1].regained, 1.0);
        close(results[2].regained_to_oracle, 1.0);
    }

    #[test]
    fn workloads_are_not_mixed() {
        let mut results = vec![
            outcome("interleave", "hs-c", &[1.0]),
            outcome("all-fast", "hs-c", &[2.0]),
            outcome("sidle", "hs-a", &[1.5]),
        ];
        fill_comparisons(&mut results);
        assert_eq!(results[2].regained, None);
        assert_eq!(results[2].ratio_to_interleave, None);
    }

    #[test]
    fn all_fast_not_faster_than_interleave_gives_nothing() {
        let mut results = vec![
            outcome("interleave", "hs-c", &[5.0]),
            outcome("all-fast", "hs-c", &[5.0]),
            outcome("sidle", "hs-c", &[6.0]),
        ];
        results[2].regained = Some(9.0);
        fill_comparisons(&mut results);
        assert_eq!(results[2].regained, None);
        assert_eq!(results[2].regained_min, None);
        close(results[2].ratio_to_all_fast, 1.2);
    }

    #[test]
    fn a_round_without_room_is_left_out() {
        let mut results = vec![
            outcome("interleave", "hs-c", &[4.0; 5]),
            outcome("all-fast", "hs-c", &[8.0, 3.0, 8.0, 8.0, 6.0]),
            outcome("sidle", "hs-c", &[6.0, 9.0, 6.0, 7.0, 5.5]),
        ];
        fill_comparisons(&mut results);
        // By round: 2/4, –, 2/4, 3/4, 1.5/2.
        close(results[2].regained_min, 0.5);
        close(results[2].regained_max, 0.75);
        close(results[2].regained, 0.625);
    }

    #[test]
    fn a_gap_within_its_noise_is_not_divided_by() {
        let noisy = |roof: &[f64]| {
            let mut results = vec![
                outcome("interleave", "hs-c", &[4.0; 5]),
                outcome("all-fast", "hs-c", roof),
                outcome("sidle", "hs-c", &[3.0; 5]),
            ];
            fill_comparisons(&mut results);
            results.pop().unwrap()
        };
        let sidle = noisy(&[4.9, 3.6, 4.2, 4.7, 3.9]);
        close(sidle.gap, 0.05);
        assert!(sidle.gap_noise.unwrap() > 0.05 && sidle.regained.is_none());
        let small = noisy(&[4.1; 5]);
        assert_eq!((small.gap_noise, small.regained), (Some(0.0), None));
        assert!(noisy(&[4.9, 5.6, 5.2, 4.7, 5.9]).regained < Some(0.0));
    }

    #[test]
    fn a_run_cut_short_compares_the_rounds_it_has() {
        let mut results = vec![
            outcome("interleave", "hs-c", &[4.0, 4.0]),
            outcome("all-fast", "hs-c", &[8.0]),
            outcome("sidle", "hs-c", &[]),
            outcome("random", "hs-c", &[5.0, 1.0]),
        ];
        fill_comparisons(&mut results);
        assert_eq!(results[2].regained_max, None);
        close(results[3].regained_min, 0.25);
        close(results[3].regained_max, 0.25);
    }

    /// The second process was disturbed, and so were all placements in it.
    #[test]
    fn noise_that_placements_share_is_in_no_interval() {
        let mut results = vec![
            outcome("interleave", "hs-c", &[4.0, 4.0, 4.0, 2.0, 2.0, 2.0]),
            outcome("all-fast", "hs-c", &[8.0, 8.0, 8.0, 4.0, 4.0]),
            outcome("sidle", "hs-c", &[6.0, 6.0, 6.0, 3.0, 3.0, 3.0]),
        ];
        let processes = [[3, 3], [3, 2], [3, 3]];
        for (outcome, rounds) in results.iter_mut().zip(processes) {
            outcome.process_rounds = rounds.to_vec();
        }
        fill_comparisons(&mut results);
        let sidle = &results[2];
        let to_interleave = (
            sidle.ratio_to_interleave_low,
            sidle.ratio_to_interleave_high,
        );
        assert_eq!(to_interleave, (Some(1.5), Some(1.5)));
        close(sidle.regained, 0.5);
        assert_eq!(sidle.regained_low, None, "five rounds have no interval");
    }

    #[test]
    fn the_stronger_roof_counts() {
        let mut results = vec![
            outcome("interleave", "hs-c", &[4.0; 3]),
            outcome("all-fast", "hs-c", &[8.0; 3]),
            outcome("all-fast+copies", "hs-c", &[12.0; 3]),
            outcome("timberline", "hs-c", &[8.0; 3]),
        ];
        fill_comparisons(&mut results);
        close(results[1].regained, 0.5);
        close(results[3].regained, 0.5);
        close(results[3].ratio_to_all_fast, 1.0);
        results[2].set_rounds(vec![7.0; 3]);
        fill_comparisons(&mut results);
        close(results[3].regained, 1.0);
    }

    #[test]
    fn budgets_are_kept_apart_except_for_all_fast() {
        let mut results = vec![
            outcome("interleave", "hs-c", &[4.0]),
            outcome("interleave", "hs-c", &[5.0]),
            outcome("all-fast", "hs-c", &[8.0]),
            outcome("sidle", "hs-c", &[6.5]),
        ];
        results[1].fast_budget_ratio = 0.5;
        results[2].fast_budget_ratio = 1.0;
        results[3].fast_budget_ratio = 0.5;
        fill_comparisons(&mut results);
        close(results[3].regained, 0.5);
        assert_eq!(results[2].ratio_to_interleave, None);
    }
}

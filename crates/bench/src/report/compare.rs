//! Compares each outcome with its reference placements, within one run.
//!
//! `regained = (T − T_interleave) / (T_all-fast − T_interleave)`. Placements run interleaved (A B C
//! A B C …), so round `i` of one is comparable with round `i` of another, even if the machine's
//! speed drifts. So each figure is computed round by round, and the report shows the median of the
//! rounds with their range. A round in which all-fast is not faster than interleave is left out.
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

use super::result::{Outcome, median};

struct Reference {
    rounds: Vec<f64>,
    fast_share: Option<f64>,
    whole: [f64; 3],
}

/// The placement whose throughput is 0 of `regained`.
pub const FLOOR: &str = "interleave";
/// The placement whose throughput is 1 of `regained`.
pub const ROOF: &str = "all-fast";
/// The reference of `fast_share`.
const ORACLE: &str = "oracle";

/// The smallest gap to divide by, over `interleave`'s throughput: an error of 5 % in a throughput
/// would be one of 100 % in `regained`.
pub const SMALLEST_GAP: f64 = 0.05;

impl Reference {
    fn of(outcome: &Outcome) -> Self {
        Self {
            rounds: outcome.rounds.clone(),
            fast_share: outcome.fast_share,
            whole: whole(outcome),
        }
    }
}

/// Figures of the whole run that `regained` is computed by: charge, throughput per CPU time, and
/// median latency. Higher is better.
fn whole(outcome: &Outcome) -> [f64; 3] {
    [
        -outcome.charged_ns_per_op,
        outcome.ops_per_cpu_s,
        -(outcome.p50_ns as f64),
    ]
}

/// Sets `regained` with its range, and all ratios to references; overwrites old values.
pub fn fill_comparisons(results: &mut [Outcome]) {
    for i in 0..results.len() {
        let interleave = reference(results, i, FLOOR, false);
        let all_fast = reference(results, i, ROOF, true);
        let oracle = reference(results, i, ORACLE, false);
        let outcome = &mut results[i];

        let ratio_to = |other: &Option<Reference>| {
            let pairs = outcome.rounds.iter().zip(&other.as_ref()?.rounds);
            let ratios: Vec<f64> = pairs
                .filter_map(|(&own, &other)| ratio(own, other))
                .collect();
            median(&ratios)
        };
        let ratio_to_interleave = ratio_to(&interleave);
        let ratio_to_all_fast = ratio_to(&all_fast);
        let ratio_to_oracle = ratio_to(&oracle);

        let gap = interleave.as_ref().zip(all_fast.as_ref());
        let gap = gap.and_then(|(floor, roof)| gap_of(&floor.rounds, &roof.rounds));
        let is_clear = gap.is_some_and(|(gap, noise)| gap > SMALLEST_GAP.max(noise));
        let regained_by = |rounds: &[f64]| -> Vec<f64> {
            let (Some(floor), Some(roof), true) = (&interleave, &all_fast, is_clear) else {
                return Vec::new();
            };
            let bounds = floor.rounds.iter().zip(&roof.rounds);
            let rounds = rounds.iter().zip(bounds);
            rounds
                .filter_map(|(&own, (&floor, &roof))| regained(own, floor, roof))
                .collect()
        };
        let own_whole = whole(outcome);
        let regained_whole = |at: usize| {
            let (floor, roof) = interleave.as_ref().zip(all_fast.as_ref())?;
            let (floor, roof) = (floor.whole[at], roof.whole[at]);
            let is_clear = (roof - floor).abs() > SMALLEST_GAP * floor.abs();
            is_clear.then(|| regained(own_whole[at], floor, roof))?
        };
        let otherwise = [0, 1, 2].map(regained_whole);
        let own = regained_by(&outcome.rounds);
        let limit = oracle
            .as_ref()
            .and_then(|oracle| median(&regained_by(&oracle.rounds)));

        outcome.ratio_to_interleave = ratio_to_interleave;
        outcome.ratio_to_all_fast = ratio_to_all_fast;
        outcome.ratio_to_oracle = ratio_to_oracle;
        (outcome.gap, outcome.gap_noise) = gap.unzip();
        outcome.regained = median(&own);
        outcome.regained_min = own.iter().copied().reduce(f64::min);
        outcome.regained_max = own.iter().copied().reduce(f64::max);
        [
            outcome.regained_by_charge,
            outcome.regained_by_cpu,
            outcome.regained_by_p50,
        ] = otherwise;
        outcome.regained_to_oracle = outcome
            .regained
            .zip(limit)
            .and_then(|(own, limit)| ratio(own, limit));
        outcome.fast_share_to_oracle = outcome
            .fast_share
            .zip(oracle.and_then(|oracle| oracle.fast_share))
            .and_then(|(own, limit)| ratio(own, limit));
    }
}

/// The gap between two references over the lower one, and its noise: twice the standard error of a
/// median, by the median deviation, which one disturbed round does not change much.
fn gap_of(floor: &[f64], roof: &[f64]) -> Option<(f64, f64)> {
    /// A normal distribution's standard deviation over its median deviation.
    const NORMAL: f64 = 1.4826;
    /// The standard error of a median over that of a mean, of many normal values.
    const OF_MEDIAN: f64 = 1.2533;
    let both = floor.iter().zip(roof).filter(|(floor, _)| **floor > 0.0);
    let gaps: Vec<f64> = both.map(|(floor, roof)| roof / floor - 1.0).collect();
    let gap = median(&gaps)?;
    let deviations: Vec<f64> = gaps.iter().map(|it| (it - gap).abs()).collect();
    let deviation = NORMAL * OF_MEDIAN * median(&deviations)?;
    Some((gap, 2.0 * deviation / (gaps.len() as f64).sqrt()))
}

/// The position of a value between `floor` and `roof`; absent unless the roof is above the floor.
fn regained(own: f64, floor: f64, roof: f64) -> Option<f64> {
    (roof > floor).then(|| (own - floor) / (roof - floor))
}

/// A ratio to a positive number.
fn ratio(own: f64, other: f64) -> Option<f64> {
    (other > 0.0).then(|| own / other)
}

fn reference(
    results: &[Outcome],
    i: usize,
    placement: &str,
    any_budget: bool,
) -> Option<Reference> {
    let own = &results[i];
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
    same_budget
        .or_else(|| peers().next().filter(|_| any_budget))
        .map(Reference::of)
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

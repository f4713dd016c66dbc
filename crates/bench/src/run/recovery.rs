//! The recovery of a placement after the hot region moves.

use std::time::Duration;

use crate::report::compare::{FLOOR, ROOF, SMALLEST_GAP};
use crate::report::{Outcome, Sample, median};

/// The time before a shift that defines the level to recover.
const LEVEL: f64 = 2.0;
/// Recovered means this fraction of the level before.
const BACK: f64 = 0.9;
/// Consecutive samples that must recover together, so that one lucky sample does not count.
const SUSTAINED: usize = 3;

/// Sets the time from each shift until `regained` and the fast share are back to 90 % of their
/// levels, from the samples of one workload's outcomes. Stays unset without both references, and
/// for the references themselves.
pub fn fill(outcomes: &mut [Outcome], every: Duration) {
    let throughput = ends(outcomes, |sample| Some(sample.ops_per_s));
    let fast_share = ends(outcomes, |sample| sample.fast_share);
    let compared = |outcome: &&mut Outcome| ![ROOF, FLOOR].contains(&outcome.placement.as_str());
    for outcome in outcomes.iter_mut().filter(compared) {
        let times = |ends, of| times(outcome, ends, of, every);
        let (median, longest) = times(throughput, |sample| Some(sample.ops_per_s));
        let (median_of_share, longest_of_share) = times(fast_share, |sample| sample.fast_share);
        outcome.recovery_s = median;
        outcome.recovery_s_max = longest;
        outcome.fast_share_recovery_s = median_of_share;
        outcome.fast_share_recovery_s_max = longest_of_share;
    }
}

type Figure = fn(&Sample) -> Option<f64>;

/// The figure's values under `interleave` and `all-fast`; `None` if they are missing, reversed, or
/// too close to divide by.
fn ends(outcomes: &[Outcome], of: Figure) -> Option<(f64, f64)> {
    let usual = |placement: &str| {
        let outcome = outcomes.iter().find(|it| it.placement == placement)?;
        median(&outcome.series.iter().filter_map(of).collect::<Vec<_>>())
    };
    let (floor, roof) = usual(FLOOR).zip(usual(ROOF))?;
    (roof - floor > SMALLEST_GAP * floor).then_some((floor, roof))
}

/// The median and the longest time after a shift until a figure recovers, relative to these
/// references.
fn times(
    outcome: &Outcome,
    ends: Option<(f64, f64)>,
    of: Figure,
    every: Duration,
) -> (Option<f64>, Option<f64>) {
    let Some((floor, roof)) = ends else {
        return (None, None);
    };
    let regained = |sample: &Sample| Some((sample.at_s, (of(sample)? - floor) / (roof - floor)));
    let series: Vec<(f64, f64)> = outcome.series.iter().filter_map(regained).collect();
    let mut times = recoveries(&series, every.as_secs_f64());
    times.sort_by(f64::total_cmp);
    (median(&times), times.last().copied())
}

/// The time from each shift until the figure recovers, s; the whole interval if it does not.
fn recoveries(series: &[(f64, f64)], every: f64) -> Vec<f64> {
    let end = series.last().map_or(0.0, |&(at, _)| at);
    let shifts = (1..)
        .map(|nth| f64::from(nth) * every)
        .take_while(|at| at + LEVEL < end);
    let mut times = Vec::new();
    for shift in shifts {
        let between =
            |from: f64, to: f64| series.iter().filter(move |&&(at, _)| at > from && at <= to);
        let before: Vec<f64> = between(shift - LEVEL, shift)
            .map(|&(_, regained)| regained)
            .collect();
        let Some(level) = median(&before).filter(|&level| level > 0.0) else {
            continue;
        };
        let after: Vec<(f64, f64)> = between(shift, shift + every).copied().collect();
        let back = after.windows(SUSTAINED).find(|window| {
            window.iter().map(|&(_, regained)| regained).sum::<f64>() / SUSTAINED as f64
                >= BACK * level
        });
        // A sample covers the time before it, so recovery came at the start of the first of them.
        let tick = after.first().map_or(0.0, |&(at, _)| at - shift);
        times.push(back.map_or(every, |window| window[0].0 - shift - tick));
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_is_counted_from_the_shift() {
        // Level 0.9 until 5 s, zero for 1.2 s, then 0.9 again.
        let level = |at: f64| if (5.05..6.25).contains(&at) { 0.0 } else { 0.9 };
        let series: Vec<_> = (1..=100)
            .map(|tick| f64::from(tick) / 10.0)
            .map(|at| (at, level(at)))
            .collect();
        let times = recoveries(&series, 5.0);
        assert_eq!(times.len(), 1);
        assert!((times[0] - 1.2).abs() < 1e-9, "{times:?}");
    }

    #[test]
    fn what_never_recovers_takes_the_whole_interval() {
        let series: Vec<_> = (1..=100)
            .map(|tick| f64::from(tick) / 10.0)
            .map(|at| (at, if at <= 5.0 { 0.9 } else { 0.1 }))
            .collect();
        assert_eq!(recoveries(&series, 5.0), [5.0]);
    }
}

//! Two placements against each other, by their rounds: the ratio of throughputs with a bootstrap
//! interval, and the rounds that `regained` leaves out.
//!
//! Placements run interleaved, so round `i` of one is paired with round `i` of another. The
//! interval is the percentile bootstrap of the median of the paired figures (Efron, Tibshirani: An
//! Introduction to the Bootstrap, chapter 13). Rounds of one process share its addresses and its
//! luck, so where several processes measured, whole processes are drawn first and then rounds of
//! each; otherwise the interval would be too narrow.
//!
//! Of few rounds the percentile bootstrap is too narrow: of 21 independent rounds it misses the
//! median in 8 % of all cases instead of 5 %. So the interval also contains the exact one of the
//! sign test, which holds for any distribution.
//!
//! Resampling has a fixed seed: equal rounds give equal intervals.

use std::borrow::Borrow;

use serde::Serialize;

use super::compare::{FLOOR, ORACLE, ROOF, ROOF_WITH_COPIES, stronger};
use super::figures;
use super::groups::Group;
use super::result::{Outcome, median};
use crate::workload::Rng;

/// Of fewer rounds the extremes alone miss the median in more than 5 % of all cases (2 ÷ 2ⁿ), so
/// no interval of 95 % exists.
pub const LEAST_ROUNDS: usize = 6;
/// The resamples of an interval.
const RESAMPLES: usize = 2000;
/// Our placement, which keeps copies of hot records.
const OURS: &str = "timberline";
/// The same without copies: a placement of nodes, as the others are.
const OURS_OF_NODES: &str = "timberline-leaves";
/// How the names of placements end to which copies were added.
const WITH_COPIES: &str = "+copies";

/// A median ratio, with the interval that holds the true one in 95 % of all cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median of all rounds.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// What an interval says of a ratio of throughputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The whole interval is above 1.
    Ahead,
    /// The whole interval is below 1.
    Behind,
    /// The interval contains 1.
    Undecided,
}

impl Ratio {
    /// The median of a figure of each round, given by process. If the figure compares paired rounds
    /// ([`ratios`]), the noise that they share is not in the interval. `None` for fewer than
    /// [`LEAST_ROUNDS`] rounds in all.
    pub fn of(processes: &[impl Borrow<[f64]>]) -> Option<Ratio> {
        let mut processes: Vec<&[f64]> = processes.iter().map(Borrow::borrow).collect();
        processes.retain(|rounds| !rounds.is_empty());
        let mut all = processes.concat();
        if all.len() < LEAST_ROUNDS {
            return None;
        }
        all.sort_by(f64::total_cmp);
        let rank = rank_of_sign_test(all.len());
        let mut rng = Rng::new(0, 0);
        let mut draw = || {
            let mut drawn = Vec::with_capacity(all.len());
            for _ in &processes {
                let process = processes[rng.below(processes.len() as u64) as usize];
                let rounds = process.len() as u64;
                drawn.extend((0..rounds).map(|_| process[rng.below(rounds) as usize]));
            }
            median(&drawn)
        };
        let mut medians: Vec<f64> = (0..RESAMPLES).filter_map(|_| draw()).collect();
        medians.sort_by(f64::total_cmp);
        let tail = RESAMPLES / 40;
        Some(Ratio {
            median: median(&all)?,
            low: medians[tail].min(all[rank]),
            high: medians[RESAMPLES - 1 - tail].max(all[all.len() - 1 - rank]),
        })
    }

    /// A figure that has no noise.
    pub fn exact(value: f64) -> Ratio {
        let [median, low, high] = [value; 3];
        Ratio { median, low, high }
    }

    /// From a median and the ends of its interval, if it has one.
    pub fn between(median: Option<f64>, low: Option<f64>, high: Option<f64>) -> Option<Ratio> {
        let (median, (low, high)) = median.zip(low.zip(high))?;
        Some(Ratio { median, low, high })
    }

    /// The ratio of two figures whose rounds are not paired. It lies in the interval wherever each
    /// figure lies in its own. `None` if the other one may be 0.
    pub fn over(self, other: Ratio) -> Option<Ratio> {
        (other.low > 0.0).then(|| Ratio {
            median: self.median / other.median,
            low: self.low / other.high,
            high: self.high / other.low,
        })
    }

    /// What the interval says.
    pub fn standing(self) -> Standing {
        match (self.low > 1.0, self.high < 1.0) {
            (true, _) => Standing::Ahead,
            (_, true) => Standing::Behind,
            _ => Standing::Undecided,
        }
    }
}

/// The position in `n` sorted values from which to its mirror image they hold the median in at
/// least 95 % of all cases: as many values are below the median as coins show heads.
fn rank_of_sign_test(n: usize) -> usize {
    const TAIL: f64 = 0.025;
    let mut exactly = 0.5_f64.powf(n as f64);
    let (mut rank, mut at_most) = (0, exactly);
    while rank < n / 2 {
        exactly *= (n - rank) as f64 / (rank + 1) as f64;
        at_most += exactly;
        if at_most > TAIL {
            break;
        }
        rank += 1;
    }
    rank
}

/// The throughput of one placement over another's in each round that both have, by process. A round
/// in which either made no request is left out.
pub fn ratios(own: &Outcome, other: &Outcome) -> Vec<Vec<f64>> {
    let ratios = |(own, other): (&[f64], &[f64])| {
        let pairs = own.iter().zip(other);
        let positive = pairs.filter(|(own, other)| **own > 0.0 && **other > 0.0);
        positive.map(|(own, other)| own / other).collect()
    };
    own.processes()
        .into_iter()
        .zip(other.processes())
        .map(ratios)
        .collect()
}

/// Our placements against others with the same budget that are no reference, a line each; absent if
/// they have too few rounds. Ratios to references are columns of their own.
///
/// Copies of records are another data structure, so where ours ran without them, that is what
/// placements of nodes and pages are held against.
pub fn lines(group: &Group<'_>) -> Vec<String> {
    let has = |name: &str| group.members.iter().any(|it| it.placement == name);
    let keeps_copies = |name: &str| name == OURS || name.ends_with(WITH_COPIES);
    let of_nodes = |name: &str| !keeps_copies(name);
    let others = |name: &str| !has(OURS_OF_NODES) || !of_nodes(name) || name == OURS_OF_NODES;
    let lines = [
        line(group, OURS_OF_NODES, of_nodes),
        line(group, OURS, others),
    ];
    lines.into_iter().flatten().collect()
}

/// One of our placements against those of the others with `wanted` names.
fn line(group: &Group<'_>, ours: &str, wanted: impl Fn(&str) -> bool) -> Option<String> {
    let ours = group.members.iter().find(|it| it.placement == ours)?;
    let told = |other: &&Outcome| {
        let ratio = Ratio::of(&ratios(ours, other))?;
        let standing = match ratio.standing() {
            Standing::Ahead => "ahead",
            Standing::Behind => "behind",
            Standing::Undecided => "undecided",
        };
        let range = figures::share_range(Some(ratio.median), Some(ratio.low), Some(ratio.high));
        Some(format!("÷ {} {range} {standing}", other.placement))
    };
    let is_other = |it: &&&Outcome| {
        ![&*ours.placement, FLOOR, ROOF, ORACLE].contains(&it.placement.as_str())
            && wanted(&it.placement)
            && it.fast_budget_ratio == ours.fast_budget_ratio
    };
    let others = group.members.iter().filter(is_other);
    let others: Vec<String> = others.filter_map(told).collect();
    (!others.is_empty()).then(|| {
        let (workload, ours) = (group.workload(), &ours.placement);
        format!("PAIRED: {workload}: {ours} {}", others.join(", "))
    })
}

/// The rounds that `regained` leaves out, in one line; absent if there are none.
pub fn dropped(group: &Group<'_>) -> Option<String> {
    let of = |name: &str| group.members.iter().find(|it| it.placement == name);
    let (floor, roof) = (of(FLOOR)?, of(ROOF)?);
    let roof = stronger(roof, of(ROOF_WITH_COPIES).copied());
    let of_process = |(floor, roof): (&[f64], &[f64])| {
        let both = floor.iter().zip(roof);
        both.map(|(floor, roof)| roof <= floor).collect::<Vec<_>>()
    };
    let is_dropped = floor.processes().into_iter().zip(roof.processes());
    let is_dropped: Vec<bool> = is_dropped.flat_map(of_process).collect();
    let dropped = is_dropped.iter().enumerate().filter(|(_, it)| **it);
    let dropped: Vec<String> = dropped.map(|(nth, _)| (nth + 1).to_string()).collect();
    (!dropped.is_empty()).then(|| {
        format!(
            "DROPPED: {}: of {} rounds `regained` leaves out {}: all-fast was not faster than \
             interleave",
            group.workload(),
            is_dropped.len(),
            dropped.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::groups::groups;
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables_of_the_sign_test() {
        let ranks = [6, 8, 9, 12, 21, 30].map(rank_of_sign_test);
        assert_eq!(ranks, [0, 0, 1, 2, 5, 9]);
    }

    /// The ratios of rounds whose noise is common to both sides, with a little noise of their own.
    fn paired(rounds: usize, ratio: f64, own_noise: f64, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed, 1);
        let mut pair = || {
            let other = 1.0 + rng.unit();
            (
                other * ratio * (1.0 + own_noise * (rng.unit() - 0.5)),
                other,
            )
        };
        let (own, other): (Vec<f64>, Vec<f64>) = (0..rounds).map(|_| pair()).unzip();
        ratios(&outcome("own", &own), &outcome("other", &other)).concat()
    }

    #[test]
    fn a_known_ratio_is_within_its_interval() {
        let hits = (0..200).filter(|&seed| {
            let ratio = Ratio::of(&[paired(21, 1.1, 0.2, seed)]).unwrap();
            assert!(ratio.low <= ratio.median && ratio.median <= ratio.high);
            ratio.low <= 1.1 && 1.1 <= ratio.high
        });
        // 95 % of 200, with room for four standard deviations.
        let hits = hits.count();
        assert!((178..=200).contains(&hits), "{hits} of 200");
    }

    #[test]
    fn noise_that_both_share_does_not_hide_who_is_ahead() {
        for (ratio, standing) in [(1.1, Standing::Ahead), (0.9, Standing::Behind)] {
            let ratio = Ratio::of(&[paired(9, ratio, 0.02, 7)]).unwrap();
            assert_eq!(ratio.standing(), standing, "{ratio:?}");
        }
    }

    #[test]
    fn a_tie_is_undecided() {
        let tie = Ratio::of(&[vec![1.0; 9]]).unwrap();
        let expected = Ratio {
            median: 1.0,
            low: 1.0,
            high: 1.0,
        };
        assert_eq!((tie, tie.standing()), (expected, Standing::Undecided));
        let even = [0.9, 1.1, 0.95, 1.05, 0.97, 1.03, 0.99, 1.01];
        let even = Ratio::of(&[even.to_vec()]).unwrap();
        assert_eq!(even.standing(), Standing::Undecided, "{even:?}");
    }

    #[test]
    fn one_outlier_decides_nothing() {
        let mut rounds = paired(9, 1.1, 0.02, 3);
        rounds[4] = 0.01;
        assert_eq!(Ratio::of(&[rounds]).unwrap().standing(), Standing::Ahead);
        let mut rounds = vec![1.0; 9];
        rounds[0] = 1000.0;
        assert_eq!(
            Ratio::of(&[rounds]).unwrap().standing(),
            Standing::Undecided
        );
    }

    #[test]
    fn too_few_rounds_have_no_interval() {
        assert_eq!(Ratio::of(&[[0.0; 0]]), None);
        assert_eq!(Ratio::of(&[paired(5, 2.0, 0.0, 1)]), None);
        assert!(Ratio::of(&[paired(6, 2.0, 0.0, 1)]).is_some());
        let [own, other] = [[2.0, 2.0, 0.0, 2.0], [1.0, 0.0, 1.0, 1.0]];
        let ratios = ratios(&outcome("own", &own), &outcome("other", &other));
        assert_eq!(ratios, [[2.0, 2.0]], "a dropped round does not count");
    }

    /// Each process is steady, but they disagree: their rounds are not independent.
    #[test]
    fn processes_that_disagree_widen_the_interval() {
        let processes = [1.2, 1.12, 1.1, 1.08, 0.9].map(|ratio| paired(9, ratio, 0.02, 5));
        let apart = Ratio::of(&processes).unwrap();
        let as_one = Ratio::of(&[processes.concat()]).unwrap();
        assert!(apart.low < 0.95 && apart.high > 1.15, "{apart:?}");
        assert!(
            apart.high - apart.low > as_one.high - as_one.low,
            "{as_one:?}"
        );
        assert_eq!(apart.standing(), Standing::Undecided);
    }

    fn outcome(placement: &str, rounds: &[f64]) -> Outcome {
        let mut outcome = Outcome {
            placement: placement.into(),
            workload: "hs-c".into(),
            ..Outcome::default()
        };
        outcome.set_rounds(rounds.to_vec());
        outcome
    }

    #[test]
    fn lines_name_who_is_ahead_and_the_rounds_left_out() {
        let results = [
            outcome("interleave", &[4.0; 6]),
            outcome("all-fast", &[8.0, 4.0, 8.0, 8.0, 3.0, 8.0]),
            outcome("inner-fast", &[4.0; 6]),
            outcome("sidle", &[5.0; 3]),
            outcome("timberline", &[6.0; 6]),
        ];
        let groups = groups(&results);
        let expected = ["PAIRED: hs-c: timberline ÷ inner-fast 1.50 [1.50, 1.50] ahead"];
        let lines = lines(&groups[0]);
        assert_eq!(lines, expected, "sidle's three rounds have no interval");
        let dropped = dropped(&groups[0]).unwrap();
        assert!(dropped.starts_with("DROPPED: hs-c: of 6 rounds `regained` leaves out 2, 5:"));
    }

    #[test]
    fn placements_of_nodes_are_held_against_ours_without_copies() {
        let results = [
            outcome("sidle", &[4.0; 6]),
            outcome("sidle+copies", &[5.0; 6]),
            outcome("timberline-leaves", &[6.0; 6]),
            outcome("timberline", &[9.0; 6]),
        ];
        let expected = [
            "PAIRED: hs-c: timberline-leaves ÷ sidle 1.50 [1.50, 1.50] ahead",
            "PAIRED: hs-c: timberline ÷ sidle+copies 1.80 [1.80, 1.80] ahead, \
             ÷ timberline-leaves 1.50 [1.50, 1.50] ahead",
        ];
        assert_eq!(lines(&groups(&results)[0]), expected);
    }

    #[test]
    fn nothing_is_said_of_a_run_without_drops_or_with_few_rounds() {
        let results = [
            outcome("interleave", &[4.0; 3]),
            outcome("all-fast", &[8.0; 3]),
            outcome("timberline", &[6.0; 3]),
        ];
        let groups = groups(&results);
        assert_eq!(lines(&groups[0]), [""; 0]);
        assert_eq!(dropped(&groups[0]), None);
    }

    #[test]
    fn rounds_are_paired_within_their_process() {
        let of = |name, rounds: &[f64], processes: &[usize]| {
            let mut outcome = outcome(name, rounds);
            outcome.process_rounds = processes.to_vec();
            outcome
        };
        let results = [
            of("all-fast", &[4.0, 3.0, 8.0, 8.0], &[1, 1, 2]),
            of("interleave", &[2.0, 2.0, 5.0, 4.0, 9.0], &[2, 1, 2]),
            of("timberline", &[6.0, 6.0, 15.0, 12.0, 27.0], &[2, 1, 2]),
        ];
        let expected: [&[f64]; 3] = [&[3.0, 3.0], &[3.0], &[3.0, 3.0]];
        assert_eq!(ratios(&results[2], &results[1]), expected);
        let dropped = dropped(&groups(&results)[0]).unwrap();
        assert!(dropped.starts_with("DROPPED: hs-c: of 4 rounds `regained` leaves out 2, 4:"));
    }

    #[test]
    fn figures_that_are_not_paired_have_the_interval_of_both() {
        let [own, other] = [(3.0, 2.0, 4.0), (1.5, 1.0, 2.0)].map(|(median, low, high)| Ratio {
            median,
            low,
            high,
        });
        let ratio = own.over(other).unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high), (2.0, 1.0, 4.0));
        assert_eq!(own.over(Ratio::exact(0.0)), None);
    }
}

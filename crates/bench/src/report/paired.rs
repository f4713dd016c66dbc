//! Two placements against each other, by their rounds: the ratio of throughputs with a bootstrap
//! interval, and the rounds that `regained` leaves out.
//!
//! Placements run interleaved, so round `i` of one is paired with round `i` of another. The
//! interval is the percentile bootstrap of the median of the paired ratios (Efron, Tibshirani: An
//! Introduction to the Bootstrap, chapter 13). Rounds of one process share its addresses and its
//! luck, so where several processes measured, whole processes are drawn first and then rounds of
//! each; otherwise the interval would be too narrow.
//!
//! Of few rounds the percentile bootstrap is too narrow: of 21 independent rounds it misses the
//! median in 8 % of all cases instead of 5 %. So the interval also contains the exact one of the
//! sign test, which holds for any distribution.
//!
//! Resampling has a fixed seed: equal rounds give equal intervals.

use super::figures;
use super::grid::wrapped;
use super::groups::{Group, groups};
use super::result::{Outcome, median};
use super::side_by_side;
use super::written::Report;
use crate::workload::Rng;

/// Of fewer rounds the extremes alone miss the median in more than 5 % of all cases (2 ÷ 2ⁿ), so
/// no interval of 95 % exists.
pub const LEAST_ROUNDS: usize = 6;
/// The resamples of an interval.
const RESAMPLES: usize = 2000;
/// The placement that the others are held against.
const OURS: &str = "timberline";

/// A median ratio, with the interval that holds the true one in 95 % of all cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of all pairs.
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
    /// The ratio of paired rounds, a slice of pairs (own, other) for each process. Pairs that are
    /// not both positive are left out. `None` for fewer than [`LEAST_ROUNDS`] pairs in all.
    pub fn of(processes: &[Vec<(f64, f64)>]) -> Option<Ratio> {
        let ratios = |pairs: &Vec<(f64, f64)>| -> Vec<f64> {
            let positive = pairs
                .iter()
                .filter(|(own, other)| *own > 0.0 && *other > 0.0);
            positive.map(|(own, other)| own / other).collect()
        };
        let mut processes: Vec<Vec<f64>> = processes.iter().map(ratios).collect();
        processes.retain(|ratios| !ratios.is_empty());
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
                let process = &processes[rng.below(processes.len() as u64) as usize];
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

/// Our placement against each other one with the same budget, in one line. The same group of each
/// process; absent if they have too few rounds.
pub fn line(processes: &[Group<'_>]) -> Option<String> {
    let first = processes.first()?;
    let ours = first.members.iter().find(|it| it.placement == OURS)?;
    let budget = ours.fast_budget_ratio;
    let rounds = |group: &Group<'_>, name: &str| {
        let is_it = |it: &&&Outcome| it.placement == name && it.fast_budget_ratio == budget;
        let found = group.members.iter().find(is_it);
        found.map_or_else(Vec::new, |it| it.rounds.clone())
    };
    let told = |other: &&Outcome| {
        let pairs = |group: &Group<'_>| {
            rounds(group, OURS)
                .into_iter()
                .zip(rounds(group, &other.placement))
        };
        let pairs: Vec<Vec<_>> = processes.iter().map(|it| pairs(it).collect()).collect();
        let ratio = Ratio::of(&pairs)?;
        let standing = match ratio.standing() {
            Standing::Ahead => "ahead",
            Standing::Behind => "behind",
            Standing::Undecided => "undecided",
        };
        let range = figures::share_range(Some(ratio.median), Some(ratio.low), Some(ratio.high));
        Some(format!("÷ {} {range} {standing}", other.placement))
    };
    let is_other = |it: &&&Outcome| it.placement != OURS && it.fast_budget_ratio == budget;
    let others = first.members.iter().filter(is_other);
    let others: Vec<String> = others.filter_map(told).collect();
    (!others.is_empty()).then(|| {
        let workload = first.workload();
        format!("PAIRED: {workload}: {OURS} {}", others.join(", "))
    })
}

/// The reports of several processes as one: the ratios of all rounds, and what was left out.
///
/// # Errors
/// One line: `timberline` has too few rounds together with another placement.
pub fn render(names: &[String], reports: &[Report]) -> Result<String, String> {
    let Some((first, others)) = reports.split_first() else {
        return Err("no report".into());
    };
    let mut paired = Vec::new();
    let mut notes = Vec::new();
    for group in groups(&first.results) {
        let heading = (group.workload().to_string(), group.setting());
        let is_twin = |it: &Group<'_>| it.workload() == heading.0 && it.setting() == heading.1;
        let twins = others
            .iter()
            .filter_map(|report| groups(&report.results).into_iter().find(&is_twin));
        let processes: Vec<Group<'_>> = std::iter::once(group).chain(twins).collect();
        paired
            .extend(line(&processes).map(|line| format!("{line}, {} processes", processes.len())));
        notes.extend(processes.iter().filter_map(dropped));
    }
    if paired.is_empty() {
        return Err(format!(
            "`{OURS}` has fewer than {LEAST_ROUNDS} rounds together with any other placement: no \
             interval"
        ));
    }
    for (name, report) in names.iter().zip(reports).skip(1) {
        let unlike = side_by_side::differences([first, report]);
        notes.extend(
            unlike
                .iter()
                .map(|line| format!("NOT ALIKE: A {}, B {name}: {line}", names[0])),
        );
    }
    paired.append(&mut notes);
    Ok(paired.iter().map(|line| wrapped(line, 2)).collect())
}

/// The rounds that `regained` leaves out, in one line; absent if there are none.
pub fn dropped(group: &Group<'_>) -> Option<String> {
    let of = |name: &str| group.members.iter().find(|it| it.placement == name);
    let (floor, roof) = (of(super::compare::FLOOR)?, of(super::compare::ROOF)?);
    let both = floor.rounds.iter().zip(&roof.rounds).enumerate();
    let dropped = both.filter(|(_, (floor, roof))| roof <= floor);
    let dropped: Vec<String> = dropped.map(|(nth, _)| (nth + 1).to_string()).collect();
    (!dropped.is_empty()).then(|| {
        format!(
            "DROPPED: {}: of {} rounds `regained` leaves out {}: all-fast was not faster than \
             interleave",
            group.workload(),
            floor.rounds.len().min(roof.rounds.len()),
            dropped.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables_of_the_sign_test() {
        let ranks = [6, 8, 9, 12, 21, 30].map(rank_of_sign_test);
        assert_eq!(ranks, [0, 0, 1, 2, 5, 9]);
    }

    /// Rounds whose noise is common to both sides, and pairs with this ratio and a little noise of
    /// their own.
    fn pairs(rounds: usize, ratio: f64, own_noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut rng = Rng::new(seed, 1);
        let pair = |_| {
            let other = 1.0 + rng.unit();
            (
                other * ratio * (1.0 + own_noise * (rng.unit() - 0.5)),
                other,
            )
        };
        (0..rounds).map(pair).collect()
    }

    #[test]
    fn a_known_ratio_is_within_its_interval() {
        let hits = (0..200).filter(|&seed| {
            let ratio = Ratio::of(&[pairs(21, 1.1, 0.2, seed)]).unwrap();
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
            let ratio = Ratio::of(&[pairs(9, ratio, 0.02, 7)]).unwrap();
            assert_eq!(ratio.standing(), standing, "{ratio:?}");
        }
    }

    #[test]
    fn a_tie_is_undecided() {
        let tie = Ratio::of(&[vec![(2.0, 2.0); 9]]).unwrap();
        let expected = Ratio {
            median: 1.0,
            low: 1.0,
            high: 1.0,
        };
        assert_eq!((tie, tie.standing()), (expected, Standing::Undecided));
        let even = [0.9, 1.1, 0.95, 1.05, 0.97, 1.03, 0.99, 1.01].map(|own| (own, 1.0));
        let even = Ratio::of(&[even.to_vec()]).unwrap();
        assert_eq!(even.standing(), Standing::Undecided, "{even:?}");
    }

    #[test]
    fn one_outlier_decides_nothing() {
        let mut rounds = pairs(9, 1.1, 0.02, 3);
        rounds[4] = (0.01, 1.0);
        assert_eq!(Ratio::of(&[rounds]).unwrap().standing(), Standing::Ahead);
        let mut rounds = vec![(1.0, 1.0); 9];
        rounds[0] = (1000.0, 1.0);
        assert_eq!(
            Ratio::of(&[rounds]).unwrap().standing(),
            Standing::Undecided
        );
    }

    #[test]
    fn too_few_rounds_have_no_interval() {
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[pairs(5, 2.0, 0.0, 1)]), None);
        let mut rounds = pairs(6, 2.0, 0.0, 1);
        assert!(Ratio::of(&[rounds.clone()]).is_some());
        rounds[3].1 = 0.0;
        assert_eq!(Ratio::of(&[rounds]), None, "a dropped round does not count");
    }

    /// Each process is steady, but they disagree: their rounds are not independent.
    #[test]
    fn processes_that_disagree_widen_the_interval() {
        let processes = [1.2, 1.12, 1.1, 1.08, 0.9].map(|ratio| pairs(9, ratio, 0.02, 5));
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
            outcome("sidle", &[5.0; 3]),
            outcome("timberline", &[6.0; 6]),
        ];
        let groups = groups(&results);
        let line = line(&groups).unwrap();
        assert!(line.starts_with("PAIRED: hs-c: timberline ÷ interleave 1.50 [1.50, 1.50] ahead"));
        assert!(
            !line.contains("sidle"),
            "three rounds have no interval: {line}"
        );
        let dropped = dropped(&groups[0]).unwrap();
        assert!(dropped.starts_with("DROPPED: hs-c: of 6 rounds `regained` leaves out 2, 5:"));
    }

    #[test]
    fn nothing_is_said_of_a_run_without_drops_or_with_few_rounds() {
        let results = [
            outcome("interleave", &[4.0; 3]),
            outcome("all-fast", &[8.0; 3]),
            outcome("timberline", &[6.0; 3]),
        ];
        let groups = groups(&results);
        assert_eq!((line(&groups), dropped(&groups[0])), (None, None));
    }

    #[test]
    fn rounds_of_several_processes_make_one_interval() {
        let report = |ours: f64, rounds: usize| Report {
            results: vec![
                outcome("sidle", &vec![2.0; rounds]),
                outcome("timberline", &vec![ours; rounds]),
            ],
            ..Report::default()
        };
        let names: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
        let apart = [report(2.2, 3), report(2.4, 3), report(1.8, 3)];
        let text = render(&names, &apart).unwrap();
        let expected = "PAIRED: hs-c: timberline ÷ sidle 1.10 [0.90, 1.20] undecided, 3 processes";
        assert_eq!(
            text.split_whitespace().collect::<Vec<_>>().join(" "),
            expected
        );
        let text = render(&names, &[report(2.2, 3), report(2.4, 3), report(2.2, 3)]).unwrap();
        assert!(text.contains("ahead"), "{text}");
        let line = render(&names[..1], &[report(2.2, 5)]).unwrap_err();
        assert!(line.contains("fewer than 6 rounds") && !line.contains('\n'));
    }
}

//! The quantities of figures: a measured value, or its ratio to a reference.

use serde::{Deserialize, Serialize};

use crate::report::{Outcome, median};

/// A measured value of one placement in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    Throughput,
    /// Requests a second over those of `interleave` in the same run: comparable among runs, even if
    /// the machine's speed differs between them.
    Improvement,
    /// Median latency, µs.
    P50,
    /// 90th percentile, µs.
    P90,
    /// 99th percentile, µs.
    P99,
    /// `regained`.
    Regained,
    /// Lines fetched from fast memory over all fetched lines.
    FastShare,
    /// CPU time of background workers over that of the run.
    WorkerShare,
    /// Fast memory in use over its budget, averaged over the second half of the run.
    FastUse,
    /// Time from a shift of the hot region until `regained` is back to 90 % of its level, s: the
    /// median of the shifts.
    Recovery,
    /// The same for the fast share, which does not depend on the machine's speed.
    ShareRecovery,
    /// Nodes or pages promoted and demoted.
    Moves,
}

/// The reference of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// None: the value itself.
    #[default]
    Nothing,
    /// Each of these placements, separated by `, `, in the same run.
    Placements(&'static str),
    /// The same placement in the panel's first run.
    First,
    /// The same placement's mean over the panel's runs.
    Mean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub struct Quantity {
    pub measure: Measure,
    #[serde(default)]
    pub over: Over,
}

/// A value, with its range over the rounds if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ranged {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Ranged {
    fn one(value: f64) -> Ranged {
        Ranged {
            median: value,
            min: value,
            max: value,
        }
    }

    fn of(values: &[f64]) -> Option<Ranged> {
        Some(Ranged {
            median: median(values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
        })
    }
}

impl Measure {
    /// Its name, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Throughput => "throughput",
            Measure::Improvement => "improvement over the baseline",
            Measure::P50 => "median latency, µs",
            Measure::P90 => "90th percentile, µs",
            Measure::P99 => "99th percentile, µs",
            Measure::Regained => "regained",
            Measure::FastShare => "fast share",
            Measure::WorkerShare => "CPU time of workers over all CPU time",
            Measure::FastUse => "fast memory in use over its budget",
            Measure::Recovery => "seconds until 90 % of `regained` is back",
            Measure::ShareRecovery => "seconds until 90 % of the fast share is back",
            Measure::Moves => "moves",
        }
    }

    /// The measured value; `None` if it was not measured.
    pub fn of(self, outcome: &Outcome) -> Option<Ranged> {
        let micros = |ns: u64| (ns > 0).then(|| Ranged::one(ns as f64 / 1e3));
        match self {
            Measure::Throughput => Ranged::of(&outcome.rounds),
            Measure::Improvement => outcome.ratio_to_interleave.map(Ranged::one),
            Measure::P50 => micros(outcome.p50_ns),
            Measure::P90 => micros(outcome.p90_ns),
            Measure::P99 => micros(outcome.p99_ns),
            Measure::Regained => {
                let range = outcome.regained_min.zip(outcome.regained_max);
                let (median, (min, max)) = outcome.regained.zip(range)?;
                Some(Ranged { median, min, max })
            }
            Measure::FastShare => outcome.fast_share.map(Ranged::one),
            Measure::WorkerShare => Some(Ranged::one(outcome.worker_cpu_ratio)),
            Measure::FastUse => fast_use(outcome).map(Ranged::one),
            Measure::Recovery => up_to(outcome.recovery_s, outcome.recovery_s_max),
            Measure::ShareRecovery => up_to(
                outcome.fast_share_recovery_s,
                outcome.fast_share_recovery_s_max,
            ),
            Measure::Moves => Some(Ranged::one((outcome.promoted + outcome.demoted) as f64)),
        }
    }

    /// The ratio of two outcomes: of throughputs round by round, as rounds ran side by side.
    pub fn ratio(self, own: &Outcome, other: &Outcome) -> Option<Ranged> {
        if self == Measure::Throughput && own.rounds.len() == other.rounds.len() {
            let pairs = own.rounds.iter().zip(&other.rounds);
            let ratios = pairs.filter(|(_, other)| **other > 0.0);
            return Ranged::of(&ratios.map(|(own, other)| own / other).collect::<Vec<_>>());
        }
        let (own, other) = (self.of(own)?, self.of(other)?);
        (other.median > 0.0).then(|| own.over(other.median))
    }
}

impl Ranged {
    /// The ratios of a value and its range to one reference value.
    pub fn over(self, other: f64) -> Ranged {
        Ranged {
            median: self.median / other,
            min: self.min / other,
            max: self.max / other,
        }
    }
}

/// A median with a known maximum.
fn up_to(median: Option<f64>, max: Option<f64>) -> Option<Ranged> {
    let (median, max) = median.zip(max)?;
    Some(Ranged {
        median,
        min: median,
        max,
    })
}

/// Fast bytes over the budget, averaged over the second half of the samples.
fn fast_use(outcome: &Outcome) -> Option<f64> {
    let half = outcome.series.get(outcome.series.len() / 2..)?;
    if half.is_empty() || outcome.fast_budget_bytes == 0 {
        return None;
    }
    let mean = half
        .iter()
        .map(|sample| sample.fast_bytes as f64)
        .sum::<f64>()
        / half.len() as f64;
    Some(mean / outcome.fast_budget_bytes as f64)
}

impl Quantity {
    /// Throughput over weighted interleaving, which SIDLE calls its improvement over the baseline.
    pub const OVER_BASELINE: Quantity = Quantity {
        measure: Measure::Throughput,
        over: Over::Placements("interleave"),
    };

    /// Its values for a placement in the `nth` of the panel's runs: one, or one for each reference
    /// placement.
    pub fn of(
        self,
        placement: &str,
        nth: usize,
        panel: &[Option<&[Outcome]>],
    ) -> Vec<(String, Ranged)> {
        let Some(own) = panel.get(nth).and_then(|run| in_run(*run, placement)) else {
            return Vec::new();
        };
        let named =
            |name: &str, value: Option<Ranged>| value.map(|value| (name.to_string(), value));
        match self.over {
            Over::Nothing => named("", self.measure.of(own)).into_iter().collect(),
            Over::Placements(others) => {
                let others = others.split(", ").filter(|other| *other != placement);
                let ratio = |name: &str| {
                    let other = in_run(panel[nth], name)?;
                    named(name, self.measure.ratio(own, other))
                };
                others.filter_map(ratio).collect()
            }
            Over::First => {
                let first = panel.first().and_then(|run| in_run(*run, placement));
                let first = first.and_then(|it| self.measure.of(it));
                let own = self.measure.of(own);
                let ratio = own.zip(first).filter(|(_, first)| first.median > 0.0);
                named(
                    "the first",
                    ratio.map(|(own, first)| own.over(first.median)),
                )
                .into_iter()
                .collect()
            }
            Over::Mean => {
                let all = panel
                    .iter()
                    .filter_map(|run| self.measure.of(in_run(*run, placement)?));
                let all: Vec<f64> = all.map(|it| it.median).collect();
                let mean = all.iter().sum::<f64>() / all.len().max(1) as f64;
                let own = self.measure.of(own).filter(|_| mean > 0.0);
                named("the mean", own.map(|own| own.over(mean)))
                    .into_iter()
                    .collect()
            }
        }
    }
}

/// The outcome of a placement in a run, if both exist.
fn in_run<'a>(run: Option<&'a [Outcome]>, placement: &str) -> Option<&'a Outcome> {
    run?.iter().find(|it| it.placement == placement)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::report::Sample;

    /// The outcome of a placement with this throughput in each round.
    pub fn outcome(placement: &str, rounds: &[f64]) -> Outcome {
        let mut outcome = Outcome {
            placement: placement.into(),
            ..Outcome::default()
        };
        outcome.set_rounds(rounds.to_vec());
        outcome
    }

    #[test]
    fn ratios_of_throughput_are_taken_round_by_round() {
        let run = [
            outcome("interleave", &[1.0, 2.0, 4.0]),
            outcome("sidle", &[2.0, 3.0, 6.0]),
        ];
        let panel = [Some(&run[..])];
        let over = Quantity::OVER_BASELINE.of("sidle", 0, &panel);
        let expected = Ranged {
            median: 1.5,
            min: 1.5,
            max: 2.0,
        };
        assert_eq!(over, [("interleave".to_string(), expected)]);
        assert_eq!(Quantity::OVER_BASELINE.of("interleave", 0, &panel), []);
        assert_eq!(Quantity::OVER_BASELINE.of("tpp", 0, &panel), []);
    }

    #[test]
    fn runs_of_a_panel_are_held_against_the_first_and_the_mean() {
        let runs = [[outcome("sidle", &[2.0])], [outcome("sidle", &[6.0])]];
        let panel = [Some(&runs[0][..]), Some(&runs[1][..]), None];
        let over = |over, nth| {
            Quantity {
                measure: Measure::Throughput,
                over,
            }
            .of("sidle", nth, &panel)
        };
        assert_eq!(over(Over::First, 1)[0].1.median, 3.0);
        assert_eq!(over(Over::Mean, 0)[0].1.median, 0.5);
        assert_eq!(over(Over::First, 2), []);
    }

    #[test]
    fn use_of_fast_memory_is_that_of_the_second_half() {
        let mut outcome = outcome("sidle", &[1.0]);
        outcome.fast_budget_bytes = 100;
        outcome.series = [0, 0, 80, 100]
            .map(|fast_bytes| Sample {
                fast_bytes,
                ..Sample::default()
            })
            .to_vec();
        assert_eq!(Measure::FastUse.of(&outcome).unwrap().median, 0.9);
        outcome.fast_budget_bytes = 0;
        assert_eq!(Measure::FastUse.of(&outcome), None);
    }
}

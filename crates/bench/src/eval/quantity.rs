//! The quantities of figures: a measured value, or its ratio to a reference.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};

use crate::report::{Outcome, Ratio, Standing, median, paired};

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
    /// The 95 % interval of the median; `None` for a single value or too few rounds.
    pub interval: Option<Ratio>,
}

impl Ranged {
    fn one(value: f64) -> Ranged {
        Ranged {
            median: value,
            min: value,
            max: value,
            interval: None,
        }
    }

    /// A value without noise: a count of the emulator.
    fn exact(value: f64) -> Ranged {
        Ranged {
            interval: Some(Ratio::exact(value)),
            ..Ranged::one(value)
        }
    }

    /// The rounds of each process.
    fn of(processes: &[impl Borrow<[f64]>]) -> Option<Ranged> {
        let values = processes.concat();
        Some(Ranged {
            median: median(&values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
            interval: Ratio::of(processes),
        })
    }

    /// What a ratio's interval says; without one, nothing.
    pub fn standing(self) -> Standing {
        self.interval.map_or(Standing::Undecided, Ratio::standing)
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
            Measure::Throughput => Ranged::of(&outcome.processes()),
            Measure::Improvement => outcome.ratio_to_interleave.map(|ratio| Ranged {
                interval: outcome.to_interleave(),
                ..Ranged::one(ratio)
            }),
            Measure::P50 => micros(outcome.p50_ns),
            Measure::P90 => micros(outcome.p90_ns),
            Measure::P99 => micros(outcome.p99_ns),
            Measure::Regained => {
                let range = outcome.regained_min.zip(outcome.regained_max);
                let (median, (min, max)) = outcome.regained.zip(range)?;
                Some(Ranged {
                    median,
                    min,
                    max,
                    interval: Ratio::between(
                        outcome.regained,
                        outcome.regained_low,
                        outcome.regained_high,
                    ),
                })
            }
            Measure::FastShare => outcome.fast_share.map(Ranged::exact),
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
        if self == Measure::Throughput {
            return Ranged::of(&paired::ratios(own, other));
        }
        let (own, other) = (self.of(own)?, self.of(other)?);
        (other.median > 0.0).then(|| own.over(other))
    }
}

impl Ranged {
    /// The ratios of a value and its range to a reference whose rounds are not paired with its own.
    pub fn over(self, other: Ranged) -> Ranged {
        let both = self.interval.zip(other.interval);
        Ranged {
            median: self.median / other.median,
            min: self.min / other.median,
            max: self.max / other.median,
            interval: both.and_then(|(own, other)| own.over(other)),
        }
    }

    /// The mean of values; its interval holds wherever each of theirs does.
    fn mean(all: &[Ranged]) -> Option<Ranged> {
        let of = |part: &dyn Fn(&Ranged) -> Option<f64>| {
            let sum: Option<f64> = all.iter().map(part).sum();
            sum.filter(|_| !all.is_empty())
                .map(|sum| sum / all.len() as f64)
        };
        let median = of(&|it| Some(it.median));
        let low = of(&|it| Some(it.interval?.low));
        let high = of(&|it| Some(it.interval?.high));
        Some(Ranged {
            median: median?,
            min: of(&|it| Some(it.min))?,
            max: of(&|it| Some(it.max))?,
            interval: Ratio::between(median, low, high),
        })
    }
}

/// A median with a known maximum.
fn up_to(median: Option<f64>, max: Option<f64>) -> Option<Ranged> {
    let (median, max) = median.zip(max)?;
    Some(Ranged {
        median,
        min: median,
        max,
        interval: None,
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
                named("the first", ratio.map(|(own, first)| own.over(first)))
                    .into_iter()
                    .collect()
            }
            Over::Mean => {
                let all = panel
                    .iter()
                    .filter_map(|run| self.measure.of(in_run(*run, placement)?));
                let mean = Ranged::mean(&all.collect::<Vec<_>>()).filter(|it| it.median > 0.0);
                let own = self.measure.of(own).zip(mean);
                named("the mean", own.map(|(own, mean)| own.over(mean)))
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
            interval: None,
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
    fn ratios_have_paired_intervals_or_those_of_both_sides() {
        let rounds = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let twice = rounds.map(|it| 2.0 * it);
        let run = [outcome("interleave", &rounds), outcome("sidle", &twice)];
        let [floor, sidle] = [0, 1].map(|at| Measure::Throughput.of(&run[at]).unwrap());
        let paired = Measure::Throughput.ratio(&run[1], &run[0]).unwrap();
        assert_eq!(paired.interval, Some(Ratio::exact(2.0)));
        assert_eq!(paired.standing(), Standing::Ahead);
        let apart = sidle.over(floor).interval.unwrap();
        assert_eq!(
            (apart.median, apart.low, apart.high),
            (2.0, 2.0 / 6.0, 12.0)
        );
        let mean = Ranged::mean(&[floor, sidle]).unwrap();
        assert_eq!((mean.median, mean.interval.unwrap().high), (5.25, 9.0));
        let without = Ranged::mean(&[floor, Ranged::one(1.0)]).unwrap();
        assert_eq!(without.interval, None);
        assert_eq!(Ranged::mean(&[]), None);
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

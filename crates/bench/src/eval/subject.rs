//! One of those that a run compares: a placement of a map, a design of the tree over memory
//! servers, a memory of a store's index, a model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::measure::Measure;
use super::ranged::Ranged;
use crate::report::{Outcome, Ratio, paired};

/// What was measured of one subject, unless it is a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub subject: String,
    pub values: BTreeMap<Measure, Values>,
    /// Throughput over time: seconds since the first request, and millions of requests a second.
    /// Empty unless a figure shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<(f64, f64)>,
}

/// A count or a model's value, or one of each round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Values {
    Exact(f64),
    /// Round `i` of one row ran next to round `i` of the others.
    Rounds(Vec<f64>),
}

impl Row {
    pub fn new(subject: impl Into<String>) -> Row {
        Row {
            subject: subject.into(),
            ..Row::default()
        }
    }

    /// The same with one value more.
    pub fn with(mut self, measure: Measure, values: Values) -> Row {
        self.values.insert(measure, values);
        self
    }

    fn value(&self, measure: Measure) -> Option<Ranged> {
        match self.values.get(&measure)? {
            Values::Exact(value) => Some(Ranged::exact(*value)),
            Values::Rounds(rounds) => Ranged::of(&[&rounds[..]]),
        }
    }

    /// Of rounds that ran side by side, round by round.
    fn ratio(&self, measure: Measure, other: &Row) -> Option<Ranged> {
        if let (Values::Rounds(own), Values::Rounds(others)) =
            (self.values.get(&measure)?, other.values.get(&measure)?)
            && own.len() == others.len()
        {
            let ratios: Vec<f64> = own.iter().zip(others).map(|(own, it)| own / it).collect();
            return Ranged::of(&[&ratios[..]]);
        }
        over(self.value(measure)?, other.value(measure)?)
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    Placement(&'a Outcome),
    Row(&'a Row),
}

impl<'a> Subject<'a> {
    pub fn name(self) -> &'a str {
        match self {
            Subject::Placement(outcome) => &outcome.placement,
            Subject::Row(row) => &row.subject,
        }
    }

    /// The measured value; `None` if it was not measured.
    pub fn value(self, measure: Measure) -> Option<Ranged> {
        match self {
            Subject::Placement(outcome) => of_placement(measure, outcome),
            Subject::Row(row) => row.value(measure),
        }
    }

    /// The ratio to another subject of the same run: round by round where rounds ran side by side.
    pub fn ratio(self, measure: Measure, other: Subject<'_>) -> Option<Ranged> {
        match (self, other) {
            (Subject::Row(own), Subject::Row(other)) => own.ratio(measure, other),
            (Subject::Placement(own), Subject::Placement(other))
                if measure == Measure::Throughput =>
            {
                Ranged::of(&paired::ratios(own, other))
            }
            (own, other) => over(own.value(measure)?, other.value(measure)?),
        }
    }
}

fn over(own: Ranged, other: Ranged) -> Option<Ranged> {
    (other.median > 0.0).then(|| own.over(other))
}

/// The measured value of a placement.
fn of_placement(measure: Measure, outcome: &Outcome) -> Option<Ranged> {
    let micros = |ns: u64| (ns > 0).then(|| Ranged::one(ns as f64 / 1e3));
    match measure {
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
            let [low, high] = [outcome.regained_low, outcome.regained_high];
            Some(Ranged {
                median,
                min,
                max,
                interval: Ratio::between(outcome.regained, low, high),
            })
        }
        Measure::RegainedByCharge => outcome.regained_by_charge.map(Ranged::exact),
        Measure::RegainedByCpu => outcome.regained_by_cpu.map(Ranged::one),
        Measure::FastShare => outcome.fast_share.map(Ranged::exact),
        Measure::SlowLines => Some(Ranged::exact(outcome.lines_slow_per_op)),
        Measure::WorkerCores => Some(Ranged::one(outcome.worker_cores)),
        Measure::WorkerShare => Some(Ranged::one(outcome.worker_cpu_ratio)),
        Measure::FastUse => fast_use(outcome).map(Ranged::one),
        Measure::Recovery => Ranged::up_to(outcome.recovery_s, outcome.recovery_s_max),
        Measure::ShareRecovery => Ranged::up_to(
            outcome.fast_share_recovery_s,
            outcome.fast_share_recovery_s_max,
        ),
        Measure::Moves => Some(Ranged::one((outcome.promoted + outcome.demoted) as f64)),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::quantity::tests::outcome;
    use crate::report::{Sample, Standing};

    #[test]
    fn ratios_have_paired_intervals_or_those_of_both_sides() {
        let rounds = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let twice = rounds.map(|it| 2.0 * it);
        let run = [outcome("interleave", &rounds), outcome("sidle", &twice)];
        let [floor, sidle] = [0, 1].map(|at| Subject::Placement(&run[at]));
        let paired = sidle.ratio(Measure::Throughput, floor).unwrap();
        assert_eq!(paired.interval, Some(Ratio::exact(2.0)));
        assert_eq!(paired.standing(), Standing::Ahead);
        let [floor, sidle] = [floor, sidle].map(|it| it.value(Measure::Throughput).unwrap());
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
    fn rows_have_exact_values_or_rounds_that_are_paired() {
        let row = |rounds: &[f64], reads| {
            Row::new("dex")
                .with(Measure::Throughput, Values::Rounds(rounds.to_vec()))
                .with(Measure::Reads, Values::Exact(reads))
        };
        let (one, other) = (row(&[2.0, 8.0, 9.0], 0.5), row(&[1.0, 4.0, 3.0], 0.25));
        let [own, other] = [Subject::Row(&one), Subject::Row(&other)];
        let paired = own.ratio(Measure::Throughput, other).unwrap();
        assert_eq!((paired.median, paired.min, paired.max), (2.0, 2.0, 3.0));
        let exact = own.ratio(Measure::Reads, other).unwrap();
        assert_eq!((exact.median, exact.standing()), (2.0, Standing::Ahead));
        assert_eq!(own.value(Measure::Writes), None);
        let json = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&json).unwrap(), one);
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
        let used = Subject::Placement(&outcome).value(Measure::FastUse);
        assert_eq!(used.unwrap().median, 0.9);
        outcome.fast_budget_bytes = 0;
        let used = Subject::Placement(&outcome).value(Measure::FastUse);
        assert_eq!(used, None);
    }
}

//! A measured value with its range and its interval.

use std::borrow::Borrow;

use serde::Serialize;

use crate::report::{Ratio, Standing, median};

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
    pub fn one(value: f64) -> Ranged {
        Ranged {
            median: value,
            min: value,
            max: value,
            interval: None,
        }
    }

    /// A value without noise: a count.
    pub fn exact(value: f64) -> Ranged {
        Ranged {
            interval: Some(Ratio::exact(value)),
            ..Ranged::one(value)
        }
    }

    /// The rounds of each process.
    pub fn of(processes: &[impl Borrow<[f64]>]) -> Option<Ranged> {
        let values = processes.concat();
        Some(Ranged {
            median: median(&values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
            interval: Ratio::of(processes),
        })
    }

    /// A median with a known maximum.
    pub fn up_to(median: Option<f64>, max: Option<f64>) -> Option<Ranged> {
        let (median, max) = median.zip(max)?;
        Some(Ranged {
            max,
            ..Ranged::one(median)
        })
    }

    /// What a ratio's interval says; without one, nothing.
    pub fn standing(self) -> Standing {
        self.interval.map_or(Standing::Undecided, Ratio::standing)
    }

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
    pub fn mean(all: &[Ranged]) -> Option<Ranged> {
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

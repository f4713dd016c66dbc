//! The quantities of figures: a measured value, or its ratio to a reference.

use serde::Deserialize;

use super::measure::Measure;
use super::ranged::Ranged;
use super::subject::Subject;

/// The reference of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// None: the value itself.
    #[default]
    Nothing,
    /// Each of these subjects, separated by `, `, in the same run.
    Subjects(&'static str),
    /// The same subject in the panel's first run.
    First,
    /// The same subject's mean over the panel's runs.
    Mean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub struct Quantity {
    pub measure: Measure,
    #[serde(default)]
    pub over: Over,
}

/// The subjects of a run, once it is measured.
pub type InRun<'a> = Option<Vec<Subject<'a>>>;

impl Quantity {
    /// Throughput over weighted interleaving, which SIDLE calls its improvement over the baseline.
    pub const OVER_BASELINE: Quantity = Quantity {
        measure: Measure::Throughput,
        over: Over::Subjects("interleave"),
    };

    /// Its values for a subject in the `nth` of the panel's runs: one, or one for each reference.
    pub fn of(self, subject: &str, nth: usize, panel: &[InRun<'_>]) -> Vec<(String, Ranged)> {
        let Some(own) = panel.get(nth).and_then(|run| in_run(run, subject)) else {
            return Vec::new();
        };
        let measure = self.measure;
        let named =
            |name: &str, value: Option<Ranged>| value.map(|value| (name.to_string(), value));
        match self.over {
            Over::Nothing => named("", own.value(measure)).into_iter().collect(),
            Over::Subjects(others) => {
                let others = others.split(", ").filter(|other| *other != subject);
                let ratio =
                    |name: &str| named(name, own.ratio(measure, in_run(&panel[nth], name)?));
                others.filter_map(ratio).collect()
            }
            Over::First => {
                let first = panel.first().and_then(|run| in_run(run, subject));
                let first = first.and_then(|it| it.value(measure));
                let own = own.value(measure);
                let ratio = own.zip(first).filter(|(_, first)| first.median > 0.0);
                named("the first", ratio.map(|(own, first)| own.over(first)))
                    .into_iter()
                    .collect()
            }
            Over::Mean => {
                let all = panel
                    .iter()
                    .filter_map(|run| in_run(run, subject)?.value(measure));
                let mean = Ranged::mean(&all.collect::<Vec<_>>()).filter(|it| it.median > 0.0);
                let own = own.value(measure).zip(mean);
                named("the mean", own.map(|(own, mean)| own.over(mean)))
                    .into_iter()
                    .collect()
            }
        }
    }
}

/// The subject of this name in a run, if both exist.
fn in_run<'a>(run: &InRun<'a>, name: &str) -> Option<Subject<'a>> {
    let all = run.as_deref()?;
    all.iter().copied().find(|it| it.name() == name)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::report::Outcome;

    /// The outcome of a placement with this throughput in each round.
    pub fn outcome(placement: &str, rounds: &[f64]) -> Outcome {
        let mut outcome = Outcome {
            placement: placement.into(),
            ..Outcome::default()
        };
        outcome.set_rounds(rounds.to_vec());
        outcome
    }

    /// A measured run.
    pub fn in_run(outcomes: &[Outcome]) -> InRun<'_> {
        Some(outcomes.iter().map(Subject::Placement).collect())
    }

    #[test]
    fn ratios_of_throughput_are_taken_round_by_round() {
        let run = [
            outcome("interleave", &[1.0, 2.0, 4.0]),
            outcome("sidle", &[2.0, 3.0, 6.0]),
        ];
        let panel = [in_run(&run)];
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
        let panel = [in_run(&runs[0]), in_run(&runs[1]), None];
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
}

//! What was published, held against what was measured here.

use serde::Serialize;

use super::figure::Figure;
use super::quantity::{Over, Quantity};
use crate::report::Outcome;

/// What a figure's text says of a placement: a range that a quantity lay in.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// In words.
    pub says: &'static str,
    /// The placement that it is about.
    pub of: &'static str,
    /// What lay in the range.
    pub quantity: Quantity,
    /// Only in this panel; in all if empty.
    pub panel: &'static str,
    /// Only of this category; of all if empty.
    pub category: &'static str,
    /// The least and the most that was published.
    pub published: (f64, f64),
    /// What explains it where ours come in another order; empty where that is not known.
    pub why: &'static str,
}

/// What came of a claim here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim, in words.
    pub says: String,
    /// The least and the most that was published.
    pub published: (f64, f64),
    /// The least and the most here, of the placement that it is about; `null` where nothing was measured.
    pub measured: Option<(f64, f64)>,
    /// The same of `timberline`.
    pub timberline: Option<(f64, f64)>,
    /// Where what was published above 1 is below here in all rounds, or the other way round.
    pub contrary: Vec<String>,
    /// What explains that; empty where that is not known.
    pub why: String,
}

/// Our own, which every claim is also asked of.
const OURS: &str = "timberline";

impl Claim {
    /// Holds it against the results of its figure's runs, in their order.
    pub fn judge(&self, figure: &Figure, results: &[Option<&[Outcome]>]) -> Verdict {
        let mut contrary = Vec::new();
        let mut range = |placement: &str, is_judged: bool| {
            let mut range: Option<(f64, f64)> = None;
            for (panel, place) in figure.panels() {
                for nth in place.clone() {
                    if !self.is_about(panel, &figure.runs[nth].category) {
                        continue;
                    }
                    let of_panel = &results[place.clone()];
                    for (other, value) in self.quantity.of(placement, nth - place.start, of_panel) {
                        if is_judged && self.is_contrary(value.min, value.max) {
                            let category = &figure.runs[nth].category;
                            let place = format!("{panel} {category}");
                            let (place, value) = (place.trim(), value.median);
                            contrary.push(format!("{place}: {value:.2} of {other}"));
                        }
                        let (least, most) = range.unwrap_or((value.median, value.median));
                        range = Some((least.min(value.median), most.max(value.median)));
                    }
                }
            }
            range
        };
        let measured = range(self.of, true);
        let timberline = range(OURS, false);
        Verdict {
            says: match format!("{} {}", self.panel, self.category).trim() {
                "" => self.says.into(),
                place => format!("{}, {place}", self.says),
            },
            published: self.published,
            measured,
            timberline: timberline.filter(|_| self.of != OURS),
            why: if contrary.is_empty() {
                String::new()
            } else {
                self.why.into()
            },
            contrary,
        }
    }

    /// Whether it is about these runs.
    pub fn is_about(&self, panel: &str, category: &str) -> bool {
        (self.panel.is_empty() || self.panel == panel)
            && (self.category.is_empty() || self.category == category)
    }

    /// Whether rounds from `min` to `max` all say another order than the one published. Only what is over something has an order.
    fn is_contrary(&self, min: f64, max: f64) -> bool {
        let (least, most) = self.published;
        self.quantity.over != Over::Nothing
            && ((least > 1.0 && max < 1.0) || (most < 1.0 && min > 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::figure::tests::figure;

    fn outcome(placement: &str, rounds: [f64; 2]) -> Outcome {
        let mut outcome = Outcome {
            placement: placement.into(),
            ..Outcome::default()
        };
        outcome.set_rounds(rounds.to_vec());
        outcome
    }

    fn claim() -> Claim {
        Claim {
            says: "sidle is 1.3 to 1.8 times as fast as the baseline",
            of: "sidle",
            quantity: Quantity::OVER_BASELINE,
            panel: "",
            category: "",
            published: (1.3, 1.8),
            why: "two cores",
        }
    }

    #[test]
    fn an_order_is_contrary_if_all_rounds_say_so() {
        let run = |sidle| {
            [
                outcome("interleave", [1.0, 1.0]),
                outcome("sidle", sidle),
                outcome("timberline", [2.0, 2.0]),
            ]
        };
        let (above, below, either) = (run([1.25, 1.75]), run([0.5, 0.75]), run([0.5, 1.5]));
        let judge = |claim: Claim, runs: [&[Outcome]; 2]| {
            claim.judge(&figure(), &[Some(runs[0]), Some(runs[1]), None])
        };
        let verdict = judge(claim(), [&above, &either]);
        assert_eq!(verdict.contrary, Vec::<String>::new());
        assert_eq!(
            (verdict.measured, verdict.why.as_str()),
            (Some((1.0, 1.5)), "")
        );
        assert_eq!(verdict.timberline, Some((2.0, 2.0)));
        let verdict = judge(claim(), [&above, &below]);
        assert_eq!(verdict.contrary, ["one 40 %: 0.62 of interleave"]);
        assert_eq!(verdict.why, "two cores");
        let of_20 = Claim {
            category: "20 %",
            ..claim()
        };
        assert_eq!(
            judge(of_20, [&above, &below]).contrary,
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_was_not_measured_has_no_verdict() {
        let verdict = claim().judge(&figure(), &[None, None, None]);
        assert_eq!((verdict.measured, verdict.timberline), (None, None));
        assert!(verdict.contrary.is_empty());
    }
}

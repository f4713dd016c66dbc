//! Published claims, checked against our measurements.

use serde::{Deserialize, Deserializer, Serialize};

use super::figure::Figure;
use super::quantity::{InRun, Over, Quantity};
use super::ranged::Ranged;
use crate::report::Standing;

/// A claim of a figure's text about a subject: a quantity lies in a range.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Claim {
    pub says: &'static str,
    pub of: &'static str,
    pub quantity: Quantity,
    /// The panel of the claim; all panels if empty.
    #[serde(default)]
    pub panel: &'static str,
    /// The category of the claim; all categories if empty.
    #[serde(default)]
    pub category: &'static str,
    /// The published minimum and maximum; an open end is [`f64::INFINITY`], `null` in JSON.
    #[serde(deserialize_with = "open_range")]
    pub published: (f64, f64),
    /// Whether the claim is that all values lie in the range, not that they reach it.
    #[serde(default)]
    pub within: bool,
    /// Explains why ours come in another order, or of another size; empty if unknown.
    #[serde(default)]
    pub why: &'static str,
}

fn open_range<'de, D: Deserializer<'de>>(json: D) -> Result<(f64, f64), D::Error> {
    let (least, most) = <(f64, Option<f64>)>::deserialize(json)?;
    Ok((least, most.unwrap_or(f64::INFINITY)))
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub says: String,
    /// The published minimum and maximum; an open end is `null` in JSON, which has no infinity.
    pub published: (f64, f64),
    /// The measured minimum and maximum of the claim's subject; `null` where nothing was measured.
    pub measured: Option<(f64, f64)>,
    /// The same of our own subject: the placement `timberline`, or the design `copies`.
    pub timberline: Option<(f64, f64)>,
    /// Whether the measured order is the published one; `null` where the claim has no order, or
    /// nothing was measured.
    pub order: Option<Order>,
    /// How far the measured range is from the published one: 1 if they meet, 2 if its lowest value
    /// is twice the highest published one, 0.5 the reverse. Where all values should lie in the
    /// published range, the one that is furthest out counts. `null` where nothing was measured.
    pub size: Option<f64>,
    /// The values whose 95 % interval contradicts the published order: above 1 there and below 1
    /// here, or the reverse.
    pub contrary: Vec<String>,
    /// Explains the contradiction, or the other size; empty if unknown.
    pub why: String,
}

/// The measured order beside the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The intervals of all values have the published order.
    AsPublished,
    /// The interval of at least one value contradicts it.
    Contradicted,
    /// An interval contains 1, or there are too few rounds for one.
    Undecided,
}

/// Our own placement, and our own design, which claims are also checked for.
const OURS: [&str; 2] = ["timberline", "copies"];

impl Claim {
    /// Checks the claim against the results of its figure's runs, in their order.
    pub fn judge(&self, figure: &Figure, results: &[InRun<'_>]) -> Verdict {
        let values = self.values(self.of, figure, results);
        let is_contrary = |value: &&Value| self.is_contrary(value.here);
        let contrary: Vec<String> = values.iter().filter(is_contrary).map(Value::line).collect();
        let measured = range(&values);
        let size = measured.map(|measured| self.size(measured));
        let ours = OURS.map(|it| range(&self.values(it, figure, results)));
        let timberline = ours.into_iter().flatten().next();
        Verdict {
            says: match format!("{} {}", self.panel, self.category).trim() {
                "" => self.says.into(),
                place => format!("{}, {place}", self.says),
            },
            published: self.published,
            order: self.order(&values),
            size,
            measured,
            timberline: timberline.filter(|_| !OURS.contains(&self.of)),
            why: match size {
                None | Some(1.0) if contrary.is_empty() => String::new(),
                _ => self.why.into(),
            },
            contrary,
        }
    }

    /// The claim's quantity for a subject, in all runs that the claim covers.
    fn values(&self, subject: &str, figure: &Figure, results: &[InRun<'_>]) -> Vec<Value> {
        let mut values = Vec::new();
        for (panel, range) in figure.panels() {
            let (runs, of_panel) = (&figure.runs[range.clone()], &results[range]);
            let about = runs.iter().enumerate();
            for (nth, run) in about.filter(|(_, run)| self.is_about(panel, &run.category)) {
                let place = format!("{panel} {}", run.category);
                let here = self.quantity.of(subject, nth, of_panel).into_iter();
                values.extend(here.map(|(other, here)| Value {
                    place: place.trim().into(),
                    other,
                    here,
                }));
            }
        }
        values
    }

    /// Whether the claim covers these runs.
    pub fn is_about(&self, panel: &str, category: &str) -> bool {
        (self.panel.is_empty() || self.panel == panel)
            && (self.category.is_empty() || self.category == category)
    }

    /// Whether the interval contradicts the published order.
    fn is_contrary(&self, here: Ranged) -> bool {
        let contrary = match self.standing() {
            Some(Standing::Ahead) => Standing::Behind,
            Some(Standing::Behind) => Standing::Ahead,
            Some(Standing::Undecided) | None => return false,
        };
        here.standing() == contrary
    }

    /// Whether the published ratio is above or below 1. Only ratios have an order.
    fn standing(&self) -> Option<Standing> {
        match self.published {
            _ if self.quantity.over == Over::Nothing => None,
            (least, _) if least > 1.0 => Some(Standing::Ahead),
            (_, most) if most < 1.0 => Some(Standing::Behind),
            _ => None,
        }
    }

    fn order(&self, values: &[Value]) -> Option<Order> {
        let published = self.standing().filter(|_| !values.is_empty())?;
        let agrees = |it: &Value| it.here.standing() == published;
        Some(if values.iter().any(|it| self.is_contrary(it.here)) {
            Order::Contradicted
        } else if values.iter().all(agrees) {
            Order::AsPublished
        } else {
            Order::Undecided
        })
    }

    fn size(&self, (lowest, highest): (f64, f64)) -> f64 {
        let (least, most) = self.published;
        if self.within {
            let (above, below) = (highest / most, least / lowest);
            return match above.max(below) {
                out if out <= 1.0 => 1.0,
                out if out == above => above,
                _ => 1.0 / below,
            };
        }
        if lowest > most && most > 0.0 {
            lowest / most
        } else if highest < least {
            highest / least
        } else {
            1.0
        }
    }
}

struct Value {
    place: String,
    /// The reference of the ratio.
    other: String,
    here: Ranged,
}

impl Value {
    fn line(&self) -> String {
        format!("{}: {:.2} of {}", self.place, self.here.median, self.other)
    }
}

/// The lowest and the highest median.
fn range(values: &[Value]) -> Option<(f64, f64)> {
    let medians = || values.iter().map(|value| value.here.median);
    medians().reduce(f64::min).zip(medians().reduce(f64::max))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::eval::figure::tests::figure;
    use crate::eval::quantity::tests::{in_run, outcome};
    use crate::report::{Outcome, Ratio};

    /// A claim about two runs of the test's figure.
    pub fn claim() -> Claim {
        Claim {
            says: "sidle is 1.3 to 1.8 times as fast as the baseline",
            of: "sidle",
            quantity: Quantity::OVER_BASELINE,
            panel: "",
            category: "",
            published: (1.3, 1.8),
            within: false,
            why: "two cores",
        }
    }

    #[test]
    fn an_order_is_contrary_if_its_interval_says_so() {
        let run = |sidle: [f64; 2]| {
            [
                outcome("interleave", &[1.0; 6]),
                outcome("sidle", &sidle.repeat(3)),
                outcome("timberline", &[2.0; 6]),
            ]
        };
        let (above, below, either) = (run([1.25, 1.75]), run([0.5, 0.75]), run([0.5, 1.5]));
        let judge = |claim: Claim, runs: [&[Outcome]; 2]| {
            claim.judge(&figure(), &[in_run(runs[0]), in_run(runs[1]), None])
        };
        let verdict = judge(claim(), [&above, &either]);
        assert_eq!(verdict.contrary, Vec::<String>::new());
        assert_eq!(verdict.order, Some(Order::Undecided));
        assert_eq!(
            (verdict.measured, verdict.why.as_str()),
            (Some((1.0, 1.5)), "")
        );
        assert_eq!(verdict.timberline, Some((2.0, 2.0)));
        let verdict = judge(claim(), [&above, &below]);
        assert_eq!(verdict.contrary, ["one 40 %: 0.62 of interleave"]);
        assert_eq!(verdict.why, "two cores");
        assert_eq!(verdict.order, Some(Order::Contradicted));
        let verdict = judge(claim(), [&above, &above]);
        assert_eq!(verdict.order, Some(Order::AsPublished));
        // Three rounds agree by chance too often.
        let few = [
            outcome("interleave", &[1.0; 3]),
            outcome("sidle", &[0.5; 3]),
        ];
        let verdict = judge(claim(), [&few, &few]);
        assert_eq!(verdict.order, Some(Order::Undecided));
        assert!(verdict.contrary.is_empty());
        let of_20 = Claim {
            category: "20 %",
            ..claim()
        };
        assert_eq!(
            judge(of_20, [&above, &below]).contrary,
            Vec::<String>::new()
        );
    }

    /// The order agrees in all of them, and sizes differ by more than three times.
    #[test]
    fn sizes_are_told_apart_from_order() {
        let low = Claim {
            published: (0.25, 0.28),
            ..claim()
        };
        assert_eq!(low.size((0.97, 0.98)), 0.97 / 0.28);
        assert_eq!(low.size((0.1, 0.125)), 0.5);
        assert_eq!(low.size((0.1, 0.97)), 1.0);
        let all = Claim {
            published: (0.5, 2.0),
            within: true,
            ..claim()
        };
        let ranges = [(0.5, 1.0), (0.5, 3.0), (0.25, 3.0)];
        assert_eq!(ranges.map(|it| all.size(it)), [1.0, 1.5, 0.5]);
        let value = |here| {
            vec![Value {
                place: String::new(),
                other: String::new(),
                here: Ranged {
                    median: here,
                    min: here,
                    max: here,
                    interval: Some(Ratio::exact(here)),
                },
            }]
        };
        assert_eq!(low.order(&value(0.97)), Some(Order::AsPublished));
        assert_eq!(low.order(&[]), None);
        let plain = Quantity {
            over: Over::Nothing,
            ..low.quantity
        };
        assert_eq!(
            Claim {
                quantity: plain,
                ..low
            }
            .order(&value(0.97)),
            None
        );
    }

    #[test]
    fn what_was_not_measured_has_no_verdict() {
        let verdict = claim().judge(&figure(), &[None, None, None]);
        assert_eq!((verdict.measured, verdict.timberline), (None, None));
        assert!(verdict.contrary.is_empty());
    }
}

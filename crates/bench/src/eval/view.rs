//! The views of a figure, as data that the page's script draws.

use serde::Serialize;

use super::figure::{Run, View};
use super::measure::Measure;
use super::quantity::{InRun, Over, Quantity};
use super::ranged::Ranged;
use super::subject::Subject;
use super::summary::Measured;

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Shown<'a> {
    Bars {
        /// The quantity and its reference.
        caption: String,
        /// Reference values, with their names.
        marks: Vec<(f64, &'static str)>,
        panels: Vec<Panel<'a>>,
    },
    /// A chart over time for each run.
    OverTime {
        /// `throughput`, `fast_share` or `fast_use`.
        curve: &'static str,
    },
    /// A table of the bounds of each grain.
    Bounds,
    /// A chart of rows' throughput over time for each run.
    Series,
}

#[derive(Serialize)]
pub struct Panel<'a> {
    name: &'a str,
    clusters: Vec<Cluster<'a>>,
}

#[derive(Serialize)]
struct Cluster<'a> {
    name: &'a str,
    bars: Vec<Bar<'a>>,
}

/// A subject's value, its range over the rounds, and the published range.
#[derive(Serialize)]
struct Bar<'a> {
    #[serde(rename = "placement")]
    subject: &'a str,
    #[serde(flatten)]
    value: Ranged,
    published: Option<Published<'a>>,
}

#[derive(Serialize)]
struct Published<'a> {
    says: &'a str,
    least: f64,
    most: f64,
}

pub fn shown(measured: &Measured, view: View) -> Shown<'_> {
    match view {
        View::Bars(quantity) => bars(measured, quantity),
        View::ThroughputOverTime => over_time("throughput"),
        View::FastShareOverTime => over_time("fast_share"),
        View::UseOverTime => over_time("fast_use"),
        View::Bounds => Shown::Bounds,
        View::Series => Shown::Series,
    }
}

fn over_time<'a>(curve: &'static str) -> Shown<'a> {
    Shown::OverTime { curve }
}

fn bars<'a>(measured: &'a Measured, quantity: Quantity) -> Shown<'a> {
    let (figure, results) = (&measured.figure, measured.results());
    let mut panels = Vec::new();
    for (name, place) in figure.panels() {
        let runs = &results[place.clone()];
        let mut clusters = Vec::new();
        for (nth, run) in figure.runs[place].iter().enumerate() {
            let subjects = runs[nth].iter().flatten().copied();
            let of = |subject: Subject<'a>| bar(measured, quantity, run, subject.name(), nth, runs);
            let bars: Vec<Bar<'_>> = subjects.filter_map(of).collect();
            let name = &run.category;
            clusters.extend((!bars.is_empty()).then_some(Cluster { name, bars }));
        }
        panels.extend((!clusters.is_empty()).then_some(Panel { name, clusters }));
    }
    let name = quantity.measure.name();
    let (caption, marks) = match quantity.over {
        Over::Subjects(others) => (
            format!("{name} over that of {others}"),
            vec![(1.0, others.split(", ").next().unwrap_or(others))],
        ),
        Over::First => (
            format!("{name} over that of the first run"),
            vec![(1.0, "the first")],
        ),
        Over::Mean => (
            format!("{name} over the mean of the runs"),
            vec![(1.0, "the mean")],
        ),
        Over::Nothing if quantity.measure == Measure::Regained => {
            (name.into(), vec![(0.0, "interleave"), (1.0, "all-fast")])
        }
        Over::Nothing => (name.into(), Vec::new()),
    };
    Shown::Bars {
        caption,
        marks,
        panels,
    }
}

fn bar<'a>(
    measured: &'a Measured,
    quantity: Quantity,
    run: &Run,
    subject: &'a str,
    nth: usize,
    runs: &[InRun<'_>],
) -> Option<Bar<'a>> {
    if !says_something(quantity, subject) {
        return None;
    }
    let (_, value) = quantity.of(subject, nth, runs).into_iter().next()?;
    let claim = measured.figure.claims.iter().find(|claim| {
        claim.of == subject
            && claim.quantity == quantity
            && claim.is_about(&run.panel, &run.category)
            && claim.published.1.is_finite()
    });
    Some(Bar {
        subject,
        value,
        published: claim.map(|claim| Published {
            says: claim.says,
            least: claim.published.0,
            most: claim.published.1,
        }),
    })
}

/// Whether a placement's bar has meaning: those that define 0 and 1 of `regained` have none.
fn says_something(quantity: Quantity, placement: &str) -> bool {
    match quantity.measure {
        Measure::Regained => !["interleave", "all-fast"].contains(&placement),
        Measure::FastShare | Measure::FastUse => !["all-fast", "all-slow"].contains(&placement),
        Measure::Improvement => placement != "interleave",
        Measure::Moves | Measure::WorkerShare => {
            !["all-fast", "all-slow", "interleave", "inner-fast", "oracle"].contains(&placement)
        }
        _ => true,
    }
}

//! The figures, in the order of the report: our own questions, then those of each paper.

mod breakdown;
mod characteristics;
mod kernel;
mod ours;
mod overall;
mod real;
mod scalability;
mod scale;
mod sensitivity;
mod why;

pub use scale::Scale;

use super::claim::Claim;
use super::figure::{Figure, Run, View};
use super::quantity::{Measure, Over, Quantity};
use crate::run::Setting;

/// The systems that the paper compares; `oracle` stands for its SIDLE-Prophet, `inner-fast` for
/// Mass-L and PAC-L.
const COMPARED: [&str; 10] = [
    "all-fast",
    "interleave",
    "random",
    "inner-fast",
    "oracle",
    "sidle",
    "timberline",
    "tpp",
    "memtis",
    "caption",
];
/// The placements that a parameter sweep compares.
const FEW: [&str; 4] = ["all-fast", "interleave", "sidle", "timberline"];

/// All figures.
pub fn all(scale: &Scale) -> Vec<Figure> {
    let figures = [
        ours::figures(scale),
        overall::figures(scale),
        sensitivity::figures(scale),
        characteristics::figures(scale),
        scalability::figures(scale),
        breakdown::figures(scale),
        real::figures(scale),
        kernel::figures(scale),
    ];
    figures.concat()
}

/// A run of a figure.
fn run(panel: &str, category: impl Into<String>, setting: Setting) -> Run {
    Run {
        panel: panel.into(),
        category: category.into(),
        setting,
    }
}

/// A claim about all runs of a figure.
const fn claim(
    says: &'static str,
    of: &'static str,
    quantity: Quantity,
    published: (f64, f64),
    why: &'static str,
) -> Claim {
    Claim {
        says,
        of,
        quantity,
        panel: "",
        category: "",
        published,
        why,
    }
}

/// Throughput over that of these placements.
const fn faster_than(placements: &'static [&'static str]) -> Quantity {
    Quantity {
        measure: Measure::Throughput,
        over: Over::Placements(placements),
    }
}

/// Creates a figure.
fn figure(
    id: &'static str,
    title: &'static str,
    source: &'static str,
    about: &'static str,
    views: &[View],
    runs: Vec<Run>,
    claims: Vec<Claim>,
) -> Figure {
    Figure {
        id,
        title,
        source,
        about,
        views: views.to_vec(),
        runs,
        claims,
        missing: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::PathBuf;

    #[test]
    fn every_figure_has_a_name_of_its_own_and_runs_that_are_possible() {
        for scale in [Scale::default(), Scale::quick()] {
            let figures = all(&Scale {
                records: 10_000,
                ..scale
            });
            let ids: HashSet<_> = figures.iter().map(|figure| figure.id).collect();
            assert_eq!(ids.len(), figures.len());
            for figure in &figures {
                assert_eq!(
                    figure.runs.is_empty(),
                    figure.missing.is_some(),
                    "{}",
                    figure.id
                );
                for run in &figure.runs {
                    run.setting
                        .plan()
                        .unwrap_or_else(|bad| panic!("{}: {bad}", figure.id));
                }
            }
        }
    }

    /// A misspelt name would make a claim about nothing.
    #[test]
    fn claims_are_about_placements_panels_and_categories_that_are_there() {
        let files = Scale {
            urls: Some(PathBuf::from("urls")),
            traces: vec![PathBuf::from("trace")],
            ..Scale::default()
        };
        for figure in all(&files) {
            for claim in &figure.claims {
                let is_about = |run: &&Run| claim.is_about(&run.panel, &run.category);
                let about: Vec<&Run> = figure.runs.iter().filter(is_about).collect();
                let has = |name: &str| {
                    let places = |run: &&Run| run.setting.placements.iter().any(|it| it == name);
                    about.iter().any(places)
                };
                let others = match claim.quantity.over {
                    Over::Placements(others) => others,
                    _ => &[],
                };
                let is_there = has(claim.of) && others.iter().all(|other| has(other));
                assert!(is_there, "{}: {}", figure.id, claim.says);
                let (least, most) = claim.published;
                assert!(least <= most);
            }
        }
    }

    /// Five minutes on two cores for the runs; the rest is for drawing and for slower cores.
    #[test]
    fn the_quick_evaluation_is_meant_to_take_five_minutes() {
        let matrix = crate::eval::Matrix::of(&all(&Scale::quick()));
        let seconds = matrix.estimate().as_secs_f64();
        assert!((200.0..300.0).contains(&seconds), "{seconds}");
    }
}

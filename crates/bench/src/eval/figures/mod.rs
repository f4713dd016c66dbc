//! The figures, in the order of the report: our own questions, then those of each paper.
//!
//! `published.json` holds the published titles and claims with their ranges, and the reasons why
//! our results come in another order. The files here make the runs that we draw ours from.

mod breakdown;
mod characteristics;
mod kernel;
mod ours;
mod overall;
mod real;
mod scalability;
mod scale;
mod sensitivity;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use scale::Scale;

use super::claim::Claim;
use super::figure::{Figure, Run};
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

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Published {
    /// Explanations that several claims share, by name.
    why: BTreeMap<&'static str, &'static str>,
    figures: Vec<Figure>,
}

/// All figures, with the claims about runs of this scale.
pub fn all(scale: &Scale) -> Vec<Figure> {
    let Published { why, mut figures } = published();
    for figure in &mut figures {
        let runs = runs(figure.id, scale);
        figure.missing = figure.missing.filter(|_| runs.is_empty());
        let is_about = |claim: &Claim, run: &Run| claim.is_about(&run.panel, &run.category);
        let is_made = |claim: &Claim| runs.iter().any(|run| is_about(claim, run));
        figure.claims.retain(is_made);
        for claim in &mut figure.claims {
            claim.why = why.get(claim.why).copied().unwrap_or_default();
        }
        figure.runs = runs;
    }
    figures
}

fn published() -> Published {
    serde_json::from_str(include_str!("published.json")).expect("a test reads it")
}

fn runs(figure: &str, scale: &Scale) -> Vec<Run> {
    match figure {
        "table" => ours::table(scale),
        "bounds" => ours::bounds(scale),
        "stalls" => ours::stalls(scale),
        "14a" | "20" => overall::micro(scale),
        "14b" => overall::micro(scale).into_iter().take(1).collect(),
        "15a" => overall::macros(scale, "art", &["ycsb-e"]),
        "15b" | "t3" => overall::macros(scale, "masstree", &[]),
        "16a" => sensitivity::dynamic(scale),
        "16b" => sensitivity::intervals(scale),
        "16c" => sensitivity::budgets(scale),
        "17a" => characteristics::skew(scale),
        "17b" => characteristics::sizes(scale),
        "17c" => characteristics::urls(scale),
        "18a" => scalability::threads(scale),
        "18b" => scalability::records(scale),
        "19" => breakdown::ablation(scale),
        "21" => breakdown::watermarks(scale),
        "22" => real::tpcc(scale),
        "23" => real::traces(scale, "art"),
        "24" => real::traces(scale, "masstree"),
        "pibench" => kernel::skews_and_ratios(scale),
        _ => unreachable!("a test makes the runs of all figures"),
    }
}

fn run(panel: &str, category: impl Into<String>, setting: Setting) -> Run {
    Run {
        panel: panel.into(),
        category: category.into(),
        setting,
    }
}

#[cfg(test)]
mod tests {
    use super::super::quantity::Over;
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
        for (figure, published) in all(&files).iter().zip(published().figures) {
            assert_eq!(figure.claims.len(), published.claims.len(), "{}", figure.id);
            for (claim, published) in figure.claims.iter().zip(published.claims) {
                assert_eq!(claim.why.is_empty(), published.why.is_empty());
                let is_about = |run: &&Run| claim.is_about(&run.panel, &run.category);
                let about: Vec<&Run> = figure.runs.iter().filter(is_about).collect();
                let has = |name: &str| {
                    let places = |run: &&Run| run.setting.placements.iter().any(|it| it == name);
                    about.iter().any(places)
                };
                let is_there = has(claim.of)
                    && match claim.quantity.over {
                        Over::Placements(others) => others.split(", ").all(has),
                        _ => true,
                    };
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

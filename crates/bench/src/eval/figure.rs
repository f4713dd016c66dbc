//! A published figure, and the runs that we draw ours from.

use serde::{Deserialize, Serialize};

use super::claim::Claim;
use super::quantity::Quantity;
use super::setting::Setting;
use crate::BadInput;
use crate::names::unknown;

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", bound(deserialize = "'de: 'static"))]
pub enum View {
    /// A chart for each panel, with a cluster of bars for each run and a bar for each subject.
    Bars(Quantity),
    /// Throughput over time, a chart for each run.
    ThroughputOverTime,
    /// The fast share over time, a chart for each run.
    FastShareOverTime,
    /// Fast memory in use over its budget, over time, a chart for each run.
    UseOverTime,
    /// A table of the bounds of each grain, beside the measured results.
    Bounds,
    /// Rows' throughput over time, a chart for each run.
    Series,
}

impl View {
    /// Whether it shows samples.
    pub fn is_over_time(self) -> bool {
        matches!(
            self,
            View::ThroughputOverTime | View::FastShareOverTime | View::UseOverTime
        )
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub panel: String,
    /// The run's category within the panel.
    pub category: String,
    #[serde(skip)]
    pub setting: Setting,
}

/// A published figure, or a question of our own.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Figure {
    /// Its name on the command line: the number in its paper, or a word.
    pub id: &'static str,
    pub title: &'static str,
    /// The paper and figure it was published in (`docs/papers.md`); empty for our own.
    pub source: &'static str,
    /// How we make ours, and the necessary differences.
    pub about: &'static str,
    /// Its views, drawn one after the other.
    #[serde(skip_serializing)]
    pub views: Vec<View>,
    /// Its runs. The runs of a panel are adjacent.
    #[serde(skip)]
    pub runs: Vec<Run>,
    /// The published claims about its runs.
    #[serde(skip_serializing)]
    pub claims: Vec<Claim>,
    /// Why it cannot be made, if so: a file that is not given, or something that is not there to be
    /// measured.
    pub missing: Option<&'static str>,
}

impl Figure {
    /// Its panels in order, with the positions of their runs in [`Figure::runs`].
    pub fn panels(&self) -> Vec<(&str, std::ops::Range<usize>)> {
        let mut panels: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
        for (nth, run) in self.runs.iter().enumerate() {
            match panels.last_mut() {
                Some((name, range)) if *name == run.panel => range.end = nth + 1,
                _ => panels.push((&run.panel, nth..nth + 1)),
            }
        }
        panels
    }
}

/// The figures whose names are in `wanted` or begin with one of them (`14` selects 14a and 14b,
/// `dex` all of that paper); all figures if `wanted` is empty.
///
/// # Errors
/// A name that matches no figure: one line that lists all.
pub fn choose(figures: Vec<Figure>, wanted: &[String]) -> Result<Vec<Figure>, BadInput> {
    let known: Vec<_> = figures.iter().map(|figure| figure.id).collect();
    let fits = |id: &str, wanted: &str| {
        let rest = id.strip_prefix(wanted);
        rest.is_some_and(|rest| {
            let first = rest.chars().next();
            first.is_none_or(|it| it == '-' || (rest.len() == 1 && it.is_ascii_lowercase()))
        })
    };
    let is_unknown = |wanted: &&String| !known.iter().any(|id| fits(id, wanted));
    if let Some(name) = wanted.iter().find(is_unknown) {
        return Err(BadInput(unknown("figure", name, known)));
    }
    let is_wanted =
        |figure: &Figure| wanted.is_empty() || wanted.iter().any(|it| fits(figure.id, it));
    Ok(figures.into_iter().filter(is_wanted).collect())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::run::tests::tiny;
    use crate::run::{self, Budget};

    /// A figure of two panels, with two runs and one run.
    pub fn figure() -> Figure {
        let run = |panel: &str, category: &str, budget| Run {
            panel: panel.into(),
            category: category.into(),
            setting: Setting::Maps(run::Setting {
                budget: Budget::Ratio(budget),
                ..tiny()
            }),
        };
        Figure {
            id: "99a",
            title: "a test",
            source: "SIDLE, Figure 99(a)",
            about: "as small as can be",
            views: vec![View::Bars(Quantity::OVER_BASELINE)],
            runs: vec![
                run("one", "20 %", 0.2),
                run("one", "40 %", 0.4),
                run("two", "20 %", 0.2),
            ],
            claims: Vec::new(),
            missing: None,
        }
    }

    #[test]
    fn panels_are_runs_side_by_side() {
        assert_eq!(figure().panels(), [("one", 0..2), ("two", 2..3)]);
    }

    #[test]
    fn figures_are_chosen_by_name_or_number() {
        let chosen = |wanted: &[&str]| {
            let wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
            let named = |id| Figure { id, ..figure() };
            let all = ["99a", "9", "dex-9", "dex-9-list"].map(named);
            choose(all.into(), &wanted)
                .map(|it| it.iter().map(|figure| figure.id).collect::<Vec<_>>())
        };
        assert_eq!(chosen(&[]).unwrap(), ["99a", "9", "dex-9", "dex-9-list"]);
        assert_eq!(chosen(&["99"]).unwrap(), ["99a"]);
        assert_eq!(chosen(&["9"]).unwrap(), ["9"]);
        assert_eq!(chosen(&["dex"]).unwrap(), ["dex-9", "dex-9-list"]);
        assert_eq!(chosen(&["dex-9"]).unwrap(), ["dex-9", "dex-9-list"]);
        let line = chosen(&["99a", "14"]).unwrap_err().to_string();
        assert!(
            line.starts_with("unknown figure `14`; possible: 99a, 9,"),
            "{line}"
        );
    }
}

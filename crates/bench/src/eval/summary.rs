//! All figures with measured and published values: as JSON, and as one page.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::claim::Verdict;
use super::figure::{Figure, Run};
use super::measure::Measure;
use super::quantity::InRun;
use super::results::{CachedRun, Results, Substitute};
use super::subject::Subject;
use super::view::{Shown, shown};
use crate::page::{Kind, document};
use crate::report::{Meta, figures, table, write_file};

/// The figures with their results so far. It starts without results and receives each as it is
/// finished, so each file is read once.
pub struct Summary {
    /// Where and when the summary was made. Its latency of fast memory, unless given, is that of
    /// the first result.
    pub meta: Meta,
    pub figures: Vec<Measured>,
}

pub struct Measured {
    pub figure: Figure,
    /// The available results of its runs, in their order.
    pub runs: Vec<Option<Arc<CachedRun>>>,
}

impl Measured {
    /// The results of its runs, in their order.
    pub fn results(&self) -> Vec<InRun<'_>> {
        let runs = self.runs.iter().map(Option::as_deref);
        runs.map(|kept| Some(kept?.results.subjects())).collect()
    }

    /// The verdicts on its published claims.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let results = self.results();
        let claims = self.figure.claims.iter();
        claims
            .map(|claim| claim.judge(&self.figure, &results))
            .collect()
    }

    pub fn kept(&self) -> impl Iterator<Item = &CachedRun> {
        self.runs.iter().flatten().map(AsRef::as_ref)
    }

    /// Whether any run used emulated memory.
    fn is_emulated(&self) -> bool {
        let emulated = Some(Substitute::Emulated);
        self.kept()
            .any(|kept| kept.results.substitute() == emulated)
    }
}

#[derive(Serialize)]
struct File<'a> {
    meta: &'a Meta,
    figures: Vec<FigureInFile<'a>>,
}

#[derive(Serialize)]
struct FigureInFile<'a> {
    #[serde(flatten)]
    figure: &'a Figure,
    views: Vec<Shown<'a>>,
    verdicts: Vec<Verdict>,
    runs: Vec<RunInFile<'a>>,
}

#[derive(Serialize)]
struct RunInFile<'a> {
    #[serde(flatten)]
    run: &'a Run,
    #[serde(flatten)]
    kept: Option<&'a CachedRun>,
}

impl<'a> FigureInFile<'a> {
    fn of(measured: &'a Measured) -> Self {
        let Measured { figure, runs } = measured;
        let run = |(run, kept): (&'a Run, &'a Option<Arc<CachedRun>>)| RunInFile {
            run,
            kept: kept.as_deref(),
        };
        let views = figure.views.iter();
        FigureInFile {
            figure,
            views: views.map(|view| shown(measured, *view)).collect(),
            verdicts: measured.verdicts(),
            runs: figure.runs.iter().zip(runs).map(run).collect(),
        }
    }
}

impl Summary {
    /// A summary of these figures without results.
    pub fn new(meta: Meta, figures: Vec<Figure>) -> Summary {
        let measured = |figure: Figure| Measured {
            runs: vec![None; figure.runs.len()],
            figure,
        };
        Summary {
            meta,
            figures: figures.into_iter().map(measured).collect(),
        }
    }

    /// Stores a result for all runs with its setting: figures share runs.
    pub fn add(&mut self, kept: CachedRun) {
        if self.meta.base_latency_ns == 0.0 {
            self.meta.base_latency_ns = kept.results.meta().base_latency_ns;
        }
        let kept = Arc::new(kept);
        for Measured { figure, runs } in &mut self.figures {
            for (run, place) in figure.runs.iter().zip(runs) {
                if run.setting == kept.setting {
                    *place = Some(kept.clone());
                }
            }
        }
    }

    fn file(&self) -> File<'_> {
        File {
            meta: &self.meta,
            figures: self.figures.iter().map(FigureInFile::of).collect(),
        }
    }

    /// `{"meta": {…}, "figures": [{"id", "views", "verdicts", "runs": [{"panel", "category",
    /// "setting", "report" or "table"}]}]}`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.file()).expect("numbers and texts");
        text.push('\n');
        text
    }

    /// Writes the JSON to `path`.
    ///
    /// # Errors
    /// The file can't be written. The error's text names it.
    pub fn write_json(&self, path: &Path) -> std::io::Result<()> {
        write_file(path, &self.to_json())
    }

    /// Writes the self-contained page to `path`.
    ///
    /// # Errors
    /// The file can't be written. The error's text names it.
    pub fn write_html(&self, path: &Path) -> std::io::Result<()> {
        let is_emulated = self.figures.iter().any(Measured::is_emulated);
        let mut file = serde_json::to_value(self.file()).expect("numbers and texts");
        // Samples are most of the file. The page keeps only those that it draws.
        let figures = file["figures"].as_array_mut().into_iter().flatten();
        for (figure, measured) in figures.zip(&self.figures) {
            if !measured.figure.views.iter().any(|view| view.is_over_time()) {
                drop_samples(figure);
            }
        }
        write_file(
            path,
            &document(Kind::Eval, is_emulated, &file, &self.text()),
        )
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for measured in &self.figures {
            text += &format!("{}: {}\n", measured.figure.id, measured.figure.title);
            for verdict in measured.verdicts() {
                let span = |(least, most)| figures::span(least, most);
                let here = verdict.measured.map_or(figures::ABSENT.into(), span);
                let (says, published) = (&verdict.says, span(verdict.published));
                text += &format!("  {says}: published {published}, here {here}\n");
            }
            for (run, kept) in measured.figure.runs.iter().zip(&measured.runs) {
                if let Some(kept) = kept {
                    let results = grid(&kept.results);
                    text += &format!("{} {}\n{results}\n", run.panel, run.category);
                }
            }
        }
        text
    }
}

fn grid(results: &Results) -> String {
    let table = match results {
        Results::Report(report) => return table::grid(&report.results),
        Results::Table(table) => table,
    };
    let mut text = String::new();
    for row in &table.rows {
        let of = |measure: &Measure| {
            let value = Subject::Row(row).value(*measure);
            let value = value.map_or(figures::ABSENT.into(), |it| figures::span(it.min, it.max));
            format!("{} {value}", measure.name())
        };
        let values: Vec<String> = row.values.keys().map(of).collect();
        text += &format!("  {}: {}\n", row.subject, values.join(", "));
    }
    text
}

/// Removes the samples of all runs of a figure from the JSON.
fn drop_samples(figure: &mut Value) {
    for run in figure["runs"].as_array_mut().into_iter().flatten() {
        let results = run
            .pointer_mut("/report/results")
            .and_then(Value::as_array_mut);
        for result in results.into_iter().flatten() {
            result["series"] = Value::Array(Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::claim::Claim;
    use crate::eval::claim::tests::claim;
    use crate::eval::figure::tests::figure;
    use crate::eval::quantity::tests::outcome;
    use crate::report::{Report, Sample};

    fn summary(sidle: [f64; 2]) -> Summary {
        let figure = Figure {
            claims: vec![claim()],
            ..figure()
        };
        let mut report = Report {
            results: vec![
                outcome("interleave", &[1.0; 6]),
                outcome("sidle", &sidle.repeat(3)),
            ],
            ..Report::default()
        };
        report.results[1].series = vec![Sample::default()];
        let kept = CachedRun {
            setting: figure.runs[0].setting.clone(),
            results: Results::Report(report),
        };
        let runs = vec![Some(Arc::new(kept)), None, None];
        Summary {
            meta: Meta::default(),
            figures: vec![Measured { figure, runs }],
        }
    }

    fn json(summary: &Summary) -> Value {
        serde_json::from_str(&summary.to_json()).unwrap()
    }

    #[test]
    fn what_was_published_stands_beside_what_was_measured() {
        let json = json(&summary([1.5, 1.75]));
        let view = &json["figures"][0]["views"][0];
        assert_eq!(view["kind"], "bars");
        assert_eq!(view["caption"], "throughput over that of interleave");
        let bars = &view["panels"][0]["clusters"][0]["bars"];
        let bar = &bars[0];
        assert_eq!(bars.as_array().unwrap().len(), 1, "none over itself");
        assert_eq!(
            (&bar["placement"], &bar["max"]),
            (&"sidle".into(), &1.75.into())
        );
        assert_eq!((&bar["median"], &bar["min"]), (&1.625.into(), &1.5.into()));
        assert_eq!(bar["published"]["least"], 1.3);
    }

    #[test]
    fn another_order_is_said_with_its_reason() {
        let json = json(&summary([0.5, 0.6]));
        let verdict = &json["figures"][0]["verdicts"][0];
        assert_eq!(verdict["contrary"][0], "one 20 %: 0.55 of interleave");
        assert_eq!(verdict["why"], "two cores");
    }

    #[test]
    fn an_open_end_is_null_and_has_no_frame() {
        let mut summary = summary([1.5, 1.5]);
        let open = (1.001, f64::INFINITY);
        let claims = &mut summary.figures[0].figure.claims;
        *claims = vec![Claim {
            published: open,
            ..claim()
        }];
        let figure = &json(&summary)["figures"][0];
        assert_eq!(
            figure["verdicts"][0]["published"],
            serde_json::json!([1.001, null])
        );
        let bar = &figure["views"][0]["panels"][0]["clusters"][0]["bars"][0];
        assert!(bar["published"].is_null() && bar["placement"] == "sidle");
    }

    #[test]
    fn the_text_has_ranges_as_a_reader_writes_them() {
        let mut measured = summary([0.5, 0.75]);
        let text = measured.text();
        let line = "published 1.30–1.80, here 0.625\n";
        assert!(text.contains(line), "{text}");
        measured.figures[0].figure.claims[0].published.1 = f64::INFINITY;
        measured.figures[0].runs[0] = None;
        let text = measured.text();
        assert!(text.contains("published above 1.30, here –\n"), "{text}");
    }

    #[test]
    fn the_latency_of_fast_memory_is_that_of_the_first_result() {
        let mut summary = summary([1.5, 1.5]);
        for latency in [92.0, 95.0] {
            let mut kept = CachedRun::clone(summary.figures[0].runs[0].as_ref().unwrap());
            let Results::Report(report) = &mut kept.results else {
                panic!("it is a report");
            };
            report.meta.base_latency_ns = latency;
            summary.add(kept);
        }
        assert_eq!(json(&summary)["meta"]["base_latency_ns"], 92.0);
    }

    #[test]
    fn the_json_has_settings_results_and_samples_and_the_page_those_it_draws() {
        let summary = summary([1.5, 1.5]);
        let json = json(&summary);
        let runs = &json["figures"][0]["runs"];
        assert_eq!(runs[0]["setting"]["indexes"][0], "btree");
        assert!(runs[1].get("report").is_none());
        let samples = |json: &Value| {
            let results = &json["figures"][0]["runs"][0]["report"]["results"];
            results[1]["series"].as_array().unwrap().len()
        };
        assert_eq!(samples(&json), 1);
        let mut file = json;
        drop_samples(&mut file["figures"][0]);
        assert_eq!(samples(&file), 0);
        assert!(summary.text().contains("sidle"), "{}", summary.text());
    }
}

//! All figures with what was measured and what was published: as JSON, and as one page.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::claim::Verdict;
use super::figure::Figure;
use super::shelf::Kept;
use crate::report::{Meta, Outcome, write_file};

/// Figures with the results that are there. It begins without any and is handed each as it comes, so none is read twice.
pub struct Summary {
    /// Where and when it was put together.
    pub meta: Meta,
    /// The figures.
    pub figures: Vec<Measured>,
}

/// A figure with its results.
pub struct Measured {
    /// What it is.
    pub figure: Figure,
    /// What is there of its runs, in their order.
    pub runs: Vec<Option<Arc<Kept>>>,
}

impl Measured {
    /// The results of its runs, in their order.
    pub fn results(&self) -> Vec<Option<&[Outcome]>> {
        self.runs
            .iter()
            .map(|kept| Some(&kept.as_deref()?.report.results[..]))
            .collect()
    }

    /// What was published, held against them.
    pub fn verdicts(&self) -> Vec<Verdict> {
        let results = self.results();
        let claims = self.figure.claims.iter();
        claims
            .map(|claim| claim.judge(&self.figure, &results))
            .collect()
    }

    /// The runs that are there.
    pub fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.runs.iter().flatten().map(AsRef::as_ref)
    }

    /// Whether any of them is of emulated memory.
    pub fn is_emulated(&self) -> bool {
        self.kept().any(|kept| kept.report.emulated())
    }
}

#[derive(Serialize)]
struct File<'a> {
    meta: &'a Meta,
    figures: Vec<FigureInFile<'a>>,
}

#[derive(Serialize)]
struct FigureInFile<'a> {
    id: &'a str,
    title: &'a str,
    source: &'a str,
    missing: Option<&'a str>,
    verdicts: Vec<Verdict>,
    runs: Vec<RunInFile<'a>>,
}

#[derive(Serialize)]
struct RunInFile<'a> {
    panel: &'a str,
    category: &'a str,
    #[serde(flatten)]
    kept: Option<&'a Kept>,
}

impl Summary {
    /// These figures, without a result.
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

    /// Puts a result wherever its setting was asked for: figures share runs.
    pub fn add(&mut self, kept: Kept) {
        let kept = Arc::new(kept);
        for Measured { figure, runs } in &mut self.figures {
            for (run, place) in figure.runs.iter().zip(runs) {
                if run.setting == kept.setting {
                    *place = Some(kept.clone());
                }
            }
        }
    }

    /// `{"meta": {…}, "figures": [{"id", "verdicts": […], "runs": [{"panel", "category", "setting", "report"}]}]}`.
    pub fn to_json(&self) -> String {
        let figures = self.figures.iter().map(|measured| {
            let figure = &measured.figure;
            let runs = figure.runs.iter().zip(&measured.runs);
            FigureInFile {
                id: figure.id,
                title: figure.title,
                source: figure.source,
                missing: figure.missing,
                verdicts: measured.verdicts(),
                runs: runs
                    .map(|(run, kept)| RunInFile {
                        panel: &run.panel,
                        category: &run.category,
                        kept: kept.as_deref(),
                    })
                    .collect(),
            }
        });
        let file = File {
            meta: &self.meta,
            figures: figures.collect(),
        };
        let mut text = serde_json::to_string_pretty(&file).expect("plain figures and strings");
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
        write_file(path, &super::page::render(self))
    }
}

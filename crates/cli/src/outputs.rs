//! The files that a run's report goes to; `-` is stdout.

use std::fs;
use std::path::{Path, PathBuf};

use timberline_bench::report::side_by_side::SideBySide;
use timberline_bench::report::{Report, check_writable, csv, markdown, table, write_file};

use crate::Failure;
use crate::say::{say, tell};

/// Arguments that name the files.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Outputs {
    /// Write the figures to this file as JSON; `-` is stdout, and the table goes to stderr then
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the figures to this file as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the tables to this file as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the report to this file as a self-contained page [default: timberline-bench.html; none
    /// with --pool]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// How something is written.
type Renderer<R> = fn(&R) -> String;
/// An option, its file, and its renderer.
type Output<'a, R> = (&'static str, &'a Path, Renderer<R>);

/// The forms of what is written.
pub struct Forms<R> {
    /// For the terminal.
    table: Renderer<R>,
    csv: Renderer<R>,
    markdown: Renderer<R>,
    /// JSON and a page.
    whole: Option<[Renderer<R>; 2]>,
    /// The page's file, if no other is named.
    page: Option<&'static str>,
}

/// A report of the run that this command made: it has a page.
pub const OF_RUN: Forms<Report> = Forms {
    page: Some("timberline-bench.html"),
    ..OF_REPORTS
};

/// A report of earlier runs: what is asked for.
pub const OF_REPORTS: Forms<Report> = Forms {
    table: table::render,
    csv: csv::render,
    markdown: markdown::render,
    whole: Some([Report::to_json, Report::to_html]),
    page: None,
};

/// Two reports beside each other.
pub const OF_TWO: Forms<SideBySide> = Forms {
    table: SideBySide::table,
    csv: SideBySide::csv,
    markdown: SideBySide::markdown,
    whole: None,
    page: None,
};

impl Outputs {
    fn all<R>(&self, forms: &Forms<R>) -> Vec<Output<'_, R>> {
        let page = self.html.as_deref().or(forms.page.map(Path::new));
        let [json, html] = match forms.whole {
            Some(whole) => whole.map(Some),
            None => [None, None],
        };
        let all = [
            ("--json", self.json.as_deref(), json),
            ("--csv", self.csv.as_deref(), Some(forms.csv)),
            ("--markdown", self.markdown.as_deref(), Some(forms.markdown)),
            ("--html", page, html),
        ];
        let given = all.into_iter();
        given
            .filter_map(|(option, path, render)| Some((option, path?, render?)))
            .collect()
    }

    /// The file for JSON.
    pub fn json_file(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// Checks that the file for JSON can be written, where no other output is.
    pub fn check_json(&self) -> Result<(), Failure> {
        match self.json_file().filter(|path| !is_stdout(path)) {
            Some(path) => check_writable(path).map_err(Failure::Impossible),
            None => Ok(()),
        }
    }

    /// Checks that all can be written, and that no two are the same.
    pub fn check<R>(&self, forms: &Forms<R>) -> Result<(), Failure> {
        let all = self.all(forms);
        for (nth, (option, path, _)) in all.iter().enumerate() {
            if !is_stdout(path) {
                check_writable(path).map_err(Failure::Impossible)?;
            }
            let same = |(_, other, _): &&Output<'_, R>| place(other) == place(path);
            if let Some((other, ..)) = all[..nth].iter().find(same).filter(|_| is_whole(path)) {
                let path = path.display();
                return Err(Failure::Impossible(format!(
                    "{other} and {option} both name {path}: give each a file of its own"
                )));
            }
        }
        Ok(())
    }

    /// Writes them all, and the table to stdout, or to stderr if stdout has one of them. If one
    /// output can't be written, the others still are.
    pub fn write<R>(&self, report: &R, forms: &Forms<R>, quiet: bool) -> Result<(), Failure> {
        let (to_stdout, to_files): (Vec<_>, Vec<_>) = self
            .all(forms)
            .into_iter()
            .partition(|(_, path, _)| is_stdout(path));
        let write = |(_, path, render): &Output<'_, R>| write_file(path, &render(report));
        let written: Vec<_> = to_files.iter().map(write).collect();
        let table = (forms.table)(report);
        match to_stdout.first() {
            Some((.., render)) => {
                if !quiet {
                    tell(table.trim_end());
                }
                say(render(report).trim_end())?;
            }
            None => {
                say(table.trim_end())?;
                if let (Some(("--html", page, _)), Some(Ok(()))) = (to_files.last(), written.last())
                {
                    say(format_args!("The report: {}", page.display()))?;
                }
            }
        }
        let written: Result<(), _> = written.into_iter().collect();
        written.map_err(Failure::failed)
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether two reports can't share it; a device such as `/dev/null` takes any number.
fn is_whole(path: &Path) -> bool {
    is_stdout(path) || !path.exists() || path.is_file()
}

/// The file that a path names, through links.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().map(|it| match it.as_os_str().is_empty() {
        true => Path::new("."),
        false => it,
    });
    let new = || Some(fs::canonicalize(folder?).ok()?.join(path.file_name()?));
    fs::canonicalize(path)
        .ok()
        .or_else(new)
        .unwrap_or_else(|| path.into())
}

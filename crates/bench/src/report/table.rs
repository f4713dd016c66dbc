//! The table at the end of a run, for a terminal.
//!
//! One heading line for each workload, one row for each placement, columns aligned across
//! workloads. The first line alone says whether slow memory was emulated.

use super::figures;
use super::groups::{Group, groups};
use super::kernel;
use super::result::{Bounds, Outcome};
use super::written::Report;

/// The report as lines for a terminal, each ended by a newline.
pub fn render(report: &Report) -> String {
    let mut text = headline(report) + "\n\n";
    if report.results.is_empty() {
        return text + "nothing was measured\n";
    }
    text += &grid_with_bounds(&report.results, &report.meta.bounds);
    text += "\nregained: fraction of the cost of slow memory that is regained; 0 is interleave, 1 is all-fast.\n\
             by charge/CPU/p50: the same by what the emulator charged (without noise), by throughput per second of \
             the request threads' CPU time, and by the median latency.\n\
             fast share: fraction of cache misses served by fast memory.\n\
             slow lines/ns: lines from slow memory in a request, and what the emulator charged for them.\n";
    if report
        .results
        .iter()
        .any(|it| it.workload.starts_with("hs-"))
    {
        text += "hs-a … hs-d: hot spot; 90 % of requests go to 5 % of contiguous keys.\n";
    }
    if !report.meta.bounds.is_empty() {
        text += "bound: fraction of accesses in fast memory under the best placement of that grain within the budget.\n";
    }
    text += "÷oracle: regained over the oracle's: static placement from exact frequencies; adaptive ones can beat it.\n";
    for outcome in report
        .results
        .iter()
        .filter(|outcome| outcome.over_budget_bytes > 0)
    {
        text += &format!(
            "OVER BUDGET: {} on {} used {} more fast memory than its budget\n",
            outcome.placement,
            outcome.workload,
            figures::bytes(outcome.over_budget_bytes)
        );
    }
    for outcome in &report.results {
        for line in lines_about(outcome) {
            text += &format!("{}, {}: {line}\n", outcome.workload, outcome.placement);
        }
    }
    for note in &report.meta.notes {
        text += &format!("note: {note}\n");
    }
    text
}

/// What the rows have no column for.
fn lines_about(outcome: &Outcome) -> impl Iterator<Item = String> {
    let times = [
        ("`regained`", outcome.recovery_s, outcome.recovery_s_max),
        (
            "its fast share",
            outcome.fast_share_recovery_s,
            outcome.fast_share_recovery_s_max,
        ),
    ];
    let recovered = times.into_iter().filter_map(|(what, median, longest)| {
        let (median, longest) = median.zip(longest)?;
        Some(format!(
            "back to 90 % of {what} {median:.1} s after a shift of the hot region (at most {longest:.1} s)"
        ))
    });
    let misplaced = outcome.misplaced_pages.filter(|&pages| pages > 0);
    let misplaced = misplaced.map(|pages| {
        format!("the kernel put {pages} pages on a NUMA node other than the requested one")
    });
    let bound = outcome.fast_share_bound.map(|bound| {
        format!(
            "no page placement within this budget can exceed a fast share of {bound:.3} (from the counts of a rehearsal)"
        )
    });
    let unanswered = (outcome.unanswered > 0).then(|| {
        format!(
            "could not keep up; {} requests were due but not executed",
            outcome.unanswered
        )
    });
    let others = [kernel::line(outcome), misplaced, bound, unanswered];
    recovered.chain(others.into_iter().flatten())
}

/// The rows of these results under their workloads.
pub fn grid(results: &[Outcome]) -> String {
    grid_with_bounds(results, &[])
}

fn grid_with_bounds(results: &[Outcome], bounds: &[Bounds]) -> String {
    let mut grid = Grid::new(&COLUMNS);
    for group in &groups(results) {
        grid.text(heading(group));
        for outcome in &group.members {
            grid.row(row(group, outcome));
        }
        let of_group = |it: &&Bounds| group.is_of(&it.index, &it.workload);
        for bounds in bounds.iter().filter(of_group) {
            grid.text(bound(bounds));
        }
    }
    grid.render()
}

/// The command, memory and machine, in one line.
pub fn headline(report: &Report) -> String {
    let meta = &report.meta;
    let memory = if report.emulated() {
        format!("EMULATED slow memory, profile {}", meta.profile)
    } else {
        "real memory tiers".to_string()
    };
    format!(
        "timberline bench · {memory} · fast tier {:.0} ns · {}, {} cores · seed {} · {} UTC",
        meta.base_latency_ns, meta.machine.cpu, meta.machine.cores, meta.seed, meta.date
    )
}

fn heading(group: &Group<'_>) -> String {
    let emulated = if group.emulated() { " · emulated" } else { "" };
    format!("{} · {}{emulated}", group.workload(), group.setting())
}

fn bound(bounds: &Bounds) -> String {
    let shares = [
        ("page", bounds.bound_page_fast_share),
        ("leaf", bounds.bound_leaf_fast_share),
        ("record", bounds.bound_record_fast_share),
    ];
    let shares = shares.map(|(grain, share)| format!("{grain}-grained {}", figures::share(share)));
    format!("  bound: {}", shares.join(", "))
}

/// Two header lines, and the alignment of a column.
pub type Column<'a> = (&'a str, &'a str, Side);

/// The alignment of a column's cells.
#[derive(Clone, Copy, PartialEq)]
pub enum Side {
    /// For names.
    Left,
    /// For figures.
    Right,
}
use Side::{Left, Right};

const COLUMNS: [Column<'_>; 13] = [
    ("placement", "", Left),
    ("Mops/s", "median [min, max]", Right),
    ("×inter", "leave", Right),
    ("regained", "median [min, max]", Right),
    ("regained by", "charge/CPU/p50", Right),
    ("÷oracle", "", Right),
    ("fast", "share", Right),
    ("slow", "lines/ns", Right),
    ("µs", "p50/p99", Right),
    ("promoted", "/demoted", Right),
    ("worker", "cores", Right),
    ("fast memory", "used/budget", Right),
    ("B per", "record", Right),
];

fn row(group: &Group<'_>, outcome: &Outcome) -> Vec<String> {
    vec![
        format!("  {}", group.label(outcome)),
        figures::throughput(outcome),
        figures::share(outcome.ratio_to_interleave),
        figures::regained(outcome),
        figures::regained_otherwise(outcome),
        figures::share(outcome.regained_to_oracle),
        figures::share(outcome.fast_share),
        figures::slow_lines(outcome),
        figures::micros([outcome.p50_ns, outcome.p99_ns]),
        figures::moves(outcome),
        format!("{:.2}", outcome.worker_cores),
        figures::bytes_of(outcome.fast_bytes, outcome.fast_budget_bytes),
        format!("{:.1}", outcome.bytes_per_record),
    ]
}

enum Line {
    Text(String),
    Row(Vec<String>),
}

/// Rows of cells under fixed columns; a column is as wide as its widest cell.
pub struct Grid<'a> {
    columns: &'a [Column<'a>],
    lines: Vec<Line>,
}

impl<'a> Grid<'a> {
    /// No rows yet.
    pub fn new(columns: &'a [Column<'a>]) -> Self {
        Self {
            columns,
            lines: Vec::new(),
        }
    }

    /// Adds a line across all columns.
    pub fn text(&mut self, text: String) {
        self.lines.push(Line::Text(text));
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If there is not one cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.lines.push(Line::Row(cells));
    }

    /// The header, a rule, and the lines, each ended by a newline.
    pub fn render(&self) -> String {
        let width = |i: usize| {
            let (first, second, _) = self.columns[i];
            let cells = self.lines.iter().filter_map(|line| match line {
                Line::Row(cells) => Some(cells[i].as_str()),
                Line::Text(_) => None,
            });
            cells
                .chain([first, second])
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for ((cell, &width), (.., side)) in cells.zip(&widths).zip(self.columns) {
                let gap = if text.is_empty() { "" } else { "  " };
                text += gap;
                text += &match side {
                    Left => format!("{cell:<width$}"),
                    Right => format!("{cell:>width$}"),
                };
            }
            text.truncate(text.trim_end().len());
            text + "\n"
        };

        let mut text = line(&mut self.columns.iter().map(|(first, ..)| *first));
        text += &line(&mut self.columns.iter().map(|(_, second, _)| *second));
        let all = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
        text += &format!("{}\n", "─".repeat(all));
        for entry in &self.lines {
            text += &match entry {
                Line::Text(text) => format!("{text}\n"),
                Line::Row(cells) => line(&mut cells.iter().map(String::as_str)),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn golden() {
        let report = samples::report();
        assert_eq!(render(&report), include_str!("table_golden.txt"));
    }

    #[test]
    fn columns_line_up() {
        let text = render(&samples::report());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
        assert!(rows.len() >= 8);
        let widths: Vec<usize> = rows.iter().map(|row| row.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{widths:?}");
    }

    #[test]
    fn real_memory_is_not_called_emulated() {
        let report = samples::on_real_memory();
        assert!(!render(&report).to_lowercase().contains("emulated"));
    }

    #[test]
    fn a_broken_budget_is_said() {
        let mut report = samples::report();
        report.results[0].over_budget_bytes = 4096;
        assert!(render(&report).contains("OVER BUDGET: all-fast on hs-c used 4.00 KiB"));
    }

    #[test]
    fn what_the_kernel_moved_is_said_once() {
        let text = render(&samples::left_to_kernel());
        assert_eq!(text.matches("moved by the kernel").count(), 1, "{text}");
    }

    #[test]
    fn bounds_stand_below_the_placements_of_their_workload() {
        let mut report = samples::report();
        report.meta.bounds.push(Bounds {
            index: "btree".into(),
            workload: "ycsb-a".into(),
            bound_page_fast_share: Some(0.451),
            bound_leaf_fast_share: Some(0.701),
            bound_record_fast_share: None,
        });
        let text = render(&report);
        let lines: Vec<&str> = text.lines().collect();
        let at = |start: &str| lines.iter().rposition(|line| line.starts_with(start));
        let bound = at("  bound: page-grained 0.45, leaf-grained 0.70, record-grained –");
        assert_eq!(bound, at("  timberline").map(|last| last + 1), "{text}");
        assert!(text.contains("\nbound: fraction of accesses"));
    }

    #[test]
    fn nothing_measured_is_said() {
        let text = render(&Report::default());
        assert!(text.ends_with("nothing was measured\n"), "{text}");
    }
}

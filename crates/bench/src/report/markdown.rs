//! The report as Markdown: a table for each workload, and the notes.

use super::columns::{self, Column};
use super::grid::Head;
use super::groups::groups;
use super::table;
use super::written::Report;

/// The report, for a page or an issue.
pub fn render(report: &Report) -> String {
    let mut text = format!("{}\n", escaped(&table::headline(report)));
    let columns: Vec<Column> = columns::all().collect();
    let heads_of_columns: Vec<Head> = columns.iter().map(|it| (it.head, it.is_text)).collect();
    for group in groups(&report.results) {
        text += &format!("\n### {}\n\n", escaped(&table::heading(&group)));
        text += &heads(&heads_of_columns);
        for outcome in &group.members {
            text += &row(columns.iter().map(|it| (it.cell)(&group, outcome)));
        }
    }
    text += "\n";
    for note in table::notes(report) {
        text += &format!("- {}\n", escaped(&note));
    }
    text
}

/// The two lines above the rows.
pub(super) fn heads(columns: &[Head<'_>]) -> String {
    let names = columns
        .iter()
        .map(|(head, _)| head.join(" ").trim().to_owned());
    let sides = columns.iter().map(|(_, is_text)| match is_text {
        true => ":--".into(),
        false => "--:".into(),
    });
    row(names) + &row(sides)
}

/// A line of cells.
pub(super) fn row(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.map(|it| escaped(&it)).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Text that Markdown takes for nothing else.
pub(super) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::samples;

    #[test]
    fn every_workload_has_a_table_with_equal_rows() {
        let mut report = samples::report();
        report.meta.command = "a|b".into();
        report.results[0].placement = "a|b<script>".into();
        let text = render(&report);
        assert_eq!(text.matches("\n### ").count(), 2);
        let rows = text.lines().filter(|line| line.starts_with("| "));
        let bars = rows.map(|row| row.replace("\\|", "").matches('|').count());
        assert!(bars.collect::<Vec<_>>() == [16; 2 * (2 + 7)], "{text}");
        assert!(text.contains(r"| a\|b&lt;script> |") && !text.contains("<script"));
        assert!(text.contains("\n- note: Cores are shared"));
    }
}

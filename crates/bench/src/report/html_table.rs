//! The table of the page: one body of rows for each workload, one row for each placement.

use super::figures;
use super::groups::Group;
use super::result::Outcome;
use super::shell::badge;
use super::svg::{escape, placement_class};

const COLUMNS: [&str; 14] = [
    "placement",
    "Mops/s <small>median [min, max]</small>",
    "×<br>interleave",
    "÷<br>all-fast",
    "regained <small>median [min, max]</small>",
    "regained<br>÷ oracle",
    "fast<br>share",
    "fast share<br>÷ oracle",
    "latency, µs <small>p50/p90/p99/p99.9</small>",
    "lines / op <small>fast + slow (cached)</small>",
    "promoted <small>/ demoted</small>",
    "worker<br>CPU",
    "fast memory <small>used/budget</small>",
    "bytes per<br>record",
];

/// The section with the table.
pub fn render(groups: &[Group<'_>]) -> String {
    let mut text =
        String::from("<section>\n<h2>Figures</h2>\n<div class=\"scroll\">\n<table>\n<thead><tr>");
    for column in COLUMNS {
        text += &format!("<th scope=\"col\">{column}</th>");
    }
    text += "</tr></thead>\n";
    for group in groups {
        text += &format!(
            "<tbody>\n<tr class=\"group\"><th colspan=\"{}\" scope=\"rowgroup\"><span>{} <small>{}</small>{}</span></th></tr>\n",
            COLUMNS.len(),
            escape(group.workload()),
            escape(&group.setting()),
            badge(group.emulated()),
        );
        for outcome in &group.members {
            text += &row(group, outcome);
        }
        text += "</tbody>\n";
    }
    text + "</table>\n</div>\n</section>\n"
}

fn row(group: &Group<'_>, outcome: &Outcome) -> String {
    let cells = [
        figures::throughput(outcome),
        figures::share(outcome.ratio_to_interleave),
        figures::share(outcome.ratio_to_all_fast),
        figures::regained(outcome),
        figures::share(outcome.regained_to_oracle),
        figures::share(outcome.fast_share),
        figures::share(outcome.fast_share_to_oracle),
        figures::micros([
            outcome.p50_ns,
            outcome.p90_ns,
            outcome.p99_ns,
            outcome.p999_ns,
        ]),
        format!(
            "{:.2} + {:.2} ({:.2})",
            outcome.lines_fast_per_op, outcome.lines_slow_per_op, outcome.lines_cached_per_op
        ),
        figures::moves(outcome),
        figures::percent(outcome.worker_cpu_ratio),
        figures::bytes_of(outcome.fast_bytes, outcome.fast_budget_bytes),
        format!("{:.1}", outcome.bytes_per_record),
    ];
    let mut text = format!(
        "<tr><th scope=\"row\"><i class=\"{}\"></i>{}</th>",
        placement_class(&outcome.placement),
        escape(&group.label(outcome))
    );
    for cell in cells {
        text += &format!("<td>{}</td>", escape(&cell));
    }
    text + "</tr>\n"
}

//! The report as one page that needs nothing but itself: no script, no font, no network.
//!
//! Every text that came from outside is escaped on its way in. Wherever figures stand that come from
//! the emulator, the page says so: in the head, at each workload of the table, under each chart.

use super::bars;
use super::figures;
use super::groups::{Group, groups};
use super::html_table;
use super::kernel;
use super::legend;
use super::panels;
use super::result::Outcome;
use super::shell::{self, badge};
use super::svg::escape;
use super::written::Report;

const TITLE: &str = "timberline bench";

/// The whole page.
pub fn render(report: &Report) -> String {
    let groups = groups(&report.results);
    let mut page = head(report);
    if groups.is_empty() {
        page += "<p>Nothing was measured.</p>\n";
    } else {
        page += &regained(report, &groups);
        page += &html_table::render(&groups);
        page += &over_time(&groups);
        page += &kernel_moves(&groups);
        page += &fast_share(report, &groups);
        page += &levels(&groups);
    }
    page += &foot(report);
    shell::document(TITLE, report.emulated(), &page)
}

fn head(report: &Report) -> String {
    let meta = &report.meta;
    let memory = if report.emulated() {
        format!("slow memory emulated, profile {}", meta.profile)
    } else {
        "real memory tiers".to_string()
    };
    let memory = format!("{memory}; fast tier {:.0} ns", meta.base_latency_ns);
    let facts = [
        ("memory", memory),
        ("machine", meta.machine.line()),
        ("date", format!("{} UTC", meta.date)),
        ("command", meta.command.clone()),
        ("seed", meta.seed.to_string()),
    ];
    shell::head(TITLE, report.emulated(), &facts)
}

/// A section with charts, or a sentence on why there are none.
fn section(title: &str, lead: &str, emulated: bool, body: &str, otherwise: &str) -> String {
    let badge = badge(emulated);
    let body = if body.is_empty() {
        format!("<p class=\"none\">{otherwise}</p>\n")
    } else {
        body.into()
    };
    format!("<section>\n<h2>{title}{badge}</h2>\n<p class=\"lead\">{lead}</p>\n{body}</section>\n")
}

fn wide(charts: &[String]) -> String {
    charts
        .iter()
        .map(|chart| format!("<figure class=\"wide\">{chart}</figure>\n"))
        .collect()
}

fn regained(report: &Report, groups: &[Group<'_>]) -> String {
    let charts = bars::regained(groups);
    let mut body = String::new();
    if !charts.is_empty() {
        body += &legend::placements(names(groups, bars::has_regained), |_| false);
        body += &wide(&charts);
    }
    section(
        "What placement wins back",
        "The share of what slow memory costs that a placement regains: 0 is weighted interleave, \
         1 is all of the tree in fast memory. Thin lines span the rounds.",
        report.emulated(),
        &body,
        "Needs interleave and all-fast in the same run, and all-fast the faster of the two.",
    )
}

fn fast_share(report: &Report, groups: &[Group<'_>]) -> String {
    let charts = bars::fast_share(groups);
    let mut body = String::new();
    if !charts.is_empty() {
        let shown =
            |outcome: &Outcome| bars::has_fast_share(outcome) || outcome.placement == "oracle";
        body += &legend::placements(names(groups, shown), |it| it == "oracle");
        body += &wide(&charts);
    }
    section(
        "Fast share",
        "Lines fetched from fast memory over all lines fetched. The dashed line is the oracle, \
         which knows the true frequencies and moves nothing.",
        report.emulated(),
        &body,
        "No lines were counted in this run.",
    )
}

/// What of these groups is drawn.
fn names<'a>(
    groups: &'a [Group<'a>],
    shown: impl Fn(&Outcome) -> bool,
) -> impl Iterator<Item = &'a str> {
    let outcomes = groups.iter().flat_map(|group| &group.members);
    let shown = outcomes.filter(move |outcome| shown(outcome));
    shown.map(|outcome| outcome.placement.as_str())
}

fn over_time(groups: &[Group<'_>]) -> String {
    let mut figures = String::new();
    for group in groups {
        if let Some(chart) = panels::over_time(group, &panels::THROUGHPUT) {
            figures += &format!("<figure>{}{chart}</figure>\n", caption(group));
        }
    }
    let mut body = String::new();
    if !figures.is_empty() {
        body += &legend::placements(names(groups, |it| !it.series.is_empty()), |_| true);
        body += &format!("<div class=\"halves\">\n{figures}</div>\n");
    }
    section(
        "Throughput over time",
        "Each placement in its own measured time, its rounds laid end to end. Point at a line for \
         its figures.",
        groups.iter().any(Group::emulated),
        &body,
        "Nothing was sampled in this run.",
    )
}

/// Nothing where the kernel moved nothing.
fn kernel_moves(groups: &[Group<'_>]) -> String {
    let mut figures = String::new();
    for group in groups {
        let charts = group.members.iter();
        for chart in charts.filter_map(|outcome| kernel::over_time(group, outcome)) {
            figures += &format!("<figure>{}{chart}</figure>\n", caption(group));
        }
    }
    if figures.is_empty() {
        return String::new();
    }
    let key = |flow: &kernel::Flow| (legend::line(flow.class), flow.name);
    let body = legend::keys(kernel::FLOWS.iter().map(key))
        + &format!("<div class=\"halves\">\n{figures}</div>\n");
    section(
        "What the kernel moved",
        "Memory that the kernel moved between NUMA nodes on the whole machine, from when the map was left to it, by the kernel's own counters.",
        groups.iter().any(Group::emulated),
        &body,
        "",
    )
}

fn levels(groups: &[Group<'_>]) -> String {
    let mut body = String::new();
    for group in groups {
        let panel = |outcome: &&Outcome| {
            Some(format!(
                "<figure>{}</figure>\n",
                panels::levels(group, outcome)?
            ))
        };
        let panels: String = group.members.iter().filter_map(panel).collect();
        if !panels.is_empty() {
            body += &format!(
                "{}<div class=\"quarters\">\n{panels}</div>\n",
                caption(group)
            );
        }
    }
    if !body.is_empty() {
        let entries = [
            (legend::area("fast"), "in fast memory"),
            (legend::area("slow"), "in slow memory"),
            (legend::area("free"), "budget not used"),
        ];
        body = legend::keys(entries) + &body;
    }
    section(
        "Fast memory by level",
        "What of each level of the tree lies in fast memory at the end of the run: bytes in fast \
         memory, over the bytes of the level.",
        groups.iter().any(Group::emulated),
        &body,
        "No levels were recorded in this run.",
    )
}

/// A workload's name and setting above its chart.
fn caption(group: &Group<'_>) -> String {
    format!(
        "<h3>{} <small>{}</small>{}</h3>",
        escape(group.workload()),
        escape(&group.setting()),
        badge(group.emulated())
    )
}

fn foot(report: &Report) -> String {
    let mut lines = Vec::new();
    for outcome in report
        .results
        .iter()
        .filter(|outcome| outcome.over_budget_bytes > 0)
    {
        lines.push(format!(
            "<li class=\"broken\">over budget: {} on {} held {} too much fast memory</li>\n",
            escape(&outcome.placement),
            escape(&outcome.workload),
            figures::bytes(outcome.over_budget_bytes)
        ));
    }
    lines.extend(
        report
            .results
            .iter()
            .filter_map(kernel::line)
            .map(|line| format!("<li>{}</li>\n", escape(&line))),
    );
    lines.extend(
        report
            .meta
            .notes
            .iter()
            .map(|note| format!("<li>{}</li>\n", escape(note))),
    );
    for (name, version) in &report.meta.versions {
        lines.push(format!("<li>{} {}</li>\n", escape(name), escape(version)));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "<section>\n<h2>Notes</h2>\n<ul class=\"notes\">\n{}</ul>\n</section>\n",
        lines.concat()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;
    use crate::report::shell::{BADGE, STYLE};

    #[test]
    fn everything_from_outside_is_escaped() {
        let mut report = samples::report();
        let evil = "<script>alert('x')</script>&\"";
        report.meta.command = evil.into();
        report.meta.machine.cpu = evil.into();
        report.meta.profile = evil.into();
        report.meta.notes = vec![evil.into()];
        report.meta.versions = [(evil.to_string(), evil.to_string())].into();
        for outcome in report.results.iter_mut().take(3) {
            outcome.placement = evil.into();
            outcome.index = evil.into();
        }
        report.results[8].workload = evil.into();
        report.results[0].over_budget_bytes = 1;
        let page = render(&report);
        assert!(!page.contains("<script"));
        assert!(!page.contains("alert('x')"));
        assert!(page.matches("&lt;script&gt;alert(&#39;x&#39;)").count() >= 8);
    }

    #[test]
    fn the_page_reaches_for_nothing_outside() {
        let page = render(&samples::report()).replace("http://www.w3.org/2000/svg", "");
        for reference in [
            "http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link",
        ] {
            assert!(!page.contains(reference), "{reference}");
        }
    }

    #[test]
    fn emulated_is_said_where_figures_stand() {
        let page = render(&samples::report());
        for section in page
            .split("<section>")
            .filter(|section| section.contains("<svg"))
        {
            assert!(
                section.contains(BADGE),
                "{}",
                &section[..section.len().min(200)]
            );
        }
        assert!(page.contains("<title>timberline bench (emulated)</title>"));
        let groups = page.split("<tr class=\"group\">").skip(1);
        assert!(
            groups
                .map(|group| group.lines().next().unwrap())
                .all(|line| line.contains(BADGE))
        );
    }

    #[test]
    fn real_memory_is_not_called_emulated() {
        let report = samples::on_real_memory();
        assert!(!render(&report).replace(STYLE, "").contains("emulated"));
    }

    #[test]
    fn what_the_kernel_moved_is_shown_where_it_was_the_kernels() {
        const TITLE: &str = "<h2>What the kernel moved";
        assert!(render(&samples::left_to_kernel()).contains(TITLE));
        assert!(!render(&samples::report()).contains(TITLE));
    }

    #[test]
    fn tags_are_closed() {
        let page = render(&samples::left_to_kernel());
        for tag in [
            "section", "figure", "table", "tbody", "tr", "th", "td", "ul", "li", "svg", "text",
            "h3",
        ] {
            let open = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn a_run_without_anything_still_gives_a_page() {
        assert!(render(&Report::default()).contains("Nothing was measured."));
        let bare = Report {
            results: vec![Outcome::default()],
            ..Report::default()
        };
        let page = render(&bare);
        assert!(page.contains("Needs interleave and all-fast") && page.contains("No levels"));
    }
}

//! The report as one page that needs nothing but itself: each figure beside what was published of it.

use super::claim::Verdict;
use super::figure::{Run, View};
use super::quantity::{Measure, Over, Quantity};
use super::summary::{Measured, Summary};
use crate::report::bar_chart::{Bar, BarChart, Cluster};
use crate::report::groups::groups;
use crate::report::legend;
use crate::report::panels::{self, Curve};
use crate::report::shell::{self, badge};
use crate::report::svg::{escape, placement_class};
use crate::report::{Outcome, figures};

const TITLE: &str = "timberline eval";

/// The whole page.
pub fn render(summary: &Summary) -> String {
    let mut page = head(summary);
    page += &contents(summary);
    page += &contrary(summary);
    for measured in &summary.figures {
        page += &section(measured);
    }
    shell::document(TITLE, is_emulated(summary), &page)
}

fn is_emulated(summary: &Summary) -> bool {
    summary.figures.iter().any(Measured::is_emulated)
}

fn head(summary: &Summary) -> String {
    let runs = || summary.figures.iter().flat_map(Measured::kept);
    let mut dates: Vec<&str> = runs().map(|kept| kept.report.meta.date.as_str()).collect();
    dates.sort_unstable();
    let measured = match (dates.first(), dates.last()) {
        (Some(first), Some(last)) => format!("{first} to {last} UTC"),
        _ => "nothing yet".into(),
    };
    let mut profiles: Vec<&str> = runs()
        .map(|kept| kept.report.meta.profile.as_str())
        .collect();
    profiles.dedup();
    let all: usize = summary.figures.iter().map(|it| it.figure.runs.len()).sum();
    let done = runs().count();
    let facts = [
        (
            "memory",
            format!("slow memory emulated, profile {}", profiles.join(", ")),
        ),
        ("machine", summary.meta.machine.line()),
        ("measured", measured),
        ("command", summary.meta.command.clone()),
        (
            "runs",
            format!("{done} of {all} (some figures share theirs)"),
        ),
    ];
    shell::head(TITLE, is_emulated(summary), &facts)
        + "<p class=\"lead\">Each figure of the seeds that is about placement, rebuilt. Dashed frames are what was published, where its text \
           gives figures. Other machines, other maps: how far a placement is ahead may differ, and where its <em>order</em> does, the report says so.</p>\n"
}

fn contents(summary: &Summary) -> String {
    let mut text = String::from("<nav><ul class=\"contents\">\n");
    for Measured { figure, .. } in &summary.figures {
        let title = escape(figure.title);
        text += &format!("<li><a href=\"#f{0}\">{0}</a> {title}</li>\n", figure.id);
    }
    text + "</ul></nav>\n"
}

/// Where the order is not the published one.
fn contrary(summary: &Summary) -> String {
    let mut rows = String::new();
    for measured in &summary.figures {
        for verdict in measured
            .verdicts()
            .iter()
            .filter(|it| !it.contrary.is_empty())
        {
            let why = match verdict.why.as_str() {
                "" => "not explained",
                why => why,
            };
            rows += &format!(
                "<li><b>{}</b>: {} (published {}). Here {}. <em>{}</em></li>\n",
                measured.figure.id,
                escape(&verdict.says),
                span(verdict.published),
                escape(&verdict.contrary.join("; ")),
                escape(why),
            );
        }
    }
    if rows.is_empty() {
        rows = "<li>Nowhere, in all rounds of what was measured.</li>\n".into();
    }
    format!(
        "<section>\n<h2>Where our order is not the published one{}</h2>\n<ul class=\"notes\">\n{rows}</ul>\n</section>\n",
        badge(is_emulated(summary))
    )
}

fn section(measured: &Measured) -> String {
    let figure = &measured.figure;
    let mut text = format!("<section id=\"f{}\">\n<h2>", figure.id);
    text += &format!(
        "{} <small>{}</small>{}</h2>\n",
        escape(figure.title),
        figure.id,
        badge(measured.is_emulated())
    );
    let source = match figure.source {
        "" => String::new(),
        source => format!("{}. ", escape(source)),
    };
    text += &format!("<p class=\"lead\">{source}{}</p>\n", escape(figure.about));
    if let Some(missing) = figure.missing {
        return text
            + &format!(
                "<p class=\"none\">Not measured: {}.</p>\n</section>\n",
                escape(missing)
            );
    }
    if measured.kept().next().is_none() {
        return text + "<p class=\"none\">Not measured yet.</p>\n</section>\n";
    }
    for view in &figure.views {
        text += &match view {
            View::Bars(quantity) => bars(measured, *quantity),
            View::ThroughputOverTime => over_time(measured, &panels::THROUGHPUT),
            View::FastShareOverTime => over_time(measured, &panels::FAST_SHARE),
            View::UseOverTime => over_time(measured, &panels::FAST_USE),
            View::Bounds => bounds(measured),
        };
    }
    text += &verdicts(&measured.verdicts());
    text += &details(measured);
    text + "</section>\n"
}

/// Whether a bar of a placement would say anything: the two that define 0 and 1 of `regained` have none.
fn is_shown(quantity: Quantity, placement: &str) -> bool {
    match quantity.measure {
        Measure::Regained => !["interleave", "all-fast"].contains(&placement),
        Measure::FastShare | Measure::FastUse => !["all-fast", "all-slow"].contains(&placement),
        Measure::Improvement => placement != "interleave",
        Measure::Moves | Measure::WorkerShare => {
            !["all-fast", "all-slow", "interleave", "inner-fast", "oracle"].contains(&placement)
        }
        _ => true,
    }
}

fn bars(measured: &Measured, quantity: Quantity) -> String {
    let figure = &measured.figure;
    let results = measured.results();
    let (mut text, mut shown) = (String::new(), Vec::new());
    for (panel, place) in figure.panels() {
        let runs = &results[place.clone()];
        let mut clusters = Vec::new();
        for (nth, run) in figure.runs[place].iter().enumerate() {
            let outcomes = runs[nth].unwrap_or_default().iter();
            let names = outcomes.map(|it| it.placement.as_str());
            let names = names.filter(|name| is_shown(quantity, name));
            let of = |name: &str| bar(measured, quantity, run, name, nth, runs);
            let bars: Vec<Bar> = names.clone().filter_map(of).collect();
            if !bars.is_empty() {
                shown.extend(names);
                let name = run.category.clone();
                clusters.push(Cluster {
                    name,
                    bars,
                    limit: None,
                });
            }
        }
        if clusters.is_empty() {
            continue;
        }
        if !panel.is_empty() {
            text += &format!("<h3>{}</h3>\n", escape(panel));
        }
        let marks: &[(f64, &str)] = match (quantity.over, quantity.measure) {
            (Over::Placements([other]), _) => &[(1.0, other)],
            (Over::First, _) => &[(1.0, "the first")],
            (Over::Mean, _) => &[(1.0, "the mean")],
            (_, Measure::Regained) => &[(0.0, "interleave"), (1.0, "all-fast")],
            _ => &[],
        };
        let label = format!("{}: {}", figure.title, quantity.measure.name());
        let chart = BarChart {
            label: &label,
            domain: domain(&clusters, marks),
            marks,
        };
        for drawn in chart.draw(&clusters) {
            text += &format!("<figure class=\"wide\">{drawn}</figure>\n");
        }
    }
    if text.is_empty() {
        return String::new();
    }
    let over = match quantity.over {
        Over::Nothing => String::new(),
        Over::Placements(others) => format!(" over that of {}", others.join(", ")),
        Over::First => " over that of the first run".into(),
        Over::Mean => " over the mean of the runs".into(),
    };
    let caption = format!("<p class=\"axis\">{}{over}</p>\n", quantity.measure.name());
    caption + &legend::placements(shown.into_iter(), |_| false) + &text
}

fn bar(
    measured: &Measured,
    quantity: Quantity,
    run: &Run,
    placement: &str,
    nth: usize,
    runs: &[Option<&[Outcome]>],
) -> Option<Bar> {
    let (_, value) = quantity.of(placement, nth, runs).into_iter().next()?;
    let is_here = |claim: &&super::Claim| {
        claim.of == placement
            && claim.quantity == quantity
            && claim.is_about(&run.panel, &run.category)
    };
    let mut claims = measured.figure.claims.iter().filter(is_here);
    let published = claims
        .find(|claim| claim.published.1.is_finite())
        .map(|claim| {
            let title = format!("published: {}, {}", claim.says, span(claim.published));
            (claim.published, title)
        });
    let range = (value.max > value.min).then_some((value.min, value.max));
    let rounds = range.map_or(String::new(), |(min, max)| {
        format!(" [{}, {}]", figures::amount(min), figures::amount(max))
    });
    Some(Bar {
        class: placement_class(placement),
        title: format!(
            "{}, {placement}: {}{rounds}",
            run.category,
            figures::amount(value.median)
        ),
        value: value.median,
        range,
        published,
    })
}

/// An axis with all that is worth seeing: one placement or round far outside must not flatten all others.
fn domain(clusters: &[Cluster], marks: &[(f64, &str)]) -> (f64, f64) {
    let bars = || clusters.iter().flat_map(|cluster| &cluster.bars);
    let mut values: Vec<f64> = bars().map(|bar| bar.value).collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.get(values.len() / 2).copied().unwrap_or(1.0).abs();
    let marks = marks.iter().map(|(value, _)| *value);
    let published = bars().filter_map(|bar| Some(bar.published.as_ref()?.0.1));
    let far = 6.0 * middle.max(1e-9);
    let high = values
        .iter()
        .copied()
        .filter(|value| *value <= far)
        .chain(marks)
        .chain(published)
        .fold(0.0, f64::max);
    let low = values.iter().copied().fold(0.0, f64::min).max(-0.6 * high);
    (low, if high > 0.0 { 1.08 * high } else { 1.0 })
}

fn over_time(measured: &Measured, curve: &Curve) -> String {
    let (mut text, mut shown) = (String::new(), Vec::new());
    for (run, results) in measured.figure.runs.iter().zip(measured.results()) {
        let results = results.unwrap_or_default();
        for group in groups(results) {
            if let Some(chart) = panels::over_time(&group, curve) {
                shown.extend(results.iter().map(|it| it.placement.as_str()));
                let name = escape(&run.category);
                text += &format!("<figure><h3>{name}</h3>{chart}</figure>\n");
            }
        }
    }
    format!(
        "<p class=\"axis\">{} over measured time</p>\n{}<div class=\"halves\">\n{text}</div>\n",
        curve.name,
        legend::placements(shown.into_iter(), |_| true)
    )
}

/// What each grain allows, beside what was reached.
fn bounds(measured: &Measured) -> String {
    let runs = || measured.figure.runs.iter().zip(&measured.runs);
    let mut placements: Vec<&str> = Vec::new();
    for (_, kept) in runs() {
        for outcome in kept.iter().flat_map(|kept| &kept.report.results) {
            let name = outcome.placement.as_str();
            if name != "all-fast" && !placements.contains(&name) {
                placements.push(name);
            }
        }
    }
    let mut table = vec![
        [
            "at most, pages, of lines",
            "at most, pages",
            "at most, leaves",
            "at most, records",
        ]
        .iter()
        .chain(&placements)
        .map(ToString::to_string)
        .collect::<Vec<_>>(),
    ];
    let mut names = vec![String::new()];
    for (run, kept) in runs() {
        let Some(kept) = kept else { continue };
        let results = &kept.report.results;
        let bounds = kept.report.meta.bounds.first().cloned().unwrap_or_default();
        let pages = results.iter().find_map(|outcome| outcome.fast_share_bound);
        let of = |name: &&str| {
            results
                .iter()
                .find(|it| it.placement == **name)
                .and_then(|it| it.fast_share)
        };
        let row = [
            pages,
            bounds.bound_page_fast_share,
            bounds.bound_leaf_fast_share,
            bounds.bound_record_fast_share,
        ];
        let row = row.into_iter().chain(placements.iter().map(of));
        table.push(row.map(figures::share).collect());
        names.push(run.category.clone());
    }
    format!("<p class=\"axis\">fast share</p>\n{}", rows(&names, &table))
}

/// A table whose first row is its head.
fn rows(names: &[String], table: &[Vec<String>]) -> String {
    let mut text = String::from("<div class=\"scroll\">\n<table>\n");
    for (nth, (name, cells)) in names.iter().zip(table).enumerate() {
        let (open, close) = match nth {
            0 => ("<th scope=\"col\">", "</th>"),
            _ => ("<td>", "</td>"),
        };
        text += &format!("<tr><th scope=\"row\">{}</th>", escape(name));
        for cell in cells {
            text += &format!("{open}{}{close}", escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</table>\n</div>\n"
}

fn span((least, most): (f64, f64)) -> String {
    match (least, most) {
        (least, most) if least == most => figures::amount(least),
        (0.0, most) => format!("up to {}", figures::amount(most)),
        (least, f64::INFINITY) => format!("above {least:.0}"),
        (least, most) => format!("{}–{}", figures::amount(least), figures::amount(most)),
    }
}

fn verdicts(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let head = ["published", "here", "timberline", "order"]
        .map(String::from)
        .to_vec();
    let (mut names, mut table) = (vec!["claim".to_string()], vec![head]);
    for verdict in verdicts {
        let range = |range: Option<(f64, f64)>| range.map_or(figures::ABSENT.into(), span);
        let order = match (verdict.measured, verdict.contrary.len()) {
            (None, _) => figures::ABSENT.into(),
            (_, 0) => "not contrary".to_string(),
            (_, count) => format!("contrary in {count}"),
        };
        names.push(verdict.says.clone());
        table.push(vec![
            span(verdict.published),
            range(verdict.measured),
            range(verdict.timberline),
            order,
        ]);
    }
    rows(&names, &table)
}

/// All figures behind a chart, for those who want digits.
fn details(measured: &Measured) -> String {
    let head = [
        "placement",
        "Mops/s",
        "× interleave",
        "regained",
        "fast share",
        "p50/p90/p99/p99.9, µs",
        "moved",
        "worker CPU",
    ];
    let (mut names, mut table) = (
        vec!["run".to_string()],
        vec![head.map(String::from).to_vec()],
    );
    for (run, kept) in measured.figure.runs.iter().zip(&measured.runs) {
        for outcome in kept.iter().flat_map(|kept| &kept.report.results) {
            names.push(format!("{} {}", run.panel, run.category).trim().into());
            table.push(vec![
                outcome.placement.clone(),
                figures::throughput(outcome),
                figures::share(outcome.ratio_to_interleave),
                figures::regained(outcome),
                figures::share(outcome.fast_share),
                figures::micros([
                    outcome.p50_ns,
                    outcome.p90_ns,
                    outcome.p99_ns,
                    outcome.p999_ns,
                ]),
                figures::moves(outcome),
                figures::percent(outcome.worker_cpu_ratio),
            ]);
        }
    }
    format!(
        "<details><summary>All figures</summary>\n{}</details>\n",
        rows(&names, &table)
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::eval::claim::Claim;
    use crate::eval::claim::tests::claim;
    use crate::eval::figure::Figure;
    use crate::eval::figure::tests::figure;
    use crate::eval::quantity::tests::outcome;
    use crate::eval::shelf::Kept;
    use crate::report::{Meta, Report};

    fn summary(sidle: [f64; 2]) -> Summary {
        let claim = Claim {
            says: "faster <than> the baseline",
            ..claim()
        };
        let figure = Figure {
            claims: vec![claim],
            ..figure()
        };
        let kept = Kept {
            setting: figure.runs[0].setting.clone(),
            report: Report {
                meta: Meta {
                    emulated: true,
                    ..Meta::default()
                },
                results: vec![outcome("interleave", &[1.0, 1.0]), outcome("sidle", &sidle)],
            },
        };
        let runs = vec![Some(Arc::new(kept)), None, None];
        let missing = Figure {
            id: "98",
            missing: Some("it needs a trace"),
            runs: Vec::new(),
            ..figure.clone()
        };
        Summary {
            meta: Meta {
                command: "<script>".into(),
                ..Meta::default()
            },
            figures: vec![
                Measured { figure, runs },
                Measured {
                    figure: missing,
                    runs: Vec::new(),
                },
            ],
        }
    }

    #[test]
    fn what_was_published_stands_beside_what_was_measured() {
        let page = render(&summary([1.5, 1.5]));
        assert!(page.contains("class=\"published\"") && page.contains("1.30–1.80"));
        assert!(page.contains("20 %, sidle: 1.50"));
        assert!(page.contains("Nowhere, in all rounds"));
        assert!(page.contains("Not measured: it needs a trace."));
    }

    #[test]
    fn another_order_is_said_with_its_reason() {
        let page = render(&summary([0.5, 0.6]));
        assert!(
            page.contains("Here one 20 %: 0.55 of interleave. <em>two cores</em>"),
            "{page}"
        );
        assert!(page.contains("contrary in 1"));
    }

    #[test]
    fn the_page_is_whole_and_reaches_for_nothing_outside() {
        let page = render(&summary([1.5, 1.5])).replace("http://www.w3.org/2000/svg", "");
        for reference in [
            "http:", "https:", "src=", "url(", "@import", "<script", "<link",
        ] {
            assert!(!page.contains(reference), "{reference}");
        }
        for tag in [
            "section", "figure", "table", "tr", "th", "td", "ul", "li", "svg", "details",
        ] {
            let open = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(page.contains("faster &lt;than&gt; the baseline"));
    }

    #[test]
    fn an_open_end_is_null_in_the_json_and_a_word_on_the_page() {
        let mut summary = summary([1.5, 1.5]);
        summary.figures[0].figure.claims[0].published = (1.001, f64::INFINITY);
        let json: serde_json::Value = serde_json::from_str(&summary.to_json()).unwrap();
        let published = &json["figures"][0]["verdicts"][0]["published"];
        assert_eq!(*published, serde_json::json!([1.001, null]));
        let page = render(&summary);
        assert!(page.contains("above 1") && !page.contains("inf"));
    }

    #[test]
    fn the_json_has_settings_results_and_verdicts() {
        let json: serde_json::Value = serde_json::from_str(&summary([1.5, 1.5]).to_json()).unwrap();
        let figure = &json["figures"][0];
        assert_eq!(figure["verdicts"][0]["measured"][0], 1.5);
        assert_eq!(figure["runs"][0]["setting"]["index"], "btree");
        assert_eq!(
            figure["runs"][0]["report"]["results"][1]["placement"],
            "sidle"
        );
        assert!(figure["runs"][1].get("report").is_none());
    }
}

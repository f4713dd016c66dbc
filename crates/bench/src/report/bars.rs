//! The bar charts of the page: what each placement regains, and its fast share, workload by workload.

use super::bar_chart::{Bar, BarChart, Cluster};
use super::figures;
use super::groups::{Group, names};
use super::result::Outcome;
use super::svg::placement_class;

/// Whether a placement's `regained` says anything: the two that define its 0 and 1 are left out.
pub fn has_regained(outcome: &Outcome) -> bool {
    outcome.regained.is_some() && !matches!(outcome.placement.as_str(), "interleave" | "all-fast")
}

/// `regained` for each workload and placement; no charts where no outcome has one.
pub fn regained(groups: &[Group<'_>]) -> Vec<String> {
    let bar = |group: &Group<'_>, name: &str, outcome: &Outcome| {
        let text = figures::regained(outcome);
        Bar {
            class: placement_class(&outcome.placement),
            title: format!("{name}, {}: regained {text}", group.label(outcome)),
            value: outcome.regained.unwrap_or(0.0),
            range: outcome.regained_min.zip(outcome.regained_max),
            published: None,
        }
    };
    let clusters = clusters(groups, has_regained, bar, |_, _| None);
    let ends = || {
        let bars = clusters.iter().flat_map(|cluster| &cluster.bars);
        bars.flat_map(|bar| {
            bar.range
                .map_or([bar.value; 2], |(least, most)| [least, most])
        })
    };
    // One placement far outside must not flatten all others.
    let low = ends().fold(0.0, f64::min).max(-0.6);
    let high = ends().fold(1.0, f64::max).clamp(1.05, 1.6);
    let chart = BarChart {
        label: "regained by workload and placement",
        domain: (low, high),
        marks: &[(0.0, "interleave"), (1.0, "all-fast")],
    };
    chart.draw(&clusters)
}

/// Whether a placement's fast share is drawn: where all memory is one tier it is given, and the
/// oracle is the limit.
pub fn has_fast_share(outcome: &Outcome) -> bool {
    outcome.fast_share.is_some()
        && !matches!(
            outcome.placement.as_str(),
            "all-fast" | "all-slow" | "oracle"
        )
}

/// Fast share for each workload and placement under the oracle's; no charts where none was counted.
pub fn fast_share(groups: &[Group<'_>]) -> Vec<String> {
    let bar = |group: &Group<'_>, name: &str, outcome: &Outcome| Bar {
        class: placement_class(&outcome.placement),
        title: format!(
            "{name}, {}: fast share {}, {} of the oracle's",
            group.label(outcome),
            figures::share(outcome.fast_share),
            figures::share(outcome.fast_share_to_oracle),
        ),
        value: outcome.fast_share.unwrap_or(0.0),
        range: None,
        published: None,
    };
    let limit = |group: &Group<'_>, name: &str| {
        let mut oracles = group
            .members
            .iter()
            .filter(|member| member.placement == "oracle");
        let share = oracles.next()?.fast_share?;
        Some((share, format!("{name}, oracle: fast share {share:.2}")))
    };
    let chart = BarChart {
        label: "fast share by workload and placement, with the oracle's as a limit",
        domain: (0.0, 1.0),
        marks: &[],
    };
    chart.draw(&clusters(groups, has_fast_share, bar, limit))
}

fn clusters(
    groups: &[Group<'_>],
    shown: impl Fn(&Outcome) -> bool,
    bar: impl Fn(&Group<'_>, &str, &Outcome) -> Bar,
    limit: impl Fn(&Group<'_>, &str) -> Option<(f64, String)>,
) -> Vec<Cluster> {
    let cluster = |(group, name): (&Group<'_>, String)| {
        let members = group.members.iter().filter(|member| shown(member));
        let bars: Vec<Bar> = members.map(|member| bar(group, &name, member)).collect();
        (!bars.is_empty()).then(|| Cluster {
            limit: limit(group, &name),
            bars,
            name,
        })
    };
    groups
        .iter()
        .zip(names(groups))
        .filter_map(cluster)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::groups::groups;
    use crate::report::samples;

    #[test]
    fn references_define_the_scale_and_have_no_bar() {
        let report = samples::report();
        let charts = regained(&groups(&report.results)).concat();
        assert!(charts.contains("hs-c, timberline: regained 0.80"));
        assert!(!charts.contains("hs-c, interleave: regained"));
        assert!(!charts.contains("hs-c, all-fast: regained"));
    }

    #[test]
    fn without_references_or_counts_there_is_no_chart() {
        let mut report = samples::report();
        for outcome in &mut report.results {
            outcome.regained = None;
            outcome.fast_share = None;
        }
        let groups = groups(&report.results);
        assert!(regained(&groups).is_empty());
        assert!(fast_share(&groups).is_empty());
    }

    #[test]
    fn many_workloads_wrap_into_rows() {
        let report = samples::run(&[
            "hs-a", "hs-b", "hs-c", "hs-d", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e",
            "ycsb-f", "trace",
        ]);
        let charts = regained(&groups(&report.results));
        assert!(charts.len() > 1, "{}", charts.len());
        assert!(charts.concat().contains("trace, sidle"));
    }
}

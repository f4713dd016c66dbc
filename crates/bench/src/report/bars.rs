//! The bar charts of the page: what each placement regains, and its fast share, workload by workload.
//!
//! Bars of one workload stand together; colour follows the placement. A bar that would leave the
//! chart ends at its edge and still says its figure.

use super::figures;
use super::groups::{Group, names};
use super::result::Outcome;
use super::svg::{Anchor, Scale, Svg, placement_class};

/// Width of a chart, which spans the page.
const WIDE: f64 = 1080.0;

struct Bar {
    class: &'static str,
    title: String,
    value: f64,
    range: Option<(f64, f64)>,
}

struct Cluster {
    name: String,
    bars: Vec<Bar>,
    /// A limit to draw across the bars, with its title.
    limit: Option<(f64, String)>,
}

struct BarChart<'a> {
    label: &'a str,
    domain: (f64, f64),
    /// Values that mean something, drawn as lines with their names.
    marks: &'a [(f64, &'a str)],
}

impl BarChart<'_> {
    /// Clusters side by side, in as many rows as keep the bars wide enough to see.
    fn draw(&self, clusters: &[Cluster]) -> Vec<String> {
        const ROOM: f64 = WIDE - 150.0;
        let most = clusters
            .iter()
            .map(|cluster| cluster.bars.len())
            .max()
            .unwrap_or(0)
            + 1;
        let per_row = ((ROOM / (most as f64 * 18.0)) as usize).max(1);
        let rows = clusters.len().div_ceil(per_row).max(1);
        let pitch = ROOM / clusters.len().div_ceil(rows).max(1) as f64;
        let slot = (pitch / most as f64).min(56.0);
        let per_row = clusters.len().div_ceil(rows).max(1);
        clusters
            .chunks(per_row)
            .map(|row| self.row(row, pitch, slot))
            .collect()
    }

    /// One row; each cluster is centred on its `pitch`, each bar has a `slot`.
    fn row(&self, clusters: &[Cluster], pitch: f64, slot: f64) -> String {
        const HEIGHT: f64 = 300.0;
        let (left, right, top, bottom) = (46.0, WIDE - 92.0, 22.0, HEIGHT - 38.0);
        let y = Scale::new(self.domain, (bottom, top));
        let mut svg = Svg::new(WIDE, HEIGHT, self.label);
        svg.y_axis(y, left, right, 6);
        for (value, name) in self.marks {
            svg.line("mark", (left, y.at(*value)), (right, y.at(*value)));
            svg.text(
                "tick",
                (right + 8.0, y.at(*value) + 4.0),
                Anchor::Start,
                name,
            );
        }
        for (nth, cluster) in clusters.iter().enumerate() {
            let middle = left + pitch * (nth as f64 + 0.5);
            let width = slot * cluster.bars.len() as f64;
            let start = middle - width / 2.0;
            if let Some((limit, title)) = &cluster.limit {
                let ends = [
                    (start - 6.0, y.at(*limit)),
                    (start + width + 4.0, y.at(*limit)),
                ];
                svg.path("limit p-oracle", &ends, title);
            }
            for (i, bar) in cluster.bars.iter().enumerate() {
                bar.draw(&mut svg, y, start + slot * i as f64, slot);
            }
            svg.text(
                "name",
                (middle, HEIGHT - 8.0),
                Anchor::Middle,
                &cluster.name,
            );
        }
        svg.finish()
    }
}

impl Bar {
    /// A bar from zero with its range, and with its figure beyond its end where that fits.
    fn draw(&self, svg: &mut Svg, y: Scale, x: f64, slot: f64) {
        let (zero, end) = (y.at(0.0), y.at(self.value));
        let wide = slot - (slot * 0.14).min(4.0);
        let middle = x + wide / 2.0;
        let class = format!("bar {}", self.class);
        let size = (wide, (zero - end).abs().max(1.0));
        svg.rect(&class, (x, end.min(zero)), size, &self.title);
        let (least, most) = self.range.unwrap_or((self.value, self.value));
        if most > least {
            svg.line("whisker", (middle, y.at(least)), (middle, y.at(most)));
        }
        if slot >= 28.0 {
            let beyond = if self.value < 0.0 {
                end.max(y.at(least)) + 13.0
            } else {
                end.min(y.at(most)) - 5.0
            };
            svg.text(
                "value",
                (middle, beyond),
                Anchor::Middle,
                &format!("{:.2}", self.value),
            );
        }
    }
}

/// Whether a placement's `regained` says anything: the two that define its 0 and 1 are left out.
pub fn has_regained(outcome: &Outcome) -> bool {
    outcome.regained.is_some() && !matches!(outcome.placement.as_str(), "interleave" | "all-fast")
}

/// `regained` for each workload and placement; no charts where no outcome has one.
pub fn regained(groups: &[Group<'_>]) -> Vec<String> {
    let bar = |group: &Group<'_>, name: &str, outcome: &Outcome| {
        let text =
            figures::share_range(outcome.regained, outcome.regained_min, outcome.regained_max);
        Bar {
            class: placement_class(&outcome.placement),
            title: format!("{name}, {}: regained {text}", group.label(outcome)),
            value: outcome.regained.unwrap_or(0.0),
            range: outcome.regained_min.zip(outcome.regained_max),
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

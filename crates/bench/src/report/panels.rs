//! The panels of the page: throughput over time, and where each level of a tree lies.
//!
//! A panel shows with its shapes only what its titles say in figures; colour follows the placement.

use super::figures;
use super::groups::Group;
use super::result::{Outcome, Sample};
use super::svg::{Anchor, Svg, placement_class};
use super::time_frame::TimeFrame;

/// Width of a panel of which four stand side by side.
const QUARTER: f64 = 258.0;
/// Points a line is drawn with at most.
pub(super) const POINTS: usize = 240;
/// Points of a line at most that answer the pointer.
pub(super) const SPOTS: usize = 40;

/// Something that changes while a run goes on.
pub struct Curve {
    /// What it is.
    pub name: &'static str,
    /// Its unit, short.
    pub unit: &'static str,
    /// It, at a moment of a run.
    pub value: fn(&Outcome, &Sample) -> f64,
}

/// Requests a second.
pub const THROUGHPUT: Curve = Curve {
    name: "throughput",
    unit: "Mops/s",
    value: |_, sample| sample.ops_per_s / 1e6,
};

/// Lines from fast memory over all lines fetched; nothing where none were counted.
pub const FAST_SHARE: Curve = Curve {
    name: "fast share",
    unit: "of lines",
    value: |_, sample| sample.fast_share.unwrap_or(0.0),
};

/// Fast memory in use over its budget; nothing where there is none.
pub const FAST_USE: Curve = Curve {
    name: "fast memory in use",
    unit: "of the budget",
    value: |outcome, sample| match outcome.fast_budget_bytes {
        0 => 0.0,
        budget => sample.fast_bytes as f64 / budget as f64,
    },
};

/// A curve over time, a line for each placement; `None` where nothing was sampled.
pub fn over_time(group: &Group<'_>, curve: &Curve) -> Option<String> {
    let members = || group.members.iter();
    let samples = || members().flat_map(|member| member.series.iter().map(move |it| (*member, it)));
    let until = samples().map(|(_, sample)| sample.at_s).fold(0.0, f64::max);
    let value = |outcome: &Outcome, sample: &Sample| (curve.value)(outcome, sample);
    let values = samples().map(|(outcome, sample)| value(outcome, sample));
    let most = values.fold(0.0, f64::max);
    let (workload, name) = (group.workload(), curve.name);
    let label = format!("{workload}: {name} over time by placement");
    let mut frame = TimeFrame::new(&label, curve.unit, until, most)?;
    for outcome in group
        .members
        .iter()
        .filter(|member| !member.series.is_empty())
    {
        let point = |sample: &Sample| frame.point(sample.at_s, value(outcome, sample));
        let points: Vec<(f64, f64)> = thin(&outcome.series, POINTS).iter().map(point).collect();
        let class = format!("series {}", placement_class(&outcome.placement));
        frame.svg.path(&class, &points, &group.label(outcome));
    }
    // The spots come last so that no line lies over them.
    for outcome in &group.members {
        for sample in thin(&outcome.series, SPOTS) {
            let title = format!(
                "{} at {:.1} s: {}, fast share {}, {} fast, {} promoted, {} demoted",
                group.label(outcome),
                sample.at_s,
                figures::rate(sample.ops_per_s),
                figures::share(sample.fast_share),
                figures::bytes(sample.fast_bytes),
                figures::count(sample.promoted),
                figures::count(sample.demoted),
            );
            let at = frame.point(sample.at_s, value(outcome, &sample));
            frame.svg.spot("spot", at, &title);
        }
    }
    Some(frame.svg.finish())
}

/// At most `limit` samples: neighbours are merged, rates averaged, states the last one's.
pub(super) fn thin(series: &[Sample], limit: usize) -> Vec<Sample> {
    let size = series.len().div_ceil(limit).max(1);
    let merge = |chunk: &[Sample]| {
        let last = chunk[chunk.len() - 1];
        let rate = chunk.iter().map(|sample| sample.ops_per_s).sum::<f64>() / chunk.len() as f64;
        Sample {
            ops_per_s: rate,
            ..last
        }
    };
    series.chunks(size).map(merge).collect()
}

/// How far each level of one placement's tree lies in fast memory; `None` where no level is known.
///
/// A level's bar is as long as any other's, since leaves outweigh the rest a hundredfold; the bytes
/// stand above it. The first bar is the budget.
pub fn levels(group: &Group<'_>, outcome: &Outcome) -> Option<String> {
    const ROW: f64 = 36.0;
    let deepest = outcome.levels.iter().map(|fill| fill.level).max()?;
    let height = 30.0 + ROW * (outcome.levels.len() + 1) as f64;
    let label = format!(
        "{}, {}: levels by tier",
        group.workload(),
        group.label(outcome)
    );
    let mut svg = Svg::new(QUARTER, height, &label);
    svg.text("name", (0.0, 14.0), Anchor::Start, &group.label(outcome));

    let mut bar = |nth: usize, name: &str, figure: &str, share: f64, title: &str, rest: &str| {
        let y = 38.0 + ROW * nth as f64;
        svg.text("tick", (0.0, y), Anchor::Start, name);
        svg.text("tick", (QUARTER, y), Anchor::End, figure);
        let fast = share.clamp(0.0, 1.0) * QUARTER;
        svg.rect(rest, (0.0, y + 5.0), (QUARTER, 11.0), title);
        svg.rect("fast", (0.0, y + 5.0), (fast, 11.0), title);
    };
    let (used, budget) = (outcome.fast_bytes, outcome.fast_budget_bytes);
    let share = if budget == 0 {
        1.0
    } else {
        used as f64 / budget as f64
    };
    let figure = figures::bytes_of(used, budget);
    let name = if budget == 0 {
        "fast memory, no budget"
    } else {
        "fast memory/budget"
    };
    let title = format!(
        "{}: {figure} at the end, {} at most",
        group.label(outcome),
        figures::bytes(outcome.fast_bytes_peak)
    );
    bar(
        0,
        name,
        &figure,
        if used == 0 { 0.0 } else { share },
        &title,
        "free",
    );
    for (nth, fill) in outcome.levels.iter().enumerate() {
        let name = match fill.level {
            0 if deepest == 0 => "level 0, the only leaf".to_string(),
            0 => "level 0, root".to_string(),
            level if level == deepest => format!("level {level}, leaves"),
            level => format!("level {level}"),
        };
        let all = fill.bytes_fast + fill.bytes_slow;
        let share = if all == 0 {
            0.0
        } else {
            fill.bytes_fast as f64 / all as f64
        };
        let title = format!(
            "{}, {name}: {} nodes ({}) fast, {} nodes ({}) slow",
            group.label(outcome),
            figures::count(fill.nodes_fast),
            figures::bytes(fill.bytes_fast),
            figures::count(fill.nodes_slow),
            figures::bytes(fill.bytes_slow),
        );
        let figure = figures::bytes_of(fill.bytes_fast, all);
        bar(nth + 1, &name, &figure, share, &title, "slow");
    }
    Some(svg.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::groups::groups;
    use crate::report::samples;

    #[test]
    fn without_samples_or_levels_there_is_no_chart() {
        let bare = [Outcome::default()];
        let groups = groups(&bare);
        assert_eq!(over_time(&groups[0], &THROUGHPUT), None);
        assert_eq!(levels(&groups[0], groups[0].members[0]), None);
    }

    #[test]
    fn thinning_keeps_the_mean_and_the_end() {
        let series: Vec<Sample> = (0..10)
            .map(|i| Sample {
                at_s: f64::from(i),
                ops_per_s: f64::from(i),
                ..Sample::default()
            })
            .collect();
        let thinned = thin(&series, 4);
        assert_eq!(thinned.len(), 4);
        assert_eq!((thinned[0].at_s, thinned[0].ops_per_s), (2.0, 1.0));
        assert_eq!(thinned[3].at_s, 9.0);
        assert_eq!(thin(&series, 100), series);
    }

    #[test]
    fn a_level_says_what_it_holds() {
        let report = samples::report();
        let groups = groups(&report.results);
        let panel = levels(&groups[0], groups[0].members[6]).unwrap();
        assert!(
            panel.contains("level 0, root") && panel.contains("level 3, leaves"),
            "{panel}"
        );
        assert!(panel.contains("fast memory/budget"));
    }
}

//! What the kernel moved while the map's pages were its to place: a chart over time, and one line.

use timberline_tier::tiering::KernelMoves;

use super::figures;
use super::groups::Group;
use super::panels::{POINTS, SPOTS, thin};
use super::result::Outcome;
use super::time_frame::TimeFrame;

const PAGE: u64 = 4096;
const MIB: f64 = (1 << 20) as f64;

/// What is drawn of it.
pub struct Flow {
    pub name: &'static str,
    /// It has the colour of the placement that models it, if one does.
    pub class: &'static str,
    bytes: fn(&KernelMoves) -> Option<u64>,
}

/// All that is drawn, in the legend's order.
pub const FLOWS: [Flow; 4] = [
    Flow {
        name: "promoted by NUMA balancing",
        class: "p-autonuma",
        bytes: |moves| Some(moves.pgpromote_success? * PAGE),
    },
    Flow {
        name: "demoted by reclaim",
        class: "p-tpp",
        bytes: |moves| {
            let direct = moves.pgdemote_direct.unwrap_or(0);
            Some((moves.pgdemote_kswapd? + direct) * PAGE)
        },
    },
    Flow {
        name: "hot, moved by DAMON",
        class: "p-damon",
        bytes: |moves| moves.damon_hot_applied_bytes,
    },
    Flow {
        name: "cold, moved by DAMON",
        class: "p-other",
        bytes: |moves| moves.damon_cold_applied_bytes,
    },
];

/// What was moved by the end.
fn moved(outcome: &Outcome) -> Option<KernelMoves> {
    outcome.series.last()?.kernel
}

/// Bytes moved so far over time, a line for each way that the kernel counts; `None` where it was not the kernel's, or nothing was moved.
pub fn over_time(group: &Group<'_>, outcome: &Outcome) -> Option<String> {
    let last = moved(outcome)?;
    // They only grow.
    let most = FLOWS.iter().filter_map(|flow| (flow.bytes)(&last)).max()? as f64 / MIB;
    let until = outcome.series.last()?.at_s;
    let name = group.label(outcome);
    let label = format!("{}, {name}: what the kernel moved", group.workload());
    let mut frame = TimeFrame::new(&label, "MiB", until, most)?;
    let mut spots = Vec::new();
    for flow in &FLOWS {
        let so_far = |limit: usize| {
            let samples = thin(&outcome.series, limit).into_iter();
            samples.filter_map(|sample| Some((sample.at_s, (flow.bytes)(&sample.kernel?)?)))
        };
        let at = |(at_s, bytes): (f64, u64)| frame.point(at_s, bytes as f64 / MIB);
        let points: Vec<_> = so_far(POINTS).map(at).collect();
        spots.extend(so_far(SPOTS).map(|moved| (at(moved), flow.name, moved)));
        if !points.is_empty() {
            let class = format!("series {}", flow.class);
            frame.svg.path(&class, &points, flow.name);
        }
    }
    // The spots come last so that no line lies over them.
    for (at, name, (at_s, bytes)) in spots {
        let title = format!("{} {name} at {at_s:.1} s", figures::bytes(bytes));
        frame.svg.spot("spot", at, &title);
    }
    Some(frame.svg.finish())
}

/// What was moved by the end, in a line; `None` where it was not the kernel's.
pub fn line(outcome: &Outcome) -> Option<String> {
    let moves = moved(outcome)?;
    let pages = |name: &str, pages: Option<u64>| Some(format!("{name} {}", figures::count(pages?)));
    let bytes = |name: &str, bytes: Option<u64>| Some(format!("{name} {}", figures::bytes(bytes?)));
    let told: Vec<String> = [
        pages("pgpromote_success", moves.pgpromote_success),
        pages("pgdemote_kswapd", moves.pgdemote_kswapd),
        pages("pgdemote_direct", moves.pgdemote_direct),
        pages("numa_hint_faults", moves.numa_hint_faults),
        bytes("migrate_hot", moves.damon_hot_applied_bytes),
        bytes("migrate_cold", moves.damon_cold_applied_bytes),
    ]
    .into_iter()
    .flatten()
    .collect();
    let told = match told.is_empty() {
        true => "this kernel does not count what it moves".to_string(),
        false => told.join(", "),
    };
    Some(format!(
        "{}, {}: what the kernel moved on the whole machine, from when the map was left to it: {told}",
        outcome.workload, outcome.placement
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::groups::groups;
    use crate::report::result::Sample;
    use crate::report::samples;

    #[test]
    fn only_what_is_counted_is_drawn_and_told() {
        let report = samples::left_to_kernel();
        let groups = groups(&report.results);
        let kernels = groups[0].members.last().unwrap();
        let chart = over_time(&groups[0], kernels).unwrap();
        assert_eq!(chart.matches("<path").count(), 2, "{chart}");
        assert!(chart.contains("9.38 MiB promoted by NUMA balancing at 6.0 s"));
        let line = line(kernels).unwrap();
        assert!(
            line.contains("pgpromote_success 2.4k, pgdemote_kswapd 600"),
            "{line}"
        );
        assert!(!line.contains("migrate_hot"), "{line}");
    }

    #[test]
    fn placements_of_nodes_have_neither() {
        let report = samples::report();
        let groups = groups(&report.results);
        let timberline = groups[0].members[6];
        assert_eq!(over_time(&groups[0], timberline), None);
        assert_eq!(line(timberline), None);
    }

    #[test]
    fn a_kernel_that_counts_nothing_is_told() {
        let sample = Sample {
            at_s: 1.0,
            kernel: Some(KernelMoves::default()),
            ..Sample::default()
        };
        let outcomes = [Outcome {
            series: vec![sample],
            ..Outcome::default()
        }];
        assert_eq!(over_time(&groups(&outcomes)[0], &outcomes[0]), None);
        assert!(line(&outcomes[0]).unwrap().contains("does not count"));
    }
}

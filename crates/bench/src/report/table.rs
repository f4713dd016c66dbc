//! The table at the end of a run, for a terminal.
//!
//! Four tables, so that each fits into 80 columns: speed, ratios, costs, memory. One heading line
//! for each workload, one row for each placement, columns aligned across workloads. The first line
//! alone says whether slow memory was emulated.

use super::columns::{COSTS, Column, MEMORY, RATIOS, SPEED};
use super::figures;
use super::grid::{Grid, wrapped};
use super::groups::{Group, groups};
use super::kernel;
use super::paired;
use super::result::{Bounds, Calibration, Outcome};
use super::written::Report;

/// The report as lines for a terminal, each ended by a newline.
pub fn render(report: &Report) -> String {
    let mut text = wrapped(&headline(report), 2) + "\n";
    if report.results.is_empty() {
        return text + "nothing was measured\n";
    }
    text += &grid_with_bounds(&report.results, &report.meta.bounds);
    text += "\n";
    for line in notes(report) {
        text += &wrapped(&line, 2);
    }
    text
}

/// How the emulator was calibrated for a map and workload.
fn calibration(it: &Calibration) -> String {
    format!(
        "emulator, {} on {}: slow ÷ fast latency {:.3}, the profile says {:.3}; fast {:.0} ns at {} a tier",
        it.workload,
        it.index,
        it.ratio,
        it.ratio_of_profile,
        it.base_latency_ns,
        figures::bytes(it.footprint_bytes)
    )
}

/// Explanations and caveats of the figures, one line each.
pub fn notes(report: &Report) -> Vec<String> {
    let is_hot = |it: &Outcome| it.workload.starts_with("hs-");
    let mut lines = vec![
        "regained: fraction of the cost of slow memory that is regained; 0 is interleave, 1 is all-fast (or all-fast+copies, if that is faster).",
        "by charge/CPU/p50: the same by what the emulator charged (without noise), by throughput per second of the request threads' CPU time, and by the median latency.",
        "fast share: fraction of cache misses served by fast memory.",
        "slow lines/ns: lines from slow memory in a request, and what the emulator charged for them.",
    ];
    if report.results.iter().any(is_hot) {
        lines.push("hs-a … hs-d: hot spot; 90 % of requests go to 5 % of contiguous keys.");
    }
    if !report.meta.bounds.is_empty() {
        lines.push("bound: fraction of accesses in fast memory under the best placement of that grain within the budget.");
    }
    lines.push("÷interleave, ÷oracle, ÷all-fast: throughput over theirs in the same rounds, with the interval that holds the median in 95 % of cases (six rounds or more): > ahead, < behind, ~ undecided.");
    lines.push("oracle: static placement from exact frequencies; adaptive ones can beat it.");
    let mut lines: Vec<String> = lines.into_iter().map(String::from).collect();
    lines.extend(report.meta.calibrations.iter().map(calibration));
    let of_workloads = groups(&report.results);
    lines.extend(
        of_workloads
            .iter()
            .filter_map(noise)
            .map(|line| format!("NOISE: {line}.")),
    );
    lines.extend(of_workloads.iter().filter_map(paired::dropped));
    lines.extend(of_workloads.iter().flat_map(paired::lines));
    for outcome in report.results.iter().filter(|it| it.over_budget_bytes > 0) {
        lines.push(format!(
            "OVER BUDGET: {} on {} used {} more fast memory than its budget",
            outcome.placement,
            outcome.workload,
            figures::bytes(outcome.over_budget_bytes)
        ));
    }
    for outcome in &report.results {
        let about = |line| format!("{}, {}: {line}", outcome.workload, outcome.placement);
        lines.extend(lines_about(outcome).map(about));
    }
    lines.extend(report.meta.notes.iter().map(|note| format!("note: {note}")));
    lines
}

/// Figures of an outcome that have no column.
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
    let tiers = (!outcome.tiers.is_empty()).then(|| {
        let each = figures::tiers(outcome, figures::bytes).replace(';', ", ");
        format!("bytes in each tier, of at most: {each}")
    });
    let others = [kernel::line(outcome), misplaced, bound, unanswered, tiers];
    recovered.chain(others.into_iter().flatten())
}

/// The rows of these results under their workloads.
pub fn grid(results: &[Outcome]) -> String {
    grid_with_bounds(results, &[])
}

fn grid_with_bounds(results: &[Outcome], bounds: &[Bounds]) -> String {
    let groups = groups(results);
    let speed = grid_of(&SPEED, &groups, &[]);
    let ratios = grid_of(&RATIOS, &groups, &[]);
    let costs = grid_of(&COSTS, &groups, bounds);
    let memory = grid_of(&MEMORY, &groups, &[]);
    format!("{speed}\n{ratios}\n{costs}\n{memory}")
}

fn grid_of(columns: &[Column], groups: &[Group<'_>], bounds: &[Bounds]) -> String {
    let mut grid = Grid::new(columns.iter().map(|it| (it.head, it.is_text)));
    for group in groups {
        grid.text(heading(group));
        for outcome in &group.members {
            let cell = |column: &Column| (column.cell)(group, outcome);
            grid.row(columns.iter().map(cell).collect());
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

/// A workload with its setting.
pub fn heading(group: &Group<'_>) -> String {
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

/// Why a group has no `regained`, if it is because of noise.
pub fn noise(group: &Group<'_>) -> Option<String> {
    let noisy = |it: &&&Outcome| it.gap.is_some() && it.regained.is_none();
    let outcome = group.members.iter().find(noisy)?;
    let (gap, noise) = outcome.gap.zip(outcome.gap_noise)?;
    Some(format!(
        "{}: all-fast and interleave differ by {:.1} % ± {:.1} %, too little to divide by, so \
         `regained` is left out",
        group.workload(),
        100.0 * gap,
        100.0 * noise
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::samples;

    #[test]
    fn golden() {
        let report = samples::report();
        assert_eq!(render(&report), include_str!("table_golden.txt"));
    }

    #[test]
    fn everything_fits_eighty_columns() {
        let mut report = samples::left_to_kernel();
        let bounds = Bounds {
            index: "btree".into(),
            workload: "hs-c".into(),
            ..Bounds::default()
        };
        report.meta.bounds.push(bounds);
        let mut twice = report.results[6].clone();
        (twice.placement, twice.fast_budget_ratio) = ("timberline-leaves".into(), 0.5);
        twice.set_rounds(vec![123.0, 456.0, 789.0]);
        twice.regained = Some(-17.87);
        (twice.promoted, twice.demoted) = (123_456_789, 123_456_789);
        report.results.push(twice);
        report.results[6].placement = "timberline-leaves".into();
        let text = render(&report);
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None);
    }

    #[test]
    fn a_gap_within_noise_is_said_instead_of_a_figure() {
        let mut report = samples::report();
        for outcome in &mut report.results[..7] {
            (outcome.gap, outcome.gap_noise) = (Some(0.012), Some(0.03));
            (outcome.regained, outcome.regained_to_oracle) = (None, None);
        }
        let text = render(&report);
        assert_eq!(text.matches("within noise").count(), 7, "{text}");
        let line = "NOISE: hs-c: all-fast and interleave differ by 1.2 % ± 3.0 %";
        assert_eq!(text.matches(line).count(), 1, "{text}");
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
        let memory = lines
            .iter()
            .rposition(|line| line.starts_with('─'))
            .unwrap();
        let before = &lines[..memory];
        let at = |start: &str| before.iter().rposition(|line| line.starts_with(start));
        let bound = at("  bound: page-grained 0.45, leaf-grained 0.70, record-grained –");
        assert_eq!(bound, at("timberline").map(|last| last + 1), "{text}");
        assert!(text.contains("\nbound: fraction of accesses"));
    }

    #[test]
    fn nothing_measured_is_said() {
        let text = render(&Report::default());
        assert!(text.ends_with("nothing was measured\n"), "{text}");
    }
}

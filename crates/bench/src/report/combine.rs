//! One report of several processes that ran the same command.
//!
//! Addresses, huge pages and the cores of threads affect speed, and differ from process to process.
//! All rounds of a process share them.

use super::compare::fill_comparisons;
use super::result::{Outcome, median};
use super::side_by_side;
use super::written::Report;

/// Combines the named reports of the same command; `None` of no reports.
///
/// Rounds are joined; rates, latencies and counts per request are medians of the processes; times
/// are summed; peaks are the highest. What has no median (samples, levels, bytes at the end) is of
/// the process with the median throughput. Differences between the reports become notes.
///
/// An outcome that some processes lack, because they were interrupted, has no rounds of theirs.
pub fn combine(names: &[String], reports: Vec<Report>) -> Option<Report> {
    let mut results: Vec<Outcome> = Vec::new();
    for outcome in reports.iter().flat_map(|it| &it.results) {
        if !results.iter().any(|it| side_by_side::same(it, outcome)) {
            let in_report = |report| in_report(report, outcome);
            results.push(combined(&reports.iter().map(in_report).collect::<Vec<_>>()));
        }
    }
    fill_comparisons(&mut results);
    let (first, others) = reports.split_first()?;
    let mut meta = first.meta.clone();
    for (report, name) in others.iter().zip(&names[1..]) {
        meta.calibrations
            .extend_from_slice(&report.meta.calibrations);
        let unlike = side_by_side::differences([first, report]);
        let unlike = unlike
            .iter()
            .map(|line| format!("NOT ALIKE: A {}, B {name}: {line}", names[0]));
        for note in report.meta.notes.iter().cloned().chain(unlike) {
            if !meta.notes.contains(&note) {
                meta.notes.push(note);
            }
        }
    }
    meta.notes
        .push(format!("Rounds of {} processes.", reports.len()));
    Some(Report { meta, results })
}

fn in_report<'a>(report: &'a Report, outcome: &Outcome) -> Option<&'a Outcome> {
    let mut results = report.results.iter();
    results.find(|it| side_by_side::same(it, outcome))
}

/// The outcome of all processes, of which at least one has it.
fn combined(processes: &[Option<&Outcome>]) -> Outcome {
    let mut present: Vec<&Outcome> = processes.iter().flatten().copied().collect();
    let (first, rounds) = (
        present[0],
        present.iter().flat_map(|it| it.rounds.iter().copied()),
    );
    let rounds: Vec<f64> = rounds.collect();
    present.sort_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s));
    let middle = |get: fn(&Outcome) -> f64| {
        let values: Vec<f64> = present.iter().copied().map(get).collect();
        median(&values).expect("a process has it")
    };
    let shares: Vec<f64> = present.iter().filter_map(|it| it.fast_share).collect();
    let max = |get: fn(&Outcome) -> u64| present.iter().copied().map(get).max().unwrap_or(0);
    let rounds_of = |it: &Option<&Outcome>| it.map_or(0, |it| it.rounds.len());
    let mut outcome = Outcome {
        // A reference has the same of both.
        records: first.records,
        fast_budget_ratio: first.fast_budget_ratio,
        process_rounds: processes.iter().map(rounds_of).collect(),
        seconds: present.iter().map(|it| it.seconds).sum(),
        unanswered: present.iter().map(|it| it.unanswered).sum(),
        lines_fast_per_op: middle(|it| it.lines_fast_per_op),
        lines_slow_per_op: middle(|it| it.lines_slow_per_op),
        lines_cached_per_op: middle(|it| it.lines_cached_per_op),
        charged_ns_per_op: middle(|it| it.charged_ns_per_op),
        waited_ns_per_op: middle(|it| it.waited_ns_per_op),
        fast_share: median(&shares),
        worker_cpu_ratio: middle(|it| it.worker_cpu_ratio),
        worker_cores: middle(|it| it.worker_cores),
        ops_per_cpu_s: middle(|it| it.ops_per_cpu_s),
        fast_bytes_peak: max(|it| it.fast_bytes_peak),
        over_budget_bytes: max(|it| it.over_budget_bytes),
        ..present[present.len() / 2].clone()
    };
    outcome.set_rounds(rounds);
    outcome.set_percentiles([
        middle(|it| it.p50_ns as f64) as u64,
        middle(|it| it.p90_ns as f64) as u64,
        middle(|it| it.p99_ns as f64) as u64,
        middle(|it| it.p999_ns as f64) as u64,
    ]);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table;
    use crate::report::tests::samples;

    /// Three processes with speeds of their own; the second one is disturbed.
    fn reports() -> Vec<Report> {
        let of = |factor: f64| {
            let mut report = samples::run(&["hs-c"]);
            for outcome in &mut report.results {
                let rounds = outcome.rounds.iter().map(|it| it * factor).collect();
                outcome.set_rounds(rounds);
                outcome.p50_ns = (outcome.p50_ns as f64 / factor) as u64;
            }
            report
        };
        [1.0, 0.5, 1.1].map(of).into()
    }

    fn together(reports: Vec<Report>) -> Report {
        let names = ["a", "b", "c"].map(String::from);
        combine(&names[..reports.len()], reports).unwrap()
    }

    #[test]
    fn rounds_are_joined_and_compared_within_their_process() {
        let apart = reports();
        let joint = together(apart.clone());
        let (alone, of_all) = (&apart[0].results[6], &joint.results[6]);
        assert_eq!(joint.results.len(), apart[0].results.len());
        assert_eq!(of_all.process_rounds, [6, 6, 6]);
        assert_eq!(of_all.processes()[1], apart[1].results[6].rounds);
        assert_eq!(of_all.p50_ns, alone.p50_ns);
        // The ratio is the same in each process, whatever its speed.
        let [one, all] = [alone, of_all].map(|it| it.ratio_to_interleave.unwrap());
        assert!((one - all).abs() < 1e-9, "{one} {all}");
        assert!(of_all.ratio_to_interleave_low.unwrap() > 1.5);
        let text = table::render(&joint);
        assert!(text.contains("note: Rounds of 3 processes."), "{text}");
    }

    #[test]
    fn an_interrupted_process_gives_what_it_has() {
        let mut apart = reports();
        apart[1].results.remove(6);
        let joint = together(apart);
        assert_eq!(joint.results[6].process_rounds, [6, 0, 6]);
        assert_eq!(joint.results[6].rounds.len(), 12);
        assert_eq!(combine(&[], Vec::new()), None);
    }

    #[test]
    fn reports_of_different_commands_are_told() {
        let mut apart = reports();
        apart[2].meta.seed = 43;
        let notes = together(apart).meta.notes;
        let told = notes
            .iter()
            .any(|it| it == "NOT ALIKE: A a, B c: seed: A 42, B 43");
        assert!(told, "{notes:?}");
    }
}

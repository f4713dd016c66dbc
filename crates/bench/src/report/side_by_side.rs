//! Two reports side by side: ratios of throughput with intervals, and the differences that make
//! them not comparable.
//!
//! Rounds of different runs did not run next to each other, so they can't be paired: the interval
//! of a ratio is as wide as those of both throughputs together ([`Ratio::over`]). The difference
//! between two moments of a machine is in it only if each run had several processes.

use serde_json::Value;

use super::figures;
use super::grid::{Grid, wrapped};
use super::paired::Ratio;
use super::result::Outcome;
use super::written::Report;

/// Base latencies that differ by more are two memories.
const SAME_LATENCY: f64 = 0.05;

/// Both reports as text for a terminal; `names` are those of the files.
///
/// # Errors
/// One line: they have no placement on a workload in common.
pub fn render(names: [&str; 2], reports: [&Report; 2]) -> Result<String, String> {
    let [a, b] = reports.map(|report| &report.results);
    let match_of = |own: &Outcome, others: &[Outcome]| others.iter().position(|it| same(own, it));
    let pairs = a
        .iter()
        .filter_map(|own| Some((own, &b[match_of(own, b)?])));
    let pairs: Vec<(&Outcome, &Outcome)> = pairs.collect();
    if pairs.is_empty() {
        return Err(format!(
            "{} and {} have nothing in common: no placement on the same workload, map, records, threads and budget",
            names[0], names[1]
        ));
    }
    let mut text = format!("A: {}\nB: {}\n\n", names[0], names[1]);
    text += &grid(&pairs);
    text += "\nB ÷ A: the ratio of medians, with a 95 % interval for six rounds or more: > B is\n  ahead, < behind, ~ undecided. A claim needs several processes (--processes).\n";
    for line in differences(reports) {
        text += &wrapped(&format!("NOT ALIKE: {line}"), 2);
    }
    for (name, own, others) in [("A", a, b), ("B", b, a)] {
        for alone in own.iter().filter(|it| match_of(it, others).is_none()) {
            let budget = figures::percent(alone.fast_budget_ratio);
            text += &wrapped(
                &format!(
                    "only in {name}: {} at {budget}, {}",
                    alone.placement,
                    setting(alone)
                ),
                2,
            );
        }
    }
    Ok(text)
}

fn grid(pairs: &[(&Outcome, &Outcome)]) -> String {
    let mut grid = Grid::new([
        (["placement", ""], true),
        (["A", "Mops/s"], false),
        (["B", "Mops/s"], false),
        (["B ÷ A", "median [95 %]"], false),
        (["fast share", "A → B"], false),
        (["p99, µs", "A → B"], false),
    ]);
    let mut last = String::new();
    for (a, b) in pairs {
        let setting = setting(a);
        if setting != last {
            grid.text(setting.clone());
            last = setting;
        }
        let mops = |it: &Outcome| figures::mops_alone(it.ops_per_s);
        let to = |a: String, b: String| format!("{a} → {b}");
        grid.row(vec![
            a.placement.clone(),
            mops(a),
            mops(b),
            ratio(a, b),
            to(figures::share(a.fast_share), figures::share(b.fast_share)),
            to(figures::micros([a.p99_ns]), figures::micros([b.p99_ns])),
        ]);
    }
    grid.render()
}

/// The ratio of throughputs, with its interval.
fn ratio(a: &Outcome, b: &Outcome) -> String {
    let median = (a.ops_per_s > 0.0).then(|| b.ops_per_s / a.ops_per_s);
    let [of_a, of_b] = [a, b].map(|it| Ratio::of(&it.processes()));
    let interval = of_b.zip(of_a).and_then(|(b, a)| b.over(a));
    figures::ratio(median, interval)
}

/// Whether both are one placement in one setting.
pub(super) fn same(a: &Outcome, b: &Outcome) -> bool {
    (&a.placement, setting(a)) == (&b.placement, setting(b))
        && (a.fast_budget_ratio - b.fast_budget_ratio).abs() < 0.005
}

fn setting(it: &Outcome) -> String {
    let records = figures::count(it.records);
    let plural = if it.threads == 1 { "" } else { "s" };
    let (workload, index, threads) = (&it.workload, &it.index, it.threads);
    format!("{workload} · {index} · {records} records · {threads} thread{plural}")
}

/// Differences between the reports that may make their ratios meaningless.
pub(super) fn differences([a, b]: [&Report; 2]) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, a: String, b: String| {
        if a != b {
            found.push(format!("{what}: A {a}, B {b}"));
        }
    };
    let memory = |it: &Report| match it.emulated() {
        true => format!("emulated, {}", it.meta.profile),
        false => "real".into(),
    };
    differ("memory", memory(a), memory(b));
    differ("machine", a.meta.machine.line(), b.meta.machine.line());
    let whole = |it: u64| it.to_string();
    differ("seed", whole(a.meta.seed), whole(b.meta.seed));
    let speed = |it: Option<f64>| it.map_or("closed loop".into(), |it| it.to_string());
    differ("speed of a trace", speed(a.meta.speed), speed(b.meta.speed));
    let [one, other] = [a, b].map(|it| whole(it.meta.schema_version.into()));
    differ("schema", one, other);
    for (name, version) in &a.meta.versions {
        if let Some(other) = b.meta.versions.get(name) {
            differ(name, version.clone(), other.clone());
        }
    }
    if let (Some(a), Some(b)) = (&a.meta.setting, &b.meta.setting) {
        let [a, b] = [a, b].map(|it| serde_json::to_value(it).expect("plain figures"));
        for (name, value) in a.as_object().into_iter().flatten() {
            // Matched one by one, or told above.
            if !["placements", "indexes", "seed", "profile"].contains(&name.as_str()) {
                differ(
                    name,
                    value.to_string(),
                    b.get(name).unwrap_or(&Value::Null).to_string(),
                );
            }
        }
    }
    let (one, other) = (a.meta.base_latency_ns, b.meta.base_latency_ns);
    if (one - other).abs() > SAME_LATENCY * one.min(other) {
        found.push(format!(
            "latency of fast memory: A {one:.0} ns, B {other:.0} ns"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::samples;

    #[test]
    fn ratios_have_intervals_and_differences_have_names() {
        let (a, mut b) = (samples::report(), samples::run(&["hs-c"]));
        for outcome in &mut b.results {
            let rounds = outcome.rounds.iter().map(|it| it * 2.0).collect();
            outcome.set_rounds(rounds);
        }
        b.results.remove(6);
        b.meta.seed = 43;
        b.meta.base_latency_ns = 140.0;
        b.meta.machine.cores = 64;
        let text = render(["a.json", "b.json"], [&a, &b]).unwrap();
        assert!(text.contains("4.70    9.40  2.00 [1.89, 2.11] >"), "{text}");
        for part in [
            "seed: A 42, B 43",
            "machine: A",
            "latency of fast memory: A 92 ns, B 140",
        ] {
            assert!(
                text.contains(&format!("NOT ALIKE: {part}")),
                "{part}: {text}"
            );
        }
        assert!(
            text.contains("only in A: timberline at 20 %, hs-c"),
            "{text}"
        );
        assert!(
            text.contains("only in A: timberline at 20 %, ycsb-a"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert_eq!(text.matches("NOT ALIKE").count(), 3, "{text}");
    }

    #[test]
    fn reports_with_nothing_in_common_are_refused() {
        let [a, b] = [&["hs-c"][..], &["hs-a"]].map(samples::run);
        let line = render(["a", "b"], [&a, &b]).unwrap_err();
        assert!(line.contains("nothing in common") && !line.contains('\n'));
        assert!(!render(["a", "a"], [&a, &a]).unwrap().contains("NOT ALIKE"));
    }
}

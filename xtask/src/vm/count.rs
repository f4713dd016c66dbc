//! `cargo xtask vm --count`: the fraction of a map's cache misses served by fast memory, under our
//! placements and under the kernel's. The plugin counts on a real kernel; beside it stand the
//! emulator's counts of the placements that it knows.

use std::process::Command;

use super::Tools;
use super::guest::Program;
use super::kernel::Release;
use super::machine::Engine;
use super::plugin::{Interval, Plugin};
use super::serial::{Section, Serial};
use super::topology::{MIB, Topology};
use crate::exec;

const WORKLOADS: [&str; 2] = ["hs-c", "ycsb-c"];
const PLACEMENTS: &str = "all-slow,interleave,inner-fast,oracle,sidle,timberline";
/// The modelled cache, as large as the emulator's.
const CACHE: u64 = 1 << 20;
const GUEST: &str = concat!(
    include_str!("guest/bench.sh"),
    include_str!("guest/count.sh")
);
/// The arguments of both runs.
const PLAN: &str = "--records 2M --threads 1 --budget 20%";

/// The counts of one placement.
struct Row {
    name: String,
    interval: Interval,
    fast_bytes: u64,
    /// The emulator's fraction, if it knows the placement.
    emulated: Option<f64>,
}

/// # Errors
/// A machine that can't be run, or counts that can't be right.
pub fn run(tools: &Tools) -> Result<(), String> {
    let folder = tools.folder("count")?;
    let plugin = Plugin::compile(&folder)?;
    let program = Program::build(&tools.root, true, &[])?;
    let mut wrong = Vec::new();
    for workload in WORKLOADS {
        let plan = format!("{PLAN} --seconds 0.5 --warmup 10 --workloads {workload}");
        let script = format!("plan='{plan}'\nplacements={PLACEMENTS}\n{GUEST}");
        let engine = Engine::Counting(plugin.argument(MIB << 20, CACHE));
        let said = tools.boot(
            "count",
            Topology::Hmat,
            Release::New,
            &engine,
            &program,
            &script,
        )?;
        let emulated = emulate(tools, workload)?;
        let mut rows = rows(&Serial::read(&said), &plugin.intervals()?)?;
        for row in &mut rows {
            let of = emulated.part("placement", &row.name);
            row.emulated = of
                .values("fast_share")
                .first()
                .and_then(|share| share.parse().ok());
        }
        println!("{workload}: {PLAN}\n{}", table(&rows));
        wrong.extend(
            nonsense(&rows)
                .into_iter()
                .map(|line| format!("{workload}: {line}")),
        );
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("; ")),
    }
}

/// The same on the emulator, on this machine.
fn emulate(tools: &Tools, workload: &str) -> Result<Section, String> {
    let target = exec::target_dir(&tools.root);
    let json = tools.folder("count")?.join("emulated.json");
    let mut bench = Command::new(target.join("release/timberline"));
    bench
        .args("bench --quiet --base-ns 100 --rounds 1 --seconds 2 --warmup 6".split(' '))
        .args(PLAN.split(' '))
        .args(["--placements", PLACEMENTS, "--workloads", workload])
        .arg("--json")
        .arg(&json)
        .arg("--html")
        .arg(json.with_extension("html"));
    exec::output(bench)?;
    let text =
        std::fs::read_to_string(&json).map_err(|error| format!("{}: {error}", json.display()))?;
    Ok(Section {
        name: "emulated".into(),
        text,
        status: Some(0),
    })
}

/// The intervals are those of the placements in the order in which the guest ran them.
fn rows(serial: &Serial, intervals: &[Interval]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut intervals = intervals.iter();
    for name in ["bound", "none", "autonuma", "damon"] {
        let section = serial.section(name)?;
        if section.status != Some(0) {
            let said = section.text.lines().last().unwrap_or("without a message");
            return Err(format!("`{name}` failed in the guest: {said}"));
        }
        for placement in section.values("placement") {
            let of = section.part("placement", placement);
            let interval = intervals
                .next()
                .ok_or("the plugin counted too few intervals")?;
            rows.push(Row {
                name: if name == "bound" { placement } else { name }.into(),
                interval: *interval,
                fast_bytes: of.numbers("fast_bytes").first().copied().unwrap_or(0),
                emulated: None,
            });
        }
    }
    match intervals.next() {
        None => Ok(rows),
        Some(_) => Err("the plugin counted too many intervals".into()),
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "  {:<12} {:>10} {:>10} {:>10} {:>11} {:>11} {:>9}\n",
        "placement", "accesses", "fast lines", "slow lines", "fast bytes", "fast share", "emulated"
    );
    for row in rows {
        let Interval {
            accesses,
            fast,
            slow,
            ..
        } = row.interval;
        let share = row.interval.fast_share();
        let emulated = row
            .emulated
            .map_or("-".into(), |share| format!("{share:.3}"));
        text.push_str(&format!(
            "  {:<12} {accesses:>10} {fast:>10} {slow:>10} {:>11} {share:>11.3} {emulated:>9}\n",
            row.name, row.fast_bytes
        ));
    }
    let contrary = contrary(rows);
    text.push_str(&match contrary.is_empty() {
        true => "  the ordering of what both know agrees\n".into(),
        false => format!("  the orderings disagree: {}\n", contrary.join("; ")),
    });
    text
}

/// Fractions that differ by less than this count as equal.
const ALIKE: f64 = 0.02;

/// Any two placements of which one is clearly better by one count and clearly worse by the other.
fn contrary(rows: &[Row]) -> Vec<String> {
    let known = |row: &Row| Some((row.name.clone(), row.interval.fast_share(), row.emulated?));
    let known: Vec<_> = rows.iter().filter_map(known).collect();
    let mut pairs = Vec::new();
    for (better, counted, emulated) in &known {
        for (worse, other_counted, other_emulated) in &known {
            if counted - other_counted > ALIKE && other_emulated - emulated > ALIKE {
                pairs.push(format!(
                    "{better} is above {worse} as counted, and below as emulated"
                ));
            }
        }
    }
    pairs
}

/// Findings that are impossible, however good the placements are.
fn nonsense(rows: &[Row]) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in rows {
        let Interval { fast, slow, .. } = row.interval;
        if fast + slow == 0 {
            wrong.push(format!("no line of {} was missing", row.name));
        }
        if matches!(row.name.as_str(), "all-slow" | "none") && fast > 0 {
            wrong.push(format!("{} has {fast} lines from fast memory", row.name));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, fast: u64, slow: u64, emulated: Option<f64>) -> Row {
        let interval = Interval {
            fast,
            slow,
            ..Interval::default()
        };
        Row {
            name: name.into(),
            interval,
            fast_bytes: 0,
            emulated,
        }
    }

    #[test]
    fn orderings_are_of_what_both_know_and_clearly_differs() {
        let agreed = [
            row("a", 1, 9, Some(0.2)),
            row("b", 8, 2, Some(0.9)),
            row("c", 9, 1, None),
        ];
        assert!(contrary(&agreed).is_empty());
        let swapped = [row("a", 1, 9, Some(0.9)), row("b", 8, 2, Some(0.2))];
        assert!(contrary(&swapped)[0].starts_with("b is above a"));
        let alike = [row("a", 50, 50, Some(0.9)), row("b", 51, 49, Some(0.2))];
        assert!(contrary(&alike).is_empty());
    }

    #[test]
    fn what_is_all_slow_has_no_fast_lines() {
        assert!(nonsense(&[row("all-slow", 0, 9, None), row("b", 8, 2, None)]).is_empty());
        assert_eq!(
            nonsense(&[row("none", 1, 9, None), row("b", 0, 0, None)]).len(),
            2
        );
    }
}

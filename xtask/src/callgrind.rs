//! `cargo xtask callgrind`: the cost of heat tracking, in instructions per get; of the [emulator]
//! under each placement, in instructions per line; and of the operations of all [maps].
//!
//! The example `heat_cost` of `crates/bench` runs twice per variant with different numbers of gets;
//! the difference of the two counts, divided by the difference in gets, is free of start-up and
//! loading. Instructions are counted, not timed, so a noisy machine gives the same answer.

mod emulator;
mod maps;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::args::Args;
use crate::{Failure, exec};

/// The first is the reference of the others.
const VARIANTS: [&str; 2] = ["untracked", "tracked"];
const EXAMPLE: &str = "heat_cost";
/// The most that tracking may cost as a ratio to untracked, for the step of the gate.
const BAR: f64 = 1.03;

/// The command: prints the tables, and fails when there is nothing to measure with. Operations of
/// all maps are not compared with anything, so they are counted only if named.
pub fn run(root: &Path, words: &[String]) -> Result<(), Failure> {
    let known = ["--n1 N", "--n2 N", "--max-ratio N"];
    let args = Args::parse("callgrind", words, &known, &["heat", "emulator", "maps"])?;
    let gets = [args.value("--n1", 100_000)?, args.value("--n2", 300_000)?];
    let max_ratio = args.value("--max-ratio", f64::INFINITY)?;
    if gets[0] >= gets[1] {
        let [short, long] = gets;
        let line = format!("--n1 must be below --n2, got {short} and {long}");
        return Err(Failure::Usage(line));
    }
    ensure_valgrind().map_err(Failure::Lacking)?;
    let measure = || {
        if args.chosen("heat") {
            measure_heat(root, gets, max_ratio)?;
        }
        if args.chosen("emulator") {
            emulator::measure(root)?;
        }
        if args.names.iter().any(|name| name == "maps") {
            maps::measure(root)?;
        }
        Ok(())
    };
    measure().map_err(Failure::Check)
}

/// The step of the gate: holds tracking to its bar, and is skipped where valgrind cannot be had.
pub fn step(root: &Path) -> Result<(), Failure> {
    run(root, &["--max-ratio".into(), BAR.to_string()])
}

/// `Ok` if valgrind is installed or could be installed without a password; otherwise the reason.
fn ensure_valgrind() -> Result<(), String> {
    if exec::is_installed("valgrind") {
        return Ok(());
    }
    if !is_root() || !exec::is_installed("apt-get") {
        return Err("valgrind is not installed (and only root with apt-get can install it)".into());
    }
    println!("valgrind is not installed; trying apt-get install -y valgrind");
    let mut install = Command::new("apt-get");
    install
        .args("install -y valgrind".split(' '))
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null());
    match exec::succeed(install) {
        Ok(()) if exec::is_installed("valgrind") => Ok(()),
        Ok(()) => Err("valgrind does not start although apt-get installed it".into()),
        Err(why) => Err(format!("valgrind is not installed and {why}")),
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

fn measure_heat(root: &Path, all_gets: [u64; 2], max_ratio: f64) -> Result<(), String> {
    let (binary, out) = build(root, EXAMPLE)?;
    let mut costs = Vec::new();
    for variant in VARIANTS {
        let cost = cost(&binary, variant, all_gets, &out)?;
        costs.push((variant, cost));
    }
    print!("{}", table(&costs));
    within(max_ratio, &costs)
}

/// Builds an example of `crates/bench`. Returns the program, and a folder for callgrind's files.
fn build(root: &Path, example: &str) -> Result<(PathBuf, PathBuf), String> {
    let build = format!("build --release -p timberline-bench --example {example}");
    exec::succeed(exec::cargo(root, &build))?;
    let examples = exec::target_dir(root).join("release/examples");
    Ok((examples.join(example), exec::folder(root, "callgrind")?))
}

/// Instructions per operation, from a short run and a long one.
fn cost(binary: &Path, variant: &str, numbers: [u64; 2], folder: &Path) -> Result<f64, String> {
    let mut totals = [0; 2];
    for (total, number) in totals.iter_mut().zip(numbers) {
        *total = count(binary, variant, number, folder)?;
    }
    per_operation(numbers, totals).map_err(|why| format!("{variant}: {why}"))
}

/// Instructions of one run, all threads together.
fn count(binary: &Path, variant: &str, gets: u64, folder: &Path) -> Result<u64, String> {
    let file = folder.join(format!("{variant}-{gets}.out"));
    let (text, _) = callgrind(binary, &[variant, &gets.to_string()], &file)?;
    total_of(&text).ok_or_else(|| format!("{}: no line `totals: N`", file.display()))
}

/// Runs a program under callgrind. Returns callgrind's file and the program's output.
fn callgrind(binary: &Path, args: &[&str], file: &Path) -> Result<(String, String), String> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(binary)
        .args(args);
    let printed = exec::output(valgrind)?;
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok((text, printed))
}

/// The count of a callgrind file. `totals:` closes the file and covers all its parts; `summary:`
/// stands in where a version leaves it out.
fn total_of(text: &str) -> Option<u64> {
    let field = |name: &str| {
        let value = |line: &str| {
            let first = line.strip_prefix(name)?.split_whitespace().next()?;
            first.parse().ok()
        };
        text.lines().rev().find_map(value)
    };
    field("totals:").or_else(|| field("summary:"))
}

/// Instructions per operation: the difference of two runs, so that start-up falls out.
fn per_operation([n1, n2]: [u64; 2], [i1, i2]: [u64; 2]) -> Result<f64, String> {
    if i2 <= i1 {
        return Err(format!(
            "{n2} operations took {i2} instructions and {n1} took {i1}: their number has no effect"
        ));
    }
    Ok((i2 - i1) as f64 / (n2 - n1) as f64)
}

fn table(costs: &[(&str, f64)]) -> String {
    let mut text = format!(
        "{:<12} {:>16} {:>20}\n",
        "variant", "instructions/get", "ratio to untracked"
    );
    for (variant, cost) in costs {
        let ratio = cost / costs[0].1;
        writeln!(text, "{variant:<12} {cost:>16.1} {ratio:>20.4}").expect("a string takes it");
    }
    text
}

fn within(bar: f64, costs: &[(&str, f64)]) -> Result<(), String> {
    for (variant, cost) in costs {
        let ratio = cost / costs[0].1;
        if ratio > bar {
            return Err(format!(
                "{variant} takes {ratio:.4} times the instructions of {}, above the bar of {bar}",
                costs[0].0
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_is_longer() {
        let words = ["--n1", "9", "--n2", "9"].map(String::from);
        let refused = run(Path::new("."), &words);
        assert!(matches!(refused, Err(Failure::Usage(_))), "{refused:?}");
    }

    #[test]
    fn totals_are_read_from_a_callgrind_file() {
        let part = "version: 1\nevents: Ir\nsummary: 10\n\nfn=(1) main\n3 7\n";
        assert_eq!(total_of(part), Some(10));
        assert_eq!(total_of(&format!("{part}totals: 12345 6\n")), Some(12345));
        assert_eq!(total_of("version: 1\n"), None);
    }

    #[test]
    fn start_up_falls_out_of_the_difference() {
        assert_eq!(per_operation([100, 300], [5_100, 5_300]), Ok(1.0));
        assert!(per_operation([100, 300], [7, 7]).is_err());
    }

    #[test]
    fn the_table_and_the_bar_use_the_first_variant_as_the_base() {
        let costs = [("untracked", 200.0), ("tracked", 205.0)];
        assert!(table(&costs).contains("1.0250"));
        assert_eq!(within(f64::INFINITY, &costs), Ok(()));
        assert_eq!(within(1.03, &costs), Ok(()));
        let why = within(1.01, &costs).unwrap_err();
        assert!(why.contains("tracked takes 1.0250"), "{why}");
    }
}

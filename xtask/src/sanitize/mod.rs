//! `cargo xtask sanitize`: the tests under AddressSanitizer, ThreadSanitizer and Miri, as far as
//! the toolchain has them, and a bug planted for each, which it has to find.
//!
//! Each has a target folder of its own, as its flags are for every crate. A sanitizer that the
//! toolchain lacks is skipped with the reason, unless it was named.

mod locks;
pub mod toolchain;

use std::path::Path;
use std::process::Command;

use crate::args::Args;
use crate::step::{Outcome, Step, run_all};
use crate::{Failure, exec};
use toolchain::Toolchain;

const ADDRESS: &str = "-Zsanitizer=address --cfg asan";
/// Generic code of the standard library is compiled again with each crate, so that ThreadSanitizer
/// sees it.
const THREAD: &str =
    "-Zsanitizer=thread --cfg tsan -Cunsafe-allow-abi-mismatch=sanitizer -Zshare-generics=no";

/// The crates of the maps, and those below them.
const CRATES: [&str; 4] = ["sync", "tier", "placement", "tree"];
/// Of the maps' tests, those with threads, by parts of their names: ThreadSanitizer sees nothing in
/// others.
const THREADED: [&str; 16] = [
    "threads",
    "meet",
    "churn_gives",
    "no_reader",
    "closure_sees",
    "linearizable",
    "no_increment",
    "every_value_comes_out",
    "standing_records",
    "leaf_that_only_moves",
    "worker",
    "beside",
    "in_no_race",
    "sampled",
    "while_they",
    "memory_stays_bounded",
];

/// Larger nodes take long, and add nothing that reads memory in another way.
const SMALL: &str = "--skip usual::";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Sanitizer {
    Address,
    Thread,
    Miri,
}

const BUGS_ONLY: &str = "--seeded-bugs-only";
const ALL: [Sanitizer; 3] = [Sanitizer::Address, Sanitizer::Thread, Sanitizer::Miri];

pub fn run(root: &Path, words: &[String]) -> Result<(), Failure> {
    let args = Args::parse("sanitize", words, &[BUGS_ONLY], &ALL.map(Sanitizer::name))?;
    let toolchain = Toolchain::ask(root).map_err(Failure::Lacking)?;
    let mut steps = Vec::new();
    for sanitizer in ALL.into_iter().filter(|it| args.chosen(it.name())) {
        let lacking = sanitizer.is_there(root, &toolchain).err();
        if let (Some(why), false) = (&lacking, args.names.is_empty()) {
            return Err(Failure::Lacking(format!("{}: {why}", sanitizer.name())));
        }
        let toolchain = &toolchain;
        let guarded = move |check: fn(Sanitizer, &Path, &Toolchain) -> Result<(), String>| {
            let lacking = lacking.clone();
            move || match lacking {
                Some(why) => Outcome::Skipped(why),
                None => check(sanitizer, root, toolchain).into(),
            }
        };
        if !args.has(BUGS_ONLY) {
            steps.push(Step::new(sanitizer.name(), guarded(Sanitizer::check)));
        }
        if let Some(name) = sanitizer.bug() {
            steps.push(Step::new(name, guarded(Sanitizer::find_bug)));
        }
    }
    let report = run_all(steps);
    report.conclude()
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Sanitizer::Address => "address",
            Sanitizer::Thread => "thread",
            Sanitizer::Miri => "miri",
        }
    }

    /// The step that plants a bug, if there is one.
    fn bug(self) -> Option<&'static str> {
        match self {
            Sanitizer::Address => Some("address: bug"),
            Sanitizer::Thread => Some("thread: bug"),
            Sanitizer::Miri => None,
        }
    }

    /// Its output about the planted bug.
    fn says(self) -> &'static str {
        match self {
            Sanitizer::Address => "AddressSanitizer: use-after-poison",
            Sanitizer::Thread => "ThreadSanitizer: data race",
            Sanitizer::Miri => "Undefined Behavior",
        }
    }

    fn is_there(self, root: &Path, toolchain: &Toolchain) -> Result<(), String> {
        match self {
            Sanitizer::Address => toolchain.has_runtime("asan"),
            Sanitizer::Thread => toolchain.has_runtime("tsan"),
            Sanitizer::Miri => match exec::cargo(root, "miri --version").output() {
                Ok(out) if out.status.success() => Ok(()),
                _ => Err(
                    "this toolchain has no Miri; a nightly one may (`rustup component add miri`)"
                        .into(),
                ),
            },
        }
    }

    fn cargo(self, root: &Path, toolchain: &Toolchain, args: &str) -> Result<Command, String> {
        // Traces of panics that tests ask for come from code that is not instrumented.
        let passed_over = |list: &str| {
            let list = root.join("xtask/src/sanitize").join(list);
            // Suppressed reports are listed at the end.
            format!("suppressions={} print_suppressions=1", list.display())
        };
        let mut command = match self {
            Sanitizer::Address => {
                let mut command = toolchain.cargo(root, "asan", ADDRESS, args);
                command.env("LSAN_OPTIONS", passed_over("leak.supp"));
                command
            }
            Sanitizer::Thread => {
                let flags = format!("{THREAD} {}", locks::flags(root, toolchain)?);
                let mut command = toolchain.cargo(root, "tsan", &flags, args);
                command.env("TSAN_OPTIONS", passed_over("thread.supp"));
                command
            }
            Sanitizer::Miri => exec::cargo(root, &format!("miri {args}")),
        };
        command.env("RUST_BACKTRACE", "0");
        Ok(command)
    }

    fn check(self, root: &Path, toolchain: &Toolchain) -> Result<(), String> {
        let test = |args: &str| exec::succeed(self.cargo(root, toolchain, args)?);
        let packages = |names: &[&str]| {
            let named: Vec<_> = names
                .iter()
                .map(|name| format!("-p timberline-{name}"))
                .collect();
            named.join(" ")
        };
        match self {
            Sanitizer::Address => test(&format!(
                "test {} -p timberline -p timberline-bench --lib --tests --no-fail-fast -- {SMALL}",
                packages(&CRATES)
            )),
            Sanitizer::Thread => {
                let below = packages(&CRATES[..3]);
                test(&format!("test {below} --lib --tests --no-fail-fast"))?;
                let threaded = THREADED.join(" ");
                test(&format!(
                    "test -p timberline-tree --test btree --test art --test masstree -- {threaded} {SMALL}"
                ))
            }
            Sanitizer::Miri => test("test -p timberline-sync --lib"),
        }
    }

    /// Runs the tests with a planted bug, and fails unless it is found.
    fn find_bug(self, root: &Path, toolchain: &Toolchain) -> Result<(), String> {
        let args =
            "test -p timberline-tree --features seeded-bugs --test freed_at_once -- --ignored";
        let run = exec::ended(&mut self.cargo(root, toolchain, args)?)?;
        let said = String::from_utf8_lossy(&run.stderr) + String::from_utf8_lossy(&run.stdout);
        match said.lines().find(|line| line.contains(self.says())) {
            Some(line) => {
                println!("found: {line}");
                Ok(())
            }
            None => Err(format!("the planted bug was not found, but:\n{said}")),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_suppressed_race_has_a_reason_above_it() {
        let file = crate::root().join("xtask/src/sanitize/thread.supp");
        let text = std::fs::read_to_string(file).unwrap();
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let known = line.is_empty() || line.starts_with('#') || line.starts_with("race:");
            assert!(known, "{line}");
            let above = at.checked_sub(1).map_or("", |above| lines[above]);
            assert!(
                !line.starts_with("race:") || above.starts_with('#'),
                "{line}"
            );
        }
    }
}

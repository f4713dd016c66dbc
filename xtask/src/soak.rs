//! `cargo xtask soak`: every test over many seeds and in the circumstances that tests tend to
//! depend on.
//!
//! For each seed, each test binary runs all its tests at once: on all cores, on one core, beside
//! busy loops, and with each narrower SIMD search. Then each test runs alone in a process of its
//! own, in one of these settings in turn.
//!
//! Invariants: the binaries that `cargo test` builds are run as cargo runs them, in their package's
//! folder. Every failure is printed with the command that repeats it. Nothing stops the other runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::args::Args;
use crate::binaries::{self, Binary};
use crate::{Failure, exec};

/// A run that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(1800);
/// Busy loops in the setting with a load.
const LOAD: usize = 4;

/// The flags of the command line.
pub const FLAGS: [&str; 4] = ["--seeds N", "--first N", "--binary N", "--test N"];

/// What surrounds a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    name: &'static str,
    one_core: bool,
    loaded: bool,
    /// The widest SIMD search allowed; `None`: whatever the CPU has.
    simd: Option<&'static str>,
}

const fn setting(
    name: &'static str,
    one_core: bool,
    loaded: bool,
    simd: Option<&'static str>,
) -> Setting {
    Setting {
        name,
        one_core,
        loaded,
        simd,
    }
}

const SETTINGS: [Setting; 5] = [
    setting("plain", false, false, None),
    setting("on one core", true, false, None),
    setting("beside a load", false, true, None),
    setting("with scalar search", false, false, Some("scalar")),
    setting("with AVX2 search", false, false, Some("avx2")),
];

pub fn run(root: &Path, args: &Args) -> Result<(), Failure> {
    let (seeds, first) = (args.value("--seeds", 10)?, args.value("--first", 1u64)?);
    let [only_binary, only_test] =
        ["--binary", "--test"].map(|flag| args.value(flag, String::new()));
    let (only_binary, only_test) = (only_binary?, only_test?);
    if !exec::is_installed("taskset") {
        let why = "taskset (Debian's util-linux) is not installed";
        return Err(Failure::Lacking(why.into()));
    }
    let log = exec::folder(root, "soak").map_err(Failure::Lacking)?;
    let mut binaries = binaries::build(root).map_err(Failure::Check)?;
    binaries.retain(|binary| binary.name().contains(&only_binary));
    let soak = Soak {
        log: log.join("output.log"),
        test: only_test,
    };
    let (mut runs, mut failed) = (0, 0);
    for seed in first..first.saturating_add(seeds) {
        for (at, binary) in binaries.iter().enumerate() {
            let tests = binary.tests(&soak.test).map_err(Failure::Check)?;
            if tests.is_empty() {
                continue;
            }
            println!("seed {seed}: {} with {} tests", binary.name(), tests.len());
            for setting in SETTINGS {
                runs += 1;
                failed += usize::from(!soak.passes(binary, None, setting, seed));
            }
            let setting = SETTINGS[(seed as usize + at) % SETTINGS.len()];
            for test in &tests {
                runs += 1;
                failed += usize::from(!soak.passes(binary, Some(test), setting, seed));
            }
        }
    }
    println!("{runs} runs, {failed} failed");
    match failed {
        0 => Ok(()),
        _ => Err(Failure::Reported),
    }
}

struct Soak {
    log: PathBuf,
    /// Only tests whose path contains this.
    test: String,
}

impl Soak {
    /// Runs one test alone, or all together; prints a failure and how to repeat it.
    fn passes(&self, binary: &Binary, alone: Option<&str>, setting: Setting, seed: u64) -> bool {
        let mut command = command(binary, setting, seed);
        match alone {
            Some(test) => command.args(["--exact", test]),
            None if self.test.is_empty() => &mut command,
            None => command.arg(&self.test),
        };
        let shown = format!(
            "(cd {} && {})",
            binary.folder.display(),
            exec::show(&command)
        );
        let outcome = beside(setting.loaded, || self.outcome(command));
        let Err(why) = outcome else { return true };
        let what = alone.unwrap_or("all together");
        println!(
            "FAILED {}, {what}, {}, seed {seed}: {why}",
            binary.name(),
            setting.name
        );
        println!("  {shown}");
        let output = fs::read(&self.log).unwrap_or_default();
        for line in complaints(&String::from_utf8_lossy(&output)) {
            println!("  {line}");
        }
        false
    }

    fn outcome(&self, mut command: Command) -> Result<(), String> {
        let mut run = || {
            let file = File::create(&self.log)?;
            command
                .stdin(Stdio::null())
                .stderr(file.try_clone()?)
                .stdout(file);
            exec::wait(command.spawn()?, LIMIT)
        };
        match run() {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(status.to_string()),
            Ok(None) => Err(format!("stopped after {} s", LIMIT.as_secs())),
            Err(error) => Err(format!("could not be run: {error}")),
        }
    }
}

/// Runs `work` while threads keep the cores busy, if `loaded`.
fn beside<R>(loaded: bool, work: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..if loaded { LOAD } else { 0 } {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        done.store(true, Relaxed);
        result
    })
}

/// What a test binary printed about its failures: which tests, and why.
fn complaints(output: &str) -> Vec<&str> {
    let mut lines = output.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.contains("panicked at") {
            found.push(line);
            found.extend(lines.next_if(|next| !next.starts_with("stack backtrace")));
        } else if line.starts_with("test ") && line.ends_with("FAILED") {
            found.push(line);
        }
    }
    found
}

/// Runs a binary in a setting, with a seed.
fn command(binary: &Binary, setting: Setting, seed: u64) -> Command {
    let mut command = match setting.one_core {
        true => {
            let mut taskset = binary.command_by("taskset");
            taskset.args(["--cpu-list", "0"]).arg(&binary.program);
            taskset
        }
        false => binary.command(),
    };
    command.env("TIMBERLINE_SEED", seed.to_string());
    if let Some(simd) = setting.simd {
        command.env("TIMBERLINE_SIMD", simd);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_in_the_command_that_repeats_a_failure() {
        let (program, folder) = ("/t/art-0a1b".into(), "/r/crates/tree".into());
        let binary = Binary { program, folder };
        let shown = SETTINGS.map(|setting| exec::show(&command(&binary, setting, 7)));
        let expected = [
            "TIMBERLINE_SEED=\"7\" /t/art-0a1b",
            "TIMBERLINE_SEED=\"7\" taskset --cpu-list 0 /t/art-0a1b",
            "TIMBERLINE_SEED=\"7\" /t/art-0a1b",
            "TIMBERLINE_SEED=\"7\" TIMBERLINE_SIMD=\"scalar\" /t/art-0a1b",
            "TIMBERLINE_SEED=\"7\" TIMBERLINE_SIMD=\"avx2\" /t/art-0a1b",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_failure_is_shown_by_what_the_test_said() {
        let output = "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\n---- a::c stdout ----\n\
                      thread 'a::c' panicked at tests/a.rs:3:5:\n3 bytes\nstack backtrace:\n  0: x\n";
        let expected = [
            "test a::c ... FAILED",
            "thread 'a::c' panicked at tests/a.rs:3:5:",
            "3 bytes",
        ];
        assert_eq!(complaints(output), expected);
    }
}

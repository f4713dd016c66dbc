//! `cargo xtask fuzz`: libFuzzer looks for bytes that break a map or a parser. The targets are in
//! `fuzz/`, which works with cargo-fuzz too but does not need it.
//!
//! Targets are built with AddressSanitizer, so that reads of freed memory are found as well as
//! wrong answers. The corpus is kept in the target folder; the next run starts from it and from
//! `fuzz/seeds`.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::args::Args;
use crate::sanitize::toolchain::Toolchain;
use crate::{Failure, exec};

/// The compiler flags of cargo-fuzz: AddressSanitizer, and the coverage counters and traced
/// comparisons that libFuzzer needs.
const FLAGS: &str = "-Zsanitizer=address --cfg asan --cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";
/// Seconds a target by default.
const SECONDS: NonZeroU64 = NonZeroU64::new(10).unwrap();
/// Bugs for targets to find, the targets that do, and the seconds it may take.
const PLANTED: [(&str, &str, u64); 2] = [
    ("LastLeftBehind", "btree_words", 120),
    ("EmptyLeafEntered", "masstree_bytes", 120),
];

/// The targets, by their files.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let stem = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_string());
    let mut names: Vec<_> = entries
        .filter_map(|entry| stem(entry.ok()?.path()))
        .collect();
    names.sort();
    Ok(names)
}

pub fn run(root: &Path, words: &[String]) -> Result<(), Failure> {
    let targets = targets(root).map_err(Failure::Check)?;
    let args = Args::parse(
        "fuzz",
        words,
        &["--seconds N", "--seeded-bug-only"],
        &targets,
    )?;
    let seconds: NonZeroU64 = args.value("--seconds", SECONDS)?;
    let toolchain = Toolchain::ask(root).map_err(Failure::Lacking)?;
    toolchain.has_runtime("asan").map_err(Failure::Lacking)?;
    if !exec::is_installed("c++") {
        let line = "libFuzzer is compiled from C++, and there is no `c++`";
        return Err(Failure::Lacking(line.into()));
    }
    let fuzzer = Fuzzer { root, toolchain };
    if !args.has("--seeded-bug-only") {
        fuzzer.build("").map_err(Failure::Check)?;
        for target in targets.iter().filter(|target| args.chosen(target)) {
            let looked = fuzzer.look(target, seconds.get());
            looked.map_err(Failure::Check)?;
        }
    }
    let mut planted = PLANTED.into_iter();
    let found = planted.try_for_each(|bug| fuzzer.find(bug));
    found.map_err(Failure::Check)
}

struct Fuzzer<'a> {
    root: &'a Path,
    toolchain: Toolchain,
}

impl Fuzzer<'_> {
    fn build(&self, more: &str) -> Result<(), String> {
        let args = format!("build --manifest-path fuzz/Cargo.toml {more}");
        exec::succeed(self.toolchain.cargo(self.root, "fuzz", FLAGS, &args))
    }

    /// Fuzzes for the given time. A find is an error that names the input.
    fn look(&self, target: &str, seconds: u64) -> Result<(), String> {
        let corpus = self.folder("corpus", target)?;
        let mut command = self.command(target, seconds)?;
        command.arg(corpus);
        let seeds = self.root.join("fuzz/seeds").join(target);
        if seeds.is_dir() {
            command.arg(seeds);
        }
        let ran = exec::ended(&mut command)?;
        let said = String::from_utf8_lossy(&ran.stderr);
        if !ran.status.success() {
            let told = told_of(&said);
            return Err(format!("{said}\n{target}: {told}"));
        }
        let last = |mark: &str| said.lines().rfind(|line| line.contains(mark));
        let runs = last("Done ").unwrap_or("no run was counted");
        let covers = last("cov: ").and_then(|line| line.split("cov: ").nth(1));
        let covered = covers
            .and_then(|rest| rest.split(' ').next())
            .unwrap_or("?");
        println!("{target}: nothing found. {runs}; {covered} edges covered");
        Ok(())
    }

    /// Plants a bug, and fails unless it is found from an empty corpus.
    fn find(&self, (bug, target, seconds): (&str, &str, u64)) -> Result<(), String> {
        self.build(&format!("--features seeded-bugs --bin {target}"))?;
        let mut command = self.command(target, seconds)?;
        command.env("TIMBERLINE_PLANT", bug).stdout(Stdio::null());
        let ran = exec::ended(&mut command)?;
        let said = String::from_utf8_lossy(&ran.stderr);
        if ran.status.success() {
            return Err(format!("{target}: {bug} was not found in {seconds} s"));
        }
        println!("{target}: {bug} was planted and found: {}", told_of(&said));
        Ok(())
    }

    fn command(&self, target: &str, seconds: u64) -> Result<Command, String> {
        let built = exec::target_dir(self.root)
            .join("fuzz")
            .join(&self.toolchain.host);
        let mut command = Command::new(built.join("debug").join(target));
        let finds = self.folder("finds", target)?;
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", finds.display()))
            // An input is as long as it may be from the beginning: short lists of operations make
            // no tree.
            .args([
                "-max_len=2048",
                "-len_control=0",
                "-timeout=60",
                "-rss_limit_mb=4096",
            ])
            // Memory that waits for its epoch looks like a leak.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("RUST_BACKTRACE", "0");
        Ok(command)
    }

    fn folder(&self, what: &str, target: &str) -> Result<PathBuf, String> {
        exec::folder(self.root, &format!("fuzz/{what}/{target}"))
    }
}

/// The message about a find, and the path of its input.
fn told_of(said: &str) -> String {
    let lines = || said.lines().map(str::trim);
    let panic = lines().position(|line| line.contains("panicked at"));
    let why = match panic {
        Some(at) => lines().nth(at + 1),
        None => lines().find(|line| line.contains("ERROR: ")),
    };
    let input = lines().find_map(|line| line.split("Test unit written to ").nth(1));
    let why = why.unwrap_or("it ended without a reason");
    match input {
        Some(input) => format!("{why}; the input is {input}"),
        None => why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_a_file_and_others_are_refused() {
        let all = targets(&crate::root()).unwrap();
        let finds = |(_, target, _): (&str, &str, u64)| all.contains(&target.to_string());
        assert!(PLANTED.into_iter().all(finds), "{all:?}");
        let manifest = fs::read_to_string(crate::root().join("fuzz/Cargo.toml")).unwrap();
        for target in &all {
            assert!(
                manifest.contains(&format!("name = \"{target}\"")),
                "{target}"
            );
        }
        let refused = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(ToString::to_string).collect();
            match run(&crate::root(), &words) {
                Err(Failure::Usage(line)) => line,
                other => panic!("{other:?}"),
            }
        };
        assert!(refused(&["nothing"]).contains("--seeded-bug-only, art_bytes"));
        assert!(refused(&["--seconds", "0"]).contains("`0`"));
    }

    #[test]
    fn a_find_is_told_in_one_line() {
        let said = "INFO: x\nthread '<unnamed>' panicked at a.rs:1:2:\n7 was lost\nnote: y\n\
                    artifact_prefix='z'; Test unit written to z/crash-1\n";
        assert_eq!(told_of(said), "7 was lost; the input is z/crash-1");
        let said = "==1==ERROR: AddressSanitizer: use-after-poison on address 0\n";
        assert!(told_of(said).contains("use-after-poison"));
    }
}

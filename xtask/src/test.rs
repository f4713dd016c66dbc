//! `cargo xtask test`: the checks that must pass before a change goes in.
//!
//! Invariants: cheap checks come first. Without `--all`, the steps need Rust and git only, and
//! fetch nothing but crates. With it, a step that needs a program this machine lacks is skipped and
//! says why.

use std::path::Path;

use crate::step::{Step, run_all};
use crate::{Failure, browser, callgrind, exec, model, tidy, vm};

/// The package that the gate never compiles: it depends on many other maps.
const PEERS: &str = "bench-peers";

/// Why a step is skipped without `--all`.
const ON_REQUEST: &str = "runs with --all";

/// The command line's options.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// Every step, also those that build the crates again or start other programs.
    all: bool,
    /// Also count instructions: a release build and four runs under valgrind.
    callgrind: bool,
}

impl Options {
    pub fn parse(flags: &[String]) -> Result<Self, Failure> {
        let mut options = Options::default();
        for flag in flags {
            match flag.as_str() {
                "--all" => options.all = true,
                "--callgrind" => options.callgrind = true,
                other => {
                    let line =
                        format!("test does not know `{other}`; it takes --all and --callgrind");
                    return Err(Failure::Usage(line));
                }
            }
        }
        Ok(options)
    }
}

pub fn run(root: &Path, options: Options) -> Result<(), Failure> {
    run_all(steps(root, options)).conclude()
}

/// Checks the package that the gate leaves out.
pub fn peers(root: &Path) -> Result<(), Failure> {
    let cargo = |args: &[&str]| exec::succeed(exec::cargo(root, args)).map_err(Failure::Check);
    let lints = ["--all-targets", "--", "-D", "warnings"];
    cargo(&[&["clippy", "-p", PEERS], &lints[..]].concat())?;
    cargo(&["test", "-p", PEERS])
}

/// Lets shuttle choose interleavings, seeds bugs, and requires the checks to find them.
pub fn seeded(root: &Path) -> Result<(), Failure> {
    find_seeded_bugs(root).map_err(Failure::Check)
}

/// The features stay out of every other step: cargo unifies features of crates built together.
fn find_seeded_bugs(root: &Path) -> Result<(), String> {
    let cargo = |args: &[&str]| exec::succeed(exec::cargo(root, args));
    let with = ["-p", "timberline-tree", "--features", "shuttle,seeded-bugs"];
    let finders = ["mistakes", "interleavings", "emptied"].map(|test| ["--test", test]);
    let finders = finders.concat();
    let faults = ["--test", "faults"];
    let lints = ["--", "-D", "warnings"];
    cargo(&[&["clippy"], &with[..], &finders, &faults, &lints].concat())?;
    cargo(&[&["test"], &with[..], &finders].concat())?;
    // The `tests` step has run the others.
    cargo(&[&["test"], &with[..], &faults, &["seeded::"]].concat())
}

fn steps(root: &Path, Options { all, callgrind }: Options) -> Vec<Step<'_>> {
    let cargo = move |args: &str| {
        let args: Vec<_> = args.split(' ').collect();
        exec::succeed(exec::cargo(root, &args))
    };
    let crates = format!("--workspace --exclude {PEERS}");
    let clippy = format!("clippy {crates} --all-targets -- -D warnings");
    let tests = format!("test {crates} --no-fail-fast");
    let docs = format!("doc {crates} --no-deps");
    vec![
        Step::new("fmt", move || cargo("fmt --all --check")),
        Step::new("clippy", move || cargo(&clippy)),
        Step::new("tidy", move || tidy::run(root)),
        Step::new("tests", move || cargo(&tests)),
        Step::new("docs", move || {
            let mut doc = exec::cargo(root, &docs.split(' ').collect::<Vec<_>>());
            exec::add_flags(&mut doc, "RUSTDOCFLAGS", "-D warnings");
            exec::succeed(doc)
        }),
        Step::new("seeded", move || find_seeded_bugs(root)).only_if(all, ON_REQUEST),
        Step::new("loom", move || loom(root)).only_if(all, ON_REQUEST),
        Step::new("callgrind", move || callgrind::step(root)).only_if(
            callgrind,
            "runs with --callgrind, or as `cargo xtask callgrind`",
        ),
        Step::new("browser", move || browser::step(root)).only_if(all, ON_REQUEST),
        Step::new("model", move || model::step(root)).only_if(all, ON_REQUEST),
        Step::new("vm", move || vm::step(root)).only_if(all, ON_REQUEST),
    ]
}

/// The models of the lock and the epoch, with loom's atomics in place of the real ones.
///
/// They have a target folder of their own: the `loom` cfg is a compiler flag for every crate, so
/// sharing a folder would rebuild all of them each time. Release, because loom walks every
/// interleaving.
fn loom(root: &Path) -> Result<(), String> {
    let args = ["test", "-p", "timberline-sync", "--release", "--lib"];
    let mut models = exec::cargo(root, &args);
    models
        .arg("--target-dir")
        .arg(exec::target_dir(root).join("loom"));
    exec::add_flags(&mut models, "RUSTFLAGS", "--cfg loom");
    exec::succeed(models)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Outcome;

    #[test]
    fn steps_that_need_more_than_cargo_run_on_request() {
        let steps = |all| {
            let callgrind = all;
            steps(Path::new("."), Options { all, callgrind }).into_iter()
        };
        let names: Vec<_> = steps(true).map(|step| step.name).collect();
        let (plain, on_request) = names.split_at(5);
        assert_eq!(plain, ["fmt", "clippy", "tidy", "tests", "docs"]);
        assert_eq!(
            on_request,
            ["seeded", "loom", "callgrind", "browser", "model", "vm"]
        );
        for step in steps(false).skip(5) {
            assert!(
                matches!((step.action)(), Outcome::Skipped(why) if why.starts_with("runs with --"))
            );
        }
    }

    #[test]
    fn flags() {
        assert_eq!(Options::parse(&[]), Ok(Options::default()));
        let asked = Options::parse(&["--all".to_string(), "--callgrind".to_string()]);
        let (all, callgrind) = (true, true);
        assert_eq!(asked, Ok(Options { all, callgrind }));
        assert!(Options::parse(&["--slow".to_string()]).is_err());
    }
}

//! `cargo xtask test`: everything that has to hold before a change goes in.
//!
//! Invariants: cheap checks come first; nothing is downloaded once the dependencies, the model's checker, a browser, QEMU and
//! the virtual machine's kernel are there; whatever this machine lacks is skipped with its reason, never failed.

use std::path::Path;

use crate::step::{Outcome, Step, run_all};
use crate::{Failure, browser, callgrind, exec, model, tidy, vm};

/// The one package that the gate never compiles: it depends on everybody else's maps.
const PEERS: &str = "bench-peers";

/// What the command line asked for.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// Also count instructions: a release build and four runs under valgrind, so only on request.
    callgrind: bool,
}

impl Options {
    pub fn parse(flags: &[String]) -> Result<Self, Failure> {
        let mut options = Options::default();
        for flag in flags {
            match flag.as_str() {
                "--callgrind" => options.callgrind = true,
                other => {
                    let line = format!("test does not know `{other}`; it takes --callgrind");
                    return Err(Failure::Usage(line));
                }
            }
        }
        Ok(options)
    }
}

pub fn run(root: &Path, options: Options) -> Result<(), Failure> {
    let report = run_all(steps(root, options));
    println!("== summary\n{report}");
    match report.failed() {
        None => Ok(()),
        Some(_) => Err(Failure::Reported),
    }
}

/// Checks the package that the gate leaves out.
pub fn peers(root: &Path) -> Result<(), Failure> {
    let cargo = |args: &[&str]| exec::succeed(exec::cargo(root, args)).map_err(Failure::Check);
    let lints = ["--all-targets", "--", "-D", "warnings"];
    cargo(&[&["clippy", "-p", PEERS], &lints[..]].concat())?;
    cargo(&["test", "-p", PEERS])
}

/// Lets shuttle choose interleavings, plants bugs, and has the checks find these.
pub fn seeded(root: &Path) -> Result<(), Failure> {
    find_seeded_bugs(root).map_err(Failure::Check)
}

/// The features stay out of every other step: with all crates built at once, they would be on for all of them.
fn find_seeded_bugs(root: &Path) -> Result<(), String> {
    let cargo = |args: &[&str]| exec::succeed(exec::cargo(root, args));
    let with = ["-p", "timberline-tree", "--features", "shuttle,seeded-bugs"];
    let finders = ["--test", "mistakes", "--test", "interleavings"];
    let faults = ["--test", "faults"];
    let lints = ["--", "-D", "warnings"];
    cargo(&[&["clippy"], &with[..], &finders, &faults, &lints].concat())?;
    cargo(&[&["test"], &with[..], &finders].concat())?;
    // Without bugs these ran among the other tests.
    cargo(&[&["test"], &with[..], &faults, &["seeded::"]].concat())
}

fn steps(root: &Path, options: Options) -> Vec<Step<'_>> {
    let cargo = move |args: &[&str]| exec::succeed(exec::cargo(root, args));
    vec![
        Step::new("fmt", move || cargo(&["fmt", "--all", "--check"])),
        Step::new("clippy", move || {
            let args = format!("clippy --workspace --exclude {PEERS} --all-targets -- -D warnings");
            cargo(&args.split(' ').collect::<Vec<_>>())
        }),
        Step::new("tidy", move || tidy::run(root)),
        Step::new("tests", move || {
            cargo(&["test", "--workspace", "--exclude", PEERS])
        }),
        Step::new("seeded", move || find_seeded_bugs(root)),
        Step::new("docs", move || {
            let mut doc = exec::cargo(
                root,
                &["doc", "--workspace", "--exclude", PEERS, "--no-deps"],
            );
            exec::add_flags(&mut doc, "RUSTDOCFLAGS", "-D warnings");
            exec::succeed(doc)
        }),
        Step::new("loom", move || loom(root)),
        Step::new("callgrind", move || match options.callgrind {
            true => callgrind::step(root),
            false => Outcome::Skipped(
                "it is a command of its own: `cargo xtask callgrind`, or add --callgrind".into(),
            ),
        }),
        Step::new("browser", move || browser::step(root)),
        Step::new("model", move || model::step(root)),
        Step::new("vm", move || vm::step(root)),
    ]
}

/// The models of the lock and the epoch, with the atomics of loom in place of the real ones.
///
/// They have a target folder of their own: the `loom` cfg is a compiler flag for every crate, and
/// sharing a folder would rebuild all of them on each change of direction. Release, because loom
/// walks every interleaving.
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

    #[test]
    fn steps_come_cheapest_first_and_callgrind_only_on_request() {
        let mut steps = steps(Path::new("."), Options::default());
        let names: Vec<_> = steps.iter().map(|step| step.name).collect();
        let expected = [
            "fmt",
            "clippy",
            "tidy",
            "tests",
            "seeded",
            "docs",
            "loom",
            "callgrind",
            "browser",
            "model",
            "vm",
        ];
        assert_eq!(names, expected);
        let callgrind = steps.swap_remove(expected.len() - 4);
        assert_eq!(callgrind.name, "callgrind");
        assert!(
            matches!((callgrind.action)(), Outcome::Skipped(why) if why.contains("--callgrind"))
        );
    }

    #[test]
    fn flags() {
        assert_eq!(Options::parse(&[]), Ok(Options { callgrind: false }));
        let asked = Options::parse(&["--callgrind".to_string()]);
        assert_eq!(asked, Ok(Options { callgrind: true }));
        assert!(Options::parse(&["--slow".to_string()]).is_err());
    }
}

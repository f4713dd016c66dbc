//! `cargo xtask test`: the checks that must pass before a change goes in.
//!
//! Invariants: cheap checks come first. Without `--all`, the steps need Rust and git only, and
//! fetch nothing but crates. With it, a step that needs a program this machine lacks is skipped and
//! says why, and the models are checked beside all other steps, since they need nothing of cargo.

use std::path::Path;

use crate::args::Args;
use crate::beside::{self, Beside};
use crate::exec::CRATES;
use crate::step::{Step, run_all};
use crate::{
    Failure, aarch64, answers, binaries, browser, callgrind, etcd, exec, model, optional, package,
    tidy, vm,
};

/// The package that the gate never compiles: it depends on many other maps.
const PEERS: &str = "bench-peers";

/// Every target with tests. Not the examples, which `cargo test` builds otherwise: clippy checks
/// them, and `timberline`'s own are modules of a test. To compile them took a tenth of the tests'
/// time.
pub const TESTS: &str = "--lib --bins --tests";

/// Why a step is skipped without `--all`.
const ON_REQUEST: &str = "runs with --all";

pub fn run(root: &Path, args: &Args) -> Result<(), Failure> {
    let all = args.has("--all");
    let models = all.then(|| beside::begin(&["model", model::SHORT]));
    let models = models.transpose().map_err(Failure::Check)?;
    run_all(steps(root, models, all, args.has("--callgrind"))).conclude()
}

/// Checks the package that the gate leaves out.
pub fn peers(root: &Path) -> Result<(), Failure> {
    let cargo = |args: &str| exec::succeed(exec::cargo(root, args)).map_err(Failure::Check);
    cargo(&format!("clippy -p {PEERS} --all-targets -- -D warnings"))?;
    cargo(&format!("test -p {PEERS}"))
}

/// Lets shuttle choose interleavings, seeds bugs, and requires the checks to find them.
///
/// The features stay out of every other step: cargo unifies features of crates built together.
pub fn seeded(root: &Path) -> Result<(), String> {
    let cargo = |args: &str| exec::succeed(exec::cargo(root, args));
    let features = "timberline-tree/shuttle,timberline-tree/seeded-bugs";
    let tests = "--test mistakes --test interleavings --test emptied --test faults";
    let with = format!("{CRATES} --features {features} {tests}");
    cargo(&format!("clippy {with} -- -D warnings"))?;
    cargo(&format!("test {with}"))
}

fn steps(root: &Path, models: Option<Beside>, all: bool, callgrind: bool) -> Vec<Step<'_>> {
    let cargo = move |args: &str| exec::succeed(exec::cargo(root, args));
    let clippy = format!("clippy {CRATES} --all-targets -- -D warnings");
    let doctests = format!("test {CRATES} --doc --no-fail-fast");
    let docs = format!("doc {CRATES} --no-deps");
    vec![
        Step::new("fmt", move || cargo("fmt --all --check")),
        Step::new("clippy", move || cargo(&clippy)),
        Step::new("tidy", move || tidy::run(root)),
        Step::new("tests", move || binaries::build_and_run(root)),
        Step::new("doctests", move || cargo(&doctests)),
        Step::new("docs", move || {
            let mut doc = exec::cargo(root, &docs);
            exec::add_flags(&mut doc, "RUSTDOCFLAGS", "-D warnings");
            exec::succeed(doc)
        }),
        Step::new("package", move || package::archives(root)),
        Step::new("features", move || package::features(root)).only_if(all, ON_REQUEST),
        Step::new("msrv", move || package::msrv(root)).only_if(all, ON_REQUEST),
        Step::new("aarch64", move || package::aarch64(root)).only_if(all, ON_REQUEST),
        Step::new("emulated", move || aarch64::run(root)).only_if(all, ON_REQUEST),
        Step::new("seeded", move || seeded(root)).only_if(all, ON_REQUEST),
        Step::new("loom", move || loom(root)).only_if(all, ON_REQUEST),
        Step::new("callgrind", move || callgrind::step(root)).only_if(
            callgrind,
            "runs with --callgrind, or as `cargo xtask callgrind`",
        ),
        Step::new("answers", move || answers::run(root)).only_if(all, ON_REQUEST),
        Step::new("etcd", move || etcd::run(root)).only_if(all, ON_REQUEST),
        Step::new("optional", move || optional::run(root, &[])).only_if(all, ON_REQUEST),
        Step::new("browser", move || browser::run(root)).only_if(all, ON_REQUEST),
        Step::new("vm", move || vm::run(root, &[])).only_if(all, ON_REQUEST),
        // The last, which waits for what is left of them.
        Step::new("model", move || models.map_or(Ok(()), Beside::end)).only_if(all, ON_REQUEST),
    ]
}

/// The models of the lock and the epoch, with loom's atomics in place of the real ones.
///
/// They have a target folder of their own: the `loom` cfg is a compiler flag for every crate, so
/// sharing a folder would rebuild all of them each time. Release, because loom walks every
/// interleaving.
fn loom(root: &Path) -> Result<(), String> {
    let mut models = exec::cargo(root, "test -p timberline-sync --release --lib");
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
        let steps = |all| steps(Path::new("."), None, all, all).into_iter();
        let names: Vec<_> = steps(true).map(|step| step.name).collect();
        let (plain, on_request) = names.split_at(7);
        let expected = [
            "fmt", "clippy", "tidy", "tests", "doctests", "docs", "package",
        ];
        assert_eq!(plain, expected);
        assert_eq!(
            on_request,
            [
                "features",
                "msrv",
                "aarch64",
                "emulated",
                "seeded",
                "loom",
                "callgrind",
                "answers",
                "etcd",
                "optional",
                "browser",
                "vm",
                "model"
            ]
        );
        for step in steps(false).skip(7) {
            assert!(
                matches!((step.action)(), Outcome::Skipped(why) if why.starts_with("runs with --"))
            );
        }
    }
}

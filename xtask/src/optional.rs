//! `cargo xtask optional`: what the default build leaves out because it compiles C: TLS, and the
//! fabric by libfabric, over its provider `tcp` and so without special hardware.
//!
//! Invariant: all parts are of one build, because each other build compiles the server and the
//! program anew.

use std::path::Path;

use crate::args::Args;
use crate::exec::CRATES;
use crate::{Failure, exec, libfabric};

struct Part {
    name: &'static str,
    /// Of the packages that have it.
    features: &'static str,
    tests: &'static str,
}

const PARTS: [Part; 2] = [
    Part {
        name: "tls",
        features: "timberline-server/tls,timberline-cli/tls",
        tests: "--test tls --test serve",
    },
    Part {
        name: libfabric::NAME,
        features: "timberline-remote/libfabric,timberline-server/libfabric,timberline-cli/libfabric",
        tests: "--test fabrics --test pool --test cluster",
    },
];

/// `bench` is of the program, and so compiled again, but what these tests have it do is over soon.
/// Without optimisation it takes a quarter of the compiler's time.
const QUICKLY: &str = "--config profile.dev.package.timberline-bench.opt-level=0";

/// Checks all parts, or those that are named. A machine that can't have libfabric's headers is an
/// error, after the other part was checked.
pub fn run(root: &Path, words: &[String]) -> Result<(), Failure> {
    let args = Args::parse("optional", words, &[], &PARTS.map(|part| part.name))?;
    let mut chosen: Vec<&Part> = PARTS.iter().filter(|it| args.chosen(it.name)).collect();
    let mut lacking = None;
    if args.chosen(libfabric::NAME)
        && let Err(why) = libfabric::headers(root)
    {
        chosen.retain(|part| part.name != libfabric::NAME);
        let tested: Vec<_> = chosen.iter().map(|part| part.name).collect();
        lacking = Some(match tested.is_empty() {
            true => why,
            false => format!("{why}; {} was checked", tested.join(", ")),
        });
    }
    if !chosen.is_empty() {
        check(root, &chosen).map_err(Failure::Check)?;
    }
    lacking.map_or(Ok(()), |why| Err(Failure::Lacking(why)))
}

fn check(root: &Path, parts: &[&Part]) -> Result<(), String> {
    let cargo = |args: &str| exec::succeed(exec::cargo(root, args));
    let features: Vec<_> = parts.iter().map(|part| part.features).collect();
    let tests: Vec<_> = parts.iter().map(|part| part.tests).collect();
    let (features, tests) = (features.join(","), tests.join(" "));
    let with = format!("{CRATES} --features {features} {tests}");
    // All that a feature is named in, with the tests inside modules; `clippy` has seen the rest.
    cargo(&format!(
        "clippy {with} --lib --bins --profile test -- -D warnings"
    ))?;
    cargo(&format!("test {with} {QUICKLY}"))?;
    match parts.iter().any(|part| part.name == libfabric::NAME) {
        true => libfabric::own_tests(root),
        false => Ok(()),
    }
}

//! `cargo xtask answers`: the server's answers beside those of Debian's `redis-server`, byte for
//! byte, and the server beneath clients that people have: `redis-cli`, `redis-benchmark`, Python's.
//!
//! The tests take what is installed anyway. Here apt fetches it into the target folder, so nobody
//! has to install it.

use std::path::Path;

use crate::exec::CRATES;
use crate::packages::{Packages, SUITE, launcher};
use crate::{Failure, exec};

/// Below the target folder.
const FOLDER: &str = "redis";
/// Programs, and where the tests look for their paths.
const PROGRAMS: [(&str, &str); 4] = [
    ("redis-server", "TIMBERLINE_REDIS_SERVER"),
    ("redis-cli", "TIMBERLINE_REDIS_CLI"),
    ("redis-benchmark", "TIMBERLINE_REDIS_BENCHMARK"),
    ("python3", "TIMBERLINE_PYTHON"),
];

/// A machine that can't have these programs is an error.
pub fn run(root: &Path) -> Result<(), Failure> {
    let packages = Packages::new(root, FOLDER).map_err(Failure::Lacking)?;
    let wanted = ["redis-server", "redis-tools", "python3-redis"];
    let programs = packages.programs("programs", SUITE, &wanted);
    let programs = programs.map_err(Failure::Lacking)?;
    let tests = format!("test {CRATES} --test answers --test clients");
    let mut tests = exec::cargo(root, &tests);
    for (program, variable) in PROGRAMS {
        let launcher = launcher(&programs, program).map_err(Failure::Lacking)?;
        tests.env(variable, launcher);
    }
    exec::succeed(tests).map_err(Failure::Check)
}

//! `cargo xtask kills`: `timberline serve` is killed under load, many times in the same folder; the
//! long form of the test that `cargo xtask test` runs with a few kills.

use std::path::Path;

use crate::args::Args;
use crate::exec::CRATES;
use crate::{Failure, exec};

/// The flags of the command line.
pub const FLAGS: [&str; 2] = ["--cycles N", "--seed N"];

/// Kills in one run.
const CYCLES: u64 = 200;

pub fn run(root: &Path, args: &Args) -> Result<(), Failure> {
    let cycles = args.value("--cycles", CYCLES)?;
    let seed = args.value("--seed", 1u64)?;
    let mut tests = exec::cargo(root, &format!("test {CRATES} --test kills -- --nocapture"));
    tests.env("TIMBERLINE_KILLS", cycles.to_string());
    tests.env("TIMBERLINE_SEED", seed.to_string());
    exec::succeed(tests).map_err(Failure::Check)
}

//! `cargo xtask answers`: the server's answers beside those of Debian's `redis-server`, byte for
//! byte, and the server beneath clients that people have: `redis-cli`, `redis-benchmark`, Python's.
//!
//! The tests take what is installed anyway. Here apt fetches it into the target folder, so nobody
//! has to install it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::packages::{Packages, SUITE};
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
/// Starts a program with the loader and the libraries beside it.
const LAUNCHER: &str = r#"#!/bin/sh
here=$(dirname "$0")
libraries=$here/lib/x86_64-linux-gnu:$here/usr/lib/x86_64-linux-gnu
export PYTHONHOME="$here/usr" PYTHONPATH="$here/usr/lib/python3/dist-packages"
exec "$here/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$libraries" \
    --argv0 PROGRAM "$here/usr/bin/PROGRAM" "$@"
"#;

/// A machine that can't have these programs is an error.
pub fn run(root: &Path) -> Result<(), Failure> {
    let packages = Packages::new(root, FOLDER).map_err(Failure::Lacking)?;
    let wanted = ["redis-server", "redis-tools", "python3-redis"];
    let programs = packages.programs("programs", SUITE, &wanted);
    let programs = programs.map_err(Failure::Lacking)?;
    let mut tests = exec::cargo(
        root,
        "test -p timberline-server --test answers --test clients",
    );
    for (program, variable) in PROGRAMS {
        let launcher = launcher(&programs, program).map_err(Failure::Lacking)?;
        tests.env(variable, launcher);
    }
    exec::succeed(tests).map_err(Failure::Check)
}

/// Starts a program of the folder.
fn launcher(folder: &Path, program: &str) -> Result<PathBuf, String> {
    let launcher = folder.join(format!("start-{program}"));
    let written = fs::write(&launcher, LAUNCHER.replace("PROGRAM", program))
        .and_then(|()| fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{}: {error}", launcher.display()))?;
    Ok(launcher)
}

//! `cargo xtask answers`: the server's answers beside those of Debian's `redis-server`, byte for
//! byte.
//!
//! The tests compare with an installed one anyway, where there is one. Here apt fetches it into the
//! target folder, so nobody has to install it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::packages::{Packages, SUITE};
use crate::{Failure, exec};

/// Below the target folder.
const FOLDER: &str = "redis";
/// Where the tests look for the program's path.
const VARIABLE: &str = "TIMBERLINE_REDIS_SERVER";
/// Starts the program with the loader and the libraries beside it.
const LAUNCHER: &str = r#"#!/bin/sh
here=$(dirname "$0")
libraries=$here/lib/x86_64-linux-gnu:$here/usr/lib/x86_64-linux-gnu
exec "$here/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$libraries" \
    --argv0 redis-server "$here/usr/bin/redis-server" "$@"
"#;

/// A machine that can't have `redis-server` is an error.
pub fn run(root: &Path) -> Result<(), Failure> {
    let packages = Packages::new(root, FOLDER);
    let launcher = packages.and_then(launcher).map_err(Failure::Lacking)?;
    let mut tests = exec::cargo(root, "test -p timberline-server --test answers");
    tests.env(VARIABLE, launcher);
    exec::succeed(tests).map_err(Failure::Check)
}

/// The program, fetched unless it is there.
fn launcher(packages: Packages) -> Result<PathBuf, String> {
    let folder = packages.programs("server", SUITE, &["redis-server"])?;
    let launcher = folder.join("launcher");
    let written = fs::write(&launcher, LAUNCHER)
        .and_then(|()| fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| format!("{}: {error}", launcher.display()))?;
    Ok(launcher)
}

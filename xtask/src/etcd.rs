//! `cargo xtask etcd`: members of the tree over memory servers beside Debian's etcd.
//!
//! The tests use an installed one anyway, where there is one. Here apt fetches it into the target
//! folder, so nobody has to install it, and none is started that was not asked for.

use std::path::Path;

use crate::exec::CRATES;
use crate::packages::{Packages, SUITE, launcher};
use crate::{Failure, exec};

/// Below the target folder.
const FOLDER: &str = "etcd";
/// Where the tests look for the program's path.
const VARIABLE: &str = "TIMBERLINE_ETCD";

/// A machine that can't have etcd is an error.
pub fn run(root: &Path) -> Result<(), Failure> {
    let etcd = Packages::new(root, FOLDER)
        .and_then(|packages| packages.programs("server", SUITE, &["etcd-server"]))
        .and_then(|folder| launcher(&folder, "etcd"))
        .map_err(Failure::Lacking)?;
    let mut tests = exec::cargo(root, &format!("test {CRATES} --test etcd"));
    tests.env(VARIABLE, etcd);
    exec::succeed(tests).map_err(Failure::Check)
}

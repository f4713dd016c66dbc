//! The headers that the fabric by libfabric is compiled with, and its own tests.
//!
//! The headers and the library are Debian's `libfabric-dev`. Unlike programs, they are of no use in
//! a folder of their own: the library needs those of the system. So root installs them, and nobody
//! else is asked to.

use std::path::Path;
use std::process::Command;

use crate::exec;

pub const NAME: &str = "libfabric";
const PACKAGE: &str = "libfabric-dev";

/// The headers are there, or are now.
///
/// # Errors
/// Why this machine can't have them.
pub fn headers(root: &Path) -> Result<(), String> {
    if has_headers(root) {
        return Ok(());
    }
    install()?;
    match has_headers(root) {
        true => Ok(()),
        false => Err(format!(
            "the C compiler finds no rdma/fi_rma.h although {PACKAGE} is there"
        )),
    }
}

/// The tests inside the modules. Of this package alone: `--lib` of all packages would run every
/// such test again.
pub fn own_tests(root: &Path) -> Result<(), String> {
    let tests = "test -p timberline-remote --features libfabric --lib";
    exec::succeed(exec::cargo(root, tests))
}

/// Whether the C compiler finds libfabric's headers.
fn has_headers(root: &Path) -> bool {
    let shim = root.join("crates/remote/src/fabric/libfabric/shim.c");
    let mut compile = Command::new("cc");
    compile.arg("-fsyntax-only").arg(shim);
    exec::ended(&mut compile).is_ok_and(|output| output.status.success())
}

fn install() -> Result<(), String> {
    if !exec::is_installed("cc") {
        return Err("there is no C compiler (cc)".into());
    }
    let lacking = format!("libfabric's headers are missing (Debian: {PACKAGE})");
    if !exec::is_installed("apt-get") {
        return Err(lacking);
    }
    let user = exec::ended(Command::new("id").arg("-u"))?;
    if user.stdout.trim_ascii() != b"0" {
        return Err(format!("{lacking}, and only root can install them"));
    }
    println!("installing {PACKAGE}");
    let mut install = Command::new("apt-get");
    install
        .args(["install", "--yes", "--no-install-recommends", PACKAGE])
        .env("DEBIAN_FRONTEND", "noninteractive");
    match exec::ended(&mut install)?.status.success() {
        true => Ok(()),
        false => Err(format!("{lacking}, and apt-get does not install them")),
    }
}

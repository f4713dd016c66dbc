//! `cargo xtask libfabric`: the fabric by libfabric, which the default build leaves out: it
//! compiles C over libfabric's headers. Its tests run over the provider `tcp`, without special
//! hardware.
//!
//! The headers and the library are Debian's `libfabric-dev`. Unlike programs, they are of no use in
//! a folder of their own: the library needs those of the system. So root installs them, and nobody
//! else is asked to.

use std::path::Path;
use std::process::Command;

use crate::{Failure, exec};

const PACKAGE: &str = "libfabric-dev";

/// A machine that can't have the headers is an error.
pub fn run(root: &Path) -> Result<(), Failure> {
    if !has_headers(root) {
        install().map_err(Failure::Lacking)?;
        if !has_headers(root) {
            let line = format!("the C compiler finds no rdma/fi_rma.h although {PACKAGE} is there");
            return Err(Failure::Lacking(line));
        }
    }
    let cargo = |args: &str| exec::succeed(exec::cargo(root, args)).map_err(Failure::Check);
    let with = "-p timberline-remote -p timberline-server -p timberline-cli --features libfabric";
    cargo(&format!("clippy {with} --all-targets -- -D warnings"))?;
    cargo("test -p timberline-remote --features libfabric --lib --test fabrics")?;
    cargo("test -p timberline-cli --features libfabric --test pool --test cluster")
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

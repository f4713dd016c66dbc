//! `cargo xtask aarch64`: tests of the crates that differ by processor, on an aarch64 that QEMU
//! emulates.
//!
//! QEMU translates the program and passes its system calls on, so no system for aarch64 is needed.
//! It runs on this machine's memory order, which is stricter: what only a weaker one would show,
//! loom and shuttle look for.

use std::path::Path;

use crate::packages::{BACKPORTS, Packages};
use crate::sanitize::toolchain::Toolchain;
use crate::{Failure, exec};

/// Its libraries come with the toolchain, and the toolchain's linker needs no other.
const TARGET: &str = "aarch64-unknown-linux-musl";
/// Below the target folder.
const FOLDER: &str = "qemu-user";

/// Tests that ask the kernel which pages have memory: QEMU doesn't pass that on.
const ASK_FOR_PAGES: [&str; 4] = [
    "huge_pages_commit_no_more_than_was_charged",
    "what_is_charged_is_what_the_kernel_committed",
    "a_size_larger_than_chunks_gets_the_pages_it_needs",
    "many_sizes_take_little",
];
/// Of the maps' suite, what ends soon as translated code; of maps of words and bytes.
const OF_MAPS: [&str; 4] = [
    "histories_are_linearizable_at_rest",
    "nodes_move_between_any_two_tiers",
    "a_bulk_load_is_a_run_of_inserts",
    "an_emptied_map_gives_its_chunks_back",
];

/// A machine that can't have QEMU or the target's standard library is an error.
pub fn run(root: &Path) -> Result<(), Failure> {
    let toolchain = Toolchain::ask(root).map_err(Failure::Lacking)?;
    toolchain.has_target(TARGET).map_err(Failure::Lacking)?;
    let packages = Packages::new(root, FOLDER).map_err(Failure::Lacking)?;
    // Older ones take gigabytes for what a map only reserves.
    let qemu = packages.programs("programs", BACKPORTS, &["qemu-user"]);
    let qemu = qemu.map_err(Failure::Lacking)?.join("usr/bin/qemu-aarch64");

    let skipped = ASK_FOR_PAGES.map(|name| format!("--skip {name}")).join(" ");
    let low =
        format!("-p timberline-sync -p timberline-tier -p timberline-tree --lib -- {skipped}");
    let maps = "-p timberline-tree --test art --test btree --test masstree --";
    let maps = format!("{maps} {} --skip strings", OF_MAPS.join(" "));
    for tests in [low, maps] {
        test(root, &qemu, &tests).map_err(Failure::Check)?;
    }
    Ok(())
}

/// Runs tests by this program, in a target folder of their own.
fn test(root: &Path, qemu: &Path, tests: &str) -> Result<(), String> {
    let variable = |what: &str| {
        let target = TARGET.replace('-', "_").to_uppercase();
        format!("CARGO_TARGET_{target}_{what}")
    };
    let mut command = exec::cargo(root, "test --target-dir");
    command
        .arg(exec::target_dir(root).join("aarch64"))
        .args(["--target", TARGET])
        .args(tests.split(' '))
        .env(variable("LINKER"), "rust-lld")
        .env(variable("RUNNER"), qemu);
    exec::succeed(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All Rust sources of a folder.
    fn sources(folder: &Path) -> String {
        let entries = std::fs::read_dir(folder).unwrap();
        let text = entries.map(|entry| match entry.unwrap().path() {
            path if path.is_dir() => sources(&path),
            path => std::fs::read_to_string(path).unwrap(),
        });
        text.collect()
    }

    /// A test that is renamed would not be skipped, or not run, any more.
    #[test]
    fn the_tests_that_are_named_are_there() {
        let [tier, tree] = ["tier/src/arenas/tests", "tree/tests"]
            .map(|folder| sources(&crate::root().join("crates").join(folder)));
        assert!(ASK_FOR_PAGES.iter().all(|name| tier.contains(name)));
        assert!(OF_MAPS.iter().all(|name| tree.contains(name)));
    }
}

//! `cargo xtask package`: the published crates as archives, which must compile on their own; with
//! the least Rust that they state, and for aarch64.
//!
//! Invariants: nothing is published or fetched; what a toolchain is missing for is skipped with
//! that reason.

use std::path::Path;
use std::process::Command;

use crate::sanitize::toolchain::Toolchain;
use crate::step::{Outcome, Step, run_all};
use crate::{Failure, exec};

/// In the order in which they would be published.
const PUBLISHED: [&str; 6] = [
    "timberline-derive",
    "timberline-sync",
    "timberline-tier",
    "timberline-placement",
    "timberline-tree",
    "timberline",
];
/// A machine other than x86-64.
const OTHER: &str = "aarch64-unknown-linux-gnu";

pub fn run(root: &Path) -> Result<(), Failure> {
    let package = format!("package {} --allow-dirty --offline", published());
    run_all(vec![
        Step::new("archives", || archives(root)),
        Step::new("compile", || exec::succeed(exec::cargo(root, &package))),
        Step::new("features", || features(root)),
        Step::new("msrv", || msrv(root)),
        Step::new("aarch64", || aarch64(root)),
    ])
    .conclude()
}

fn published() -> String {
    PUBLISHED.map(|name| format!("-p {name}")).join(" ")
}

/// Makes the archives, and compiles nothing.
pub fn archives(root: &Path) -> Result<(), String> {
    let package = "package --no-verify --quiet --allow-dirty --offline";
    exec::succeed(exec::cargo(root, &format!("{package} {}", published())))
}

/// Checks the library with all features, and its documentation.
pub fn features(root: &Path) -> Result<(), String> {
    exec::succeed(exec::cargo(
        root,
        "check --offline -p timberline --all-features",
    ))?;
    let mut doc = exec::cargo(root, "doc --offline --no-deps -p timberline --all-features");
    exec::add_flags(&mut doc, "RUSTDOCFLAGS", "-D warnings");
    exec::succeed(doc)
}

/// Checks with the Rust that `rust-version` names, if rustup has it.
pub fn msrv(root: &Path) -> Outcome {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let Some(version) = rust_version(&manifest) else {
        return Outcome::Failed("Cargo.toml states no rust-version".into());
    };
    let listed = Command::new("rustup").args(["toolchain", "list"]).output();
    let listed = listed.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    if !listed.is_ok_and(|text| text.lines().any(|line| line.starts_with(version))) {
        return Outcome::Skipped(format!(
            "rustup has no Rust {version}; clippy checks the library calls"
        ));
    }
    let mut check = Command::new("rustup");
    check
        .args([
            "run",
            version,
            "cargo",
            "check",
            "--offline",
            "--target-dir",
        ])
        .arg(exec::target_dir(root).join("msrv"))
        .args(published().split(' '))
        .current_dir(root);
    exec::succeed(check).into()
}

fn rust_version(manifest: &str) -> Option<&str> {
    let line = |line: &'_ str| line.starts_with("rust-version");
    manifest.lines().find(|it| line(it))?.split('"').nth(1)
}

/// Checks for a machine other than x86-64, if its standard library is there.
pub fn aarch64(root: &Path) -> Outcome {
    let there = Toolchain::ask(root).and_then(|toolchain| toolchain.has_target(OTHER));
    if let Err(why) = there {
        return Outcome::Skipped(why);
    }
    let check = format!("check --offline --target {OTHER} {}", published());
    let mut check = exec::cargo(root, &check);
    check
        .arg("--target-dir")
        .arg(exec::target_dir(root).join("aarch64"));
    exec::add_flags(&mut check, "RUSTFLAGS", "-D warnings");
    exec::succeed(check).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_crates_say_what_a_registry_asks_for() {
        let root = crate::root();
        let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
        assert!(rust_version(&workspace).is_some());
        let crates = std::fs::read_dir(root.join("crates")).unwrap();
        for folder in crates.map(|entry| entry.unwrap().path()) {
            let text = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let name = text.split('"').nth(1).unwrap();
            let is_private = text.contains("publish.workspace = true");
            assert_eq!(is_private, !PUBLISHED.contains(&name), "{name}");
            for field in [
                "description = ",
                "repository.",
                "rust-version.",
                "keywords.",
            ] {
                assert!(is_private || text.contains(field), "{name}: {field}");
            }
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                assert!(is_private || folder.join(licence).is_file(), "{name}");
            }
        }
    }
}

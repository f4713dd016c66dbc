//! The allowed dependencies between crates: `sync, tier → placement → tree → bench → cli`.
//!
//! Invariants: the table below is the only place that says so; a row names only rows above it, so
//! there is no cycle. Dev-dependencies are free: tests of a crate may use crates that depend on it.

use std::path::Path;

use serde_json::Value;

use super::tree::Finding;
use crate::exec;

/// A crate's folder, and those of the crates that it may depend on. A new crate is a new row.
const ALLOWED: &[(&str, &str)] = &[
    ("sync", ""),
    ("tier", ""),
    // A macro: it writes code that names the others, and links none.
    ("derive", ""),
    ("io", ""),
    // Arithmetic only.
    ("model", ""),
    ("placement", "sync tier"),
    ("tree", "sync tier placement"),
    // For comparisons only: users of the library must not have to compile it.
    ("research", "sync tier placement"),
    ("store", "io tree placement tier sync"),
    ("remote", "tree placement tier sync"),
    ("server", "store remote io tree placement tier sync"),
    // Re-exports all libraries for users.
    ("timberline", "sync tier placement tree derive"),
    (
        "bench",
        "sync tier placement research tree io model store remote",
    ),
    // The binary drives the runners, so bench lies below it.
    (
        "cli",
        "sync tier placement research tree io model bench server store remote",
    ),
    ("xtask", ""),
    // For tests and comparisons: no crate depends on it.
    ("peers", "sync tier placement research tree store bench"),
];

/// What cargo says about the packages of the workspace, as JSON.
pub fn packages(root: &Path) -> Result<String, String> {
    exec::output(exec::cargo(root, "metadata --no-deps --format-version 1"))
}

/// Finds every dependency that the table does not allow.
pub fn check(packages: &str, findings: &mut Vec<Finding>) {
    let metadata: Value = serde_json::from_str(packages).unwrap_or_default();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let folder = folder_of(name).unwrap_or(name);
        let file = match folder {
            "xtask" => "xtask/Cargo.toml".into(),
            "peers" => "crates/bench-peers/Cargo.toml".into(),
            folder => format!("crates/{folder}/Cargo.toml"),
        };
        let mut find = |message| findings.push(Finding::error(&file, 1, message));
        let Some((_, allowed)) = ALLOWED.iter().find(|row| row.0 == folder) else {
            find(format!(
                "`{name}` has no row in the table of xtask/src/tidy/dependencies.rs"
            ));
            continue;
        };
        let all = list(&package["dependencies"]);
        for dependency in all.iter().filter(|it| it["kind"] != "dev") {
            let below = dependency["name"].as_str().and_then(folder_of);
            if let Some(below) = below.filter(|it| !allowed.split(' ').any(|known| known == *it)) {
                find(format!(
                    "`{folder}` must not depend on `{below}`; it may on: {allowed}"
                ));
            }
        }
    }
}

/// The folder of a package of the workspace; `None` for a crate from elsewhere.
fn folder_of(package: &str) -> Option<&str> {
    match package {
        "timberline" | "xtask" => Some(package),
        "bench-peers" => Some("peers"),
        _ => package.strip_prefix("timberline-"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(package: &str, dependencies: &[(&str, &str)]) -> Vec<String> {
        let dependency = |(name, kind): &(&str, &str)| {
            format!(r#"{{"name":"{name}","source":null,"req":"*","kind":{kind},"rename":"heat"}}"#)
        };
        let dependencies: Vec<_> = dependencies.iter().map(dependency).collect();
        let dependencies = dependencies.join(",");
        let json = format!(
            r#"{{"packages":[{{"name":"{package}","version":"0.1.0","dependencies":[{dependencies}],"targets":[{{"kind":["lib"],"name":"x"}}]}}]}}"#
        );
        let mut findings = Vec::new();
        check(&json, &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_up_and_sideways_are_found() {
        let up = found(
            "timberline-tier",
            &[("libc", "null"), ("timberline-tree", "\"build\"")],
        );
        let expected = "crates/tier/Cargo.toml:1: `tier` must not depend on `tree`; it may on: ";
        assert_eq!(up, [expected]);
        for (package, beside) in [
            ("timberline-sync", "timberline-tier"),
            ("timberline-tree", "timberline-research"),
            ("timberline-tree", "timberline"),
            ("timberline-bench", "timberline-cli"),
            ("timberline-cli", "bench-peers"),
            ("xtask", "timberline-sync"),
        ] {
            assert_eq!(
                found(package, &[(beside, "null")]).len(),
                1,
                "{package} -> {beside}"
            );
        }
    }

    #[test]
    fn arrows_down_other_crates_and_dev_dependencies_are_free() {
        let free = [
            ("timberline-tier", "null"),
            ("libc", "null"),
            ("timberline-cli", "\"dev\""),
        ];
        assert_eq!(found("timberline-placement", &free), [""; 0]);
        assert_eq!(found("bench-peers", &free[..2]), [""; 0]);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        for package in ["timberline-attic", "foreign"] {
            assert!(found(package, &[])[0].contains("has no row"), "{package}");
        }
    }

    #[test]
    fn every_row_of_the_table_names_only_rows_above_it() {
        for (at, (package, allowed)) in ALLOWED.iter().enumerate() {
            for below in allowed.split_whitespace() {
                let above = ALLOWED[..at].iter().any(|row| row.0 == below);
                assert!(above, "{package} -> {below} goes up");
            }
        }
    }
}

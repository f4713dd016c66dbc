//! Which room may depend on which: `sync, tier → placement → tree → {store, remote} → server →
//! bench, cli`.
//!
//! Invariants: the table below is the only place that says so; a row names only rows above it, so
//! no arrow goes up or in a circle. Dev-dependencies are free: a test may look from above.

use super::tree::{Finding, Source, Tree};

/// A room and the rooms that its crate may depend on. A new room is a new row.
const ARROWS: &[(&str, &[&str])] = &[
    ("sync", &[]),
    ("tier", &[]),
    ("model", &[]),
    ("placement", &["sync", "tier"]),
    ("tree", &["sync", "tier", "placement"]),
    // What only comparisons need: a library that depends on it would have its users compile it.
    ("research", &["sync", "tier", "placement"]),
    ("store", &["sync", "tier", "placement", "tree"]),
    ("remote", &["sync", "tier", "placement", "tree"]),
    // The face re-exports every library room.
    (
        "timberline",
        &[
            "sync",
            "tier",
            "placement",
            "tree",
            "store",
            "remote",
            "model",
        ],
    ),
    (
        "server",
        &["sync", "tier", "placement", "tree", "store", "remote"],
    ),
    (
        "bench",
        &[
            "sync",
            "tier",
            "placement",
            "research",
            "tree",
            "store",
            "remote",
            "server",
            "model",
        ],
    ),
    // The binary drives the runners, so bench lies below it.
    (
        "cli",
        &[
            "sync",
            "tier",
            "placement",
            "research",
            "tree",
            "store",
            "remote",
            "server",
            "model",
            "bench",
        ],
    ),
    ("xtask", &[]),
];

/// Rooms that exist for tests and comparisons: free themselves, and nobody's true dependency.
const TEST_ONLY: &[&str] = &["sim", "peers"];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for manifest in tree.sources().filter(|source| is_crate(&source.path)) {
        check_manifest(manifest, findings);
    }
}

/// The manifests of rooms, not the workspace's own.
fn is_crate(path: &str) -> bool {
    path == "xtask/Cargo.toml" || (path.starts_with("crates/") && path.ends_with("/Cargo.toml"))
}

fn check_manifest(manifest: &Source, findings: &mut Vec<Finding>) {
    let Manifest { name, dependencies } = read(manifest);
    let Some((line, package)) = name else {
        findings.push(manifest.error(1, "no package name"));
        return;
    };
    let Some(room) = room_of(package).or((package == "xtask").then_some("xtask")) else {
        let message = format!("package `{package}` should be named timberline-<room>");
        findings.push(manifest.error(line, message));
        return;
    };
    if TEST_ONLY.contains(&room) {
        return;
    }
    let Some((_, allowed)) = ARROWS.iter().find(|row| row.0 == room) else {
        let message = format!("room `{room}` has no row in the table of xtask/src/tidy/arrows.rs");
        findings.push(manifest.error(line, message));
        return;
    };
    for (line, dependency) in dependencies {
        let Some(below) = room_of(dependency) else {
            continue;
        };
        if !allowed.contains(&below) {
            let may = match allowed {
                [] => "no room".to_string(),
                some => some.join(", "),
            };
            let message = format!("`{room}` must not depend on `{below}`; it may on {may}");
            findings.push(manifest.error(line, message));
        }
    }
}

/// The room of a package, or nothing for someone else's crate.
fn room_of(package: &str) -> Option<&str> {
    match package {
        "timberline" => Some(package),
        // Not the project's name on it: it is a tool beside the product.
        "bench-peers" => Some("peers"),
        _ => package.strip_prefix("timberline-"),
    }
}

/// What the arrows need of a manifest, each with its line.
struct Manifest<'a> {
    name: Option<(usize, &'a str)>,
    dependencies: Vec<(usize, &'a str)>,
}

fn read(source: &Source) -> Manifest<'_> {
    let mut manifest = Manifest {
        name: None,
        dependencies: Vec::new(),
    };
    let mut section = "";
    for (number, line) in source.lines() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.split(']').next().unwrap_or("");
            // A dependency may be a section of its own: [dependencies.timberline-sync].
            if let Some((above, name)) = section.rsplit_once('.')
                && is_dependencies(above)
            {
                manifest.dependencies.push((number, unquote(name)));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let key = key.trim();
        if section == "package" && key == "name" {
            manifest.name = Some((number, unquote(value)));
        } else if is_dependencies(section) {
            // `name.workspace = true` and `alias = { package = "name" }`.
            let name = key.split('.').next().unwrap_or(key);
            let named = value.split_once("package").map(|(_, rest)| rest);
            let renamed = named.and_then(|rest| rest.split('"').nth(1));
            let name = renamed.unwrap_or(unquote(name));
            manifest.dependencies.push((number, name));
        } else if key == "package"
            && section
                .rsplit_once('.')
                .is_some_and(|s| is_dependencies(s.0))
        {
            manifest.dependencies.push((number, unquote(value)));
        }
    }
    manifest
}

/// `dependencies` and `build-dependencies`, for all targets or one.
fn is_dependencies(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or(section);
    last == "dependencies" || last == "build-dependencies"
}

fn unquote(text: &str) -> &str {
    let text = text.trim();
    text.split(['"', '\''])
        .nth(1)
        .unwrap_or_else(|| text.trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::super::tree::findings;
    use super::*;

    fn manifest(room: &str, rest: &str) -> Vec<String> {
        let path = format!("crates/{room}/Cargo.toml");
        let text = format!("[package]\nname = \"timberline-{room}\"\n{rest}\n");
        findings(check, &[(&path, &text)])
    }

    #[test]
    fn an_arrow_up_is_found_however_it_is_written() {
        let expected = "`tier` must not depend on `placement`; it may on no room";
        for rest in [
            "[dependencies]\ntimberline-placement.workspace = true",
            "[dependencies]\ntimberline-placement = { workspace = true }",
            "[dependencies]\nheat = { package = \"timberline-placement\", path = \"x\" }",
            "[dependencies.timberline-placement]\nworkspace = true",
            "[build-dependencies]\ntimberline-placement.workspace = true",
            "[target.'cfg(unix)'.dependencies]\ntimberline-placement.workspace = true",
            "[dependencies.heat]\npackage = \"timberline-placement\"",
        ] {
            let found = manifest("tier", rest);
            assert_eq!(found.len(), 1, "{rest}: {found:?}");
            assert!(found[0].starts_with("crates/tier/Cargo.toml:"));
            assert!(found[0].ends_with(expected), "{found:?}");
        }
    }

    #[test]
    fn an_arrow_sideways_is_found() {
        for (room, beside) in [("sync", "tier"), ("store", "remote"), ("bench", "cli")] {
            let found = manifest(
                room,
                &format!("[dependencies]\ntimberline-{beside} = \"1\""),
            );
            assert_eq!(found.len(), 1, "{room} -> {beside}");
        }
    }

    #[test]
    fn arrows_down_other_crates_and_dev_dependencies_are_free() {
        let rest = "[dependencies]\ntimberline-tier.workspace = true\nlibc = \"0.2\"\n\
                    [dev-dependencies]\ntimberline-tree.workspace = true\n\
                    [features]\nx = [\"timberline-tier/x\"]";
        assert_eq!(manifest("placement", rest), [""; 0]);
        assert_eq!(
            manifest("sim", "[dependencies]\ntimberline-tree = \"1\""),
            [""; 0]
        );
        let peers = "[package]\nname = \"bench-peers\"\n[dependencies]\ntimberline-tree = \"1\"\n";
        let peers = [("crates/bench-peers/Cargo.toml", peers)];
        assert_eq!(findings(check, &peers), [""; 0]);
        let found = manifest("cli", "[dependencies]\nbench-peers = \"1\"");
        assert!(found[0].contains("must not depend on `peers`"));
        let found = manifest("tree", "[dependencies]\ntimberline-sim.workspace = true");
        assert!(found[0].contains("must not depend on `sim`"));
    }

    #[test]
    fn the_face_is_below_nobody_but_its_bindings() {
        let face = "[package]\nname = \"timberline\"\n[dependencies]\ntimberline-tree = \"1\"\n";
        assert_eq!(
            findings(check, &[("crates/timberline/Cargo.toml", face)]),
            [""; 0]
        );
        let found = manifest("tree", "[dependencies]\ntimberline.workspace = true");
        assert!(found[0].contains("must not depend on `timberline`"));
    }

    #[test]
    fn a_room_without_a_row_is_found() {
        assert!(manifest("attic", "")[0].contains("`attic` has no row"));
        let foreign = [("crates/x/Cargo.toml", "[package]\nname = \"x\"\n")];
        assert!(findings(check, &foreign)[0].contains("timberline-<room>"));
        let nameless = [("crates/x/Cargo.toml", "[lib]\n")];
        assert!(findings(check, &nameless)[0].contains("no package name"));
    }

    #[test]
    fn every_row_of_the_table_names_only_rows_above_it() {
        for (at, (room, allowed)) in ARROWS.iter().enumerate() {
            for below in *allowed {
                let above = ARROWS[..at].iter().any(|row| row.0 == *below);
                assert!(above, "{room} -> {below} goes up");
            }
        }
    }
}

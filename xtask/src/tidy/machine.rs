//! Nothing of one machine in the repository: no absolute path of its owner, no package mirror.

use super::tree::{Finding, Tree};

/// Folders that exist on single machines only. Spelled in two halves, so that this file passes its
/// own check.
const FOLDERS: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/fa", "rm/"),
    concat!("/ho", "me/"),
];

/// The one source that a lock file may name.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Hosts that serve packages, and cargo's ways to ask for another one. In halves, as above.
const REGISTRIES: [&str; 7] = [
    concat!("index.cra", "tes.io"),
    concat!("static.cra", "tes.io"),
    concat!("spa", "rse+http"),
    concat!("replace", "-with"),
    concat!("pypi", ".org/simple"),
    concat!("files.python", "hosted.org"),
    concat!("registry.npm", "js.org"),
];

/// No absolute path of one machine.
pub fn paths(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources() {
        for (number, line) in source.lines() {
            for folder in FOLDERS {
                if names_folder(line, folder) {
                    let message = format!("`{folder}` is a path of one machine");
                    findings.push(source.error(number, message));
                }
            }
        }
    }
}

/// Whether a path starts here; after a name or a dot it is the tail of a longer one.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_.-~}*".contains(c))
    })
}

/// No package mirror, in the lock file or anywhere else.
pub fn registries(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources() {
        let is_lock = source.path.ends_with("Cargo.lock");
        for (number, line) in source.lines() {
            let foreign = is_lock && line.starts_with("source = ") && !line.contains(CRATES_IO);
            if foreign || REGISTRIES.iter().any(|host| line.contains(host)) {
                let message = "names a package registry; that belongs to a machine's own settings";
                findings.push(source.error(number, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::findings;
    use super::*;

    #[test]
    fn absolute_paths_of_one_machine_are_found() {
        for folder in FOLDERS {
            for text in [
                format!("# A\nrun `{folder}x`"),
                format!("\nfile://{folder}x"),
            ] {
                let found = findings(paths, &[("docs/a.md", &text)]);
                let expected = format!("docs/a.md:2: `{folder}` is a path of one machine");
                assert_eq!(found, [expected]);
            }
        }
    }

    #[test]
    fn tails_of_other_paths_and_addresses_are_not() {
        let tails = FOLDERS.map(|f| format!("https://example.org{f}x ..{f}y a{f}z"));
        assert_eq!(
            findings(paths, &[("docs/a.md", &tails.join("\n"))]),
            [""; 0]
        );
        let system = "/sys/devices/system/node /proc/meminfo /tmp/x /usr/bin/env";
        assert_eq!(findings(paths, &[("docs/a.md", system)]), [""; 0]);
    }

    #[test]
    fn registries_are_found() {
        for host in REGISTRIES {
            let found = findings(registries, &[(".cargo/config.toml", host)]);
            assert_eq!(found.len(), 1, "{host}");
        }
        let mirror = "source = \"registry+https://mirror.example.org/index\"";
        assert_eq!(
            findings(registries, &[("Cargo.lock", mirror)]),
            ["Cargo.lock:1: names a package registry; that belongs to a machine's own settings"]
        );
    }

    #[test]
    fn the_lock_files_usual_source_is_not() {
        let usual = format!("source = \"{CRATES_IO}\"\n");
        assert_eq!(findings(registries, &[("Cargo.lock", &usual)]), [""; 0]);
    }
}

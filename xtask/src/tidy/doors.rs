//! Doors that only named files may open: unsafe code, the wall clock, the mapping of memory.
//!
//! Each list below is the whole of its permission; a new entry is a decision to be defended.

use super::lex;
use super::tree::{Finding, Source, Tree};

/// Where unsafe code may be, beside the nodes of trees: folders end in `/`, others are one file.
const UNSAFE: &[&str] = &[
    "crates/sync/",
    "crates/tier/",
    "crates/store/src/io/",
    "crates/remote/src/fabric/",
    "crates/capi/",
    // A string beside the leaves, which readers look at without a copy.
    "crates/tree/src/value/block.rs",
    // Buckets in slots of the arenas.
    "crates/tree/src/cache/page.rs",
    // An allocator that counts can't be written without.
    "crates/bench-peers/src/allocator.rs",
];

/// Policy code takes a clock as a parameter; the one file that drives its threads has to own one.
const CLOCKLESS: &[&str] = &["crates/placement/", "crates/research/", "crates/tree/"];
const CLOCK_OWNERS: &[&str] = &["crates/placement/src/workers.rs"];

/// The room that maps memory, and the calls that do.
const MAPPER: &str = "crates/tier/";
const MAPPING: &[&str] = &[
    "mmap",
    "mmap64",
    "munmap",
    "mremap",
    "mbind",
    "madvise",
    "move_pages",
    "set_mempolicy",
    "SYS_mmap",
    "SYS_mbind",
    "SYS_move_pages",
    "SYS_set_mempolicy",
];

/// Unsafe code, and the attribute that lets it in, only behind its doors.
pub fn unsafe_code(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.rust().filter(|source| !may_be_unsafe(&source.path)) {
        for (line, code) in source.code_lines() {
            if lex::words(code).any(|word| word == "unsafe") {
                let message = "unsafe outside the modules listed in xtask/src/tidy/doors.rs";
                findings.push(source.error(line, message));
            }
            let opens = lex::words(code).any(|word| word == "unsafe_code");
            if opens && lex::words(code).any(|word| word == "allow" || word == "expect") {
                let message = "unsafe_code allowed outside the modules listed in \
                               xtask/src/tidy/doors.rs";
                findings.push(source.error(line, message));
            }
        }
    }
}

fn may_be_unsafe(path: &str) -> bool {
    let is_node = path
        .strip_prefix("crates/tree/")
        .is_some_and(|rest| rest.split('/').any(|part| part.starts_with("node")));
    is_node || UNSAFE.iter().any(|door| path.starts_with(door))
}

/// No wall clock in policy code.
pub fn clocks(tree: &Tree, findings: &mut Vec<Finding>) {
    let bound = |source: &&Source| {
        CLOCKLESS.iter().any(|room| source.path.starts_with(room))
            && !CLOCK_OWNERS.contains(&source.path.as_str())
    };
    for source in tree.rust().filter(bound) {
        for (line, code) in source.code_lines() {
            for clock in ["Instant", "SystemTime"] {
                if code.contains(&format!("{clock}::now")) {
                    let message = format!("{clock}::now in policy code: take a clock instead");
                    findings.push(source.error(line, message));
                }
            }
        }
    }
}

/// Only the tier room maps memory.
pub fn mapping(tree: &Tree, findings: &mut Vec<Finding>) {
    let outside = |source: &&Source| !source.path.starts_with(MAPPER);
    for source in tree.rust().filter(outside) {
        for (line, code) in source.code_lines() {
            for word in lex::words(code).filter(|word| MAPPING.contains(word)) {
                let message = format!("{word} outside {MAPPER}: only that room maps memory");
                findings.push(source.error(line, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::findings;
    use super::*;

    #[test]
    fn unsafe_is_found_outside_its_modules_only() {
        let text = "//! X.\n#![allow(unsafe_code)]\nfn f() { unsafe { g() } }\n";
        for path in [
            "crates/bench/src/runner.rs",
            "crates/tree/src/btree/split.rs",
            "crates/tree/src/anode.rs",
            "xtask/src/main.rs",
        ] {
            let found = findings(unsafe_code, &[(path, text)]);
            assert_eq!(found.len(), 2, "{path}");
            assert!(found[0].starts_with(&format!("{path}:2: unsafe_code allowed")));
            assert!(found[1].starts_with(&format!("{path}:3: unsafe outside")));
        }
        for path in [
            "crates/sync/src/epoch.rs",
            "crates/tier/src/os.rs",
            "crates/tree/src/btree/node.rs",
            "crates/tree/src/btree/node/search.rs",
            "crates/tree/src/node_ref.rs",
        ] {
            assert_eq!(findings(unsafe_code, &[(path, text)]), [""; 0], "{path}");
        }
    }

    #[test]
    fn the_word_unsafe_in_prose_and_the_lint_denied_are_fine() {
        let text = "//! unsafe is denied.\n#![deny(unsafe_code)]\nconst S: &str = \"unsafe\";\n";
        let files = [("crates/bench/src/lib.rs", text)];
        assert_eq!(findings(unsafe_code, &files), [""; 0]);
    }

    #[test]
    fn a_wall_clock_is_found_in_policy_code() {
        let text = "//! X.\nlet a = std::time::Instant::now();\nlet b = SystemTime::now();\n";
        let found = findings(clocks, &[("crates/placement/src/heat.rs", text)]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("crates/placement/src/heat.rs:2: Instant::now"));
        assert_eq!(findings(clocks, &[("crates/tree/src/a.rs", text)]).len(), 2);
        for path in ["crates/placement/src/workers.rs", "crates/bench/src/run.rs"] {
            assert_eq!(findings(clocks, &[(path, text)]), [""; 0], "{path}");
        }
        let prose = "//! X.\n// Instant::now() is not for us.\n";
        assert_eq!(
            findings(clocks, &[("crates/tree/src/a.rs", prose)]),
            [""; 0]
        );
    }

    #[test]
    fn mapping_is_found_outside_its_room() {
        let text = "//! X.\nlet p = libc::mmap(n);\nsyscall(libc::SYS_mbind, p);\nmadvise(p);\n";
        let found = findings(mapping, &[("crates/bench/src/a.rs", text)]);
        assert_eq!(found.len(), 3);
        assert!(found[1].starts_with("crates/bench/src/a.rs:3: SYS_mbind outside crates/tier/"));
        assert_eq!(
            findings(mapping, &[("crates/tier/src/os.rs", text)]),
            [""; 0]
        );
    }
}

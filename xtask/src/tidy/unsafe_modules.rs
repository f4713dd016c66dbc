//! The modules that may have unsafe code. The compiler denies it in all crates; a module allows it
//! by an attribute, and only those listed here may have one.
//!
//! Functions that only some crates may call (the wall clock, the mapping of memory) are in
//! `clippy.toml` of the workspace and of single crates.

use super::tree::{Finding, Tree};

/// The whole of the permission, beside the nodes of trees: folders end in `/`, others are one file.
const UNSAFE: &[&str] = &[
    "crates/sync/",
    // Buffers that the kernel writes to.
    "crates/io/src/uring.rs",
    // Calls of libfabric, and memory that network cards write to.
    "crates/remote/src/fabric/libfabric/endpoint.rs",
    "crates/remote/src/fabric/libfabric/library.rs",
    "crates/remote/src/fabric/libfabric/native.rs",
    "crates/tier/",
    // The one of two trees that a map has, which its type tells.
    "crates/tree/src/btree/choice.rs",
    // A string beside the leaves, which readers look at without a copy.
    "crates/tree/src/value/block.rs",
    // An `Arc`'s pointer in a leaf; a value's word while a leaf has it, and afterwards.
    "crates/tree/src/value/counted.rs",
    "crates/tree/src/value/loan.rs",
    // Buckets in slots of the arenas, and values' words in them.
    "crates/tree/src/cache/bucket.rs",
    "crates/tree/src/cache/dirty.rs",
    "crates/tree/src/cache/page.rs",
    // Calls of the kernel and of jemalloc.
    "crates/bench-peers/src/memory.rs",
    // A store in C++.
    "crates/bench-peers/src/bin/stores/rocksdb.rs",
    // A map in C++.
    "crates/bench-peers/src/peers/masstree_cpp.rs",
];

/// Only these modules have the attribute that allows unsafe code, and every crate has the lints.
pub fn unsafe_code(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.rust().filter(|source| !may_be_unsafe(&source.path)) {
        for (line, text) in source.lines() {
            let is_attribute = text.trim_start().starts_with("#");
            let opens = ["allow", "expect", "warn"]
                .iter()
                .any(|level| text.contains(level));
            if is_attribute && opens && text.contains("unsafe_code") {
                let message =
                    "unsafe_code outside the modules listed in xtask/src/tidy/unsafe_modules.rs";
                findings.push(source.error(line, message));
            }
        }
    }
    let is_crate = |path: &str| path.starts_with("crates/") || path.starts_with("xtask/");
    for source in tree
        .sources()
        .filter(|it| it.path.ends_with("/Cargo.toml") && is_crate(&it.path))
    {
        if !source.text.contains("[lints]\nworkspace = true\n") {
            findings.push(source.error(1, "does not take the workspace's lints"));
        }
    }
}

fn may_be_unsafe(path: &str) -> bool {
    let is_node = path
        .strip_prefix("crates/tree/")
        .is_some_and(|rest| rest.split('/').any(|part| part.starts_with("node")));
    is_node || UNSAFE.iter().any(|door| path.starts_with(door))
}

#[cfg(test)]
mod tests {
    use super::super::tree::findings;
    use super::*;

    #[test]
    fn an_attribute_that_lets_unsafe_code_in_is_found_outside_its_modules_only() {
        let text = "//! X.\n#![allow(unsafe_code)]\n    #[expect(dead_code, unsafe_code)]\n";
        for path in [
            "crates/bench/src/runner.rs",
            "crates/tree/src/anode.rs",
            "xtask/src/main.rs",
        ] {
            let found = findings(unsafe_code, &[(path, text)]);
            assert_eq!(found.len(), 2, "{path}");
            assert!(found[0].starts_with(&format!("{path}:2: unsafe_code outside")));
        }
        for path in [
            "crates/sync/src/epoch.rs",
            "crates/tree/src/btree/node.rs",
            "crates/tree/src/btree/node/search.rs",
            "crates/tree/src/node_ref.rs",
        ] {
            assert_eq!(findings(unsafe_code, &[(path, text)]), [""; 0], "{path}");
        }
        let fine = "//! X.\n// Allow unsafe_code? No.\n#![deny(unsafe_code)]\n";
        assert_eq!(findings(unsafe_code, &[("xtask/src/a.rs", fine)]), [""; 0]);
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let manifest = |text| findings(unsafe_code, &[("crates/x/Cargo.toml", text)]);
        assert_eq!(manifest("[lints]\nworkspace = true\n"), [""; 0]);
        let expected = "crates/x/Cargo.toml:1: does not take the workspace's lints";
        assert_eq!(manifest("[package]\nname = \"x\"\n"), [expected]);
    }
}

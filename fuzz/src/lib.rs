//! Shared parts of the fuzz targets. They decode bytes into operations, which the test suite
//! applies to a map and to the standard library's `BTreeMap`.
//!
//! The suite is written once, in `crates/tree/tests`; this crate includes its files unchanged.

#[path = "../../crates/tree/tests/suite/art_of_bytes.rs"]
pub mod art_of_bytes;
#[path = "../../crates/tree/tests/suite/art_of_strings.rs"]
pub mod art_of_strings;
#[path = "../../crates/tree/tests/suite/art_of_words.rs"]
pub mod art_of_words;
#[allow(dead_code)]
#[path = "../../crates/tree/tests/suite/btree_of_bytes.rs"]
pub mod btree_of_bytes;
#[path = "../../crates/tree/tests/suite/btree_of_long_bytes.rs"]
pub mod btree_of_long_bytes;
#[path = "../../crates/tree/tests/suite/btree_of_strings.rs"]
pub mod btree_of_strings;
#[path = "../../crates/tree/tests/suite/btree_of_words.rs"]
pub mod btree_of_words;
pub mod byte_strings;
#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../../crates/tree/tests/suite/bytes.rs"]
pub mod bytes;
pub mod commands;
pub mod decode;
#[allow(dead_code)]
#[path = "../../crates/tier/tests/topologies/manifest.rs"]
pub mod manifest;
#[path = "../../crates/tree/tests/suite/masstree_of_bytes.rs"]
pub mod masstree_of_bytes;
#[path = "../../crates/tree/tests/suite/masstree_of_strings.rs"]
pub mod masstree_of_strings;
#[path = "../../crates/tree/tests/suite/masstree_of_words.rs"]
pub mod masstree_of_words;
#[allow(dead_code)]
#[path = "../../crates/server/src/resp/mod.rs"]
pub mod resp;
pub mod suite;
pub mod texts;
#[allow(dead_code, unused_imports, unused_macros)]
#[path = "../../crates/tree/tests/suite/values/mod.rs"]
pub mod values;
pub mod words;

/// Plants the bug that `TIMBERLINE_PLANT` names, in a build with seeded bugs.
pub fn plant() {
    #[cfg(feature = "seeded-bugs")]
    if let Ok(name) = std::env::var("TIMBERLINE_PLANT") {
        let bug = timberline_tree::seeded::Bug::named(&name);
        timberline_tree::seeded::plant(bug.unwrap_or_else(|| panic!("no bug is called `{name}`")));
    }
}

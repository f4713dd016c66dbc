//! Names of files: a file with a vague name collects unrelated code.

use super::tree::{Finding, Tree};

const EMPTY_NAMES: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "misc"];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for path in tree.paths() {
        let last = path.rsplit('/').next().unwrap_or(path);
        let stem = last.split('.').next().unwrap_or(last);
        if EMPTY_NAMES.contains(&stem.to_lowercase().as_str()) {
            let message = format!("`{stem}` is vague; name it after the noun it holds");
            findings.push(Finding::error(path, 1, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::findings;
    use super::*;

    #[test]
    fn names_that_say_nothing_are_found_for_files_and_folders() {
        let files = [
            ("crates/tree/src/utils.rs", ""),
            ("tests/common/mod.rs", ""),
        ];
        let found = findings(check, &files);
        assert_eq!(
            found,
            [
                "crates/tree/src/utils.rs:1: `utils` is vague; name it after the noun it holds",
                "tests/common:1: `common` is vague; name it after the noun it holds",
            ]
        );
    }

    #[test]
    fn names_that_hold_a_noun_are_not() {
        let files = [("a/uncommon.rs", ""), ("a/commons_map.rs", "")];
        assert_eq!(findings(check, &files), [""; 0]);
    }
}

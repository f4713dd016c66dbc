//! `cargo xtask tidy`: the project's own rules, which no compiler checks.
//!
//! Invariants: a rule reads a [`Tree`] held in memory, or what cargo printed, and touches no disk,
//! so each rule has a test in which it fires; every finding names a file and a line; only files
//! that git would track are read, so build products and private notes never matter.

mod dependencies;
mod links;
mod machine;
mod names;
mod records;
mod size;
mod text;
mod tree;
mod unsafe_modules;

use std::path::Path;

use tree::{Finding, Tree};

/// A rule adds what it finds.
type Rule = fn(&Tree, &mut Vec<Finding>);

const RULES: [Rule; 11] = [
    unsafe_modules::unsafe_code,
    links::check,
    machine::paths,
    machine::registries,
    names::check,
    records::check,
    size::check,
    text::columns,
    text::opening,
    text::unfinished,
    text::whitespace,
];

/// Prints every finding of every rule; an error when there is one.
pub fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let mut findings = check(&tree);
    dependencies::check(&dependencies::packages(root)?, &mut findings);
    for finding in &findings {
        println!("{finding}");
    }
    let warnings = findings.iter().filter(|it| it.is_warning).count();
    let errors = findings.len() - warnings;
    let files = tree.len();
    let summary = format!("tidy: {files} files, errors: {errors}, warnings: {warnings}");
    if errors > 0 {
        return Err(summary);
    }
    println!("{summary}");
    Ok(())
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in RULES {
        rule(tree, &mut findings);
    }
    findings.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_tree_has_no_findings_and_several_come_out_in_order() {
        let clean = Tree::sample(&[("crates/tree/src/lib.rs", "//! Maps.\n\nmod btree;\n")]);
        assert!(check(&clean).is_empty());
        let messy = Tree::sample(&[
            ("b.rs", "//! B.\n\nfn f() {\n\tg()\n}\n"),
            ("a.rs", "fn f() {} \n"),
        ]);
        let places: Vec<_> = check(&messy)
            .into_iter()
            .map(|f| (f.file, f.line))
            .collect();
        let expected = [("a.rs", 1), ("a.rs", 1), ("b.rs", 4)];
        assert_eq!(places, expected.map(|(f, l)| (f.to_string(), l)));
    }
}

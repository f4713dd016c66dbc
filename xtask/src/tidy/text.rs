//! The text of a file: how it opens, that nothing in it is unfinished, that it has no stray space.

use super::lex;
use super::tree::{Finding, Source, Tree};

/// Words that mark unfinished work, in prose as in code. Spelled in two halves, so that this file
/// passes its own check.
const MARKERS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Macros that mark unfinished work or a debugging session.
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Every Rust file opens by saying what it is for.
pub fn opening(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.rust() {
        let first = source.text.lines().next().unwrap_or("");
        let says = first
            .strip_prefix("//!")
            .is_some_and(|s| !s.trim().is_empty());
        if !says {
            findings.push(source.error(1, "opens without `//!` saying what the file is for"));
        }
    }
}

/// No unfinished work, no debugging left behind, no test ignored without its reason.
pub fn unfinished(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources().filter(|source| is_ours(source)) {
        for (number, line) in source.lines() {
            for word in lex::words(line).filter(|word| MARKERS.contains(word)) {
                findings.push(source.error(number, format!("{word} marks unfinished work")));
            }
        }
        for (number, code) in source.code_lines() {
            for name in MACROS.into_iter().filter(|name| calls_macro(code, name)) {
                findings.push(source.error(number, format!("{name}! must not stay")));
            }
            if ignores_silently(code) {
                findings.push(source.error(number, "#[ignore] needs a reason"));
            }
        }
        // Masking hides the reason's text, so an empty one is looked for in the source.
        for (number, line) in source.lines() {
            let squeezed: String = line.split_whitespace().collect();
            if source.is_rust() && squeezed.starts_with("#[ignore=\"\"") {
                findings.push(source.error(number, "#[ignore] needs a reason"));
            }
        }
    }
}

fn calls_macro(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        code[at + name.len()..].starts_with('!') && !before.is_some_and(lex::is_word)
    })
}

/// An attribute that says `ignore`, alone or under `cfg_attr`, without `= "reason"`.
fn ignores_silently(code: &str) -> bool {
    let code = code.trim_start();
    code.starts_with("#[")
        && code.match_indices("ignore").any(|(at, word)| {
            let before = code[..at].trim_end().chars().next_back();
            let after = code[at + word.len()..].trim_start().chars().next();
            matches!(before, Some('[' | ',')) && matches!(after, Some(']' | ')' | ','))
        })
}

/// No space before a line's end, no tab in Rust.
pub fn whitespace(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources().filter(|source| is_ours(source)) {
        for (number, line) in source.lines() {
            if line.ends_with([' ', '\t']) {
                findings.push(source.error(number, "trailing whitespace"));
            }
            if source.is_rust() && line.contains('\t') {
                findings.push(source.error(number, "tab; indent with spaces"));
            }
        }
    }
}

/// Text that is written by hand here; fixtures and traces keep the shape they were recorded in.
fn is_ours(source: &Source) -> bool {
    let path = &source.path;
    let written = [".rs", ".toml", ".md", ".sh", ".yml", ".yaml"];
    written.iter().any(|end| path.ends_with(end)) || path == ".ci/run"
}

#[cfg(test)]
mod tests {
    use super::super::tree::findings;
    use super::*;

    #[test]
    fn a_file_that_opens_without_saying_what_it_is_for_is_found() {
        for text in ["", "fn f() {}\n", "// A comment.\n", "//!\n//! Late.\n"] {
            assert_eq!(
                findings(opening, &[("a.rs", text)]),
                ["a.rs:1: opens without `//!` saying what the file is for"],
                "{text:?}"
            );
        }
        assert_eq!(findings(opening, &[("a.rs", "//! A.\n")]), [""; 0]);
        assert_eq!(findings(opening, &[("a.md", "# A\n")]), [""; 0]);
    }

    #[test]
    fn markers_of_unfinished_work_are_found_in_prose_and_code() {
        for word in MARKERS {
            let text = format!("# A\nthis is {word}: later\n");
            let expected = format!("a.md:2: {word} marks unfinished work");
            assert_eq!(findings(unfinished, &[("a.md", &text)]), [expected]);
            let comment = format!("//! A.\n// {word}\n");
            assert_eq!(findings(unfinished, &[("a.rs", &comment)]).len(), 1);
            let longer = format!("//! {word}S and s{word}\n");
            assert_eq!(findings(unfinished, &[("a.rs", &longer)]), [""; 0]);
        }
    }

    #[test]
    fn macros_of_unfinished_work_are_found_in_code_only() {
        for name in MACROS {
            let text = format!("//! A.\nfn f() {{ {name}!(1) }}\n");
            let expected = format!("a.rs:2: {name}! must not stay");
            assert_eq!(findings(unfinished, &[("a.rs", &text)]), [expected]);
            let prose =
                format!("//! {name}!(x) is not for us.\nfn my_{name}() {{ my_{name}!() }}\n");
            assert_eq!(findings(unfinished, &[("a.rs", &prose)]), [""; 0]);
        }
    }

    #[test]
    fn tests_ignored_without_a_reason_are_found() {
        for attribute in [
            "#[ignore]",
            "#[test] #[ignore]",
            "#[cfg_attr(loom, ignore)]",
            "#[ignore = \"\"]",
        ] {
            let text = format!("//! A.\n    {attribute}\nfn f() {{}}\n");
            assert_eq!(
                findings(unfinished, &[("a.rs", &text)]),
                ["a.rs:2: #[ignore] needs a reason"],
                "{attribute}"
            );
        }
        let fine = "//! A.\n#[ignore = \"takes an hour\"]\n#[cfg_attr(loom, ignore = \"slow\")]\n\
                    fn ignore() { ignore() }\n";
        assert_eq!(findings(unfinished, &[("a.rs", fine)]), [""; 0]);
    }

    #[test]
    fn stray_space_is_found() {
        let text = "//! A. \nfn f() {\n\tg()\n}\n";
        assert_eq!(
            findings(whitespace, &[("a.rs", text)]),
            [
                "a.rs:1: trailing whitespace",
                "a.rs:3: tab; indent with spaces"
            ]
        );
        assert_eq!(findings(whitespace, &[("a.md", "x\ty\nz  \n")]).len(), 1);
        assert_eq!(findings(whitespace, &[("trace.csv", "1 \n\t2\n")]), [""; 0]);
    }
}

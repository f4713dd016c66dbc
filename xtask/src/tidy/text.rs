//! The text of a file: its opening, unfinished work, stray spaces.

use super::tree::{Finding, Source, Tree};

/// Words that mark unfinished work, in prose as in code. Spelled in two halves, so that this file
/// passes its own check.
const MARKERS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Every Rust file opens with its purpose.
pub fn opening(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.rust() {
        let first = source.text.lines().next().unwrap_or("");
        let says = first
            .strip_prefix("//!")
            .is_some_and(|s| !s.trim().is_empty());
        if !says {
            findings.push(source.error(1, "opens without a `//!` comment on its purpose"));
        }
    }
}

/// No unfinished work. Macros of that kind, and tests ignored without a reason, are for clippy.
pub fn unfinished(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources().filter(|source| is_ours(source)) {
        for (number, line) in source.lines() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in words.filter(|word| MARKERS.contains(word)) {
                findings.push(source.error(number, format!("{word} marks unfinished work")));
            }
        }
    }
}

/// The most columns of prose: comments in Rust, and Markdown beside tables, links and code.
const COLUMNS: usize = 100;

/// No long lines of prose. rustfmt sees to the code.
pub fn columns(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources() {
        let mut is_code = false;
        for (number, whole) in source.lines() {
            let line = whole.trim_start();
            let prose = match source.is_markdown() {
                true => {
                    is_code ^= line.starts_with("```");
                    !is_code && !line.starts_with('|') && !line.contains("](")
                }
                false => source.is_rust() && line.starts_with("//") && !line[2..].contains("://"),
            };
            let width = whole.chars().count();
            if prose && width > COLUMNS {
                let message = format!("{width} columns, the most is {COLUMNS}");
                findings.push(source.error(number, message));
            }
        }
    }
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
                ["a.rs:1: opens without a `//!` comment on its purpose"],
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
    fn wide_lines_of_prose_are_found() {
        let wide = "wide ".repeat(20);
        let text = format!("//! {wide}\nlet x = \"{wide}\";\n    // {wide}\n// http://{wide}\n");
        let expected = [
            "a.rs:1: 104 columns, the most is 100",
            "a.rs:3: 107 columns, the most is 100",
        ];
        assert_eq!(findings(columns, &[("a.rs", &text)]), expected);
        let text = format!("{wide}é\n| {wide} |\n[{wide}](a)\n```\n{wide}.\n```\n{wide}\n");
        let expected = ["a.md:1: 101 columns, the most is 100"];
        assert_eq!(findings(columns, &[("a.md", &text)]), expected);
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

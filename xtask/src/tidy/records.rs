//! Records of measurements: a number without its date, machine and command cannot be repeated.

use super::tree::{Finding, Tree};

const FOLDER: &str = "docs/records/";
const NAMED: [&str; 3] = ["date", "machine", "command"];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let is_record = |path: &str| path.starts_with(FOLDER) && path.ends_with(".md");
    for record in tree.sources().filter(|source| is_record(&source.path)) {
        for word in NAMED {
            if !record.lines().any(|(_, line)| opens_with(line, word)) {
                let message = format!("a record needs a heading or line that opens with `{word}`");
                findings.push(record.error(1, message));
            }
        }
    }
}

/// Whether the line's first word is `word`, or its plural, under whatever marks Markdown puts
/// before it.
fn opens_with(line: &str, word: &str) -> bool {
    let start = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let first = start.split(|c: char| !c.is_alphanumeric()).next();
    let first = first.unwrap_or("").to_lowercase();
    first.strip_suffix('s').unwrap_or(&first) == word
}

#[cfg(test)]
mod tests {
    use super::super::tree::findings;
    use super::*;

    fn record(text: &str) -> Vec<String> {
        findings(check, &[("docs/records/first.md", text)])
    }

    #[test]
    fn what_is_missing_is_named() {
        let found = record("# First\n\nDate: today\n\n## Commands\n\nthe machine is unnamed\n");
        assert_eq!(
            found,
            ["docs/records/first.md:1: \
             a record needs a heading or line that opens with `machine`"]
        );
        assert_eq!(record("").len(), 3);
    }

    #[test]
    fn any_markdown_dress_will_do() {
        let text = "| Date | today |\n- **Machine**: two cores\n### Command\n";
        assert_eq!(record(text), [""; 0]);
        assert_eq!(findings(check, &[("docs/design/a.md", "x")]), [""; 0]);
    }
}

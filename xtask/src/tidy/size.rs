//! Sizes of files: a very long file holds more than one noun.

use super::tree::{Finding, Tree};

/// Lines above which a Rust file gets a warning, and above which it is an error.
const WARN: usize = 500;
const MOST: usize = 800;

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.rust() {
        let lines = source.text.lines().count();
        if lines > MOST {
            findings.push(source.error(lines, format!("{lines} lines, the most is {MOST}")));
        } else if lines > WARN {
            let message = format!("{lines} lines, consider a split above {WARN}");
            findings.push(source.warning(lines, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::findings;
    use super::*;

    fn of(lines: usize) -> Vec<String> {
        findings(check, &[("a.rs", &"//\n".repeat(lines))])
    }

    #[test]
    fn long_files_warn_and_then_fail() {
        assert_eq!(of(WARN), [""; 0]);
        let warned = "a.rs:501: warning: 501 lines, consider a split above 500";
        assert_eq!(of(WARN + 1), [warned]);
        assert!(of(MOST)[0].contains("warning"));
        assert_eq!(of(MOST + 1), ["a.rs:801: 801 lines, the most is 800"]);
        let data = "x\n".repeat(MOST + 1);
        assert_eq!(findings(check, &[("a.csv", &data)]), [""; 0]);
    }
}

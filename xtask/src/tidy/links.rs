//! Links in Markdown: a relative one leads to a file or folder of the repository.
//!
//! Web addresses and anchors inside a page are not followed: the gate works offline.

use super::tree::{Finding, Tree};

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for page in tree.sources().filter(|source| source.is_markdown()) {
        let mut fenced = false;
        for (number, line) in page.lines() {
            let start = line.trim_start();
            if start.starts_with("```") || start.starts_with("~~~") {
                fenced = !fenced;
                continue;
            }
            if fenced {
                continue;
            }
            for target in targets(&without_code(line)) {
                if let Some(message) = breach(tree, &page.path, target) {
                    findings.push(page.error(number, message));
                }
            }
        }
    }
}

/// The line with its `code spans` left out.
fn without_code(line: &str) -> String {
    if line.matches('`').count() % 2 == 1 {
        // A span goes on in the next line, so which part is code is not known from this one.
        return line.to_string();
    }
    line.split('`').step_by(2).collect()
}

/// What `[text](target)` and `[label]: target` point to.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).map(|rest| {
        let end = rest.find(')').unwrap_or(rest.len());
        &rest[..end]
    });
    let reference = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| target);
    inline
        .chain(reference)
        .map(|target| {
            let bare = target.split_whitespace().next().unwrap_or("");
            bare.trim_matches(['<', '>'])
        })
        .collect()
}

fn breach(tree: &Tree, page: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or("");
    let elsewhere = ["http://", "https://", "mailto:"];
    if path.is_empty() || elsewhere.iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    if path.starts_with('/') {
        return Some(format!("link `{target}` is absolute; write it relative"));
    }
    match resolve(page, path) {
        None => Some(format!("link `{target}` leaves the repository")),
        Some(resolved) if tree.contains(&resolved) => None,
        Some(resolved) => Some(format!("link `{target}`: there is no `{resolved}`")),
    }
}

/// `path` as seen from the folder of `page`, or nothing when it climbs out of the root.
fn resolve(page: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tree::findings;
    use super::*;

    fn page(text: &str) -> Vec<String> {
        findings(check, &[("docs/a.md", text), ("docs/design/b.md", "")])
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(
            page("x\nsee [b](design/c.md)\n"),
            ["docs/a.md:2: link `design/c.md`: there is no `docs/design/c.md`"]
        );
        assert_eq!(page("[b]: c.md\n").len(), 1);
        assert_eq!(page("![p](p.svg \"title\") and [q](q.md#x)\n").len(), 2);
        assert!(page("[b](/docs/a.md)")[0].contains("is absolute"));
        assert!(page("[b](../../other/a.md)")[0].contains("leaves the repository"));
    }

    #[test]
    fn links_that_lead_somewhere_and_code_are_left_alone() {
        for text in [
            "[b](design/b.md), [c](design/b.md#top), [d](design/), [e](..), [f](#here)",
            "[w](https://example.org/x) <mailto:a@b>",
            "[b]: design/b.md",
            "`[b](c.md)` is code",
            "```\n[b](c.md)\n```",
        ] {
            assert_eq!(page(text), [""; 0], "{text}");
        }
    }
}

//! The files that the rules read, and their findings.
//!
//! Paths are relative to the repository's root, with `/` between the parts.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// One breach of one rule. Lines count from 1.
#[derive(Debug)]
pub struct Finding {
    pub file: String,
    pub line: usize,
    pub is_warning: bool,
    pub message: String,
}

impl Finding {
    pub fn error(file: &str, line: usize, message: impl Into<String>) -> Self {
        Finding {
            file: file.into(),
            line,
            is_warning: false,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let warning = if self.is_warning { "warning: " } else { "" };
        write!(f, "{}:{}: {warning}{}", self.file, self.line, self.message)
    }
}

/// A text file.
pub struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn new(path: &str, text: String) -> Self {
        let path = path.to_string();
        Source { path, text }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// The lines of the text, numbered from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    pub fn error(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding::error(&self.path, line, message)
    }

    pub fn warning(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding {
            is_warning: true,
            ..self.error(line, message)
        }
    }
}

/// Every file that git tracks or would track: the text of those that are text, the name of all.
pub struct Tree {
    sources: Vec<Source>,
    /// All files and the folders above them; the root is the empty path.
    paths: BTreeSet<String>,
    files: usize,
}

impl Tree {
    /// Reads the checkout at `root`.
    pub fn read(root: &Path) -> Result<Self, String> {
        let args = "ls-files -z --cached --others --exclude-standard";
        let listed = Command::new("git")
            .args(args.split(' '))
            .current_dir(root)
            .output()
            .map_err(|e| format!("tidy needs git to list the files: {e}"))?;
        if !listed.status.success() {
            let said = String::from_utf8_lossy(&listed.stderr);
            return Err(format!("tidy: git {args}: {}", said.trim()));
        }
        let names = String::from_utf8(listed.stdout)
            .map_err(|_| "tidy: a file's name is not UTF-8".to_string())?;
        // A file can be in the index and gone from the disk; it is leaving, so it is not checked.
        let present = names
            .split_terminator('\0')
            .filter(|path| root.join(path).is_file());
        let unique: BTreeSet<&str> = present.collect();
        let mut files = Vec::new();
        for path in unique {
            let bytes = std::fs::read(root.join(path)).map_err(|e| format!("{path}: {e}"))?;
            files.push((path, String::from_utf8(bytes).ok()));
        }
        Ok(Tree::new(files))
    }

    /// A tree of named files; those without text are binary.
    fn new<'a>(files: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Self {
        let mut tree = Tree {
            sources: Vec::new(),
            paths: BTreeSet::new(),
            files: 0,
        };
        for (path, text) in files {
            tree.files += 1;
            let ends = path.match_indices('/').map(|(end, _)| end);
            for end in ends.chain([0, path.len()]) {
                tree.paths.insert(path[..end].to_string());
            }
            tree.sources
                .extend(text.map(|text| Source::new(path, text)));
        }
        tree
    }

    /// A tree for a test.
    #[cfg(test)]
    pub fn sample(files: &[(&str, &str)]) -> Self {
        Tree::new(files.iter().map(|(p, t)| (*p, Some(t.to_string()))))
    }

    pub fn len(&self) -> usize {
        self.files
    }

    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter()
    }

    pub fn rust(&self) -> impl Iterator<Item = &Source> {
        self.sources().filter(|source| source.is_rust())
    }

    /// Whether there is a file or a folder of this name.
    pub fn contains(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Every file and folder, text or not; the root is the empty path.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }
}

/// The findings of `rule` in a tree of these files, as `file:line: message`.
#[cfg(test)]
pub fn findings(rule: super::Rule, files: &[(&str, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    rule(&Tree::sample(files), &mut found);
    found.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_knows_its_files_and_their_folders() {
        let tree = Tree::new([("a/b/c.rs", Some("//! C.\n".into())), ("raw.bin", None)]);
        for path in ["", "a", "a/b", "a/b/c.rs", "raw.bin"] {
            assert!(tree.contains(path), "{path}");
        }
        assert!(!tree.contains("a/c.rs"));
        assert_eq!((tree.len(), tree.sources().count()), (2, 1));
    }

    #[test]
    fn findings_are_shown_with_file_and_line() {
        let source = Source::new("a.md", String::new());
        assert_eq!(source.error(3, "bad").to_string(), "a.md:3: bad");
        assert_eq!(source.warning(1, "hm").to_string(), "a.md:1: warning: hm");
    }
}

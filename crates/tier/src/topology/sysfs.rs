//! Reading the kernel's small text files below a root.
//!
//! Invariant: a file that is not there is silence (kernels and machines differ); one that is there
//! and says nothing sensible leaves a note.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{IdList, TopologyError};

/// The most of a malformed file's content that is quoted, in characters.
const QUOTED: usize = 40;

/// A `/sys` and `/proc` below one root, and the notes taken while reading there.
pub struct Tree<'a> {
    root: &'a Path,
    notes: Vec<String>,
}

impl<'a> Tree<'a> {
    pub fn new(root: &'a Path) -> Self {
        Tree {
            root,
            notes: Vec::new(),
        }
    }

    /// Where `path`, relative to the root, is.
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub fn exists(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    pub fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    pub fn into_notes(self) -> Vec<String> {
        self.notes
    }

    /// The file's text, trimmed; `None` where there is none.
    pub fn text(&mut self, path: &str) -> Option<String> {
        match self.required(path) {
            Ok(text) => Some(text),
            Err(error) => {
                if self.exists(path) {
                    self.note(format!("ignored: {error}"));
                }
                None
            }
        }
    }

    /// The file's text, trimmed.
    pub fn required(&self, path: &str) -> Result<String, TopologyError> {
        let bytes = fs::read(self.at(path)).map_err(|error| TopologyError::Unreadable {
            path: self.at(path),
            reason: match error.kind() {
                ErrorKind::NotFound => "no such file".to_owned(),
                _ => error.to_string(),
            },
        })?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The first line that starts with `prefix`, without it and trimmed. Reads no further, for
    /// files like `smaps` whose every line costs the kernel work.
    pub fn line_after(&self, path: &str, prefix: &str) -> Option<String> {
        let file = fs::File::open(self.at(path)).ok()?;
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        let mut rests = lines.filter_map(|line| Some(line.strip_prefix(prefix)?.trim().to_owned()));
        rests.next()
    }

    /// The file's value, where it is there and parses.
    pub fn value<T: FromStr>(&mut self, path: &str, expected: &'static str) -> Option<T> {
        let text = self.text(path)?;
        let value = text.parse().ok();
        if value.is_none() {
            let error = self.malformed(path, &text, expected);
            self.note(format!("ignored: {error}"));
        }
        value
    }

    /// The file's list of ids, where it is there and parses.
    pub fn list(&mut self, path: &str) -> Option<IdList> {
        self.value(path, "a list like 0-1,3")
    }

    /// That a file holds something else than `expected`.
    pub fn malformed(&self, path: &str, text: &str, expected: &'static str) -> TopologyError {
        let mut found: String = text.chars().take(QUOTED).collect();
        if found.len() < text.len() {
            found.push('…');
        }
        let found = found.escape_debug().to_string();
        TopologyError::Malformed {
            path: self.at(path),
            found,
            expected,
        }
    }

    /// The numbers N of the entries named `prefix`N in a directory, ascending.
    pub fn numbered(&self, directory: &str, prefix: &str) -> IdList {
        let Ok(entries) = fs::read_dir(self.at(directory)) else {
            return IdList::default();
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect()
    }
}

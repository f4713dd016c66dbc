//! One-line errors about traces.

use std::fmt;
use std::path::{Path, PathBuf};

/// The reason why a trace, or the name of its format, cannot be used. Displays as one line with the
/// file and, for text, the line number from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    file: Option<PathBuf>,
    line: Option<u64>,
    what: String,
}

impl TraceError {
    pub(super) fn in_format(what: impl Into<String>) -> TraceError {
        TraceError {
            file: None,
            line: None,
            what: what.into(),
        }
    }

    pub(super) fn in_file(path: &Path, what: impl Into<String>) -> TraceError {
        TraceError {
            file: Some(path.to_owned()),
            line: None,
            what: what.into(),
        }
    }

    pub(super) fn at_line(self, line: u64) -> TraceError {
        TraceError {
            line: Some(line),
            ..self
        }
    }
}

/// Longest quotation of a trace in a message, characters.
const QUOTED: usize = 40;
/// Most quotations in one message.
const LISTED: usize = 12;

/// A part of a trace in backquotes, for a message: control characters are escaped, and a long text
/// is cut short.
pub(super) fn quoted(text: &str) -> String {
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(QUOTED).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    format!("`{}`", shown.escape_debug())
}

/// The same for several; a long list is cut short.
pub(super) fn all_quoted(texts: &[&str]) -> String {
    let shown: Vec<_> = texts.iter().take(LISTED).map(|it| quoted(it)).collect();
    match texts.len().saturating_sub(LISTED) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            None => f.write_str("trace format")?,
            Some(file) => write!(f, "trace `{}`", file.display())?,
        }
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junk_is_quoted_safely_and_cut_short() {
        assert_eq!(quoted("17"), "`17`");
        assert_eq!(quoted("\u{1b}[31m\n\r\0é"), r"`\u{1b}[31m\n\r\0é`");
        assert_eq!(quoted(&"x".repeat(1 << 20)).chars().count(), 2 + QUOTED + 1);
        assert_eq!(all_quoted(&["a", "b"]), "`a`, `b`");
        let many = all_quoted(&["a"; 100]);
        assert!(many.ends_with("`a`, and 88 more"), "{many}");
    }
}

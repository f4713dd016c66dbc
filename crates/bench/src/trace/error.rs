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

//! The protocol between the runner and its children: one line of JSON for each request and each
//! response.
//!
//! A child only responds. The runner skips lines on its standard output that are no response (a
//! peer may print).

use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::contender::Turn;

/// Kinds of keys; see [`crate::keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// Pseudo-random 64-bit words.
    Random,
    /// Dense words.
    Dense,
    /// The lines of a file of URLs.
    Urls,
    /// The lines of a file of words.
    Words,
}

impl KeyKind {
    /// Its name in `--keys` and in the report.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Random => "random",
            KeyKind::Dense => "dense",
            KeyKind::Urls => "urls",
            KeyKind::Words => "words",
        }
    }
}

/// The setup of a child; its only argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// A name of [`crate::contenders::ROWS`].
    pub index: String,
    /// The kind of its keys.
    pub keys: KeyKind,
    /// The file of the keys, for kinds that have one.
    pub file: Option<PathBuf>,
    /// Records to load.
    pub records: u64,
    /// Request threads.
    pub threads: usize,
    /// Seed of the requests.
    pub seed: u64,
    /// Whether our own arenas ask for 2 MiB pages.
    pub huge_pages: bool,
}

/// A request to a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Check the map's answers.
    Check,
    /// Load a number of records; `rest`: all that remain.
    Load {
        /// The number of records.
        count: u64,
        /// All that remain.
        rest: bool,
    },
    /// Run requests.
    Turn {
        /// The case.
        case: Case,
        /// Unmeasured time before, ms.
        warm_ms: u64,
        /// Measured time, ms.
        length_ms: u64,
    },
}

/// A child's response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Success, with the result.
    Done(Turn),
    /// Failure, in one line.
    Wrong(String),
}

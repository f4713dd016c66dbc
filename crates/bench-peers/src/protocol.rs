//! What the runner and its children say to each other: one line of JSON for each question and each
//! answer.
//!
//! A child never speaks unasked. Lines on its standard output that are no answer (a peer that
//! prints) are passed over.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::contender::Turn;

/// Kinds of keys; see [`crate::keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum KeyKind {
    /// Pseudo-random words.
    Random,
    /// Dense words.
    Dense,
    /// The lines of a file of URLs.
    Urls,
    /// The lines of a file of words of a language.
    Words,
}

impl KeyKind {
    /// What `--keys` and the report call it.
    pub fn name(self) -> &'static str {
        match self {
            KeyKind::Random => "random",
            KeyKind::Dense => "dense",
            KeyKind::Urls => "urls",
            KeyKind::Words => "words",
        }
    }
}

/// What a child is to hold; its only argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// A name of [`crate::contenders::ROWS`].
    pub index: String,
    /// The kind of its keys.
    pub keys: KeyKind,
    /// The file they come from, for kinds that have one.
    pub file: Option<PathBuf>,
    /// Records to load.
    pub records: u64,
    /// Request threads.
    pub threads: usize,
    /// Makes it repeatable.
    pub seed: u64,
    /// Whether arenas of our own ask for 2 MiB pages.
    pub huge_pages: bool,
}

/// What a child can be asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Whether the map answers rightly.
    Check,
    /// Load so many records; `rest`: all that are left.
    Load {
        /// How many.
        count: u64,
        /// All that are left.
        rest: bool,
    },
    /// Run requests.
    Turn {
        /// Which.
        case: Case,
        /// Unmeasured time before, ms.
        warm_ms: u64,
        /// Measured time, ms.
        length_ms: u64,
    },
}

/// What a child answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It is done, and this is what it came to.
    Done(Turn),
    /// It can't be, or went wrong: one line.
    Wrong(String),
}

//! The source of a run's requests, as the JSON records it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The source of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestSetting {
    /// Workloads, one after the other.
    Workloads {
        names: Vec<String>,
        /// The distribution of their requests, if not their own.
        distribution: Option<String>,
        /// A file whose lines are the keys, instead of numbers.
        keys: Option<PathBuf>,
    },
    Trace {
        path: PathBuf,
        /// Its format; if `None`, its name tells it.
        format: Option<String>,
        /// Replay speed: 2 is twice as fast as recorded.
        speed: Option<f64>,
        /// Whether to run in a closed loop: each request waits for the response to the previous
        /// one, whatever the timestamps.
        closed_loop: bool,
    },
}

impl RequestSetting {
    /// One workload over numbers.
    pub fn workload(name: &str, distribution: Option<&str>) -> Self {
        RequestSetting::Workloads {
            names: vec![name.into()],
            distribution: distribution.map(String::from),
            keys: None,
        }
    }

    pub fn closed_loop(path: &Path, format: Option<String>) -> Self {
        RequestSetting::Trace {
            path: path.into(),
            format,
            speed: None,
            closed_loop: true,
        }
    }
}

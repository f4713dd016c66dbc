//! How large an evaluation is.

use std::path::PathBuf;

use crate::run::{Budget, RequestSetting, Setting};

/// What all runs of an evaluation have in common.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Records of a map, where a figure does not vary them.
    pub records: u64,
    /// Request threads, likewise.
    pub threads: usize,
    /// The map that replaces all of the papers'; each figure's own if none.
    pub index: Option<String>,
    /// Emulated slow memory.
    pub profile: String,
    /// What the emulator takes a CPU's cache to hold, bytes.
    pub cpu_cache: usize,
    /// Makes all of it repeatable.
    pub seed: u64,
    /// Measured time of a placement in a round, s.
    pub slice_s: f64,
    /// Rounds.
    pub rounds: usize,
    /// Unmeasured time before, for placements that adapt, s.
    pub warmup_s: f64,
    /// Fewer points of each figure.
    pub is_quick: bool,
    /// Keys out of a file, a line each, for the figure of long keys.
    pub urls: Option<PathBuf>,
    /// Traces to replay.
    pub traces: Vec<PathBuf>,
    /// How they are written; by their names if nothing is given.
    pub trace_format: Option<String>,
}

impl Default for Scale {
    /// Two million records, which are far larger than a CPU's caches: an hour or two on two cores.
    fn default() -> Self {
        Scale {
            records: 2_000_000,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            index: None,
            profile: "cxl".into(),
            cpu_cache: 1 << 20,
            seed: 42,
            slice_s: 0.4,
            rounds: 5,
            // SIDLE's thresholds need several of its cooling periods of 2 s.
            warmup_s: 6.0,
            is_quick: false,
            urls: None,
            traces: Vec::new(),
            trace_format: None,
        }
    }
}

impl Scale {
    /// A look at everything in five minutes.
    pub fn quick() -> Self {
        Scale {
            records: 200_000,
            // As much smaller as the maps are.
            cpu_cache: 128 << 10,
            slice_s: 0.1,
            rounds: 3,
            warmup_s: 0.8,
            is_quick: true,
            ..Scale::default()
        }
    }

    /// A run of a workload on the map that a figure is about, 20 % fast.
    pub fn setting(&self, index: &str, workload: &str, placements: &[&str]) -> Setting {
        Setting {
            indexes: vec![self.index.clone().unwrap_or_else(|| index.into())],
            requests: RequestSetting::workload(workload, None),
            records: self.records,
            key_bytes: 8,
            value_bytes: 8,
            threads: self.threads,
            budget: Budget::Ratio(0.2),
            placements: placements.iter().map(ToString::to_string).collect(),
            slice_s: self.slice_s,
            rounds: self.rounds,
            warmup_s: self.warmup_s,
            shift_every_s: None,
            interval_s: None,
            watermarks: None,
            profile: self.profile.clone(),
            cpu_cache: self.cpu_cache,
            page_costs: String::new(),
            nodes: Default::default(),
            kernel_tiering: None,
            seed: self.seed,
        }
    }

    /// The same over another distribution.
    pub fn over(
        &self,
        index: &str,
        workload: &str,
        distribution: &str,
        placements: &[&str],
    ) -> Setting {
        Setting {
            requests: RequestSetting::workload(workload, Some(distribution)),
            ..self.setting(index, workload, placements)
        }
    }

    /// All points of a figure, or a few of them for a quick look.
    pub fn pick<'a, T>(&self, all: &'a [T], few: &'a [T]) -> &'a [T] {
        match self.is_quick {
            true => few,
            false => all,
        }
    }
}

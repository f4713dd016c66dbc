//! The scale of an evaluation.

use std::path::PathBuf;

use crate::run::{Budget, RequestSetting, Setting};

/// The settings that all runs of an evaluation share.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Records of a map, unless the figure varies them.
    pub records: u64,
    /// Request threads, unless the figure varies them.
    pub threads: usize,
    /// The map for all figures; if `None`, each figure uses its paper's map.
    pub index: Option<String>,
    /// Emulated slow memory.
    pub profile: String,
    /// Size of the emulated CPU cache, bytes.
    pub cpu_cache: usize,
    pub seed: u64,
    /// Measured time of a placement in a round, s.
    pub slice_s: f64,
    /// The same of a placement that does not adapt, if it is another.
    pub static_slice_s: Option<f64>,
    pub rounds: usize,
    /// Unmeasured warm-up of adaptive placements, s.
    pub warmup_s: f64,
    /// Fewer points for each figure.
    pub is_quick: bool,
    /// The file whose lines are the keys of the figure on long keys.
    pub urls: Option<PathBuf>,
    pub traces: Vec<PathBuf>,
    /// The format of the traces; if empty, their names tell it.
    pub trace_format: Option<String>,
}

/// Other forms of placements, which a quick evaluation leaves out.
const FORMS: [&str; 3] = ["all-fast+copies", "damon-coldest", "sidle-released"];

impl Default for Scale {
    /// Two million records, far more than CPU caches hold: a night on two cores.
    fn default() -> Self {
        Scale {
            records: 2_000_000,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            index: None,
            profile: "cxl".into(),
            cpu_cache: 1 << 20,
            seed: 42,
            // Long enough for a placement that adapts to scan, cool and move in it.
            slice_s: 5.0,
            static_slice_s: Some(1.0),
            rounds: 6,
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
    /// A quick evaluation of everything in seven minutes.
    pub fn quick() -> Self {
        Scale {
            records: 200_000,
            // Scaled down like the maps.
            cpu_cache: 128 << 10,
            slice_s: 0.1,
            static_slice_s: None,
            rounds: 3,
            warmup_s: 0.8,
            is_quick: true,
            ..Scale::default()
        }
    }

    /// A run of a workload on the figure's map, with 20 % of it fast.
    pub fn setting(&self, index: &str, workload: &str, placements: &[&str]) -> Setting {
        let is_left_out = |name: &str| self.is_quick && FORMS.contains(&name);
        let placements = placements.iter().filter(|it| !is_left_out(it));
        Setting {
            indexes: vec![self.index.clone().unwrap_or_else(|| index.into())],
            requests: RequestSetting::workload(workload, None),
            records: self.records,
            key_bytes: 8,
            value_bytes: 8,
            threads: self.threads,
            budget: Budget::Ratio(0.2),
            middle: Vec::new(),
            placements: placements.map(ToString::to_string).collect(),
            slice_s: self.slice_s,
            static_slice_s: self.static_slice_s,
            rounds: self.rounds,
            warmup_s: self.warmup_s,
            shift_every_s: None,
            interval_s: None,
            watermarks: None,
            worker_cores: None,
            overlap: false,
            profile: self.profile.clone(),
            cpu_cache: self.cpu_cache,
            page_costs: String::new(),
            nodes: Default::default(),
            kernel_tiering: None,
            seed: self.seed,
        }
    }

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

    /// All points of a figure, or a few of them in a quick evaluation.
    pub fn pick<'a, T>(&self, all: &'a [T], few: &'a [T]) -> &'a [T] {
        match self.is_quick {
            true => few,
            false => all,
        }
    }
}

//! Everything that a run's figures depend on.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timberline_research::table::{self, Kind};
use timberline_tier::emulator::CacheSize;

use crate::run::{self, BadPlan, Budget, Form, Keys, PageCosts, Plan, Requests, What};
use crate::trace::Trace;
use crate::workload::{Distribution, KeySpace, Lines, Tpcc, Workload};

/// What the maps of a run are loaded with and asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Load {
    /// A workload by name, over records that are numbers.
    Workload {
        /// Its name.
        name: String,
        /// The distribution of its requests, if it is not its own.
        distribution: Option<String>,
    },
    /// A workload by name, whose keys are the lines of a file.
    Lines {
        /// Its name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// A trace, as fast as the maps answer.
    Trace {
        /// The file.
        path: PathBuf,
        /// How it is written; by its name if nothing is given.
        format: Option<String>,
    },
}

/// One run: a map, what it is asked, and the placements side by side. Equal settings have comparable results, so each is run once.
///
/// It has the fields of a [`Plan`] of one workload by the names and plain numbers that they are made of, as only these can be compared,
/// kept in a file and read again: a plan holds what came of reading them, an open trace among it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The map.
    pub index: String,
    /// What it is asked.
    pub load: Load,
    /// Records loaded before; a trace has its own.
    pub records: u64,
    /// Bytes of a key, 8 to 128.
    pub key_bytes: usize,
    /// Bytes of a value, 8 to 2048.
    pub value_bytes: usize,
    /// Request threads.
    pub threads: usize,
    /// Fast memory over the map's bytes, up to 1.
    pub budget: f64,
    /// The placements, side by side.
    pub placements: Vec<String>,
    /// Measured time of a placement in a round, s.
    pub slice_s: f64,
    /// Rounds.
    pub rounds: usize,
    /// Unmeasured time before, for placements that adapt, s.
    pub warmup_s: f64,
    /// The hot region moves so often, s.
    pub shift_every_s: Option<f64>,
    /// From one look of SIDLE's trigger to the next, s; the published one if none.
    pub interval_s: Option<f64>,
    /// SIDLE's watermarks, low and high; the published ones if none.
    pub watermarks: Option<(f64, f64)>,
    /// What the emulator takes a CPU's cache to hold, bytes.
    pub cpu_cache: usize,
    /// Emulated slow memory.
    pub profile: String,
    /// Makes all of it repeatable.
    pub seed: u64,
}

impl Setting {
    /// Its plan.
    ///
    /// # Errors
    /// A name that is unknown, a size that is not possible, a file that can't be read: one line.
    pub fn plan(&self) -> Result<Plan, BadPlan> {
        let seconds = Duration::from_secs_f64;
        Ok(Plan {
            what: vec![self.what()?],
            indexes: run::indexes(std::slice::from_ref(&self.index))?,
            placements: run::placements(&self.placements)?,
            threads: self.threads,
            slice: seconds(self.slice_s),
            rounds: self.rounds,
            warmup: seconds(self.warmup_s),
            budget: Budget::Ratio(self.budget),
            shift_every: self.shift_every_s.map(seconds),
            interval: self.interval_s.map(seconds),
            watermarks: self.watermarks,
            cpu_cache: CacheSize::new(self.cpu_cache).map_err(|bad| BadPlan(bad.to_string()))?,
            seed: self.seed,
            nodes: [Vec::new(), Vec::new()],
            page_costs: PageCosts::default(),
        })
    }

    fn what(&self) -> Result<What, BadPlan> {
        let line = |error: &dyn std::fmt::Display| BadPlan(error.to_string());
        let numbers = Keys::of_bytes(self.key_bytes);
        let form = |keys| Form::new(keys, self.value_bytes);
        let workload = |name: &str| Workload::parse(name).map_err(|error| line(&error));
        match &self.load {
            Load::Workload { name, distribution } => {
                if let Some(tpcc) = Tpcc::parse(name, self.records) {
                    let tpcc = tpcc.map_err(|error| line(&error))?;
                    return Ok(What::tpcc(tpcc, form(numbers?)?));
                }
                let mut workload = workload(name)?;
                if let Some(spec) = distribution {
                    let parsed = Distribution::parse(spec).map_err(|error| line(&error))?;
                    workload = workload.with_distribution(parsed);
                }
                let space = KeySpace::new(self.records).map_err(|error| line(&error))?;
                Ok(What::stream(workload, space, form(numbers?)?))
            }
            Load::Lines { name, path } => {
                let lines = Lines::read(path).map_err(BadPlan)?;
                let space = KeySpace::dense(self.records).map_err(|error| line(&error))?;
                let form = form(Keys::Lines(Arc::new(lines)))?;
                Ok(What::stream(workload(name)?, space, form))
            }
            Load::Trace { path, format } => {
                let trace = Trace::open_as(path, format.as_deref());
                let trace = Arc::new(trace.map_err(|error| line(&error))?);
                Ok(What {
                    requests: Requests::Trace { trace, speed: None },
                    form: form(numbers?)?,
                })
            }
        }
    }

    /// About how long it takes, s; good enough to compare runs with each other.
    pub fn estimate_s(&self) -> f64 {
        // Measured on two cores: loading a record, and an oracle's rehearsal.
        const LOAD: f64 = 1.2e-6;
        const REHEARSAL: f64 = 2.0 * 0.6e-6;
        let kind = |name: &String| table::row(name).map(|row| row.kind);
        let warming = |name: &&String| matches!(kind(name), Some(Kind::Adaptive | Kind::Paused));
        let maps = self.placements.len() as f64;
        let oracles = self
            .placements
            .iter()
            .filter(|it| kind(it) == Some(Kind::Oracle));
        let adapting = self.placements.iter().filter(warming).count() as f64;
        let bytes = (self.key_bytes + self.value_bytes) as f64 / 16.0;
        self.records as f64
            * (LOAD * (maps + 1.0) * bytes.sqrt() + REHEARSAL * oracles.count() as f64)
            + adapting * self.warmup_s
            + (maps - adapting) * self.warmup_s.min(0.5)
            + maps * self.slice_s * self.rounds as f64
    }

    /// What is asked, in a word.
    pub fn workload(&self) -> &str {
        match &self.load {
            Load::Workload { name, .. } | Load::Lines { name, .. } => name,
            Load::Trace { .. } => "trace",
        }
    }
}

/// What tells it from others at a glance, for a line about a run.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, workload) = (&self.index, self.workload());
        let (records, fast) = (self.records, 100.0 * self.budget);
        write!(
            f,
            "{workload} on {index}, {records} records, {fast:.0} % fast"
        )
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A run of moments.
    pub fn tiny() -> Setting {
        Setting {
            index: "btree".into(),
            load: Load::Workload {
                name: "ycsb-c".into(),
                distribution: None,
            },
            records: 2_000,
            key_bytes: 8,
            value_bytes: 8,
            threads: 1,
            budget: 0.2,
            placements: ["all-fast", "interleave", "timberline"]
                .map(String::from)
                .to_vec(),
            slice_s: 0.02,
            rounds: 2,
            warmup_s: 0.0,
            shift_every_s: None,
            interval_s: None,
            watermarks: None,
            cpu_cache: 1 << 20,
            profile: "cxl".into(),
            seed: 7,
        }
    }

    #[test]
    fn a_setting_is_a_plan_of_one_workload() {
        let setting = Setting {
            interval_s: Some(0.25),
            watermarks: Some((0.5, 0.6)),
            ..tiny()
        };
        let plan = setting.plan().unwrap();
        assert_eq!(plan.what.len(), 1);
        assert_eq!(plan.placements, ["all-fast", "interleave", "timberline"]);
        assert_eq!(plan.interval, Some(Duration::from_millis(250)));
        assert_eq!(plan.watermarks, Some((0.5, 0.6)));
    }

    #[test]
    fn what_is_not_possible_is_said_in_a_line() {
        let line = |setting: Setting| setting.plan().err().unwrap().to_string();
        let load = |name: &str, distribution: Option<&str>| Load::Workload {
            name: name.into(),
            distribution: distribution.map(String::from),
        };
        let bad = [
            line(Setting {
                index: "tree".into(),
                ..tiny()
            }),
            line(Setting {
                load: load("ycsb-z", None),
                ..tiny()
            }),
            line(Setting {
                load: load("ycsb-a", Some("flat")),
                ..tiny()
            }),
            line(Setting {
                key_bytes: 500,
                ..tiny()
            }),
            line(Setting {
                load: Load::Trace {
                    path: "/nonexistent.csv".into(),
                    format: None,
                },
                ..tiny()
            }),
        ];
        for (line, name) in
            bad.iter()
                .zip(["`tree`", "`ycsb-z`", "flat", "500", "/nonexistent.csv"])
        {
            assert!(line.contains(name) && !line.contains('\n'), "{line}");
        }
    }
}

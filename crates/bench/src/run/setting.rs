//! All inputs of a run's results, as the JSON records them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timberline_research::pages::PageCosts;
use timberline_research::table::{self, Kind};
use timberline_tier::emulator::CacheSize;

use super::plan::{Budget, Load, Plan, indexes, placements};
use super::record_format::{Keys, RecordFormat};
use super::request_setting::RequestSetting;
use super::source::Requests;
use crate::BadInput;
use crate::trace::Trace;
use crate::workload::{Distribution, KeySpace, Lines, Tpcc, Workload};

/// More requests a second than any map serves.
const MOST_A_SECOND: f64 = 50e6;

/// A run: maps, requests, and the placements to compare. Runs with equal settings are comparable.
///
/// It holds names and plain numbers, so that it can be compared, written to a file and read again;
/// [`Setting::plan`] reads the names and opens the files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub indexes: Vec<String>,
    pub requests: RequestSetting,
    /// Records loaded before the requests; a trace defines its own.
    pub records: u64,
    /// Bytes of a key, 8 to 128.
    pub key_bytes: usize,
    /// Bytes of a value, 8 to 2048.
    pub value_bytes: usize,
    pub threads: usize,
    /// Fast memory.
    pub budget: Budget,
    /// The tiers between the fast one and the slowest, fastest first.
    #[serde(default)]
    pub middle: Vec<Budget>,
    /// The placements, side by side.
    pub placements: Vec<String>,
    /// Measured time of a placement in a round, s.
    pub slice_s: f64,
    /// The same of a placement that does not adapt; as `slice_s` if `null`, and where requests
    /// insert, follow a trace, or move their hot region.
    #[serde(default)]
    pub static_slice_s: Option<f64>,
    pub rounds: usize,
    /// Unmeasured warm-up of adaptive placements, s.
    pub warmup_s: f64,
    /// Interval at which the hot region moves, s.
    pub shift_every_s: Option<f64>,
    /// Interval between scans of SIDLE's trigger, s; as published if `null`.
    pub interval_s: Option<f64>,
    /// SIDLE's watermarks, low and high; as published if `null`.
    pub watermarks: Option<(f64, f64)>,
    /// Cores set aside for workers; `null` if they share all with request threads.
    #[serde(default)]
    pub worker_cores: Option<usize>,
    /// Whether the requests of a thread overlap in emulated memory, as many as the profile allows.
    #[serde(default)]
    pub overlap: bool,
    /// Size of the emulator's CPU cache, bytes a thread.
    pub cpu_cache: usize,
    /// Costs of page placements, ns, such as `fault=1000`; as published if empty.
    pub page_costs: String,
    /// The emulator's profile, or several joined by `+`: one for each tier but the fast one.
    /// `native` for real memory.
    pub profile: String,
    /// NUMA nodes of each tier, the fast one first; empty for the emulator.
    pub nodes: Vec<Vec<u32>>,
    /// The kernel's tiering mode, if the run sets it.
    pub kernel_tiering: Option<String>,
    /// Seed of all requests.
    pub seed: u64,
}

fn line(error: impl fmt::Display) -> BadInput {
    BadInput(error.to_string())
}

/// Checks seconds, named by their option.
fn seconds(option: &str, seconds: f64, least: f64) -> Result<Duration, BadInput> {
    if (least..=86_400.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(BadInput(format!(
        "--{option} {seconds}: give seconds from {least} to 86400"
    )))
}

/// Checks a count, named by its option.
fn within(option: &str, count: usize, most: usize) -> Result<usize, BadInput> {
    if (1..=most).contains(&count) {
        return Ok(count);
    }
    Err(BadInput(format!("--{option} {count}: give 1 to {most}")))
}

/// How many requests of a thread overlap in emulated memory of this profile.
fn overlapping(profile: &str) -> Result<usize, BadInput> {
    if profile == "native" {
        let line = "--overlap is the emulator's, and real memory overlaps by itself: leave out one of \
                    --overlap and --native";
        return Err(BadInput(line.into()));
    }
    Ok(super::plan::profile(profile)?.in_flight())
}

/// Checks a number of cores to set aside for workers.
fn cores_aside(aside: usize) -> Result<usize, BadInput> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if (1..cores).contains(&aside) {
        return Ok(aside);
    }
    Err(BadInput(format!(
        "--worker-cores {aside}: give at least 1; this process has {cores}, and request threads need 1 of them"
    )))
}

impl Setting {
    /// The plan of this run.
    ///
    /// # Errors
    /// An unknown name, an impossible size, an unreadable file: one line.
    pub fn plan(&self) -> Result<Plan, BadInput> {
        let optional = |option, value: Option<f64>, least| {
            let checked = value.map(|value| seconds(option, value, least));
            checked.transpose()
        };
        let threads = within("threads", self.threads, 1024)?;
        let slice = seconds("slice", self.slice_s, 0.05)?;
        Ok(Plan {
            loads: self.loads(threads, slice)?,
            indexes: indexes(&self.indexes)?,
            placements: placements(&self.placements)?,
            threads,
            slice,
            static_slice: optional("slice", self.static_slice_s, 0.05)?,
            rounds: within("rounds", self.rounds, 10_000)?,
            warmup: seconds("warmup", self.warmup_s, 0.0)?,
            budget: self.budget,
            middle: self.middle.clone(),
            shift_every: optional("shift-every", self.shift_every_s, 0.5)?,
            interval: optional("interval", self.interval_s, 0.001)?,
            watermarks: self.watermarks,
            overlap: match self.overlap {
                true => overlapping(&self.profile)?,
                false => 0,
            },
            cpu_cache: CacheSize::new(self.cpu_cache).map_err(line)?,
            seed: self.seed,
            worker_cores: self.worker_cores.map(cores_aside).transpose()?,
            nodes: self.nodes.clone(),
            page_costs: PageCosts::parse(&self.page_costs).map_err(line)?,
        })
    }

    /// The loads of the plan, one after the other.
    fn loads(&self, threads: usize, slice: Duration) -> Result<Vec<Load>, BadInput> {
        let format = |keys| RecordFormat::new(keys, self.value_bytes);
        let numbers = || Keys::of_bytes(self.key_bytes);
        let (names, distribution, keys) = match &self.requests {
            RequestSetting::Trace { .. } => {
                return Ok(vec![Load {
                    format: format(numbers()?)?,
                    requests: self.open_trace(threads, slice)?,
                }]);
            }
            RequestSetting::Workloads {
                names,
                distribution,
                keys,
            } => (names, distribution, keys),
        };
        let (format, space) = match keys {
            None => (format(numbers()?)?, KeySpace::new(self.records)),
            Some(path) => {
                let lines = Keys::Lines(Arc::new(Lines::read(path).map_err(BadInput)?));
                (format(lines)?, KeySpace::dense(self.records))
            }
        };
        let space = space?;
        let spec = distribution.as_deref().map(Distribution::parse);
        let spec = spec.transpose()?;
        let load = |name: &String| {
            if let Some(tpcc) = Tpcc::parse(name, self.records) {
                let tpcc = tpcc?;
                let given = [
                    ("--distribution", distribution.is_some()),
                    ("--keys", keys.is_some()),
                ];
                return match given.into_iter().find(|(_, given)| *given) {
                    None => Ok(Load::tpcc(tpcc, format.clone())),
                    Some((option, _)) => Err(BadInput(format!(
                        "{} has its own keys and distribution: leave out {option}",
                        tpcc.name()
                    ))),
                };
            }
            let workload = Workload::parse(name)?;
            let workload = match spec {
                Some(spec) => workload.with_distribution(spec),
                None => workload,
            };
            Ok(Load::stream(workload, space.clone(), format.clone()))
        };
        names.iter().map(load).collect()
    }

    fn open_trace(&self, threads: usize, slice: Duration) -> Result<Requests, BadInput> {
        let RequestSetting::Trace {
            path,
            format,
            speed,
            closed_loop,
        } = &self.requests
        else {
            unreachable!("asked of traces only")
        };
        let bad = |what: String| BadInput(format!("{}: {what}", path.display()));
        let trace = Trace::open_as(path, format.as_deref()).map_err(line)?;
        if trace.len() < threads {
            let requests = trace.len();
            return Err(bad(format!(
                "{requests} requests are too few for {threads} threads: lower --threads"
            )));
        }
        let speed = match (closed_loop, trace.span_ns(), speed) {
            (true, ..) | (_, None, None) => None,
            (_, None, Some(_)) => {
                return Err(bad(
                    "it has no timestamps to replay at a --speed; name their column and unit, e.g. csv:time=ts,unit=us".into(),
                ));
            }
            (_, Some(span), speed) => {
                Some(checked_speed(speed.unwrap_or(1.0), &trace, span, slice).map_err(bad)?)
            }
        };
        let trace = Arc::new(trace);
        Ok(Requests::Trace { trace, speed })
    }

    /// Caveats for readers of the results of this run of `plan`.
    pub fn notes(&self, plan: &Plan) -> Vec<String> {
        let trace = match (&self.requests, plan.speed()) {
            (RequestSetting::Trace { .. }, Some(speed)) => Some(format!(
                "The trace was replayed on schedule, at {speed} times its speed; latencies count from when a request was due."
            )),
            (RequestSetting::Trace { closed_loop: false, .. }, None) => Some(
                "The trace was replayed as fast as the map answers: it has no timestamps with a known unit \
                 (--trace-format csv:time=COLUMN,unit=us)."
                    .into(),
            ),
            _ => None,
        };
        let overlap = (plan.overlap > 0).then(|| {
            format!(
                "Up to {} requests of a thread overlap in slow memory, which is more than a core can.",
                plan.overlap
            )
        });
        let tiers = (!self.middle.is_empty()).then(|| self.tiers_in_words());
        trace
            .into_iter()
            .chain(tiers)
            .chain(overlap)
            .chain(plan.notes())
            .collect()
    }

    /// The tiers of memory and their sizes.
    fn tiers_in_words(&self) -> String {
        let names: Vec<&str> = match self.profile.as_str() {
            "native" => vec!["the next"; self.middle.len()],
            profiles => profiles.split('+').collect(),
        };
        let middle = names.iter().zip(&self.middle);
        let middle = middle.map(|(name, size)| format!("{name} {size}"));
        format!(
            "Memory of {} tiers, fastest first: fast {}, {}, {} the rest; slow lines and bytes are those of all \
             tiers but the fast one.",
            self.middle.len() + 2,
            self.budget,
            middle.collect::<Vec<_>>().join(", "),
            names.get(self.middle.len()).unwrap_or(&"the slowest"),
        )
    }

    /// Its estimated time, s; good enough to compare runs with each other.
    pub fn estimate_s(&self) -> f64 {
        // Measured on two cores: loading a record, and the rehearsal of an oracle.
        const LOAD: f64 = 1.2e-6;
        const REHEARSAL: f64 = 2.0 * 0.6e-6;
        let kind = |name: &String| table::row(name).map(|row| row.kind);
        let warming = |name: &&String| kind(name).is_some_and(Kind::adapts);
        let maps = self.placements.len() as f64;
        let oracles = self
            .placements
            .iter()
            .filter(|it| kind(it) == Some(Kind::Oracle));
        let adapting = self.placements.iter().filter(warming).count() as f64;
        let bytes = (self.key_bytes + self.value_bytes) as f64 / 16.0;
        let static_slice_s = self.static_slice_s.unwrap_or(self.slice_s);
        self.records as f64
            * (LOAD * (maps + 1.0) * bytes.sqrt() + REHEARSAL * oracles.count() as f64)
            + adapting * self.warmup_s
            + (maps - adapting) * self.warmup_s.min(0.5)
            + adapting * self.slice_s * self.rounds as f64
            + (maps - adapting) * static_slice_s * self.rounds as f64
    }

    /// A short description of the requests.
    pub fn workload(&self) -> String {
        match &self.requests {
            RequestSetting::Workloads { names, .. } => names.join(", "),
            RequestSetting::Trace { .. } => "trace".into(),
        }
    }
}

/// Checks that a replay speed fills a slice with requests, and stays below any map's throughput.
fn checked_speed(speed: f64, trace: &Trace, span_ns: u64, slice: Duration) -> Result<f64, String> {
    if !(speed.is_finite() && speed > 0.0) {
        return Err(format!("--speed {speed}: give a number above 0"));
    }
    let rate = trace.len() as f64 / (span_ns.max(1) as f64 / 1e9) * speed;
    if rate > MOST_A_SECOND {
        return Err(format!(
            "at a speed of {speed} it makes {rate:.0} requests a second, more than any map answers: lower --speed, or give \
             --closed-loop"
        ));
    }
    let seconds = slice.as_secs_f64();
    if rate * seconds < 100.0 {
        return Err(format!(
            "at a speed of {speed} it makes {rate:.3} requests a second, too few for rounds of {seconds} s: raise --speed or \
             --slice, or give --closed-loop"
        ));
    }
    Ok(speed)
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, workload) = (self.indexes.join(", "), self.workload());
        let records = self.records;
        write!(
            f,
            "{workload} on {index}, {records} records, {} fast",
            self.budget
        )
    }
}

#[cfg(test)]
pub mod tests {
    use std::path::Path;

    use super::*;

    /// A very short run.
    pub fn tiny() -> Setting {
        Setting {
            indexes: vec!["btree".into()],
            requests: RequestSetting::workload("ycsb-c", None),
            records: 2_000,
            key_bytes: 8,
            value_bytes: 8,
            threads: 1,
            budget: Budget::Ratio(0.2),
            middle: Vec::new(),
            placements: ["all-fast", "interleave", "timberline"]
                .map(String::from)
                .to_vec(),
            slice_s: 0.05,
            static_slice_s: None,
            rounds: 2,
            warmup_s: 0.0,
            shift_every_s: None,
            interval_s: None,
            watermarks: None,
            worker_cores: None,
            overlap: false,
            cpu_cache: 1 << 20,
            page_costs: String::new(),
            nodes: Default::default(),
            kernel_tiering: None,
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
        assert_eq!(plan.loads.len(), 1);
        assert_eq!(plan.placements, ["all-fast", "interleave", "timberline"]);
        assert_eq!(plan.interval, Some(Duration::from_millis(250)));
        assert_eq!(plan.watermarks, Some((0.5, 0.6)));
    }

    #[test]
    fn slices_are_shorter_where_nothing_changes() {
        let slices = |workload: &str, shift_every_s| {
            let setting = Setting {
                requests: RequestSetting::workload(workload, None),
                records: 10_000,
                slice_s: 5.0,
                static_slice_s: Some(0.5),
                shift_every_s,
                ..tiny()
            };
            let plan = setting.plan().unwrap();
            let load = &plan.loads[0];
            [Kind::Static, Kind::Oracle, Kind::Adaptive]
                .map(|kind| plan.slice_of(load, kind).as_secs_f64())
        };
        assert_eq!(slices("hs-a", None), [0.5, 0.5, 5.0]);
        // A map that ran longer would be larger, or see other requests.
        assert_eq!(slices("hs-d", None), [5.0; 3]);
        assert_eq!(slices("tpcc", None), [5.0; 3]);
        assert_eq!(slices("hs-c", Some(2.0)), [5.0; 3]);
    }

    #[test]
    fn overlap_is_as_deep_as_the_profile_and_the_emulators_alone() {
        let overlap = |profile: &str| {
            let profile = profile.into();
            let setting = Setting {
                overlap: true,
                profile,
                ..tiny()
            };
            setting.plan().map(|plan| plan.overlap)
        };
        assert_eq!(tiny().plan().unwrap().overlap, 0);
        assert_eq!((overlap("cxl").unwrap(), overlap("us5").unwrap()), (16, 10));
        let refused = overlap("native").unwrap_err().to_string();
        assert!(refused.contains("--native"), "{refused}");
    }

    #[test]
    fn what_is_not_possible_is_said_in_a_line() {
        let line = |setting: Setting| setting.plan().err().unwrap().to_string();
        let bad = [
            line(Setting {
                indexes: vec!["tree".into()],
                ..tiny()
            }),
            line(Setting {
                requests: RequestSetting::workload("ycsb-z", None),
                ..tiny()
            }),
            line(Setting {
                requests: RequestSetting::workload("ycsb-a", Some("flat")),
                ..tiny()
            }),
            line(Setting {
                key_bytes: 500,
                ..tiny()
            }),
            line(Setting {
                requests: RequestSetting::closed_loop(Path::new("/nonexistent.csv"), None),
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

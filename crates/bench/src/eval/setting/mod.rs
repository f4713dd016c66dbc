//! What a run is of, and all that its results depend on.

mod cluster;
mod maps;
mod micro;
mod store;

use std::fmt;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::matrix::Ground;
use super::results::Results;
use crate::BadInput;
use crate::report::Progress;
use crate::run;
use crate::store::SlowSetting;
use crate::{micro as bench_micro, remote};

/// A run. Runs with equal settings are comparable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Setting {
    /// Maps in tiers of memory, under several placements.
    Maps(run::Setting),
    /// The tree over memory servers in several designs, on a simulated cluster, under one workload.
    Cluster(remote::Setting),
    /// The same, with a compute server that gets half of another one's keys meanwhile.
    ScaleOut(remote::Setting),
    /// One point of the microbenchmark of the throughput model, in emulated slow memory.
    Micro(bench_micro::Setting),
    /// A store with its index or its cache in emulated slow memory, beside one that is all in DRAM.
    Store(SlowSetting),
}

impl From<run::Setting> for Setting {
    fn from(setting: run::Setting) -> Setting {
        Setting::Maps(setting)
    }
}

impl Setting {
    /// Those that are compared, in the results' order.
    pub fn subjects(&self) -> Vec<String> {
        match self {
            Setting::Maps(setting) => setting.placements.clone(),
            Setting::Cluster(setting) | Setting::ScaleOut(setting) => cluster::subjects(setting),
            Setting::Micro(_) => micro::SUBJECTS.map(String::from).to_vec(),
            Setting::Store(_) => store::SUBJECTS.map(String::from).to_vec(),
        }
    }

    /// A short name for files, not unique.
    pub fn name(&self) -> String {
        match self {
            Setting::Maps(setting) => {
                format!("{}-{}", setting.indexes.join("-"), setting.workload())
            }
            Setting::Cluster(setting) => format!("cluster-{}", cluster::workload(setting)),
            Setting::ScaleOut(_) => "scale-out".into(),
            Setting::Micro(_) => "micro".into(),
            Setting::Store(_) => "store".into(),
        }
    }

    /// The estimated time on two cores.
    pub fn estimate_s(&self) -> f64 {
        match self {
            Setting::Maps(setting) => setting.estimate_s(),
            Setting::Cluster(setting) | Setting::ScaleOut(setting) => cluster::estimate_s(setting),
            Setting::Micro(setting) => micro::estimate_s(setting),
            Setting::Store(setting) => store::estimate_s(setting),
        }
    }

    /// Checks that it is possible with so many bytes of memory.
    ///
    /// # Errors
    /// One line: why it is not.
    pub fn check(&self, available: u64) -> Result<(), BadInput> {
        match self {
            Setting::Maps(setting) => setting.plan()?.check(available),
            Setting::Cluster(setting) => setting.check_simulated(available),
            Setting::ScaleOut(setting) => setting.check_scale_out(available),
            Setting::Micro(setting) => {
                let needed = micro::needed_bytes(setting);
                fits("the microbenchmark takes", needed, available)
            }
            Setting::Store(setting) => fits(
                "two stores take up to",
                store::needed_bytes(setting),
                available,
            ),
        }
    }

    /// Runs it. If it is interrupted, the results are to be thrown away.
    ///
    /// # Errors
    /// One line: what failed.
    pub fn measure(
        &self,
        ground: &Ground,
        progress: &dyn Progress,
        interrupted: &AtomicBool,
    ) -> Result<Results, String> {
        match self {
            Setting::Maps(setting) => maps::measure(setting, ground, progress, interrupted),
            Setting::Cluster(setting) => cluster::measure(setting, ground, progress, interrupted),
            Setting::ScaleOut(setting) => {
                cluster::measure_scale_out(setting, ground, progress, interrupted)
            }
            Setting::Micro(setting) => micro::measure(setting, ground, progress, interrupted),
            Setting::Store(setting) => store::measure(setting, ground, progress, interrupted),
        }
    }
}

fn fits(what_takes: &str, needed: u64, available: u64) -> Result<(), BadInput> {
    match needed <= available {
        true => Ok(()),
        false => Err(BadInput(format!(
            "{what_takes} {} MiB, and {} MiB are free",
            needed >> 20,
            available >> 20
        ))),
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Maps(setting) => setting.fmt(f),
            Setting::Cluster(setting) => {
                write!(f, "{} on a simulated cluster", cluster::workload(setting))
            }
            Setting::ScaleOut(_) => f.write_str("a server more for a simulated cluster"),
            Setting::Micro(_) => f.write_str("microbenchmark"),
            Setting::Store(setting) => {
                write!(f, "a store with its {} in {}", setting.part, setting.memory)
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::run::tests::tiny;

    /// A small run of maps.
    pub fn maps() -> Setting {
        Setting::Maps(tiny())
    }

    /// A small run of a cluster.
    pub fn cluster() -> Setting {
        Setting::Cluster(remote::tests::small())
    }

    #[test]
    fn a_setting_is_the_same_after_a_file() {
        for setting in [maps(), cluster()] {
            let json = serde_json::to_string(&setting).unwrap();
            assert_eq!(serde_json::from_str::<Setting>(&json).unwrap(), setting);
        }
    }
}

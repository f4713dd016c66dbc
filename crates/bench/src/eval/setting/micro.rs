//! Runs of the microbenchmark, beside what the throughput model predicts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::eval::matrix::Ground;
use crate::eval::measure::Measure;
use crate::eval::results::{Results, Substitute, Table};
use crate::eval::subject::{Row, Values};
use crate::micro::{self, Io, Setting};
use crate::report::machine::now;
use crate::report::{Meta, Progress};

/// What is measured, by the probabilistic model, and by that of masking only.
pub const SUBJECTS: [&str; 3] = ["measured", "model", "masking"];

pub fn estimate_s(setting: &Setting) -> f64 {
    // Measured on two cores: a chain's byte, and a file's.
    const CHAIN: f64 = 4e-9;
    const FILE: f64 = 4e-9;
    let slices = setting.rounds * (setting.tasks.len() + 3);
    let file = match setting.io {
        Io::File { bytes, .. } => FILE * bytes as f64,
        Io::Timer(_) => 0.0,
    };
    // One for costs, and one a round.
    let chains = (setting.rounds + 1) * setting.memory_bytes;
    slices as f64 * setting.slice.as_secs_f64() + CHAIN * chains as f64 + file + 0.1
}

/// Bytes of memory that it takes.
pub fn needed_bytes(setting: &Setting) -> u64 {
    // Two chains: that for costs, and that of the point.
    2 * setting.memory_bytes as u64
}

/// Measures the first point of the setting's grid.
pub fn measure(
    setting: &Setting,
    ground: &Ground,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Results, String> {
    progress.phase("operations", None);
    let date = now();
    let mut here = setting.clone();
    if let Io::File { folder, .. } = &mut here.io {
        *folder = ground.folder.join(&*folder);
        std::fs::create_dir_all(&*folder).map_err(|error| error.to_string())?;
    }
    let outcome = micro::measure(&here, &|| interrupted.load(Relaxed));
    let outcome = outcome.map_err(|error| error.to_string())?;
    let rows = outcome.points.first().map(|point| {
        let values = [
            Values::Exact(point.per_s[0]),
            Values::Exact(point.predicted_per_s),
            Values::Exact(point.masking_per_s),
        ];
        let row = |(name, values)| Row::new(name).with(Measure::Throughput, values);
        SUBJECTS.into_iter().zip(values).map(row).collect()
    });
    Ok(Results::Table(Table {
        meta: Meta {
            date,
            profile: format!("microbenchmark, {}", outcome.io),
            emulated: true,
            ..ground.meta.clone()
        },
        substitute: Substitute::Emulated,
        rows: rows.unwrap_or_default(),
    }))
}

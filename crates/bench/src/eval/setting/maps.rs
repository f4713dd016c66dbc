//! Runs of maps in emulated memory.

use std::sync::atomic::AtomicBool;

use timberline_tier::emulator::Profile;

use crate::eval::matrix::Ground;
use crate::eval::results::Results;
use crate::report::machine::now;
use crate::report::{Meta, Progress, Report};
use crate::run::{self, Setting};

pub fn measure(
    setting: &Setting,
    ground: &Ground,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Results, String> {
    let date = now();
    let plan = setting.plan().map_err(|bad| bad.to_string())?;
    let profile = Profile::parse(&setting.profile).map_err(|error| error.to_string())?;
    let measured = run::emulated(&plan, &profile, ground.base, progress, interrupted)?;
    let meta = Meta {
        date,
        profile: setting.profile.clone(),
        base_latency_ns: measured.base_latency_ns(),
        emulated: true,
        seed: setting.seed,
        bounds: measured.bounds,
        calibrations: measured.calibrations,
        notes: [&ground.meta.notes[..], &measured.notes].concat(),
        ..ground.meta.clone()
    };
    Ok(Results::Report(Report {
        meta,
        results: measured.outcomes,
    }))
}

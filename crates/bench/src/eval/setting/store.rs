//! Runs of a store with its index or its cache in slow memory, beside one that is all in DRAM, and
//! what the throughput model predicts of it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use timberline_model::overlap::{Machine, limited_operation_s};
use timberline_model::{Operation, masking};

use crate::eval::matrix::Ground;
use crate::eval::measure::Measure;
use crate::eval::results::{Results, Substitute, Table};
use crate::eval::subject::{Row, Values};
use crate::micro::{self, Costs, Grid, Io};
use crate::report::machine::now;
use crate::report::{Meta, Progress, median};
use crate::store::{Setting, SlowSetting, Turn, measure_beside_dram};

pub const SUBJECTS: [&str; 4] = ["dram", "slow", "model", "masking"];

/// The part of an I/O's work on the core that comes before the device has it: it can't be measured
/// apart.
const SUBMIT_PART: f64 = 0.5;

pub fn estimate_s(setting: &SlowSetting) -> f64 {
    // Measured on two cores: loading a record and a byte of it.
    const LOAD: f64 = 8e-6;
    const BYTE: f64 = 3e-9;
    let Setting {
        records,
        value_bytes,
        rounds,
        slice,
        threads,
        ..
    } = setting.store;
    let loads = 2.0 * records as f64 * (LOAD + BYTE * value_bytes as f64);
    // Other threads fill their modelled caches first, by a get for four lines.
    const FILL: f64 = 30e-6 / 4.0 / 64.0;
    let fill_s = match threads {
        1 => 0.0,
        _ => FILL * setting.cpu_cache as f64,
    };
    loads + 2.0 * (rounds + 3) as f64 * (slice.as_secs_f64() + fill_s) + 0.5
}

/// Bytes of memory that two stores take, each with the limit for all of the process.
pub fn needed_bytes(setting: &SlowSetting) -> u64 {
    2 * setting.store.memory_bytes
}

pub fn measure(
    setting: &SlowSetting,
    ground: &Ground,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Results, String> {
    progress.phase("store", None);
    let date = now();
    let mut here = setting.clone();
    here.store.folder = ground.folder.join(&here.store.folder);
    here.store.check()?;
    let costs = costs().map_err(|error| error.to_string())?;
    let stores = measure_beside_dram(&here, &|| interrupted.load(Relaxed))?;
    let turns: Vec<&[Turn]> = { stores.iter() }
        .filter_map(|it| it.turns.first())
        .map(Vec::as_slice)
        .collect();
    let rows = match turns[..] {
        [dram, slow] => {
            let predicted = predicted(setting, &costs, dram, slow);
            let [model, masking] = [2, 3].map(|nth| {
                let per_s = Values::Exact(predicted[nth - 2]);
                Row::new(SUBJECTS[nth]).with(Measure::Throughput, per_s)
            });
            let slow = measured(SUBJECTS[1], slow)
                .with(Measure::SlowLines, rounds(slow, |it| it.slow_lines))
                .with(Measure::Waited, rounds(slow, |it| it.waited_us));
            vec![measured(SUBJECTS[0], dram), slow, model, masking]
        }
        _ => Vec::new(),
    };
    Ok(Results::Table(Table {
        meta: Meta {
            date,
            profile: setting.memory.to_string(),
            emulated: true,
            seed: setting.store.seed,
            ..ground.meta.clone()
        },
        substitute: Substitute::Emulated,
        rows,
    }))
}

fn measured(name: &str, turns: &[Turn]) -> Row {
    Row::new(name)
        .with(Measure::Throughput, rounds(turns, |it| it.per_s))
        .with(Measure::CoreTime, rounds(turns, |it| it.core_us))
        .with(Measure::P50, rounds(turns, |it| it.p50_us))
        .with(Measure::P99, rounds(turns, |it| it.p99_us))
        .with(Measure::Found, rounds(turns, |it| it.found_part))
}

fn rounds(turns: &[Turn], of: fn(&Turn) -> f64) -> Values {
    Values::Rounds(turns.iter().map(of).collect())
}

/// What a switch and an access take on this machine.
fn costs() -> std::io::Result<Costs> {
    Costs::measure(&micro::Setting {
        memory_bytes: 16 << 20,
        slow_part: 1.0,
        memory_bytes_per_s: None,
        slow_node: None,
        io: Io::Timer(Duration::ZERO),
        slice: Duration::from_millis(10),
        rounds: 5,
        tasks: vec![32],
        grid: Grid {
            accesses: Vec::new(),
            access_ns: Vec::new(),
            submit_us: Vec::new(),
            complete_us: Vec::new(),
            latency_us: Vec::new(),
        },
    })
}

/// Requests a second with a part in slow memory, by the probabilistic model and by that of
/// masking only: from the accesses that the emulator counted, and from what a request took with all
/// in DRAM. What did not keep the core busy there was the disk, at this depth. Of several
/// cores each has its part of the disk.
fn predicted(setting: &SlowSetting, costs: &Costs, dram: &[Turn], slow: &[Turn]) -> [f64; 2] {
    let of = |turns: &[Turn], figure: fn(&Turn) -> f64| {
        let values: Vec<f64> = turns.iter().map(figure).collect();
        median(&values).unwrap_or(f64::NAN)
    };
    let core = costs.core();
    let accesses = of(slow, |it| it.slow_lines);
    let cores = setting.store.threads as f64;
    let core_s = of(dram, |it| it.core_us) * 1e-6;
    let per_s = of(dram, |it| it.per_s) / cores;
    let walk_s = accesses * (costs.access_s + core.switch_s);
    let io_s = (core_s - walk_s - 2.0 * core.switch_s).max(0.0);
    let operation = Operation {
        accesses,
        access_s: costs.access_s,
        submit_s: io_s * SUBMIT_PART,
        complete_s: io_s * (1.0 - SUBMIT_PART),
    };
    let latency_s = setting.memory.latency_us() * 1e-6;
    let machine = Machine {
        io_per_s: per_s,
        ..Machine::unlimited(latency_s)
    };
    let masking_s = masking::aligned_s(&core, &operation, latency_s);
    [
        cores / limited_operation_s(&core, &operation, &machine),
        cores / masking_s.max(1.0 / per_s),
    ]
}

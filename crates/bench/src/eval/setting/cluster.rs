//! Runs of the tree over memory servers on a simulated cluster.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::eval::matrix::Ground;
use crate::eval::measure::Measure;
use crate::eval::results::{Results, Substitute, Table};
use crate::eval::subject::{Row, Values};
use crate::remote::{self, Design, Setting, Workload};
use crate::report::machine::now;
use crate::report::{Meta, Progress};

pub fn subjects(setting: &Setting) -> Vec<String> {
    let names = setting.designs.iter().map(|it| it.name().to_string());
    names.collect()
}

pub fn workload(setting: &Setting) -> &'static str {
    let first = setting.workloads.first();
    first.copied().map_or("nothing", Workload::name)
}

pub fn estimate_s(setting: &Setting) -> f64 {
    // Measured on two cores: loading a record, and simulating a request.
    const LOAD: f64 = 0.4e-6;
    const REQUEST: f64 = 8e-6;
    let requests = (setting.warmup + setting.requests) as f64;
    let one = LOAD * setting.records as f64 + REQUEST * requests;
    one * (setting.designs.len() * setting.workloads.len()) as f64
}

pub fn measure(
    setting: &Setting,
    ground: &Ground,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Results, String> {
    progress.phase(workload(setting), None);
    let date = now();
    let rows = remote::measure(setting, &|| interrupted.load(Relaxed));
    let rows = rows.map_err(|error| error.to_string())?;
    let row = |it: &remote::Row| {
        let each = &it.each;
        let operations = each.reads + each.writes + each.atomics + each.calls;
        let values = [
            (Measure::ModelledThroughput, it.modelled_mops),
            (Measure::Operations, operations),
            (Measure::Reads, each.reads),
            (Measure::Writes, each.writes),
            (Measure::Atomics, each.atomics),
            (Measure::Calls, each.calls),
            (Measure::NetworkBytes, each.bytes),
        ];
        exact(it.design, values)
    };
    Ok(table(setting, ground, date, rows.iter().map(row).collect()))
}

pub fn measure_scale_out(
    setting: &Setting,
    ground: &Ground,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Results, String> {
    progress.phase("a server more", None);
    let date = now();
    let outcomes = remote::measure_scale_out(setting, &|| interrupted.load(Relaxed));
    let outcomes = outcomes.map_err(|error| error.to_string())?;
    let gibs = setting.cache_bytes() as f64 / f64::from(1 << 30);
    let row = |it: &remote::ScaledOut| {
        let [_, after] = it.mops;
        let values = [
            (Measure::HandOver, it.taken_ns as f64 * 1e-9 / gibs),
            (Measure::ModelledThroughput, after),
        ];
        let slices = it.slices.iter();
        Row {
            series: slices.map(|&(ns, mops)| (ns as f64 * 1e-9, mops)).collect(),
            ..exact(it.design, values)
        }
    };
    let rows = outcomes.iter().flatten().map(row).collect();
    Ok(table(setting, ground, date, rows))
}

fn exact(design: Design, values: impl IntoIterator<Item = (Measure, f64)>) -> Row {
    let values = values.into_iter();
    values.fold(Row::new(design.name()), |row, (measure, value)| {
        row.with(measure, Values::Exact(value))
    })
}

fn table(setting: &Setting, ground: &Ground, date: String, rows: Vec<Row>) -> Results {
    let profile = format!(
        "{} compute and {} memory servers, {} ns, {} Gb/s",
        setting.compute_servers, setting.memory_servers, setting.latency_ns, setting.gigabits
    );
    Results::Table(Table {
        meta: Meta {
            date,
            profile,
            base_latency_ns: 0.0,
            emulated: false,
            seed: setting.seed,
            ..ground.meta.clone()
        },
        substitute: Substitute::Simulated,
        rows,
    })
}

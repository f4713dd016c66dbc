//! §6.5: the contribution of each technique, the ranges of the watermarks.

use super::overall::name;
use super::{Run, Scale, run};
use crate::run::Setting;

pub fn ablation(scale: &Scale) -> Vec<Run> {
    let placements = [
        "interleave",
        "sidle+layering",
        "sidle+tracking",
        "sidle+migration",
        "sidle+histogram",
        "sidle+watermark",
        "sidle-released",
        "timberline-leaves",
        "timberline",
    ];
    let workloads = scale.pick(&["hs-a", "hs-b", "hs-c", "hs-d"], &["hs-a", "hs-c"]);
    workloads
        .iter()
        .map(|it| run("", name(it), scale.setting("masstree", it, &placements)))
        .collect()
}

pub fn watermarks(scale: &Scale) -> Vec<Run> {
    let all = [(0.85, 0.95), (0.75, 0.85), (0.65, 0.75), (0.45, 0.55)];
    let ranges = scale.pick(&all, &all[..2]);
    let workloads = scale.pick(&["hs-a", "hs-c"], &["hs-c"]);
    let mut runs = Vec::new();
    for workload in workloads {
        for &(low, high) in ranges {
            let setting = Setting {
                watermarks: Some((low, high)),
                ..scale.setting("masstree", workload, &["interleave", "sidle"])
            };
            let category = format!("{:.0}–{:.0} %", 100.0 * low, 100.0 * high);
            runs.push(run(name(workload), category, setting));
        }
    }
    runs
}

//! §6.7 and §6.8: TPC-C's accesses, and traces.

use super::{FEW, Run, Scale, run};
use crate::run::{RequestSetting, Setting};

pub fn tpcc(scale: &Scale) -> Vec<Run> {
    let all = [("art", "S-ART"), ("masstree", "S-Masstree")];
    let maps = scale.pick(&all, &all[1..]).iter();
    let of = |&(index, name): &(&str, &str)| run("", name, scale.setting(index, "tpcc", &FEW));
    maps.map(of).collect()
}

const PLACEMENTS: [&str; 8] = [
    "all-fast",
    "interleave",
    "inner-fast",
    "sidle",
    "timberline",
    "tpp",
    "memtis",
    "caption",
];

pub fn traces(scale: &Scale, index: &str) -> Vec<Run> {
    let of = |path: &std::path::PathBuf| {
        let setting = Setting {
            requests: RequestSetting::closed_loop(path, scale.trace_format.clone()),
            ..scale.setting(index, "ycsb-c", &PLACEMENTS)
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        run("", name, setting)
    };
    scale.traces.iter().map(of).collect()
}

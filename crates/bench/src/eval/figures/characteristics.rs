//! §6.3, requests and records: skew, sizes of keys and values, URLs.

use super::overall::name;
use super::{FEW, Run, Scale, run};
use crate::run::{RequestSetting, Setting};

pub fn skew(scale: &Scale) -> Vec<Run> {
    let thetas = scale.pick(&["0", "0.5", "0.75", "0.9", "0.99", "1.25"], &["0", "1.25"]);
    let mut runs = Vec::new();
    for workload in scale.pick(&["ycsb-a", "ycsb-c"], &["ycsb-c"]) {
        for theta in thetas {
            let setting = scale.over("masstree", workload, &format!("zipfian:{theta}"), &FEW);
            runs.push(run(workload, *theta, setting));
        }
    }
    runs
}

/// The larger the records, the fewer a map has.
const MOST_BYTES: usize = 400 << 20;

pub fn sizes(scale: &Scale) -> Vec<Run> {
    let of = |panel: &str, category: usize, key_bytes: usize, value_bytes: usize| -> Run {
        let setting = scale.setting("masstree", "ycsb-c", &FEW);
        let most = MOST_BYTES / (key_bytes + value_bytes + 40);
        let setting = Setting {
            records: setting.records.min(most as u64),
            key_bytes,
            value_bytes,
            ..setting
        };
        run(panel, format!("{category} B"), setting)
    };
    let keys = scale.pick(&[8, 16, 32, 64, 128], &[8, 64]).iter();
    let values = scale.pick(&[8, 64, 256, 1024, 2048], &[256]).iter();
    let keys = keys.map(|bytes| of("bytes of a key", *bytes, *bytes, 8));
    let values = values.map(|bytes| of("bytes of a value", *bytes, 8, *bytes));
    keys.chain(values).collect()
}

pub fn urls(scale: &Scale) -> Vec<Run> {
    let Some(path) = &scale.urls else {
        return Vec::new();
    };
    let workloads = scale.pick(&["ycsb-a", "ycsb-b", "ycsb-c"], &["ycsb-c"]);
    let of = |workload: &&str| {
        let requests = RequestSetting::Workloads {
            names: vec![(*workload).into()],
            distribution: None,
            keys: Some(path.clone()),
        };
        let setting = Setting {
            requests,
            ..scale.setting("art", workload, &FEW)
        };
        run("", name(workload), setting)
    };
    workloads.iter().map(of).collect()
}

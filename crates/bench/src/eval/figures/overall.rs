//! §6.2: overall performance.

use super::{COMPARED, Run, Scale, run};
use crate::run::{Budget, Setting};

/// The mix of a workload, as the paper calls it.
const NAMED: [(&str, &str); 10] = [
    ("hs-a", "Update Heavy"),
    ("hs-b", "Read Mostly"),
    ("hs-c", "Read Only"),
    ("hs-d", "With Insert"),
    ("ycsb-a", "Update Heavy"),
    ("ycsb-b", "Read Mostly"),
    ("ycsb-c", "Read Only"),
    ("ycsb-d", "Read Latest"),
    ("ycsb-e", "Short Ranges"),
    ("ycsb-f", "RMW"),
];

/// The paper's name of a workload.
pub fn name(workload: &str) -> &'static str {
    let mut named = NAMED.iter().filter(|(it, _)| *it == workload);
    named.next().map_or("", |(_, name)| name)
}

/// The microbenchmark's runs. The paper gives all systems as much fast memory as its Prophet needs,
/// a tenth.
pub fn micro(scale: &Scale) -> Vec<Run> {
    let workloads = scale.pick(&["hs-a", "hs-b", "hs-c", "hs-d"], &["hs-a", "hs-c"]);
    let of = |workload: &&str| {
        let setting = Setting {
            budget: Budget::Ratio(0.1),
            ..scale.setting("masstree", workload, &COMPARED)
        };
        run("", name(workload), setting)
    };
    workloads.iter().map(of).collect()
}

/// The macrobenchmark's runs on a map, all but `skipped`.
pub fn macros(scale: &Scale, index: &str, skipped: &[&str]) -> Vec<Run> {
    let all = NAMED.map(|(workload, _)| workload);
    let workloads = scale.pick(&all[4..], &["ycsb-a", "ycsb-c"]).iter();
    let workloads = workloads.filter(|it| !skipped.contains(it));
    let of = |workload: &&str| {
        let setting = scale.setting(index, workload, &COMPARED);
        run("", name(workload), setting)
    };
    workloads.map(of).collect()
}

//! Taneja's figures: the effect of the kernel's tiering on an index, by skew and by the ratio of
//! fast to slow memory.

use super::{OF_NODES, Run, Scale, run};
use crate::run::{Budget, Setting};

/// Ratios of fast to slow memory, with their budgets.
const RATIOS: [(&str, f64); 4] = [
    ("2:1", 2.0 / 3.0),
    ("1:1", 0.5),
    ("1:2", 1.0 / 3.0),
    ("1:4", 0.2),
];
const SKEWS: [&str; 4] = [
    "uniform",
    "selfsimilar:0.2",
    "selfsimilar:0.01",
    "selfsimilar:0.001",
];
const PLACEMENTS: [&str; 8] = [
    "all-fast",
    "all-slow",
    "interleave",
    OF_NODES,
    "timberline",
    "autonuma",
    "damon",
    "damon-coldest",
];

pub fn skews_and_ratios(scale: &Scale) -> Vec<Run> {
    let mut runs = Vec::new();
    for skew in scale.pick(&SKEWS, &SKEWS[1..2]) {
        for &(ratio, budget) in scale.pick(&RATIOS, &RATIOS[1..2]) {
            let setting = Setting {
                budget: Budget::Ratio(budget),
                ..scale.over("btree", "ycsb-b", skew, &PLACEMENTS)
            };
            runs.push(run(skew, ratio, setting));
        }
    }
    runs
}

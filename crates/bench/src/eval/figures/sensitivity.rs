//! §6.3: the effects of a moving hot region, worker intervals, and the size of fast memory.

use super::{FEW, OF_NODES, Run, Scale, run};
use crate::run::{Budget, Setting};

pub fn dynamic(scale: &Scale) -> Vec<Run> {
    let (every, shifts) = if scale.is_quick {
        (4.0, 2.0)
    } else {
        (10.0, 4.0)
    };
    let setting = Setting {
        shift_every_s: Some(every),
        slice_s: every * (shifts + 1.0),
        static_slice_s: None,
        rounds: 1,
        ..scale.setting("masstree", "hs-c", &FEW)
    };
    vec![run("", "Read Only", setting)]
}

pub fn intervals(scale: &Scale) -> Vec<Run> {
    let intervals = scale.pick(&[0.1, 0.25, 0.5, 1.0, 2.0], &[0.25, 1.0]);
    let mut runs = Vec::new();
    for workload in scale.pick(&["hs-a", "hs-c"], &["hs-c"]) {
        for &interval in intervals {
            let setting = Setting {
                interval_s: Some(interval),
                ..scale.setting("masstree", workload, &["interleave", "sidle"])
            };
            let panel = super::overall::name(workload);
            runs.push(run(panel, format!("{interval} s"), setting));
        }
    }
    runs
}

const SWEPT: [&str; 6] = [
    "all-fast",
    "interleave",
    "inner-fast",
    "sidle",
    OF_NODES,
    "timberline",
];

pub fn budgets(scale: &Scale) -> Vec<Run> {
    let coarse = [0.1, 0.2, 0.4, 0.6, 0.8, 1.0];
    let fine = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
    let all = [
        ("hs-c", &fine[..]),
        ("ycsb-c", &fine),
        ("ycsb-a", &coarse),
        ("ycsb-e", &coarse),
    ];
    let mut runs = Vec::new();
    for &(workload, budgets) in scale.pick(&all, &[("ycsb-c", &[0.2, 0.8])]) {
        for &budget in budgets {
            let setting = Setting {
                budget: Budget::Ratio(budget),
                ..scale.setting("masstree", workload, &SWEPT)
            };
            runs.push(run(workload, format!("{:.0} %", 100.0 * budget), setting));
        }
    }
    runs
}

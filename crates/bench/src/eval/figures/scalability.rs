//! §6.4: threads, and records.

use super::{FEW, Run, Scale, run};
use crate::run::{Budget, Setting};

pub fn threads(scale: &Scale) -> Vec<Run> {
    let powers = (0..).map(|power| 1 << power);
    let powers = powers.take_while(|threads| *threads < scale.threads);
    let counts: Vec<usize> = powers.chain([scale.threads]).collect();
    let mut runs = Vec::new();
    for workload in scale.pick(&["hs-a", "hs-c"], &["hs-c"]) {
        for &threads in &counts {
            let setting = Setting {
                threads,
                ..scale.setting("masstree", workload, &FEW)
            };
            let panel = super::overall::name(workload);
            runs.push(run(panel, threads.to_string(), setting));
        }
    }
    runs
}

pub fn records(scale: &Scale) -> Vec<Run> {
    let all = [(1, 8), (1, 4), (1, 2), (1, 1), (2, 1)];
    let sizes = scale.pick(&all, &[(1, 4), (1, 1)]);
    let of = |(times, parts): &(u64, u64)| {
        let records = scale.records * times / parts;
        let setting = Setting {
            records,
            budget: Budget::Ratio(0.5),
            ..scale.setting("art", "ycsb-c", &FEW)
        };
        run("", format!("{:.2}M", records as f64 / 1e6), setting)
    };
    sizes.iter().map(of).collect()
}

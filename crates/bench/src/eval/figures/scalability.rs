//! §6.4: threads, and records.

use super::{FEW, Figure, Measure, Over, Quantity, Scale, View, claim, figure, run};
use crate::run::{Budget, Setting};

pub fn figures(scale: &Scale) -> Vec<Figure> {
    vec![threads(scale), records(scale)]
}

fn threads(scale: &Scale) -> Figure {
    let powers = (0..)
        .map(|power| 1 << power)
        .take_while(|threads| *threads < scale.threads);
    let counts: Vec<usize> = powers.chain([scale.threads]).collect();
    let workloads = scale.pick(&["hs-a", "hs-c"], &["hs-c"]);
    let runs = workloads.iter().flat_map(|workload| {
        counts.iter().map(|threads| {
            let setting = Setting {
                threads: *threads,
                ..scale.setting("masstree", workload, &FEW)
            };
            run(super::overall::name(workload), threads.to_string(), setting)
        })
    });
    figure(
        "18a",
        "Threads",
        "SIDLE, Figure 18(a)",
        "Throughput over that of one thread: 28.6 to 38.1 at 48 threads there. Here up to the threads that the evaluation has, \
         and the workers run on the same cores.",
        &[View::Bars(Quantity {
            measure: Measure::Throughput,
            over: Over::First,
        })],
        runs.collect(),
        Vec::new(),
    )
}

fn records(scale: &Scale) -> Figure {
    let all = [(1, 8), (1, 4), (1, 2), (1, 1), (2, 1)];
    let sizes = scale.pick(&all, &[(1, 4), (1, 1)]);
    let runs = sizes.iter().map(|(times, parts)| {
        let records = scale.records * times / parts;
        let setting = Setting {
            records,
            budget: Budget::Ratio(0.5),
            ..scale.setting("art", "ycsb-c", &FEW)
        };
        run("", format!("{:.2}M", records as f64 / 1e6), setting)
    });
    figure(
        "18b",
        "Records",
        "SIDLE, Figure 18(b)",
        "S-ART at 50 % fast memory; 10 M to 4 billion records there.",
        &[View::Bars(Quantity::OVER_BASELINE)],
        runs.collect(),
        vec![claim(
            "S-ART over the baseline",
            "sidle",
            Quantity::OVER_BASELINE,
            (1.283, 1.887),
            super::why::WORKERS,
        )],
    )
}

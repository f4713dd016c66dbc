//! §6.7 and §6.8: TPC-C's accesses, and traces.

use super::{Claim, FEW, Figure, Measure, Over, Quantity, Run, Scale, View, claim, figure, run};
use crate::run::{RequestSetting, Setting};

pub fn figures(scale: &Scale) -> Vec<Figure> {
    vec![
        tpcc(scale),
        traces(
            scale,
            "23",
            "Traces, S-ART",
            "SIDLE, Figure 23",
            "art",
            [
                ("S-ART over the baseline, up to", 1.903),
                ("S-ART's 99th percentile over MEMTIS's, down to", 0.188),
            ],
        ),
        traces(
            scale,
            "24",
            "Traces, S-Masstree",
            "SIDLE, Figure 24",
            "masstree",
            [
                ("S-Masstree over the baseline, up to", 1.387),
                ("S-Masstree's 99th percentile over MEMTIS's, down to", 0.457),
            ],
        ),
    ]
}

fn tpcc(scale: &Scale) -> Figure {
    let all = [("art", "S-ART", 1.263), ("masstree", "S-Masstree", 1.291)];
    let maps = scale.pick(&all, &all[1..]).iter();
    let runs = maps.clone();
    let runs = runs.map(|(index, name, _)| run("", *name, scale.setting(index, "tpcc", &FEW)));
    let over = |(_, category, published): &(&str, &'static str, f64)| Claim {
        category,
        ..claim(
            "throughput over the baseline",
            "sidle",
            Quantity::OVER_BASELINE,
            (*published, *published),
            super::why::WORKERS,
        )
    };
    figure(
        "22",
        "The index accesses of TPC-C",
        "SIDLE, Figure 22",
        "The paper runs TPC-C in a database. Here one map gets the index accesses of its transactions, without transactions.",
        &[View::Bars(Quantity::OVER_BASELINE)],
        runs.collect(),
        maps.map(over).collect(),
    )
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

fn traces(
    scale: &Scale,
    id: &'static str,
    title: &'static str,
    source: &'static str,
    index: &str,
    [over_baseline, over_memtis]: [(&'static str, f64); 2],
) -> Figure {
    let of = |path: &std::path::PathBuf| -> Run {
        let setting = Setting {
            requests: RequestSetting::closed_loop(path, scale.trace_format.clone()),
            ..scale.setting(index, "ycsb-c", &PLACEMENTS)
        };
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        run("", name, setting)
    };
    let runs: Vec<Run> = scale.traces.iter().map(of).collect();
    let p99 = Quantity {
        measure: Measure::P99,
        over: Over::Placements(&["memtis"]),
    };
    let claims = vec![
        claim(
            over_baseline.0,
            "sidle",
            Quantity::OVER_BASELINE,
            (1.001, over_baseline.1),
            super::why::WORKERS,
        ),
        claim(over_memtis.0, "sidle", p99, (over_memtis.1, 0.999), ""),
    ];
    Figure {
        missing: runs
            .is_empty()
            .then_some("it needs a trace: --trace FILE, as often as there are"),
        claims: if runs.is_empty() { Vec::new() } else { claims },
        ..figure(
            id,
            title,
            source,
            "The paper uses two of Alibaba's block traces. Here those given by --trace are replayed as fast as the map answers.",
            &[
                View::Bars(Quantity::OVER_BASELINE),
                View::Bars(Quantity::plain(Measure::P99)),
            ],
            runs,
            Vec::new(),
        )
    }
}

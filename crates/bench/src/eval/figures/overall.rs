//! §6.2: overall performance.

use super::why::{RANDOM, WORKERS};
use super::{
    COMPARED, Claim, Figure, Measure, Over, Quantity, Scale, View, claim, faster_than, figure, run,
};
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
pub fn micro(scale: &Scale) -> Vec<super::Run> {
    let workloads = scale.pick(&["hs-a", "hs-b", "hs-c", "hs-d"], &["hs-a", "hs-c"]);
    let setting = |workload: &&str| {
        let setting = Setting {
            budget: Budget::Ratio(0.1),
            ..scale.setting("masstree", workload, &COMPARED)
        };
        run("", name(workload), setting)
    };
    workloads.iter().map(setting).collect()
}

/// The macrobenchmark's runs on a map.
pub fn macros(scale: &Scale, index: &str, all: &[&str]) -> Vec<super::Run> {
    let few: Vec<&str> = all
        .iter()
        .copied()
        .filter(|it| ["ycsb-a", "ycsb-c"].contains(it))
        .collect();
    let workloads = if scale.is_quick { &few[..] } else { all };
    let setting = |workload: &&str| {
        run(
            "",
            name(workload),
            scale.setting(index, workload, &COMPARED),
        )
    };
    workloads.iter().map(setting).collect()
}

pub fn figures(scale: &Scale) -> Vec<Figure> {
    vec![
        figure(
            "14a",
            "Microbenchmark: throughput over the baseline",
            "SIDLE, Figure 14(a)",
            "S-Masstree there, Masstree here; 10 % fast memory. The baseline is interleave, SIDLE-Prophet is oracle, Mass-L is inner-fast.",
            &[View::Bars(Quantity::OVER_BASELINE)],
            micro(scale),
            vec![
                claim(
                    "SIDLE over the baseline",
                    "sidle",
                    Quantity::OVER_BASELINE,
                    (1.504, 1.822),
                    WORKERS,
                ),
                claim(
                    "SIDLE over MEMTIS, TPP and Caption",
                    "sidle",
                    faster_than(&["memtis", "tpp", "caption"]),
                    (1.426, 2.335),
                    WORKERS,
                ),
                claim(
                    "SIDLE over Mass-L",
                    "sidle",
                    faster_than(&["inner-fast"]),
                    (1.218, 1.417),
                    WORKERS,
                ),
                claim(
                    "SIDLE over Random",
                    "sidle",
                    faster_than(&["random"]),
                    (1.651, 2.175),
                    RANDOM,
                ),
            ],
        ),
        figure(
            "14b",
            "Microbenchmark, Update Heavy: latency",
            "SIDLE, Figure 14(b)",
            "All requests together; the paper separates reads from writes.",
            &[
                View::Bars(Quantity::plain(Measure::P50)),
                View::Bars(Quantity::plain(Measure::P90)),
                View::Bars(Quantity::plain(Measure::P99)),
            ],
            micro(scale).into_iter().take(1).collect(),
            vec![
                claim(
                    "SIDLE's 90th percentile of reads over the baseline's",
                    "sidle",
                    Quantity {
                        measure: Measure::P90,
                        over: Over::Placements(&["interleave"]),
                    },
                    (0.275, 0.275),
                    "",
                ),
                claim(
                    "SIDLE's mean latency below 1 µs (here: its median)",
                    "sidle",
                    Quantity::plain(Measure::P50),
                    (0.0, 1.0),
                    "",
                ),
            ],
        ),
        figure(
            "15a",
            "Macrobenchmark, S-ART: throughput over the baseline",
            "SIDLE, Figure 15(a)",
            "20 % fast memory. The paper's ART has no scans. Ours has, but this figure leaves them out, too.",
            &[View::Bars(Quantity::OVER_BASELINE)],
            macros(
                scale,
                "art",
                &["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-f"],
            ),
            vec![
                claim(
                    "S-ART over the baseline",
                    "sidle",
                    Quantity::OVER_BASELINE,
                    (1.317, 1.836),
                    WORKERS,
                ),
                claim(
                    "S-ART over PAC-L (no figure is given: faster)",
                    "sidle",
                    faster_than(&["inner-fast"]),
                    (1.001, f64::INFINITY),
                    WORKERS,
                ),
            ],
        ),
        figure(
            "15b",
            "Macrobenchmark, S-Masstree: throughput over the baseline",
            "SIDLE, Figure 15(b)",
            "20 % fast memory.",
            &[View::Bars(Quantity::OVER_BASELINE)],
            macros(
                scale,
                "masstree",
                &["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f"],
            ),
            macro_claims(scale),
        ),
    ]
}

fn macro_claims(scale: &Scale) -> Vec<Claim> {
    let all = [
        "Update Heavy",
        "Read Mostly",
        "Read Only",
        "Read Latest",
        "RMW",
    ];
    let over = |category: &'static str| Claim {
        category,
        ..claim(
            "S-Masstree over the baseline",
            "sidle",
            Quantity::OVER_BASELINE,
            (1.308, 1.566),
            WORKERS,
        )
    };
    let scans = Claim {
        category: "Short Ranges",
        ..claim(
            "S-Masstree over the baseline",
            "sidle",
            Quantity::OVER_BASELINE,
            (1.123, 1.123),
            WORKERS,
        )
    };
    let claims = scale
        .pick(&all, &["Update Heavy", "Read Only"])
        .iter()
        .map(|it| over(it));
    claims.chain((!scale.is_quick).then_some(scans)).collect()
}

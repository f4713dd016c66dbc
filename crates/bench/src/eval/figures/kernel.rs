//! Taneja's figures: the effect of the kernel's tiering on an index, by skew and by the ratio of
//! fast to slow memory.

use super::{Claim, Figure, Measure, Over, Quantity, Scale, View, claim, faster_than, figure, run};
use crate::run::{Budget, Setting};

/// Ratios of fast to slow memory, with their budgets.
const RATIOS: [(&str, f64); 4] = [
    ("2:1", 2.0 / 3.0),
    ("1:1", 0.5),
    ("1:2", 1.0 / 3.0),
    ("1:4", 0.2),
];

pub fn figures(scale: &Scale) -> Vec<Figure> {
    let placements = [
        "all-fast",
        "all-slow",
        "interleave",
        "timberline",
        "autonuma",
        "damon",
    ];
    let skews = scale.pick(
        &[
            "uniform",
            "selfsimilar:0.2",
            "selfsimilar:0.01",
            "selfsimilar:0.001",
        ],
        &["selfsimilar:0.2"],
    );
    let ratios = scale.pick(&RATIOS, &RATIOS[1..2]);
    let runs = skews.iter().flat_map(|skew| {
        ratios.iter().map(move |(ratio, budget)| {
            let setting = Setting {
                budget: Budget::Ratio(*budget),
                ..scale.over("btree", "ycsb-b", skew, &placements)
            };
            run(skew, *ratio, setting)
        })
    });
    let slightly = |says, of, published| Claim {
        panel: "selfsimilar:0.2",
        ..claim(says, of, faster_than(&["interleave"]), published, "")
    };
    let moves = Quantity {
        measure: Measure::Moves,
        over: Over::Placements(&["damon"]),
    };
    vec![figure(
        "pibench",
        "The effect of the kernel's tiering on a B+tree",
        "Taneja: Understanding Index Structures for Tiered Memory, §4.3 and Figures 9 to 12",
        "PiBench on a B+tree of a billion keys there, with kernels on remote memory; here models of both kernels on emulated memory, \
         from slow memory on. Its baseline leaves pages where they are: interleave here. MEMBIND0 and 1 are all-fast and all-slow. \
         On a machine of two kinds of memory, `timberline bench --native --kernel-tiering` measures the kernel itself.",
        &[
            View::Bars(Quantity::OVER_BASELINE),
            View::Bars(Quantity::plain(Measure::Moves)),
        ],
        runs.collect(),
        vec![
            slightly(
                "AutoNUMA slightly below the baseline (no figure is given)",
                "autonuma",
                (0.9, 0.999),
            ),
            slightly(
                "DAMON the same or slightly above (no figure is given)",
                "damon",
                (1.0, 1.1),
            ),
            claim(
                "AutoNUMA moves significantly more pages than DAMON",
                "autonuma",
                moves,
                (1.001, f64::INFINITY),
                "",
            ),
        ],
    )]
}

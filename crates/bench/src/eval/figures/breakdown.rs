//! §6.5 and §6.6: the contribution of each technique, the use of fast memory, the cost of workers.

use super::overall::{macros, micro, name};
use super::{Claim, Figure, Measure, Over, Quantity, Scale, View, claim, faster_than, figure, run};
use crate::run::Setting;

pub fn figures(scale: &Scale) -> Vec<Figure> {
    vec![
        ablation(scale),
        fill(scale),
        watermarks(scale),
        workers(scale),
    ]
}

fn ablation(scale: &Scale) -> Figure {
    let placements = [
        "interleave",
        "sidle+layering",
        "sidle+tracking",
        "sidle+migration",
        "sidle+histogram",
        "sidle+watermark",
        "timberline",
    ];
    let workloads = scale.pick(&["hs-a", "hs-b", "hs-c", "hs-d"], &["hs-a", "hs-c"]);
    let runs = workloads
        .iter()
        .map(|it| run("", name(it), scale.setting("masstree", it, &placements)));
    figure(
        "19",
        "The contribution of each technique",
        "SIDLE, Figure 19",
        "Techniques are added in the paper's order; sidle+watermark is SIDLE as a whole.",
        &[View::Bars(Quantity::OVER_BASELINE)],
        runs.collect(),
        vec![
            claim(
                "+ layering over the baseline",
                "sidle+layering",
                Quantity::OVER_BASELINE,
                (1.319, 1.498),
                "",
            ),
            claim(
                "+ access tracking over layering",
                "sidle+tracking",
                faster_than(&["sidle+layering"]),
                (0.930, 0.949),
                "",
            ),
            claim(
                "+ migration over tracking",
                "sidle+migration",
                faster_than(&["sidle+tracking"]),
                (1.028, 1.287),
                "",
            ),
            claim(
                "+ histogram over migration",
                "sidle+histogram",
                faster_than(&["sidle+migration"]),
                (1.017, 1.168),
                super::why::HISTOGRAM,
            ),
        ],
    )
}

fn fill(scale: &Scale) -> Figure {
    figure(
        "20",
        "Fast memory in use over time",
        "SIDLE, Figure 20",
        "The runs of 14a. In the paper, use stays between the watermarks once it is stable.",
        &[
            View::UseOverTime,
            View::Bars(Quantity::plain(Measure::FastUse)),
        ],
        micro(scale),
        vec![claim(
            "SIDLE's use is between 85 and 95 %",
            "sidle",
            Quantity::plain(Measure::FastUse),
            (0.85, 0.95),
            super::why::USE,
        )],
    )
}

fn watermarks(scale: &Scale) -> Figure {
    let all = [(0.85, 0.95), (0.75, 0.85), (0.65, 0.75), (0.45, 0.55)];
    let ranges = scale.pick(&all, &all[..2]);
    let placements = ["interleave", "sidle"];
    let workloads = scale.pick(&["hs-a", "hs-c"], &["hs-c"]);
    let runs = workloads.iter().flat_map(|workload| {
        ranges.iter().map(move |(low, high)| {
            let setting = Setting {
                watermarks: Some((*low, *high)),
                ..scale.setting("masstree", workload, &placements)
            };
            run(
                name(workload),
                format!("{:.0}–{:.0} %", 100.0 * low, 100.0 * high),
                setting,
            )
        })
    });
    let over_first = Quantity {
        measure: Measure::Improvement,
        over: Over::First,
    };
    figure(
        "21",
        "Ranges of the watermarks",
        "SIDLE, Figure 21",
        "The improvement over the baseline, over that of the first range, the default.",
        &[View::Bars(over_first)],
        runs.collect(),
        vec![Claim {
            category: "75–85 %",
            ..claim(
                "within 3 %, unless the high one is too low",
                "sidle",
                over_first,
                (0.97, 1.03),
                "",
            )
        }],
    )
}

fn workers(scale: &Scale) -> Figure {
    let published = [
        ("Update Heavy", 0.0252),
        ("Read Mostly", 0.0209),
        ("Read Only", 0.0151),
        ("Read Latest", 0.0297),
        ("Short Ranges", 0.0228),
        ("RMW", 0.0273),
    ];
    let runs = macros(
        scale,
        "masstree",
        &["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f"],
    );
    let share = Quantity::plain(Measure::WorkerShare);
    let known = published
        .iter()
        .filter(|(category, _)| runs.iter().any(|run| run.category == *category));
    let claims = known.map(|(category, share_of_all)| Claim {
        category,
        ..claim(
            "SIDLE's workers over all CPU time",
            "sidle",
            share,
            (*share_of_all, *share_of_all),
            "",
        )
    });
    let claims = claims.collect();
    figure(
        "t3",
        "CPU time of the workers",
        "SIDLE, Table 3",
        "The runs of 15b. In the paper, 28 threads make requests and each worker has its own core; here all share the cores.",
        &[View::Bars(share)],
        runs,
        claims,
    )
}

//! Our own questions: does `timberline` lead everywhere, how near is it to the bounds, and does
//! migration stall requests?

use super::{Figure, Measure, Over, Quantity, Scale, View, claim, faster_than, figure, run};
use crate::run::{Budget, Setting};

/// All placements that a real machine could run, and three that know the exact frequencies.
const ALL: [&str; 14] = [
    "all-fast",
    "interleave",
    "random",
    "inner-fast",
    "oracle",
    "sidle",
    "timberline",
    "timberline-leaves",
    "tpp",
    "autonuma",
    "damon",
    "memtis",
    "caption",
    "oracle-pages",
];
const REALISABLE: &[&str] = &[
    "interleave",
    "random",
    "inner-fast",
    "sidle",
    "tpp",
    "autonuma",
    "damon",
    "memtis",
    "caption",
];

/// All of these; a quick evaluation skips some of our own.
fn all(scale: &Scale) -> Vec<&'static str> {
    let is_shown = |name: &&str| !(scale.is_quick && *name == "timberline-leaves");
    ALL.into_iter().filter(is_shown).collect()
}

pub fn figures(scale: &Scale) -> Vec<Figure> {
    vec![table(scale), bounds(scale), stalls(scale)]
}

fn table(scale: &Scale) -> Figure {
    let names = [
        "hs-a", "hs-b", "hs-c", "hs-d", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f",
    ];
    let workloads = scale.pick(&names, &["hs-c", "ycsb-c", "ycsb-d"]);
    let runs = workloads
        .iter()
        .map(|name| run("", *name, scale.setting("btree", name, &all(scale))));
    figure(
        "table",
        "Regained throughput of each placement, on each workload of Table 1",
        "",
        "20 % of the map's bytes in fast memory, records inserted in random order.",
        &[
            View::Bars(Quantity::plain(Measure::Regained)),
            View::Bars(Quantity::plain(Measure::FastShare)),
            View::Bounds,
        ],
        runs.collect(),
        vec![claim(
            "timberline beats every placement without foreknowledge",
            "timberline",
            faster_than(REALISABLE),
            (1.001, f64::INFINITY),
            super::why::LATEST,
        )],
    )
}

fn bounds(scale: &Scale) -> Figure {
    let placements = [
        "all-fast",
        "interleave",
        "oracle",
        "sidle",
        "timberline",
        "timberline-leaves",
        "oracle-pages",
    ];
    let at = |budget: f64, name: &str| {
        let setting = match budget {
            0.2 => scale.setting("btree", name, &all(scale)),
            _ => Setting {
                budget: Budget::Ratio(budget),
                ..scale.setting("btree", name, &placements)
            },
        };
        run("", format!("{name} at {:.0} %", 100.0 * budget), setting)
    };
    let runs = match scale.is_quick {
        true => vec![at(0.1, "hs-c"), at(0.2, "ycsb-c")],
        false => vec![
            at(0.1, "hs-a"),
            at(0.1, "hs-b"),
            at(0.1, "hs-c"),
            at(0.2, "ycsb-a"),
            at(0.2, "ycsb-b"),
            at(0.2, "ycsb-c"),
        ],
    };
    figure(
        "bounds",
        "Distance to the bound of each grain",
        "",
        "The fast share of lines, beside the most that any placement of pages of 4 KiB could have of lines, and the most \
         that placements of pages, of whole leaves and of single records could have of accesses.",
        &[View::Bounds],
        runs,
        vec![claim(
            "timberline's fast share is above that of the best possible pages",
            "timberline",
            Quantity {
                measure: Measure::FastShare,
                over: Over::Placements(&["oracle-pages"]),
            },
            (1.001, f64::INFINITY),
            "",
        )],
    )
}

fn stalls(scale: &Scale) -> Figure {
    let placements = ["all-fast", "interleave", "timberline", "timberline-paused"];
    let workloads = scale.pick(&["ycsb-a", "hs-a"], &["ycsb-a"]);
    let runs = workloads.iter().map(|name| {
        let setting = scale.setting("btree", name, &placements);
        // High percentiles need many requests.
        run(
            "",
            *name,
            Setting {
                rounds: 2 * setting.rounds,
                ..setting
            },
        )
    });
    figure(
        "stalls",
        "The cost of migration for the slowest requests",
        "",
        "timberline-paused is timberline with its workers paused during measurement.",
        &[View::Bars(Quantity::plain(Measure::P99))],
        runs.collect(),
        vec![claim(
            "the 99th percentile is at most 1.15 times that without migration",
            "timberline",
            Quantity {
                measure: Measure::P99,
                over: Over::Placements(&["timberline-paused"]),
            },
            (0.0, 1.15),
            "",
        )],
    )
}

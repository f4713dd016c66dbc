//! Our own questions: does `timberline` lead everywhere, how near is it to the bounds, and does
//! migration stall requests?

use super::{Run, Scale, run};
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
/// Those to hold against bounds at other budgets.
const BOUNDED: [&str; 7] = [
    "all-fast",
    "interleave",
    "oracle",
    "sidle",
    "timberline",
    "timberline-leaves",
    "oracle-pages",
];

/// All of these; a quick evaluation skips some of our own.
fn all(scale: &Scale) -> Vec<&'static str> {
    let is_shown = |name: &&str| !(scale.is_quick && *name == "timberline-leaves");
    ALL.into_iter().filter(is_shown).collect()
}

pub fn table(scale: &Scale) -> Vec<Run> {
    let names = [
        "hs-a", "hs-b", "hs-c", "hs-d", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f",
    ];
    let workloads = scale.pick(&names, &["hs-c", "ycsb-c", "ycsb-d"]);
    let of = |name: &&str| run("", *name, scale.setting("btree", name, &all(scale)));
    workloads.iter().map(of).collect()
}

pub fn bounds(scale: &Scale) -> Vec<Run> {
    let at = |&(budget, name): &(f64, &str)| {
        let setting = match budget {
            0.2 => scale.setting("btree", name, &all(scale)),
            _ => Setting {
                budget: Budget::Ratio(budget),
                ..scale.setting("btree", name, &BOUNDED)
            },
        };
        run("", format!("{name} at {:.0} %", 100.0 * budget), setting)
    };
    let tenth = ["hs-a", "hs-b", "hs-c"].map(|name| (0.1, name));
    let fifth = ["ycsb-a", "ycsb-b", "ycsb-c"].map(|name| (0.2, name));
    let points = [&tenth[..], &fifth].concat();
    let points = scale.pick(&points, &[(0.1, "hs-c"), (0.2, "ycsb-c")]);
    points.iter().map(at).collect()
}

pub fn stalls(scale: &Scale) -> Vec<Run> {
    let placements = ["all-fast", "interleave", "timberline", "timberline-paused"];
    let of = |name: &&str| {
        let setting = scale.setting("btree", name, &placements);
        // High percentiles need many requests.
        let rounds = 2 * setting.rounds;
        run("", *name, Setting { rounds, ..setting })
    };
    let workloads = scale.pick(&["ycsb-a", "hs-a"], &["ycsb-a"]);
    workloads.iter().map(of).collect()
}

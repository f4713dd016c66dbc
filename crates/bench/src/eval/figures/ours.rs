//! Our own questions: does `timberline` lead everywhere, how near is it to the bounds, does
//! migration stall requests, and what is left where slow memory costs nothing?

use super::{OF_NODES, Run, Scale, run};
use crate::run::{Budget, Setting};

/// All placements that a real machine could run, and three that know the exact frequencies.
const ALL: [&str; 16] = [
    "all-fast",
    "all-fast+copies",
    "interleave",
    "random",
    "inner-fast",
    "oracle",
    "sidle",
    "sidle-released",
    "timberline",
    OF_NODES,
    "tpp",
    "autonuma",
    "damon-coldest",
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
    OF_NODES,
    "oracle-pages",
];

/// Table 1.
const WORKLOADS: [&str; 10] = [
    "hs-a", "hs-b", "hs-c", "hs-d", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f",
];

pub fn table(scale: &Scale) -> Vec<Run> {
    let workloads = scale.pick(&WORKLOADS, &["hs-c", "ycsb-c", "ycsb-d"]);
    let of = |name: &&str| run("", *name, scale.setting("btree", name, &ALL));
    workloads.iter().map(of).collect()
}

/// By charge a round is as good as many.
pub fn charge(scale: &Scale) -> Vec<Run> {
    let workloads = scale.pick(&WORKLOADS, &["ycsb-c"]);
    let placements = ["all-fast", "interleave", "oracle", OF_NODES, "timberline"];
    let mut runs = Vec::new();
    for index in scale.pick(&["btree", "art", "masstree"], &["art"]) {
        for name in workloads {
            let setting = Setting {
                rounds: 1,
                // A round counts what is so at its time, so placements have to be settled.
                warmup_s: 4.0 * scale.warmup_s,
                ..scale.setting(index, name, &placements)
            };
            runs.push(run(index, *name, setting));
        }
    }
    runs
}

/// The control: placements in slow memory that costs nothing.
pub fn free(scale: &Scale) -> Vec<Run> {
    let placements = [
        "all-fast",
        "all-fast+copies",
        "interleave",
        "sidle",
        OF_NODES,
        "timberline",
    ];
    let workloads = scale.pick(&["hs-c", "ycsb-a", "ycsb-c"], &["ycsb-c"]);
    let of = |name: &&str| {
        let setting = Setting {
            profile: "free".into(),
            ..scale.setting("btree", name, &placements)
        };
        run("", *name, setting)
    };
    workloads.iter().map(of).collect()
}

pub fn bounds(scale: &Scale) -> Vec<Run> {
    let at = |&(budget, name): &(f64, &str)| {
        let setting = match budget {
            0.2 => scale.setting("btree", name, &ALL),
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

//! §6.3: the effects of a moving hot region, worker intervals, and the size of fast memory.

use super::{FEW, Figure, Measure, Over, Quantity, Run, Scale, View, claim, figure, run};
use crate::run::{Budget, Setting};

pub fn figures(scale: &Scale) -> Vec<Figure> {
    vec![dynamic(scale), intervals(scale), budgets(scale)]
}

fn dynamic(scale: &Scale) -> Figure {
    let (every, shifts) = if scale.is_quick {
        (4.0, 2.0)
    } else {
        (10.0, 4.0)
    };
    let setting = Setting {
        shift_every_s: Some(every),
        slice_s: every * (shifts + 1.0),
        rounds: 1,
        ..scale.setting("masstree", "hs-c", &FEW)
    };
    figure(
        "16a",
        "Shifts of the hot region",
        "SIDLE, Figure 16(a)",
        "Every 10 s here (3 s in a quick evaluation), every 60 s in the paper. Recovery means the level of `regained` before the shift.",
        &[
            View::ThroughputOverTime,
            View::FastShareOverTime,
            View::Bars(Quantity::plain(Measure::Recovery)),
            View::Bars(Quantity::plain(Measure::ShareRecovery)),
        ],
        vec![run("", "Read Only", setting)],
        vec![
            claim(
                "SIDLE regains 84 % within 2 s, all within 6 s (here: seconds to 90 %)",
                "sidle",
                Quantity::plain(Measure::Recovery),
                (0.0, 6.0),
                super::why::SETTLING,
            ),
            claim(
                "timberline's goal: 90 % within 2 s",
                "timberline",
                Quantity::plain(Measure::Recovery),
                (0.0, 2.0),
                "",
            ),
            claim(
                "and of its fast share",
                "timberline",
                Quantity::plain(Measure::ShareRecovery),
                (0.0, 2.0),
                "",
            ),
        ],
    )
}

fn intervals(scale: &Scale) -> Figure {
    let intervals = scale.pick(&[0.1, 0.25, 0.5, 1.0, 2.0], &[0.25, 1.0]);
    let workloads = scale.pick(&["hs-a", "hs-c"], &["hs-c"]);
    let placements = ["interleave", "sidle"];
    let runs = workloads.iter().flat_map(|workload| {
        intervals.iter().map(move |interval| {
            let setting = Setting {
                interval_s: Some(*interval),
                ..scale.setting("masstree", workload, &placements)
            };
            run(
                super::overall::name(workload),
                format!("{interval} s"),
                setting,
            )
        })
    });
    let over_mean = Quantity {
        measure: Measure::Improvement,
        over: Over::Mean,
    };
    figure(
        "16b",
        "Intervals of the workers",
        "SIDLE, Figure 16(b)",
        "The interval between scans of the migration trigger; the cooler waits four times as long. The improvement over the baseline, over its mean.",
        &[View::Bars(over_mean)],
        runs.collect(),
        vec![claim(
            "SIDLE deviates by less than 5 % from the average",
            "sidle",
            over_mean,
            (0.95, 1.05),
            "",
        )],
    )
}

fn budgets(scale: &Scale) -> Figure {
    let coarse = [0.1, 0.2, 0.4, 0.6, 0.8, 1.0];
    let fine = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
    let placements = [
        "all-fast",
        "interleave",
        "inner-fast",
        "sidle",
        "timberline",
    ];
    let sweep = |workload: &'static str, budgets: &[f64]| -> Vec<Run> {
        let at = |budget: &f64| {
            let setting = Setting {
                budget: Budget::Ratio(*budget),
                ..scale.setting("masstree", workload, &placements)
            };
            run(workload, format!("{:.0} %", 100.0 * budget), setting)
        };
        budgets.iter().map(at).collect()
    };
    let runs = match scale.is_quick {
        true => sweep("ycsb-c", &[0.2, 0.8]),
        false => [
            sweep("hs-c", &fine),
            sweep("ycsb-c", &fine),
            sweep("ycsb-a", &coarse),
            sweep("ycsb-e", &coarse),
        ]
        .concat(),
    };
    let over_all_fast = Quantity {
        measure: Measure::Throughput,
        over: Over::Placements(&["all-fast"]),
    };
    let at = |category, claim| super::Claim { category, ..claim };
    let mut claims = vec![at(
        "80 %",
        claim(
            "timberline has 0.97 of all-fast's throughput at 80 %",
            "timberline",
            over_all_fast,
            (0.97, 1.1),
            "",
        ),
    )];
    if !scale.is_quick {
        claims.push(at(
            "100 %",
            claim(
                "SIDLE over all data in fast memory, at 100 %",
                "sidle",
                over_all_fast,
                (0.912, 0.999),
                "",
            ),
        ));
    }
    figure(
        "16c",
        "Size of fast memory",
        "SIDLE, Figure 16(c)",
        "Throughput over that of all-fast. Panels are workloads; the budget is a fraction of the map's bytes.",
        &[View::Bars(over_all_fast)],
        runs,
        claims,
    )
}

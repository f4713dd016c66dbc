//! The runner on tiny inputs: every placement under every workload, traces, shifts, interrupts, and
//! exactly repeatable counts.
//!
//! Memory is emulated with made-up costs, so nothing is measured first. No test depends on speed.

mod counts;
mod interrupts;
mod traces;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use timberline_bench::report::Outcome;
use timberline_bench::report::progress::{Progress, Silent};
use timberline_bench::run::{
    Budget, INDEXES, Keys, Load, Measured, PageCosts, Plan, RecordFormat, Requests, emulated,
    native,
};
use timberline_bench::workload::{Distribution, KeySpace, Workload};
use timberline_research::table::{self, Grain, TABLE};
use timberline_tier::emulator::{Base, CacheSize, Profile};

fn cxl() -> Profile {
    Profile::parse("cxl").unwrap()
}

fn on_cxl(
    plan: &Plan,
    progress: &dyn Progress,
    interrupted: &AtomicBool,
) -> Result<Measured, String> {
    emulated(plan, &cxl(), Some(Base::default()), progress, interrupted)
}

fn stream(name: &str, records: u64) -> Load {
    let workload = Workload::parse(name).unwrap();
    let space = KeySpace::new(records).unwrap();
    Load::stream(workload, space, RecordFormat::default())
}

/// The placements for emulated memory.
fn emulated_placements() -> Vec<&'static str> {
    [named(Grain::Node), named(Grain::Page)].concat()
}

fn named(grain: Grain) -> Vec<&'static str> {
    let rows = TABLE.iter().filter(|row| row.grain() == grain);
    rows.map(|row| row.name).collect()
}

/// All placements, very short.
fn plan(loads: Vec<Load>) -> Plan {
    Plan {
        loads,
        indexes: vec!["btree"],
        placements: emulated_placements(),
        threads: 2,
        slice: Duration::from_millis(50),
        static_slice: None,
        rounds: 1,
        warmup: Duration::from_millis(20),
        budget: Budget::Ratio(0.2),
        middle: Vec::new(),
        shift_every: None,
        interval: None,
        watermarks: None,
        worker_cores: None,
        overlap: 0,
        cpu_cache: CacheSize::default(),
        seed: 42,
        nodes: Vec::new(),
        page_costs: PageCosts::default(),
    }
}

/// A plan of 8 ms for each placement, for tests of many runs that require only that each works.
fn quick(loads: Vec<Load>) -> Plan {
    Plan {
        slice: Duration::from_millis(5),
        warmup: Duration::from_millis(3),
        ..plan(loads)
    }
}

fn measure(plan: &Plan) -> Measured {
    on_cxl(plan, &Silent, &AtomicBool::new(false)).unwrap()
}

fn run_emulated(plan: &Plan) -> Vec<Outcome> {
    measure(plan).outcomes
}

fn of<'a>(outcomes: &'a [Outcome], placement: &str) -> &'a Outcome {
    let mut outcomes = outcomes.iter();
    outcomes.find(|it| it.placement == placement).unwrap()
}

/// Asserts the invariants of every outcome.
fn plausible(outcome: &Outcome) {
    let name = format!("{} on {}", outcome.placement, outcome.workload);
    assert_eq!(outcome.over_budget_bytes, 0, "{name}");
    let has_budget = !outcome.placement.starts_with("all-fast");
    assert!(
        !has_budget || outcome.fast_bytes_peak <= outcome.fast_budget_bytes,
        "{name}"
    );
    assert!(outcome.fast_bytes <= outcome.fast_bytes_peak, "{name}");
    assert!(outcome.ops_per_s > 0.0 && outcome.seconds > 0.0, "{name}");
    assert!(outcome.ops_per_s_min <= outcome.ops_per_s_max, "{name}");
    let percentiles = [
        outcome.p50_ns,
        outcome.p90_ns,
        outcome.p99_ns,
        outcome.p999_ns,
    ];
    assert!(percentiles[0] > 0 && percentiles.is_sorted(), "{name}");
    assert!(outcome.bytes_per_record > 16.0, "{name}");
    assert!((0.0..=1.0).contains(&outcome.worker_cpu_ratio), "{name}");

    let level = |fast: bool| -> u64 {
        let levels = outcome.levels.iter();
        levels
            .map(|it| if fast { it.bytes_fast } else { it.bytes_slow })
            .sum()
    };
    let nodes_differ = outcome.index != "btree" || outcome.bytes_per_record > 64.0;
    assert!(nodes_differ || level(true) <= outcome.fast_bytes, "{name}");
    assert!(nodes_differ || level(false) <= outcome.slow_bytes, "{name}");
    assert!(!outcome.series.is_empty(), "{name}");
    match outcome.placement.as_str() {
        "all-fast" | "all-fast+copies" => {
            assert_eq!((outcome.slow_bytes, outcome.lines_slow_per_op), (0, 0.0));
            assert_eq!(outcome.charged_ns_per_op, 0.0, "{name}");
        }
        "all-slow" => assert_eq!((outcome.fast_bytes, outcome.lines_fast_per_op), (0, 0.0)),
        _ => {}
    }
}

#[test]
fn every_placement_runs_every_workload() {
    let workloads = Workload::names().map(|name| stream(name, 2_000));
    let outcomes = run_emulated(&quick(workloads.collect()));
    let names: Vec<_> = outcomes
        .iter()
        .map(|it| (&*it.workload, &*it.placement))
        .collect();
    let placements = emulated_placements();
    let of_all = |workload| placements.iter().map(move |&it| (workload, it));
    let expected = Workload::names().flat_map(of_all);
    assert_eq!(names, expected.collect::<Vec<_>>());
    for outcome in &outcomes {
        plausible(outcome);
        let lines = outcome.lines_fast_per_op + outcome.lines_slow_per_op;
        assert!(
            lines + outcome.lines_cached_per_op > 1.0,
            "lines are counted"
        );
        assert!(outcome.emulated);
        assert_eq!((outcome.records, outcome.threads), (2_000, 2));
        assert_eq!(outcome.rounds.len(), 1);
        let row = table::row(&outcome.placement).unwrap();
        let moved = (outcome.promoted, outcome.demoted);
        let (placement, workload) = (&outcome.placement, &outcome.workload);
        assert!(
            row.kind.adapts() || moved == (0, 0),
            "{placement} moved {moved:?} on {workload}"
        );
    }
}

#[test]
fn real_memory_is_run_the_same_way() {
    let mut plan = plan(vec![stream("hs-a", 2_000), stream("ycsb-e", 2_000)]);
    plan.placements = named(Grain::Node);
    let outcomes = native(&plan, &Silent, &AtomicBool::new(false));
    let outcomes = outcomes.unwrap().outcomes;
    assert_eq!(outcomes.len(), 2 * named(Grain::Node).len());
    for outcome in &outcomes {
        plausible(outcome);
        assert!(!outcome.emulated);
        assert_eq!(outcome.fast_share, None, "nothing is counted");
    }
}

/// All maps of words make copies. Of strings none does, and its rows are said to mean nothing.
#[test]
fn copies_lie_beside_any_placement() {
    let mut plan = plan(vec![stream("ycsb-c", 50_000)]);
    plan.indexes = vec!["btree", "art", "masstree"];
    plan.placements = vec!["all-fast+copies", "interleave+copies", "sidle+copies"];
    (plan.warmup, plan.slice) = (Duration::from_millis(300), Duration::from_millis(300));
    let caveats = |plan: &Plan, has_copies: bool| {
        let measured = measure(plan);
        for outcome in &measured.outcomes {
            plausible(outcome);
            assert_eq!(outcome.copies_bytes > 0, has_copies, "{outcome:?}");
        }
        let caveats = measured.notes.iter();
        caveats.filter(|it| it.contains("+copies on")).count()
    };
    assert_eq!(caveats(&plan, true), 0);
    plan.loads[0].format = RecordFormat::new(Keys::default(), 100).unwrap();
    assert_eq!(caveats(&plan, false), 9);
}

/// The kernel places the pages of real memory.
#[test]
fn pages_of_real_memory_are_left_alone() {
    let mut plan = plan(vec![stream("hs-c", 2_000)]);
    plan.placements = vec!["tpp"];
    let refused = native(&plan, &Silent, &AtomicBool::new(false));
    let line = refused.err().expect("a line");
    assert!(line.contains("tpp") && line.contains("emulated"), "{line}");
}

/// The pages of every map can be placed, and the oracle finds the best: no page placement serves
/// more accesses from fast memory.
#[test]
fn no_placement_of_pages_is_above_the_best() {
    let mut plan = plan(vec![stream("ycsb-c", 100_000)]);
    plan.indexes = vec!["btree", "art", "masstree"];
    plan.placements = vec!["interleave", "tpp", "autonuma", "memtis", "oracle-pages"];
    (plan.warmup, plan.slice) = (Duration::from_millis(300), Duration::from_millis(300));
    let outcomes = run_emulated(&plan);
    for outcomes in outcomes.chunks(plan.placements.len()) {
        let bound = of(outcomes, "oracle-pages").fast_share_bound.unwrap();
        assert!(bound > 0.2, "{bound}, and 0.2 of the pages are fast");
        for outcome in outcomes {
            let name = format!("{} of {}", outcome.placement, outcome.index);
            assert_eq!(outcome.over_budget_bytes, 0, "{name}");
            let is_paged = named(Grain::Page).contains(&&*outcome.placement);
            assert_eq!(outcome.levels.is_empty(), is_paged, "{name}");
            // On a busy machine there may be too few requests to compare.
            if outcome.ops_per_s * outcome.seconds > 50_000.0 {
                let share = outcome.fast_share.unwrap();
                assert!(share < bound + 0.03, "{name}: {share} above {bound}");
                let is_best = &*outcome.placement == "oracle-pages";
                assert!(
                    !is_best || share > bound - 0.05,
                    "{name}: {share} of {bound}"
                );
            }
        }
    }
}

/// Heat tables take memory by need, in the tier of the nodes, so a page of fast memory is a budget
/// like any other.
#[test]
fn any_budget_is_kept() {
    for budget in [
        Budget::Bytes(4096),
        Budget::Ratio(0.03),
        Budget::Ratio(0.5),
        Budget::Ratio(1.0),
        Budget::Bytes(300_000),
    ] {
        let mut plan = quick(vec![stream("hs-d", 20_000)]);
        plan.budget = budget;
        run_emulated(&plan).iter().for_each(plausible);
    }
}

/// The hot leaves exceed the modelled cache: the placement does not affect the cached ones, and the
/// oracle counts accesses, not misses.
#[test]
fn the_oracle_meets_fast_memory_most() {
    let records = 250_000;
    let space = KeySpace::new(records).unwrap();
    let distribution = Distribution::parse("hotspot:0.2:0.9").unwrap();
    let workload = Workload::parse("hs-c")
        .unwrap()
        .with_distribution(distribution);
    let requests = Requests::Stream { workload, space };
    let hot = Load {
        format: RecordFormat::default(),
        requests,
    };
    let mut plan = plan(vec![hot, stream("ycsb-c", 2 * records)]);
    plan.placements = vec!["all-fast", "all-slow", "interleave", "inner-fast", "oracle"];
    plan.budget = Budget::Ratio(0.25);
    // Long enough that the initial content of the modelled cache hardly counts.
    (plan.warmup, plan.slice) = (Duration::from_millis(200), Duration::from_millis(400));
    let outcomes = run_emulated(&plan);
    for outcomes in outcomes.chunks(plan.placements.len()) {
        outcomes.iter().for_each(plausible);
        let share = |placement| of(outcomes, placement).fast_share.unwrap();
        assert_eq!((share("all-fast"), share("all-slow")), (1.0, 0.0));
        let shares = ["oracle", "interleave", "inner-fast"].map(share);
        let limit = 1.2 * shares[1].max(shares[2]);
        assert!(shares[0] >= limit, "{}: {shares:?}", outcomes[0].workload);
    }
}

#[test]
fn records_of_any_form_are_run() {
    let formed = |workload, keys: usize, value_bytes| Load {
        format: RecordFormat::new(Keys::of_bytes(keys).unwrap(), value_bytes).unwrap(),
        ..stream(workload, 2_000)
    };
    for (key_bytes, value_bytes) in [(8, 9), (8, 2048), (16, 8), (128, 100)] {
        let forms = ["ycsb-e", "ycsb-f"].map(|it| formed(it, key_bytes, value_bytes));
        let mut plan = plan(forms.to_vec());
        plan.placements = vec!["all-fast", "random", "timberline"];
        plan.indexes = INDEXES.to_vec();
        plan.indexes.retain(|&it| key_bytes == 8 || it != "btree");
        let outcomes = run_emulated(&plan);
        let placements = plan.placements.len();
        assert_eq!(outcomes.len(), 2 * placements * plan.indexes.len());
        for outcome in &outcomes {
            plausible(outcome);
            assert!(
                outcome.bytes_per_record >= value_bytes as f64,
                "{}",
                outcome.index
            );
        }
    }
}

/// By hand: the hottest tenth of the records is one region, so a tenth of the leaves or of the
/// records serves nine requests in ten.
#[test]
fn bounds_are_those_of_the_distribution() {
    let distribution = Distribution::parse("hotspot:0.1:0.9").unwrap();
    let space = KeySpace::new(30_000).unwrap();
    let workload = Workload::parse("hs-a").unwrap();
    let workload = workload.with_distribution(distribution);
    let requests = Requests::Stream { workload, space };
    let mut plan = plan(vec![
        Load {
            requests,
            ..stream("hs-a", 1)
        },
        stream("ycsb-d", 30_000),
    ]);
    plan.indexes = INDEXES.to_vec();
    plan.placements = vec!["interleave"];
    plan.budget = Budget::Ratio(0.3);
    let bounds = measure(&plan).bounds;
    let of: Vec<_> = bounds
        .iter()
        .map(|it| (&*it.index, &*it.workload))
        .collect();
    let both = INDEXES.map(|index| [(index, "hs-a hotspot:0.1:0.9"), (index, "ycsb-d")]);
    assert_eq!(of, both.concat());
    for bound in &bounds {
        let [page, leaf, record] = [
            bound.bound_page_fast_share,
            bound.bound_leaf_fast_share,
            bound.bound_record_fast_share,
        ]
        .map(Option::unwrap);
        // More if inner nodes take many bytes, since they take none of this budget. For art, pages
        // are close to records: they hold adjacent loaded records.
        if bound.workload == "ycsb-d" {
            // The sum of 1 / k^0.99 up to 9,000 is 0.88 of the sum up to 30,000.
            assert!((0.87..0.98).contains(&record), "{bound:?}");
            assert!(leaf > 0.3, "{bound:?}");
        } else {
            // The whole region, and two ninths of the rest.
            for share in [leaf, record] {
                assert!((0.92..0.98).contains(&share), "{bound:?}");
            }
        }
        assert!(page <= leaf + 0.01 && leaf <= record + 0.01, "{bound:?}");
    }
}

/// The bound of the best static pages does not limit pages that adapt.
#[test]
fn what_moves_on_has_no_bound_by_a_rehearsal() {
    let mut plan = plan(vec![stream("ycsb-d", 10_000)]);
    plan.placements = vec!["oracle-pages"];
    let measured = measure(&plan);
    assert_eq!(measured.outcomes[0].fast_share_bound, None);
    assert!(measured.bounds[0].bound_page_fast_share.is_some());
}

#[test]
fn a_moving_hot_region_has_recoveries() {
    let mut plan = plan(vec![stream("hs-c", 20_000)]);
    plan.placements = vec!["interleave", "timberline"];
    plan.shift_every = Some(Duration::from_millis(500));
    // A shift counts if the run continues for two seconds after it.
    plan.slice = Duration::from_millis(2_600);
    let outcomes = run_emulated(&plan);
    outcomes.iter().for_each(plausible);
    let times = outcomes.iter().flat_map(|it| {
        let of_share = [it.fast_share_recovery_s, it.fast_share_recovery_s_max];
        [[it.recovery_s, it.recovery_s_max], of_share].concat()
    });
    for time in times.flatten() {
        assert!((0.0..=0.5).contains(&time), "{time}");
    }
    for outcome in &outcomes {
        assert_eq!(
            outcome.recovery_s.is_some(),
            outcome.recovery_s_max.is_some()
        );
    }
}

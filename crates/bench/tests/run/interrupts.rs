//! Interrupted runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use timberline_bench::report::progress::Progress;

use super::{on_cxl, plan, plausible, stream};

/// Interrupts when a phase begins whose name contains `at`.
struct InterruptAt<'a> {
    at: &'static str,
    interrupted: &'a AtomicBool,
    finished: AtomicUsize,
}

impl Progress for InterruptAt<'_> {
    fn phase(&self, name: &str, _: Option<u64>) {
        if name.contains(self.at) {
            self.interrupted.store(true, Relaxed);
        }
    }
    fn advance(&self, _: u64, _: f64, _: Option<f64>) {}
    fn finish(&self) {
        self.finished.fetch_add(1, Relaxed);
    }
}

/// The placements of the outcomes of a long run that is interrupted at a phase.
fn interrupted_at(at: &'static str) -> Vec<(String, usize)> {
    let mut plan = plan(vec![stream("hs-c", 50_000), stream("ycsb-d", 2_000)]);
    plan.placements = vec!["interleave", "oracle", "timberline"];
    plan.rounds = 1_000_000;
    let interrupted = AtomicBool::new(false);
    let progress = InterruptAt {
        at,
        interrupted: &interrupted,
        finished: AtomicUsize::new(0),
    };
    let outcomes = on_cxl(&plan, &progress, &interrupted).unwrap().outcomes;
    assert_eq!(progress.finished.load(Relaxed), 1);
    outcomes.iter().for_each(plausible);
    assert!(outcomes.iter().all(|it| it.workload == "hs-c"));
    let outcomes = outcomes.into_iter();
    outcomes.map(|it| (it.placement, it.rounds.len())).collect()
}

#[test]
fn an_interruption_keeps_what_was_measured() {
    let all = ["interleave", "oracle", "timberline"];
    let rounds = interrupted_at("hs-c: interleave 4/");
    assert!(rounds.iter().map(|(name, _)| &**name).eq(all), "{rounds:?}");
    assert!(
        rounds.iter().all(|&(_, rounds)| (3..=4).contains(&rounds)),
        "{rounds:?}"
    );
    let rounds = interrupted_at("hs-c: timberline 1/");
    assert!(rounds.len() >= 2 && rounds[0].1 == 1, "{rounds:?}");
}

/// A half-loaded map gets no requests, and is not reported as broken.
#[test]
fn an_interruption_before_the_first_round_leaves_nothing() {
    for at in [
        "loading all-fast",
        "loading oracle",
        "counting",
        "loading timberline",
    ] {
        assert_eq!(interrupted_at(at), [], "{at}");
    }
}

//! What holds for every scheme: the budget at every moment, and that a page is where the table
//! says, under accesses without any pattern, from one thread and from several.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use timberline_tier::emulator::{PageEvent, PageWatch};

use super::fake::{FakePages, Rig};
use crate::pages::*;

type Make = fn(&mut PageTable) -> Box<dyn PageScheme>;

/// All schemes, with numbers so small that everything happens often.
const SCHEMES: [Make; 6] = [
    |table| Box::new(Tpp::new(table, TppConfig::default())),
    |table| Box::new(Autonuma::new(table, AutonumaConfig::default())),
    |table| {
        let config = DamonConfig {
            apply_every: Duration::from_millis(100),
            ..DamonConfig::default()
        };
        Box::new(Damon::new(table, config))
    },
    |table| {
        let config = MemtisConfig {
            sample_every: 3,
            adapt_every: 50,
            cool_every: 500,
            split_every: 1,
            migrate_every: Duration::from_millis(20),
            huge: 8,
            ..MemtisConfig::default()
        };
        Box::new(Memtis::new(table, config))
    },
    |_| {
        Box::new(Caption::new(CaptionConfig {
            period: Duration::from_millis(50),
            share: 300,
            ..CaptionConfig::default()
        }))
    },
    |_| Box::new(PageOracle),
];

fn random(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*state >> 33) as usize
}

/// The rig checks the budget and the count after each access and each step.
#[test]
fn any_scheme_keeps_any_budget() {
    for (nth, make) in SCHEMES.into_iter().enumerate() {
        for limit in [0, 1, 7, 20, 90, 100] {
            let mut rig = Rig::with_unused(100, 60, limit, make);
            let mut state = 42;
            for round in 0..200 {
                let hot = if round < 100 { 0..20 } else { 70..95 };
                for _ in 0..20 {
                    let page = match random(&mut state) % 4 {
                        0 => random(&mut state) % 100,
                        _ => hot.start + random(&mut state) % hot.len(),
                    };
                    rig.access(page);
                }
                rig.done += 20 + random(&mut state) as u64 % 10;
                rig.run_for(Duration::from_millis(10));
            }
            let (promoted, demoted) = rig.moves();
            let room = limit as u64 + demoted;
            assert!(
                promoted <= room,
                "scheme {nth}: {promoted} in room for {room}"
            );
            assert!(rig.fast().len() <= limit);
        }
    }
}

#[test]
fn threads_that_fault_and_the_worker_do_not_break_it() {
    for (nth, make) in SCHEMES.into_iter().enumerate() {
        let pages = Arc::new(FakePages::new(64));
        let mut table = PageTable::new(pages.clone(), 16, PageCosts::NONE);
        let scheme = make(&mut table);
        let paged = Paged::new(scheme, table);
        paged.place(0..64);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (paged, stop) = (&paged, &stop);
                scope.spawn(move || {
                    let mut state = thread;
                    while !stop.load(Relaxed) {
                        let page = random(&mut state) % 64;
                        let now = Duration::from_millis(random(&mut state) as u64 % 500);
                        paged.on_event(page, PageEvent::Fault, now);
                        paged.on_event(page, PageEvent::Sample, now);
                    }
                });
            }
            for step in 0..2000 {
                paged.step(Moment {
                    now: Duration::from_millis(step),
                    done: step,
                });
                let Tally { fast, peak, .. } = paged.tally();
                assert!(fast <= peak && peak <= 16, "scheme {nth}: {peak}");
            }
            stop.store(true, Relaxed);
        });
        let is_fast = |&page: &usize| pages.tier(page).is_fast();
        assert_eq!((0..64).filter(is_fast).count(), paged.tally().fast);
    }
}

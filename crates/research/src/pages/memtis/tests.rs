//! Scripts for the whole scheme, with huge pages of four pages and every access a sample.

use super::super::tests::fake::Rig;
use super::*;

const MS: Duration = Duration::from_millis(1);

fn config() -> MemtisConfig {
    MemtisConfig {
        sample_every: 1,
        adapt_every: 16,
        cool_every: 1_000_000,
        split_every: 1_000_000,
        huge: 4,
        cpu: 1.0,
        ..MemtisConfig::default()
    }
}

/// 32 pages in eight huge pages, two of which are fast at first.
fn rig(config: MemtisConfig) -> Rig {
    let rig = Rig::new(32, 8, |table| Box::new(Memtis::new(table, config)));
    assert_eq!(rig.fast(), (0..8).collect::<Vec<_>>());
    rig
}

/// So many accesses to each page of a range.
fn access(rig: &mut Rig, pages: std::ops::Range<usize>, times: usize) {
    for _ in 0..times {
        rig.access_all(pages.clone());
    }
}

/// Huge page 5 (pages 20 to 23) gets 16 samples and huge page 0 gets 4: both fit, and page 1 makes
/// room.
#[test]
fn a_hot_huge_page_takes_the_place_of_a_cold_one() {
    let mut rig = rig(config());
    access(&mut rig, 0..4, 1);
    access(&mut rig, 20..24, 4);
    rig.run_for(499 * MS);
    assert_eq!(rig.moves(), (0, 0), "migration is every half a second");
    rig.run_for(MS);
    assert_eq!(rig.fast(), [0, 1, 2, 3, 20, 21, 22, 23]);
    assert_eq!(rig.moves(), (4, 4), "counted in pages");
    assert_eq!(rig.access(20), 250, "a sample");
}

/// Three huge pages ask for two places. They are in bins 4 (16 samples), 3 (8) and 3: only the
/// first fits together with all of its bin, so the threshold is 4, and the others are warm and stay
/// where they are.
#[test]
fn the_threshold_follows_the_size_of_fast_memory() {
    let mut rig = rig(config());
    access(&mut rig, 20..24, 4);
    access(&mut rig, 0..4, 2);
    access(&mut rig, 24..28, 2);
    rig.run_for(500 * MS);
    assert_eq!(rig.fast(), [0, 1, 2, 3, 20, 21, 22, 23], "page 1 was cold");
}

#[test]
fn cooling_forgets() {
    let mut rig = rig(MemtisConfig {
        cool_every: 16,
        ..config()
    });
    access(&mut rig, 0..4, 4);
    access(&mut rig, 4..8, 4);
    rig.run_for(500 * MS);
    assert_eq!(rig.moves(), (0, 0));
    // 8 and 4 halvings later, so that one sample each is hotter.
    for _ in 0..8 {
        access(&mut rig, 20..24, 2);
        access(&mut rig, 24..28, 2);
        rig.run_for(10 * MS);
    }
    rig.run_for(500 * MS);
    assert_eq!(rig.fast(), (20..28).collect::<Vec<_>>());
}

/// One page of each huge page is hot: huge pages fit two of them into fast memory, base pages all
/// eight. So they are split, and the hot pages come together.
#[test]
fn skewed_huge_pages_are_split() {
    let mut rig = rig(MemtisConfig {
        split_every: 1,
        ..config()
    });
    for _ in 0..30 {
        for _ in 0..4 {
            rig.access_all((0..32).step_by(4));
        }
        rig.run_for(100 * MS);
    }
    assert_eq!(rig.fast(), (0..32).step_by(4).collect::<Vec<_>>());
    assert!(rig.cost > 8 * Duration::from_micros(50), "eight splits");
}

/// A huge page with even accesses is not split.
#[test]
fn even_huge_pages_stay_whole() {
    let mut rig = rig(MemtisConfig {
        split_every: 1,
        ..config()
    });
    for _ in 0..30 {
        access(&mut rig, 0..8, 4);
        rig.run_for(100 * MS);
    }
    assert_eq!(rig.fast(), (0..8).collect::<Vec<_>>());
    assert_eq!(rig.moves(), (0, 0));
}

/// A huge page takes all of its room with the first touch of any of its pages, and gives back what
/// was never touched when it is split.
#[test]
fn a_split_gives_back_what_nobody_touched() {
    let config = MemtisConfig {
        split_every: 1,
        ..config()
    };
    let mut rig = Rig::with_unused(32, 0, 8, |table| Box::new(Memtis::new(table, config)));
    rig.access_all([1, 6, 11]);
    assert_eq!(
        rig.fast(),
        (0..8).collect::<Vec<_>>(),
        "page 11 has no room"
    );
    for _ in 0..20 {
        rig.access_all([1, 6, 11]);
        rig.run_for(100 * MS);
    }
    assert_eq!(rig.fast(), [1, 6, 11]);
}

/// Counting 100,000 samples a second takes 2 % of a CPU; 1 % is allowed, so the interval doubles.
#[test]
fn samples_become_fewer_where_they_take_too_long() {
    let mut rig = rig(MemtisConfig {
        cpu: 0.01,
        ..config()
    });
    let samples = |rig: &mut Rig| (0..100).filter(|_| rig.access(0) > 0).count();
    for _ in 0..100 {
        access(&mut rig, 0..4, 250);
        rig.run_for(10 * MS);
    }
    rig.run_for(20 * MS);
    let taken = samples(&mut rig);
    assert!((45..=55).contains(&taken), "{taken}");
    rig.run_for(3000 * MS);
    assert_eq!(samples(&mut rig), 100, "and more again where they don't");
}

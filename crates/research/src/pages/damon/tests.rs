//! Scripts for the whole scheme.

use super::super::tests::fake::Rig;
use super::*;

const MS: Duration = Duration::from_millis(1);

/// With intervals that are not tuned: 5 ms, and 100 ms for an aggregation.
fn config() -> DamonConfig {
    let mut config = DamonConfig::default();
    config.monitor.max_sampling = config.monitor.min_sampling;
    config
}

fn rig(config: DamonConfig) -> Rig {
    Rig::new(200, 50, |table| Box::new(Damon::new(table, config)))
}

/// Accesses these pages in each sampling interval for so long.
fn busy(rig: &mut Rig, pages: std::ops::Range<usize>, time: Duration) {
    let end = time.as_millis() as u32;
    for _ in 0..end {
        rig.access_all(pages.clone());
        rig.run_for(MS);
    }
}

/// Frames of fast memory without an access are demoted after a second, and hot ones of slow
/// memory promoted.
#[test]
fn cold_pages_make_room_for_hot_ones() {
    let mut rig = rig(config());
    assert_eq!(rig.fast(), (0..50).collect::<Vec<_>>());
    busy(&mut rig, 100..120, 1000 * MS);
    busy(&mut rig, 100..120, 1500 * MS);
    let fast = rig.fast();
    let hot = fast.iter().filter(|&&page| (100..120).contains(&page));
    assert!(hot.count() >= 15, "{fast:?}");
    let (promoted, demoted) = rig.moves();
    assert!(promoted >= 15 && demoted >= 15);
}

/// All pages are accessed in every fourth sampling interval, and pages 100 to 119 in each.
#[test]
fn what_is_least_accessed_goes_where_nothing_is_without_accesses() {
    let published = config();
    let coldest = DamonConfig {
        monitor: published.monitor,
        ..DamonConfig::coldest(50)
    };
    let [published, coldest] = [published, coldest].map(|config| {
        let mut rig = rig(config);
        for _ in 0..400 {
            rig.access_all(0..200);
            busy(&mut rig, 100..120, 20 * MS);
        }
        let is_hot = |page: &&usize| (100..120).contains(*page);
        (rig.moves().1, rig.fast().iter().filter(is_hot).count())
    });
    assert_eq!(published, (0, 0));
    // Which regions split where depends on the generator: most of the twenty, not a number.
    assert!(coldest.0 > 10 && coldest.1 > 10, "{coldest:?}");
}

/// Ten pages are all that each action may be tried on in its first interval.
#[test]
fn the_quota_bounds_what_is_tried() {
    let mut rig = rig(DamonConfig {
        quota: 10,
        ..config()
    });
    busy(&mut rig, 100..120, 1100 * MS);
    assert_eq!(rig.moves().1, 10);
    assert!(rig.moves().0 <= 10);
}

/// Ten pages of a thousand are accessed just before the actions are applied, and the last two
/// samples miss them. They are young, and stay where all others of their regions go.
#[test]
fn young_pages_are_not_demoted() {
    let mut config = config();
    (config.monitor.min_regions, config.monitor.max_regions) = (1, 2);
    let mut rig = Rig::new(2000, 1000, |table| Box::new(Damon::new(table, config)));
    rig.run_for(996 * MS);
    rig.access_all(0..10);
    rig.run_for(15 * MS);
    assert_eq!(rig.fast(), (0..10).collect::<Vec<_>>());
}

#[test]
fn where_nothing_is_accessed_nothing_is_promoted() {
    let mut rig = rig(config());
    rig.run_for(3000 * MS);
    assert_eq!(rig.moves().0, 0);
    assert!(rig.cost > Duration::ZERO, "sampling costs");
}

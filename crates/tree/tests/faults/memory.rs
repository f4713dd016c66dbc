//! The nth allocation fails, and all after it: in the fast tier, in the slow one, in both; in every operation, for n = 1, 2, 3 and on.

use timberline_tier::TierId;

use crate::map::Map;
use crate::model::{Model, Op, ends_well, same};
use crate::suite::draw::{Draw, seed};
use crate::suite::{placing, rooms};

/// Operations of a run.
const STEPS: u64 = 250;
/// As many allocations as an operation on a record makes, and more than a move of all nodes with all their strings makes.
pub const FEW: u64 = 12;
pub const MOST: u64 = 2_000;

/// Tiers whose memory ends.
pub const ENDS_IN: [&[TierId]; 3] = [
    &[TierId::FAST],
    &[TierId::SLOW],
    &[TierId::FAST, TierId::SLOW],
];

pub fn fail<T: Map>(map: &T, tiers: &[TierId], nth: u64) {
    for &tier in tiers {
        map.arenas().fail_from(tier, nth);
    }
}

/// Ends what [`fail`] began. Returns how many allocations failed.
pub fn mend<T: Map>(map: &T, tiers: &[TierId]) -> u64 {
    let failed = tiers.iter().map(|&tier| map.arenas().failed(tier)).sum();
    for &tier in tiers {
        map.arenas().fail_nth(tier, 0);
    }
    failed
}

/// Runs one and the same list of operations again and again. In the first run every operation has no memory at all at first, in the
/// second it has one allocation, and so on, until all of them get through a whole run undisturbed. One that is refused is asked again with one
/// allocation more; the map is what it was before.
pub fn an_operation_fails_as_a_whole_or_does_without<T: Map>() {
    let seed = seed();
    // A list of records, or a whole subtree, may take many: of these not every number is tried.
    let next = |first: &u64| Some(first + if *first < FEW { 1 } else { first / 2 });
    for tiers in ENDS_IN {
        let (mut refusals, mut done_without) = (0, 0);
        for first in std::iter::successors(Some(1), next) {
            assert!(first < MOST, "an operation takes all memory there is");
            let (refused, failed) = run::<T>(seed, tiers, first);
            refusals += refused;
            done_without += failed;
            if failed == 0 {
                break;
            }
        }
        let slow = tiers.contains(&TierId::SLOW);
        assert_eq!(refusals > 0, slow, "{tiers:?}: {refusals}");
        assert!(done_without > 0, "{tiers:?}");
    }
}

/// Returns how many operations were refused, and how many allocations failed.
fn run<T: Map>(seed: u64, tiers: &[TierId], first: u64) -> (u64, u64) {
    let placing = placing::shuffle(seed);
    let arenas = rooms::two(rooms::AMPLE, 2 * rooms::AMPLE);
    let map = T::make(arenas, placing.placement.clone());
    let (mut draw, mut model) = (Draw::new(seed, 0), Model::new());
    let (mut refused, mut failed) = (0, 0);
    for _ in 0..STEPS {
        let mut op = Op::draw::<T>(&mut draw, &model);
        for nth in first..first + MOST {
            fail(&map, tiers, nth);
            let outcome = op.ask(&map);
            let now = mend(&map, tiers);
            failed += now;
            assert!(now == 0 || !op.looks(), "who only looks takes no memory");
            match outcome {
                Ok(answer) => {
                    assert_eq!(answer, op.tell(&mut model), "{op:?}");
                    break;
                }
                Err(refusal) => {
                    assert_eq!(refusal.full.tier, map.arenas().slowest());
                    assert!(now > 0, "refused although there was memory: {op:?}");
                    refused += 1;
                    op.take_done(refusal, &mut model);
                    same(&map, &model);
                }
            }
        }
    }
    ends_well(&map, &mut model, &mut draw);
    (refused, failed)
}

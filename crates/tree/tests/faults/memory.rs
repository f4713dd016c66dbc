//! The nth allocation fails, and all after it: in the fast tier, in the slow one, in both; in every
//! operation, for n = 1, 2, 3 and on.

use timberline_tier::TierId;

use crate::map::Map;
use crate::model::{Model, Op, ends_well, same};
use crate::suite::draw::{Draw, seed};
use crate::suite::{arenas, placing};

/// Operations of a run.
const STEPS: u64 = 250;
/// As many allocations as an operation on a record makes, and more than a move of all nodes with
/// all their strings makes.
pub const MAX_OF_OPERATION: u64 = 12;
pub const MAX_ALLOCATIONS: u64 = 2_000;

/// From which allocation on fast and slow memory fail, for the nth time; 0: never.
pub type Ends = fn(u64) -> [u64; 2];

/// Memory ends in the fast tier, in the slow one, in both, and in the slow one sooner.
pub const ENDS: [Ends; 4] = [|n| [n, 0], |n| [0, n], |n| [n, n], |n| [n, n.div_ceil(2)]];

const TIERS: [TierId; 2] = [TierId::FAST, TierId::SLOW];

pub fn fail<T: Map>(map: &T, from: [u64; 2]) {
    for (tier, nth) in TIERS.into_iter().zip(from) {
        map.arenas().fail_from(tier, nth);
    }
}

/// Ends what [`fail`] began. Returns how many allocations failed.
pub fn mend<T: Map>(map: &T) -> u64 {
    let failed = TIERS.map(|tier| map.arenas().failed(tier));
    fail(map, [0, 0]);
    failed.iter().sum()
}

/// Runs one and the same list of operations again and again. In the first run every operation has
/// no memory at all at first, in the second it has one allocation, and so on, until all of them get
/// through a whole run undisturbed. One that is refused is asked again with one allocation more;
/// the map is what it was before.
pub fn an_operation_fails_as_a_whole_or_does_without<T: Map>() {
    let seed = seed();
    // A list of records, or a whole subtree, may take many: of these not every number is tried.
    let next = |first: &u64| {
        Some(
            first
                + if *first < MAX_OF_OPERATION {
                    1
                } else {
                    first / 2
                },
        )
    };
    for ends in ENDS {
        let (mut refusals, mut done_without) = (0, 0);
        for first in std::iter::successors(Some(1), next) {
            assert!(
                first < MAX_ALLOCATIONS,
                "an operation takes all memory there is"
            );
            let (refused, failed) = run::<T>(seed, ends, first);
            refusals += refused;
            done_without += failed;
            if failed == 0 {
                break;
            }
        }
        let [_, slow] = ends(1);
        assert_eq!(refusals > 0, slow > 0, "{:?}: {refusals}", ends(1));
        assert!(done_without > 0, "{:?}", ends(1));
    }
}

/// Returns how many operations were refused, and how many allocations failed.
fn run<T: Map>(seed: u64, ends: Ends, first: u64) -> (u64, u64) {
    // Nodes are elsewhere each time.
    let placing = placing::shuffle(seed ^ first);
    let arenas = arenas::two(arenas::AMPLE, 2 * arenas::AMPLE);
    let map = T::make(arenas, placing.placement.clone());
    let (mut draw, mut model) = (Draw::new(seed, 0), Model::new());
    let (mut refused, mut failed) = (0, 0);
    for _ in 0..STEPS {
        let mut op = Op::draw::<T>(&mut draw, &model);
        for nth in first..first + MAX_ALLOCATIONS {
            fail(&map, ends(nth));
            let outcome = op.ask(&map);
            let now = mend(&map);
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

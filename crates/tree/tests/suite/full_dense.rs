//! Dense leaves of the radix tree that have all their records: lookups read them without a version.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use timberline_placement::NodeKey;
use timberline_tier::{Native, TierId};
use timberline_tree::Art;

use crate::suite::draw::{self, Draw};
use crate::suite::{arenas, placing};
use crate::wide;

/// While a dense leaf has all its records, lookups read nothing but the value. It loses one, moves,
/// and has all again, wherever it hangs.
#[test]
fn a_dense_leaf_without_a_gap_loses_a_record_and_regains_it() {
    for above in [
        vec![],
        vec![1 << 8],
        vec![1 << 40, 1 << 41, 1 << 60],
        wide::keys(),
    ] {
        let map: Art<u64, u64> = Art::in_memory(
            Native(arenas::two(1 << 20, 1 << 20)),
            placing::all_slow(0).placement,
        )
        .unwrap();
        for &key in &above {
            map.insert(&key, key).unwrap();
        }
        let all = || (0..256).map(|key| (key, !key));
        for (key, value) in all() {
            map.insert(&key, value).unwrap();
        }
        let mut draw = Draw::new(draw::seed(), above.len() as u64);
        for round in 0..400u32 {
            let lost = draw.below(256);
            assert_eq!(map.remove(&lost), Some(!lost));
            assert_eq!((map.get(&lost), map.remove(&lost)), (None, None));
            if round % 3 == 0 {
                let to = TierId((round / 3 % 2) as u8);
                map.placed()
                    .demote_to(&NodeKey::leaf([0; 8][..].into()), to);
                map.placed()
                    .promote_to(&NodeKey::leaf([0; 8][..].into()), to);
            }
            assert!(all().all(|(key, value)| map.get(&key) == (key != lost).then_some(value)));
            assert_eq!(map.insert(&lost, !lost), Ok(None));
            assert_eq!(map.insert(&lost, !lost), Ok(Some(!lost)));
            let mut values = [None; 256];
            map.get_many(&all().map(|(key, _)| key).collect::<Vec<_>>(), &mut values);
            assert!(
                values
                    .iter()
                    .copied()
                    .eq(all().map(|(_, value)| Some(value)))
            );
            assert!(map.range(..256).eq(all()));
        }
        // What hangs above goes, and the leaf takes its place.
        for &key in &above {
            assert_eq!(map.remove(&key), Some(key));
            assert!(all().all(|(key, value)| map.get(&key) == Some(value)));
        }
        for (key, value) in all() {
            assert_eq!(map.pop_first(), Some((key, value)));
        }
        assert!(map.is_empty());
    }
}

/// A record comes with a new value each time and goes again, the last one that a dense leaf lacked.
/// Readers, who read no version, never see a value again after they saw that it was gone.
#[test]
fn what_left_a_dense_leaf_is_not_seen_again() {
    let map: Art<u64, u64> = Art::new();
    let all = (0..256).filter(|&key| key != 7).chain(wide::keys());
    all.for_each(|key| assert_eq!(map.insert(&key, key), Ok(None)));
    let before = map.len();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut last, mut is_gone) = (0, false);
                while !done.load(Relaxed) {
                    match map.get(&7) {
                        None => is_gone = true,
                        Some(value) => {
                            assert!(value >= last, "{value} after {last}");
                            assert!(!is_gone || value > last, "{value} came back");
                            (last, is_gone) = (value, false);
                        }
                    }
                }
            });
        }
        for value in 1..20_000 {
            assert_eq!(map.insert(&7, value), Ok(None));
            if value % 2 == 0 {
                std::thread::yield_now();
            }
            assert_eq!(map.remove(&7), Some(value));
        }
        done.store(true, Relaxed);
    });
    assert_eq!(map.len(), before);
}

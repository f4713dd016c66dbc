//! The radix tree under the shared suite, and what only a radix tree has to show.

#[macro_use]
mod suite;
#[path = "suite/art_of_bytes.rs"]
mod art_of_bytes;
#[path = "suite/art_of_strings.rs"]
mod art_of_strings;
#[path = "suite/art_of_words.rs"]
mod art_of_words;
#[path = "suite/bytes.rs"]
mod bytes;
#[path = "suite/full_dense.rs"]
mod full_dense;
#[path = "suite/spots.rs"]
mod spots;
#[path = "suite/values/mod.rs"]
mod values;
#[path = "suite/wide.rs"]
mod wide;

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use art_of_words::Map;
use bytes::byte_suite_for;
use spots::spots_for;
use suite::clockwork::Clockwork;
use suite::draw::{self, Draw};
use suite::{arenas, check, placing};
use timberline_placement::{AllFast, HeatIn, Move, NodeKey, Timberline, TimberlineConfig};
use timberline_tier::{Arenas, ArenasConfig, Memory, Native, TierId};
use timberline_tree::art::{Far, Near, Range, Reach};
use timberline_tree::{Art, Error, Key, MAX_KEY};
use values::value_suite_for;

suite_for!(near: Map<Near>);

value_suite_for!(strings: Art<u64, Vec<u8>, Native, Near>);

byte_suite_for!(of_bytes: Art<[u8], u64>);

spots_for!(of_spots: Art<str, u64>);

/// With links of 64 bits nodes have other sizes; that is all that differs.
mod far {
    use super::*;
    suite_for! { @ Map<Far>:
        model::agrees_over_a_long_run,
        own_keys::threads_with_their_own_keys_lose_nothing,
        scans::standing_records_are_seen_once_in_order,
        faults::a_failed_allocation_fails_an_insert_or_nothing,
        reclaim::churn_gives_everything_back,
    }
}

/// All dense leaves pass through two smaller sizes while a map of dense keys grows. The last of
/// these used to wait for the next node to be retired, which never was. A few of them in each chunk
/// kept almost all chunks: a quarter of the map.
#[test]
fn a_map_that_has_grown_keeps_no_memory_of_its_smaller_nodes() {
    const KEYS: u64 = 2_000_000;
    let mut config = ArenasConfig::one_tier(64 << 20);
    config.chunk_bytes = 256 << 10;
    let memory = Native(Arenas::new(&config).unwrap());
    let map: Art<u64, u64> = Art::in_memory(memory, Arc::new(AllFast)).unwrap();
    for key in Draw::new(draw::seed(), 0).shuffled((0..KEYS).collect()) {
        map.insert(&key, key).unwrap();
    }
    let (committed, _) = map.committed();
    let in_nodes = map.stats().bytes_in_nodes;
    assert!(
        committed <= in_nodes + in_nodes / 8,
        "{committed} of {in_nodes}"
    );
}

/// A node that is slow above a fast child is reported by its name. Once removals leave one child,
/// that one hangs below the next node above, which was slow as well and had no report.
#[test]
fn a_node_that_gets_a_fast_child_from_a_removed_one_is_reported() {
    let placing = placing::fast_first(draw::seed());
    let arenas = arenas::two(arenas::AMPLE, arenas::AMPLE);
    let map: Art<[u8], u64> = Art::in_memory(Native(arenas), placing.placement.clone()).unwrap();
    for key in ["x", "na", "nb", "nc"] {
        map.insert(key.as_bytes(), 0).unwrap();
    }
    assert_eq!(map.stats().leaves.fast, 4);
    // The node above `na`, `nb` and `nc` grows, and only slow memory has room.
    map.memory().arenas().fail_nth(TierId::FAST, 1);
    map.insert(b"nd", 0).unwrap();
    map.memory().arenas().fail_nth(TierId::FAST, 0);
    assert_eq!(map.stats().above_boundary, 3);
    let placed = map.placed();
    let top = NodeKey {
        key: b""[..].into(),
        height: 1,
    };
    for node in [NodeKey::leaf(b"x"[..].into()), top] {
        assert_eq!(placed.demote_to(&node, TierId::SLOW), Move::Moved(1));
    }
    for key in ["nd", "nc", "nb"] {
        assert_eq!(map.remove(key.as_bytes()), Some(0));
    }
    let stats = map.stats();
    assert_eq!((stats.levels.len(), stats.above_boundary), (2, 1));
    placing.settle.unwrap()(&*placed);
    assert_eq!(map.stats().above_boundary, 0);
}

#[test]
fn maps_and_scans_go_to_other_threads() {
    fn crosses_threads<T: Send + Sync + 'static>() {}
    crosses_threads::<Art<u64, u64>>();
    crosses_threads::<Art<str, f64, Native, Far>>();
    crosses_threads::<Range<[u8], u64, Native, Near>>();
}

/// Keys that end at any depth, and keys that are not there, at every depth of the driver.
#[test]
fn many_keys_are_found_at_whatever_depth_they_end() {
    let map: Art<str, u64> = Art::new();
    let mut values = [None; 80];
    let key = |i: usize| "timberline".repeat(4)[..i * 7 % 40].to_owned() + ["", "x", "yz"][i % 3];
    let keys: Vec<String> = (0..80).map(key).collect();
    let keys: Vec<&str> = keys.iter().map(|key| &key[..]).collect();
    // None, one, two, and then every other one.
    for records in [0, 1, 2, keys.len()] {
        for (at, key) in keys.iter().enumerate().take(records).step_by(2) {
            map.insert(key, at as u64).unwrap();
        }
        for depth in [0, 1, 3, 16, 64, 100] {
            map.get_many_deep(&keys, &mut values, depth);
            for (key, value) in keys.iter().zip(values) {
                assert_eq!(value, map.get(key), "{key} at {depth}");
            }
        }
    }
    assert!(values.iter().any(Option::is_none) && values.iter().any(Option::is_some));
}

/// Packs and dense leaves beside leaves: lookups of words that end in each of them.
#[test]
fn many_words_are_found_in_leaves_packs_and_dense_leaves() {
    let map: Art<u64, u64> = Art::new();
    let lone = (0..20u64).map(|i| i << 56);
    let packed = (0..3u64).map(|i| 1 << 40 | i << 32);
    let dense = (0..100u64).map(|i| 2 << 40 | i);
    let keys: Vec<u64> = lone.chain(packed).chain(dense).collect();
    for &key in &keys {
        map.insert(&key, key ^ 1).unwrap();
    }
    let asked: Vec<u64> = keys.iter().flat_map(|&key| [key, key ^ 128]).collect();
    for depth in [1, 7, 16] {
        let mut values = vec![None; asked.len()];
        map.get_many_deep(&asked, &mut values, depth);
        for (key, value) in asked.iter().zip(values) {
            let expected = keys.contains(key).then_some(key ^ 1);
            assert_eq!(value, expected, "{key:#x} at {depth}");
        }
    }
}

/// The link that a scan begins at is not read before its neighbours are asked for, and may lead to
/// nothing but records before the start.
#[test]
fn scans_that_begin_behind_a_node_show_none_of_it() {
    for records in [1u64, 3, 100] {
        let map: Art<u64, u64> = Art::new();
        for key in 1000..1000 + records {
            map.insert(&key, key).unwrap();
        }
        for others in [false, true] {
            if others {
                map.insert(&0, 0).unwrap();
                map.insert(&u64::MAX, 1).unwrap();
            }
            let behind = map.range(1000 + records..u64::MAX).next();
            let before = map.range(1..1000).next_back();
            assert_eq!((behind, before), (None, None), "{records} records");
            let last = map.range(999 + records..).next();
            assert_eq!(last, Some((999 + records, 999 + records)));
            let within = map.range(..=1000).next_back();
            assert_eq!(within, Some((1000, 1000)));
        }
    }
}

fn slow<K: Key + ?Sized>(bytes: usize) -> Art<K, u64> {
    let arenas = arenas::two(0, bytes);
    Art::in_memory(Native(arenas), placing::all_slow(0).placement).unwrap()
}

/// As many keys in a sixty-fourth of all as ten million random ones have there.
#[test]
fn a_random_record_takes_less_than_36_bytes() {
    const RECORDS: u64 = 10_000_000 / 64;
    let map: Art<u64, u64> = slow(16 << 20);
    let mut draw = Draw::new(draw::seed(), 0);
    for value in 0..RECORDS {
        map.insert(&(draw.word() >> 6), value).unwrap();
    }
    let stats = map.stats();
    let per_record = stats.bytes_in_nodes as f64 / stats.records as f64;
    assert!(per_record < 36.0, "{per_record} bytes a record");
}

/// Neighbours are kept in dense leaves while there are many of them, whatever they were before and
/// become after that.
#[test]
fn neighbours_share_a_dense() {
    const RECORDS: u64 = 40 * 256;
    let map: Art<u64, u64> = slow(4 << 20);
    let first = u64::MAX - RECORDS - 100;
    let all = || first..first + RECORDS;
    let mut draw = Draw::new(draw::seed(), 0);
    for key in draw.shuffled(all().collect()) {
        assert_eq!(map.insert(&key, !key), Ok(None));
    }
    let stats = map.stats();
    assert_eq!(
        (stats.records, map.len()),
        (RECORDS as usize, RECORDS as usize)
    );
    let dense_leaves = stats.leaves.slow as u64;
    assert!(
        (RECORDS / 256..=RECORDS / 256 + 60).contains(&dense_leaves),
        "{stats:?}"
    );
    assert!(stats.bytes_in_nodes as u64 / RECORDS < 10, "{stats:?}");

    // One that lies elsewhere parts from them, and finds them again.
    for key in [0, first - 1, u64::MAX] {
        assert_eq!(map.insert(&key, !key), Ok(None));
        assert_eq!(map.remove(&key), Some(!key));
        assert_eq!(map.get(&key), None);
    }
    for _ in 0..200 {
        let (one, two) = (first + draw.below(RECORDS), first + draw.below(RECORDS));
        let (low, high) = (one.min(two), one.max(two));
        assert!(map.range(&low..=&high).map(|(key, _)| key).eq(low..=high));
        assert!(
            map.range(&low..&high)
                .rev()
                .map(|(key, _)| key)
                .eq((low..high).rev())
        );
        let mut seen = 0;
        let limit = 1 + draw.below(600) as usize;
        let shown = map.scan(&low, limit, |key, value| {
            assert_eq!((key, value), (low + seen, !key));
            seen += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(shown, limit.min((first + RECORDS - low) as usize));
        assert_eq!(map.modify(&low, |value| Some(value + 1)), Some(!low));
        assert_eq!(
            map.compare_exchange(&low, Some(7), Some(8)),
            Ok(Err(Some(!low + 1)))
        );
        assert_eq!(
            map.compare_exchange(&low, Some(!low + 1), Some(!low)),
            Ok(Ok(Some(!low + 1)))
        );
    }
    assert_eq!(map.first_key_value(), Some((first, !first)));
    assert_eq!(
        map.scan(&first, 0, |_, _| unreachable!("none is wanted")),
        0
    );

    // With one in sixteen left, dense leaves are smaller.
    for key in all().filter(|key| key % 16 != 0) {
        assert_eq!(map.remove(&key), Some(!key));
    }
    let left = || all().filter(|key| key % 16 == 0);
    let stats = map.stats();
    assert!(stats.bytes_in_nodes / left().count() < 40, "{stats:?}");
    assert!(map.iter().eq(left().map(|key| (key, !key))));
    for key in left() {
        assert_eq!(map.remove(&key), Some(!key));
    }
    assert_eq!((map.len(), map.stats().bytes_in_nodes), (0, 0));
}

/// A pack whose node goes takes the node's place, where other keys lead to it, too. Scans that have
/// walked to it before used to show these out of order.
#[test]
fn a_scan_stays_in_order_when_a_pack_moves_up() {
    let map: Art<u64, u64> = slow(1 << 20);
    for (left, other) in [(4, 2), (4, 259), (0x200, 2), (0x200, 0x201)] {
        // A leaf and a pack below one node; `spare` makes them part.
        let spare = left ^ 1;
        let keys = [left, spare, 257, 258];
        for key in keys {
            map.insert(&key, key).unwrap();
        }
        map.remove(&spare);
        let mut shown = Vec::new();
        map.scan(&0, usize::MAX, |key, _| {
            if shown.is_empty() {
                map.remove(&left);
                map.insert(&other, other).unwrap();
            }
            shown.push(key);
            ControlFlow::Continue(())
        });
        assert!(shown.is_sorted(), "{left} left, {other} came: {shown:?}");
        assert!(map.iter().map(|(key, _)| key).is_sorted());
        assert_eq!(map.len(), 3, "the new one is found: {other}");
        assert_eq!(map.get(&other), Some(other));
        map.clear();
    }
}

/// Where there is no memory for a smaller one, a dense leaf stays until its last record goes.
#[test]
fn a_dense_that_cannot_shrink_stays() {
    let map: Art<u64, u64> = slow(16 * arenas::CHUNK);
    for key in 0..256 {
        map.insert(&key, key).unwrap();
    }
    let others: Vec<u64> = (1..)
        .map(|key| key << 16)
        .take_while(|key| map.insert(key, 0).is_ok())
        .collect();
    for key in 0..256 {
        assert_eq!(map.remove(&key), Some(key));
        assert!((0..256).all(|other| map.get(&other) == (other > key).then_some(other)));
    }
    assert!(map.iter().map(|(key, _)| key).eq(others));
}

#[test]
fn arenas_beyond_the_reach_of_links_are_refused() {
    let mut config = ArenasConfig::two_tiers(8 << 30, 9 << 30);
    config.huge_pages = false;
    let arenas = || Native(Arenas::new(&config).unwrap());
    let placement = || placing::all_slow(0).placement;
    let refused = Art::<u64, u64>::in_memory(arenas(), placement())
        .err()
        .unwrap();
    let Error::Configuration(line) = refused else {
        panic!("{refused:?}");
    };
    assert!(line.contains(&Near::SPAN.to_string()), "{line}");
    assert!(line.contains("Far"), "{line}");
    let map: Art<u64, u64, Native, Far> = Art::in_memory(arenas(), placement()).unwrap();
    map.insert(&1, 2).unwrap();
    assert_eq!(map.get(&1), Some(2));
}

#[test]
fn a_lookup_as_a_future_finds_what_get_finds() {
    let map: Art<str, u64> = slow(1 << 20);
    for (value, word) in ["", "a", "ab", "abcdefgh", "b"].into_iter().enumerate() {
        map.insert(word, value as u64).unwrap();
    }
    for word in ["", "a", "abc", "abcdefgh", "abcdefgx", "c"] {
        let mut future = pin!(map.get_async(word));
        let mut context = Context::from_waker(Waker::noop());
        let found = (0..10).find_map(|_| match future.as_mut().poll(&mut context) {
            Poll::Ready(found) => Some(found),
            Poll::Pending => None,
        });
        assert_eq!(found, Some(map.get(word)), "{word}");
    }
}

#[test]
fn words_are_strings_in_order() {
    let map: Art<str, u64> = slow(1 << 20);
    let words = ["", "line", "timber", "tree", "trees", "Überlauf"];
    assert_eq!(map.bulk_load(words.iter().copied().zip(0..)), Ok(6));
    assert!(map.iter().map(|(word, _)| word).eq(words));
    assert_eq!(map.range("m".."tree").count(), 1);
    assert_eq!(map.range("tree"..).next_back().unwrap().0, "Überlauf");
    assert_eq!(map.pop_first(), Some((String::new(), 0)));
    let unsorted = map.bulk_load([("b", 1), ("a", 2)]);
    assert_eq!(unsorted, Err(Error::Unsorted.at(1)));
    let long = "x".repeat(MAX_KEY + 1);
    let refused = map.bulk_load([("y", 1), (&long, 2)]);
    // It is less than "y", too, and that is looked at first.
    assert_eq!(refused, Err(Error::Unsorted.at(1)));
    let refused = map.bulk_load([("w", 1), (&long, 2)]);
    assert_eq!(refused, Err(Error::KeyTooLong(MAX_KEY + 1).at(1)));
    assert_eq!(map.get("w"), Some(1), "all before are in");
    assert!(
        format!("{map:?}").contains(r#""tree": 3, "trees": 4"#),
        "{map:?}"
    );
}

/// An update of the closure's making meets every other: none is lost, and a value is made of the
/// one before.
#[test]
fn upserts_of_one_key_meet() {
    let map: Art<[u8], u64> = slow(1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for step in 0..3_000 {
                    map.upsert_with(b"counter", |now| now.unwrap_or(0) + 1)
                        .unwrap();
                    if step % 100 == 0 {
                        // Beside it, its neighbours come and go.
                        map.insert(b"count", 0).unwrap();
                        map.remove(b"count");
                    }
                }
            });
        }
    });
    assert_eq!(map.get(b"counter"), Some(9_000));
}

/// Fast memory, full of whatever was inserted first, comes to hold hot records and their paths,
/// which have other sizes. What stays of the first ones is scattered over all chunks, and moves
/// together for that.
#[test]
fn fast_memory_is_of_use_to_nodes_of_any_size() {
    // With 102 and 113 a quarter of fast memory stayed stranded in slots of other sizes.
    for seed in [draw::seed(), 102, 113] {
        memory_is_of_use(arenas::two(400 << 10, arenas::AMPLE), TierId::FAST, seed);
    }
}

/// The same for the tier below a small fast one.
#[test]
fn the_middle_tier_is_of_use_to_nodes_of_any_size() {
    for seed in [draw::seed(), 102, 113] {
        let arenas = arenas::three([32 << 10, 400 << 10, arenas::AMPLE]);
        memory_is_of_use(arenas, TierId(1), seed);
    }
}

fn memory_is_of_use(arenas: Arenas, tier: TierId, seed: u64) {
    let (records, limit) = (40_000, arenas.budget(tier).limit());
    let home = HeatIn::Leaf { leaf_bytes: 40 };
    let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
    let map: Art<u64, u64, Native> = Art::in_memory(Native(arenas), policy.clone()).unwrap();
    let mut clockwork = Clockwork::new(policy.workers());
    let mut draw = Draw::new(seed, 0);
    let keys: Vec<u64> = (0..records).map(|_| draw.word()).collect();
    for &key in &keys {
        map.insert(&key, key).unwrap();
    }
    let arenas = map.memory().arenas();
    let used = || (0..arenas.tiers()).map(|tier| arenas.used(TierId(tier as u8)));
    for round in 0.. {
        for _ in 0..500 {
            let hot = keys[draw.below(2_000) as usize];
            assert_eq!(map.get(&hot), Some(hot));
        }
        clockwork.run_for(&*map.placed(), Duration::from_millis(20));
        if round % 20 == 0 {
            check::reclaim_until(&*map.placed(), "retired nodes", || {
                used().sum::<usize>() == map.stats().bytes_in_nodes
            });
            // Other tests hold back what moves leave behind, and so the moves that it would have
            // room for.
            if round >= 400 && arenas.used(tier) * 10 > limit * 8 {
                break;
            }
            assert!(
                round < 2000,
                "seed {seed}: {} bytes of {limit} are used",
                arenas.used(tier)
            );
        }
    }
    assert!(map.iter().count() == records);
}

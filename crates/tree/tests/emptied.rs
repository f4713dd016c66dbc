//! A Masstree that was emptied leads nowhere, whatever the values that it had look like.
//!
//! The walk that draws a fast inner node to demote read the first entry of a leaf without entries,
//! and took the value of a record that was there once for the root of a layer. The map's own worker
//! did that wherever fast memory was full and the map was cleared.

#[path = "suite/masstree_of_words.rs"]
#[allow(dead_code)]
mod masstree_of_words;
#[allow(dead_code, unused_macros)]
mod suite;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Duration;

use suite::clockwork::Clockwork;
use suite::{arenas, names, placing};
use timberline_placement::{HeatIn, Move, Timberline, TimberlineConfig};
use timberline_tier::{Native, TierId};
use timberline_tree::Masstree;

#[test]
fn a_removed_value_is_no_layer() {
    // Its low bits are those of a link to a layer.
    const VALUE: u64 = 0x26_0000_f175;
    let arenas = arenas::two(arenas::AMPLE, arenas::AMPLE);
    let placement = placing::fast_first(0).placement;
    let map: Masstree<str, u64> = Masstree::in_memory(Native(arenas), placement).unwrap();
    map.insert("a", VALUE).unwrap();
    assert_eq!(map.remove("a"), Some(VALUE));
    for draw in 0..4 {
        assert_eq!(map.placed().lowest_fast_inner(draw), None);
    }
}

/// What the map's worker came to: fast memory full, the epoch held back by a scan, and the map
/// cleared beside it.
#[test]
fn workers_make_room_in_a_map_that_is_cleared_beside_a_scan() {
    const KEYS: u64 = 20_000;
    let arenas = arenas::two(256 << 10, arenas::AMPLE);
    let home = HeatIn::Leaf { leaf_bytes: 256 };
    let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
    let map: Masstree<str, u64> = Masstree::in_memory(Native(arenas), policy.clone()).unwrap();
    for k in 0..KEYS {
        map.insert(&format!("{k:06}"), 4_000_000_001 + 4 * k)
            .unwrap();
    }
    let placed = map.placed();
    let clockwork = RefCell::new(Clockwork::new(policy.workers()));
    let work = |time| clockwork.borrow_mut().run_for(&*placed, time);

    // As reads would have it in the end, with nothing left of what the placement keeps free for
    // inner nodes.
    let mut leaves = names::fences(&*placed).into_iter();
    assert!(leaves.any(|leaf| placed.promote_path(leaf) == Move::Full));

    let mut seen = 0;
    map.scan("", usize::MAX, |_, _| {
        seen += 1;
        // Another thread, as it would be; this one is pinned, so what is emptied stays in the way.
        std::thread::scope(|scope| _ = scope.spawn(|| map.clear()));
        assert!(map.is_empty() && placed.fill(TierId::FAST).ratio() > 0.9);
        work(Duration::from_secs(3));
        ControlFlow::Break(())
    });
    assert_eq!(seen, 1);
}

/// The mistake is found by the tests above, and by the suite that all maps go through, of which it
/// was not.
#[cfg(feature = "seeded-bugs")]
mod planted {
    use timberline_tree::seeded::{Bug, plant};

    use super::*;
    use masstree_of_words::NODE_128;
    use suite::any_bits::AnyBits;
    use suite::{bulk, model};

    type Map = AnyBits<masstree_of_words::Map<NODE_128>>;

    fn is_found(check: fn()) {
        let checked = std::thread::spawn(move || {
            plant(Bug::EmptyLeafEntered);
            check();
        });
        let why = checked.join().expect_err("the mistake is found");
        let text = why.downcast_ref::<&str>().copied();
        let text = text.or(why.downcast_ref().map(String::as_str));
        let text = text.expect("a message");
        // Stale payloads are poisoned in debug builds.
        let found = ["a link of no entry is followed", "is in no arena"];
        assert!(found.iter().any(|it| text.contains(it)), "{text}");
    }

    #[test]
    fn by_a_removed_value() {
        is_found(a_removed_value_is_no_layer);
    }

    #[test]
    fn by_workers() {
        is_found(workers_make_room_in_a_map_that_is_cleared_beside_a_scan);
    }

    #[test]
    fn by_the_suite() {
        is_found(bulk::a_bulk_load_is_a_run_of_inserts::<Map>);
        is_found(model::agrees_with_a_sorted_map::<Map>);
    }
}

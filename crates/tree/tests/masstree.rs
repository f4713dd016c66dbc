//! Masstree under the shared suite, and what only a map of strings of bytes has to show.

#[macro_use]
mod suite;
#[path = "suite/bytes.rs"]
mod bytes;
#[path = "suite/masstree_of_bytes.rs"]
mod masstree_of_bytes;
#[path = "suite/masstree_of_strings.rs"]
mod masstree_of_strings;
#[path = "suite/masstree_of_words.rs"]
mod masstree_of_words;
#[path = "suite/values/mod.rs"]
mod values;

use std::ops::ControlFlow;

use bytes::byte_suite_for;
use masstree_of_words::{Map, NODE_128, leaf_of};
use suite::draw::{Draw, seed};
use suite::{arenas, check, placing};
use timberline_placement::{LeafRef, Move, NodeKey};
use timberline_tier::{Memory, Native};
use timberline_tree::btree::NODE_256;
use timberline_tree::masstree::Range;
use timberline_tree::{Masstree, Stats};
use values::value_suite_for;

suite_for!(tiny: Map<NODE_128>);
suite_for!(usual: Map<NODE_256>);

value_suite_for!(strings_tiny: Masstree<u64, Vec<u8>, Native, NODE_128>);
value_suite_for!(strings_usual: Masstree<u64, Vec<u8>, Native, NODE_256>);

byte_suite_for!(bytes_tiny: Masstree<[u8], u64, Native, NODE_128>);
byte_suite_for!(bytes_usual: Masstree<[u8], u64>);

type Strings = Masstree<[u8], u64>;

fn strings() -> (Strings, placing::Placing) {
    let placing = placing::all_slow(0);
    let arenas = arenas::two(arenas::AMPLE, 4 * arenas::AMPLE);
    let map = Masstree::in_memory(Native(arenas), placing.placement.clone());
    (map.unwrap(), placing)
}

fn nodes(stats: &Stats) -> usize {
    let nodes = stats.levels.iter().map(|level| level.fast + level.slow);
    nodes.sum()
}

fn fast(stats: &Stats) -> usize {
    stats.levels.iter().map(|level| level.fast).sum()
}

#[test]
fn maps_and_scans_go_to_other_threads() {
    fn crosses_threads<T: Send + Sync + 'static>() {}
    crosses_threads::<Strings>();
    crosses_threads::<Masstree<str, f64, Native, NODE_128>>();
    crosses_threads::<Range<str, u64, Native, NODE_256>>();
}

/// However long the beginning that keys share: it is one layer, not one for each slice.
#[test]
fn what_keys_share_is_skipped() {
    let (map, _) = strings();
    let common = [b'x'; 5_000];
    for last in 0..10u8 {
        map.insert(&[&common[..], &[last]].concat(), last.into())
            .unwrap();
    }
    assert_eq!(nodes(&map.stats()), 2);
    // One that differs in the middle parts the skip, and one that ends there too.
    map.insert(&[&common[..2_000], b"y"].concat(), 10).unwrap();
    assert_eq!(nodes(&map.stats()), 3);
    map.insert(&common[..1_000], 11).unwrap();
    assert_eq!(nodes(&map.stats()), 4);
    for last in 0..10u8 {
        let key = [&common[..], &[last]].concat();
        assert_eq!(map.remove(&key), Some(last.into()));
    }
    assert_eq!(map.get(&[&common[..2_000], b"y"].concat()), Some(10));
    assert_eq!(map.get(&common[..1_000]), Some(11));
    assert_eq!(map.get(&common[..1_001]), None);
    assert_eq!(map.len(), 2);
}

/// In plain memory nothing asks what layer a node is in: layers have no names, which take memory.
/// The leaves of a walk have theirs all the same.
#[test]
fn layers_in_plain_memory_have_no_names() {
    let ((named, _), plain) = (strings(), Strings::new());
    for host in 0..30 {
        for page in 0..30 {
            let key = format!("https://host-{host}.org/page-{page:04}/end");
            named.insert(key.as_bytes(), page).unwrap();
            plain.insert(key.as_bytes(), page).unwrap();
        }
    }
    let fences = |map: &Strings| {
        let mut fences = Vec::new();
        map.placed().each_leaf(&[], &mut |leaf| {
            fences.push(leaf.fence.to_bytes());
            ControlFlow::Continue(())
        });
        fences
    };
    let all = fences(&plain);
    assert_eq!(all, fences(&named));
    assert!(all.is_sorted() && all.len() > 30);
    let (stats, with_names) = (plain.stats(), named.stats());
    assert_eq!(nodes(&stats), nodes(&with_names));
    // A name has 64 bytes at least, and each host has its layer at least.
    assert!(stats.bytes_in_nodes + 30 * 64 <= with_names.bytes_in_nodes);
    for map in [&plain, &named] {
        map.clear();
        assert_eq!(nodes(&map.stats()), 1);
    }
    assert_eq!(plain.stats().bytes_in_nodes, named.stats().bytes_in_nodes);
}

/// Each key the beginning of the next, by a slice: as many layers, and nothing that walks them uses
/// the stack for it.
#[test]
fn thousands_of_layers_need_no_stack() {
    const LAYERS: usize = 2_000;
    let (map, _) = strings();
    let longest = vec![b'a'; 7 * LAYERS];
    for layer in 0..LAYERS {
        map.insert(&longest[..7 * layer + 1], layer as u64).unwrap();
    }
    let stats = map.stats();
    assert_eq!(nodes(&stats), LAYERS - 1, "the last key is a record");
    assert_eq!(map.placed().levels(), u8::MAX, "no more are told apart");
    assert!(map.iter().map(|(_, value)| value).eq(0..LAYERS as u64));
    assert!(
        map.iter()
            .rev()
            .map(|(_, value)| value)
            .eq((0..LAYERS as u64).rev())
    );
    let mut leaves = 0;
    map.placed().each_leaf(&[], &mut |_| {
        leaves += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(leaves, stats.leaves.slow);
    let placed = map.placed();
    let deepest = leaf_of(&longest[..7 * 50]);
    assert_eq!(placed.promote_node(&deepest), Move::Moved(50));
    let root = suite::names::root(&*placed);
    assert_eq!(placed.demote_subtree(&root), Move::Moved(50));
    map.clear();
    assert_eq!(nodes(&map.stats()), 1);
}

/// A border node is above the layers below it: it becomes fast before they do, and slow after.
#[test]
fn one_boundary_goes_through_all_layers() {
    let (map, _) = strings();
    for host in 0..30 {
        for page in 0..30 {
            let key = format!("https://host-{host}.org/some/path/page-{page:04}/end");
            map.insert(key.as_bytes(), host * 100 + page).unwrap();
        }
    }
    let (placed, mut draw) = (map.placed(), Draw::new(seed(), 0));
    for _ in 0..300 {
        let host = draw.below(30);
        let leaf = leaf_of(format!("https://host-{host}.org/some/path/page-0007/end").as_bytes());
        let moved = placed.promote_node(&leaf);
        assert!(
            matches!(moved, Move::Moved(_) | Move::AlreadyThere),
            "{moved:?}"
        );
        assert_eq!(map.stats().above_boundary, 0);
        assert_eq!(placed.promote_node(&leaf), Move::AlreadyThere);
        for above in std::iter::successors(placed.parent_of(&leaf), |it| placed.parent_of(it)) {
            assert_eq!(placed.demote(&above), Move::Blocked, "{above:?}");
            assert!(placed.level_of(&above) < placed.level_of(&leaf));
        }
        let other = suite::names::on_path(&*placed, leaf, &mut draw);
        placed.demote_subtree(&other);
        assert_eq!(map.stats().above_boundary, 0);
    }
    // Fast leaves are met from anywhere on, but for those that have to stay; and no others.
    let mut all = Vec::new();
    placed.each_leaf(&[], &mut |leaf: LeafRef<'_>| {
        all.push((leaf.fence.to_bytes(), leaf.tier.is_fast()));
        ControlFlow::Continue(())
    });
    assert!(all.is_sorted_by(|one, two| one.0 < two.0));
    let fast_from = |from: &[u8]| {
        let mut seen = Vec::new();
        placed.each_fast_leaf(from, &mut |leaf| {
            seen.push(leaf.fence.to_bytes());
            ControlFlow::Continue(())
        });
        seen
    };
    let ends = fast_from(&[]);
    for (from, _) in &all {
        let behind = ends.iter().filter(|&fence| fence >= from);
        assert!(fast_from(from).iter().eq(behind), "from {from:?}");
    }
    for (fence, is_fast) in &all {
        let demoted = match (is_fast, ends.contains(fence)) {
            (true, true) => continue,
            (true, false) => Move::Blocked,
            (false, true) => panic!("{fence:?} is not fast"),
            (false, false) => Move::AlreadyThere,
        };
        assert_eq!(placed.demote(&NodeKey::leaf(fence.clone())), demoted);
    }
    for fence in ends {
        assert_eq!(placed.demote(&NodeKey::leaf(fence)), Move::Moved(1));
    }
    // Inner nodes without fast ones below are found until none is left.
    for _ in 0..200 {
        placed.promote_node(&leaf_of(
            format!("https://host-{}.org/", draw.below(30)).as_bytes(),
        ));
    }
    assert!(fast(&map.stats()) > 0);
    let mut found = 0;
    while let Some(inner) = placed.lowest_fast_inner(draw.word()) {
        found += 1;
        assert!(
            matches!(placed.demote_subtree(&inner), Move::Moved(_)),
            "{inner:?}"
        );
    }
    assert!(found > 0);
    assert_eq!(map.stats().above_boundary, 0);
}

/// Threads make and remove the same layers, while a reader looks for what stands beside them.
#[test]
fn layers_come_and_go_beside_each_other() {
    let (map, _) = strings();
    let key = |page: u64| format!("/in/common/{}/and/more/{}", page % 3, page).into_bytes();
    map.insert(b"/in/common/0/and", 7).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let map = &map;
            scope.spawn(move || {
                let mut draw = Draw::new(seed(), thread);
                for round in 0..3_000 {
                    let page = draw.below(8) * 3 + thread;
                    assert_eq!(map.insert(&key(page), round), Ok(None));
                    assert_eq!(map.get(b"/in/common/0/and"), Some(7));
                    assert_eq!(map.remove(&key(page)), Some(round));
                }
            });
        }
    });
    assert_eq!(
        (map.len(), map.first_key_value()),
        (1, Some((b"/in/common/0/and".to_vec(), 7)))
    );
    let used = || (0..2).map(|tier| map.memory().arenas().used(timberline_tier::TierId(tier)));
    check::reclaim_until(&*map.placed(), "layers of no map", || {
        used().sum::<usize>() == map.stats().bytes_in_nodes
    });
    map.clear();
    assert_eq!(nodes(&map.stats()), 1, "no layer stays");
}

/// All ways to look up agree.
#[test]
fn lookups_in_flight_find_what_single_ones_find() {
    let (map, _) = strings();
    let mut draw = Draw::new(seed(), 0);
    let keys: Vec<Vec<u8>> = (0..3_000).map(|_| bytes::some_key(&mut draw)).collect();
    for (value, key) in keys.iter().enumerate().step_by(2) {
        map.insert(key, value as u64).unwrap();
    }
    let expected: Vec<_> = keys.iter().map(|key| map.get(key)).collect();
    for depth in [1, 3, 16, 64] {
        let mut values = vec![None; keys.len()];
        map.get_many_deep(&keys, &mut values, depth);
        assert!(values == expected, "{depth} in flight");
    }
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for (key, expected) in keys.iter().zip(expected).take(300) {
        let mut lookup = std::pin::pin!(map.get_async(key));
        let found = loop {
            if let std::task::Poll::Ready(found) = lookup.as_mut().poll(&mut context) {
                break found;
            }
        };
        assert_eq!(found, expected);
    }
}

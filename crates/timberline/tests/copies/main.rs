//! Copies of hot records apart from their leaves: that lookups find them, and that they are never
//! stale.
//!
//! That they are not while threads and a migrator meet is what the shared suite looks at: its
//! placement `shuffle` lets pages of copies come and go.

mod dirty;
#[path = "../../../tree/tests/suite/mod.rs"]
#[allow(dead_code, unused_macros)]
mod suite;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use suite::arenas;
use suite::check::reclaim_until;
use timberline_placement::{Access, LeafRef, Move, NewNode, NodeKey, Placed, Placement};
use timberline_tier::{Arenas, ArenasConfig, Memory, Native, TierId};
use timberline_tree::BTree;
use timberline_tree::btree::NODE_1K;

type Map = BTree<u64, u64, Native, NODE_1K>;

/// Words of a node of 128 bytes.
const NODE_128: usize = 12;

/// Inner nodes fast, leaves slow, as many pages as nodes fit, each access reported.
#[derive(Default)]
struct Watching {
    copies: AtomicU64,
    leaves: AtomicU64,
}

impl Placement for Watching {
    fn place(&self, node: NewNode) -> TierId {
        match node.height {
            0 => TierId::SLOW,
            _ => TierId::FAST,
        }
    }

    fn on_access(&self, _: LeafRef<'_>, _: Access) -> u32 {
        self.leaves.fetch_add(1, Relaxed);
        1
    }

    fn record_pages(&self, nodes: usize) -> usize {
        nodes
    }

    fn on_copy_access(&self, _: usize) -> u32 {
        self.copies.fetch_add(1, Relaxed);
        1
    }
}

const RECORDS: u64 = 2_000;

/// A map of records whose keys and values are known, and room for pages, none of which is there.
fn loaded() -> (Map, Arc<Watching>) {
    let arenas = arenas::two(16 * arenas::CHUNK, arenas::AMPLE);
    let watching = Arc::new(Watching::default());
    let map = Map::in_memory(Native(arenas), watching.clone()).unwrap();
    for key in 0..RECORDS {
        map.insert(&(3 * key), !key).unwrap();
    }
    (map, watching)
}

/// As many pages as find room.
fn fill(placed: &dyn Placed) -> usize {
    let pages = std::iter::repeat_with(|| placed.add_record_page());
    let pages = pages.take_while(|&is_new| is_new).count();
    assert!(pages > 8, "{pages} places");
    pages
}

/// Has each of these records asked for often enough to have a copy. In a row: of records that took
/// turns, some might never be counted.
fn warm(map: &Map, keys: impl Iterator<Item = u64>) {
    for key in keys {
        (0..8).for_each(|_| assert!(map.get(&key).is_some()));
    }
}

/// The value, and whether a copy gave it.
fn get(map: &Map, watching: &Watching, key: u64) -> (Option<u64>, bool) {
    let before = watching.copies.load(Relaxed);
    let value = map.get(&key);
    (value, watching.copies.load(Relaxed) > before)
}

#[test]
fn what_is_read_again_and_again_has_a_copy() {
    let (map, watching) = loaded();
    let placed = map.placed();
    assert_eq!(get(&map, &watching, 30), (Some(!10), false), "no pages yet");
    let pages = fill(&*placed);
    assert_eq!(placed.record_pages().0, pages);
    assert_eq!(map.stats().record_pages, pages);
    warm(&map, (0..50).map(|key| 3 * key));
    let copied = (0..50).filter(|&key| get(&map, &watching, 3 * key) == (Some(!key), true));
    assert!(
        copied.count() > 40,
        "places for all but those that share a bucket with too many"
    );
    assert_eq!(
        get(&map, &watching, 31),
        (None, false),
        "what is not there has none"
    );
    let keys: Vec<u64> = (0..50).map(|key| 3 * key).collect();
    let mut values = vec![None; 50];
    let before = watching.copies.load(Relaxed);
    map.get_many(&keys, &mut values);
    assert!(values.iter().copied().eq((0..50).map(|key| Some(!key))));
    assert!(watching.copies.load(Relaxed) > before + 40);
}

#[test]
fn a_copy_is_what_its_record_is() {
    let (map, watching) = loaded();
    fill(&*map.placed());
    let (one, another) = (30, 33);
    warm(&map, [one, another].into_iter());
    assert_eq!(get(&map, &watching, one), (Some(!10), true));
    map.update(&one, 1);
    assert_eq!(get(&map, &watching, one), (Some(1), true));
    map.insert(&one, 2).unwrap();
    assert_eq!(get(&map, &watching, one), (Some(2), true));
    map.upsert_with(&one, |now| now.unwrap() + 1).unwrap();
    assert_eq!(get(&map, &watching, one), (Some(3), true));
    assert_eq!(map.modify(&one, |_| None), Some(3));
    assert_eq!(
        map.compare_exchange(&one, Some(3), Some(4)),
        Ok(Ok(Some(3)))
    );
    assert_eq!(
        map.compare_exchange(&one, Some(3), Some(5)),
        Ok(Err(Some(4)))
    );
    assert_eq!(get(&map, &watching, one), (Some(4), true));
    assert_eq!(map.bulk_load([(one, 5)]), Ok(1));
    assert_eq!(get(&map, &watching, one), (Some(5), true));
    assert_eq!(map.remove(&one), Some(5));
    assert_eq!(get(&map, &watching, one), (None, false));
    map.insert(&one, 6).unwrap();
    assert_eq!(get(&map, &watching, one), (Some(6), false));
    assert_eq!(get(&map, &watching, another), (Some(!11), true));
    assert!(map.iter().take(12).eq((0..12).map(|key| match key {
        10 => (one, 6),
        key => (3 * key, !key),
    })));
}

#[test]
fn records_of_fast_leaves_have_no_copies() {
    let (map, watching) = loaded();
    let placed = map.placed();
    fill(&*placed);
    warm(&map, [30].into_iter());
    assert_eq!(get(&map, &watching, 30), (Some(!10), true));
    let leaf = NodeKey::of_word(30, 0);
    assert_eq!(
        placed.promote_node(&leaf),
        Move::Full,
        "pages took the room of all nodes"
    );
    assert!(placed.drop_record_page() && placed.drop_record_page());
    placed.reclaim();
    reclaim_until(&*map.placed(), "a page", || {
        placed.promote_node(&leaf) != Move::Full
    });
    assert_eq!(get(&map, &watching, 30), (Some(!10), false));
    map.update(&30, 7);
    assert_eq!(placed.demote(&leaf), Move::Moved(1));
    assert_eq!(
        get(&map, &watching, 30),
        (Some(7), false),
        "what was copied before is gone"
    );
    warm(&map, [30].into_iter());
    assert_eq!(get(&map, &watching, 30).0, Some(7));
}

/// A full slow leaf hands records to a fast neighbour on its left, or on its right.
#[test]
fn records_that_a_fast_neighbour_takes_leave_no_copies() {
    for on_the_left in [true, false] {
        let (map, watching) = loaded();
        let placed = map.placed();
        // An ascending load leaves full leaves.
        let in_leaf = |leaf: u64| (62 * leaf..62 * (leaf + 1)).map(|key| 3 * key);
        let (full, neighbour) = (10, if on_the_left { 9 } else { 11 });
        for key in in_leaf(neighbour).step_by(3) {
            assert!(map.remove(&key).is_some());
        }
        let name = NodeKey::of_word(3 * 62 * neighbour, 0);
        assert!(matches!(placed.promote_node(&name), Move::Moved(_)));
        fill(&*placed);
        warm(&map, in_leaf(full));
        let has_copy = |key: u64| get(&map, &watching, key).1;
        let before = in_leaf(full).filter(|&key| has_copy(key)).count();
        assert!(before > 40, "{before}");

        let middle = in_leaf(full).nth(30).unwrap();
        map.insert(&(middle + 1), 0).unwrap();
        let taken = match on_the_left {
            true => in_leaf(full).next(),
            false => in_leaf(full).next_back(),
        };
        let taken = NodeKey::of_word(taken.unwrap(), 0);
        assert_eq!(
            placed.promote_node(&taken),
            Move::AlreadyThere,
            "with a record"
        );

        for key in in_leaf(full) {
            assert!(map.update(&key, key + 7).is_some());
        }
        let demoted = placed.demote(&taken);
        assert_eq!(demoted, Move::Moved(1));
        let copied = |&key: &u64| {
            let (value, is_copy) = get(&map, &watching, key);
            assert_eq!(value, Some(key + 7));
            is_copy
        };
        let after = in_leaf(full).filter(copied).count();
        assert!(after < before && after > before / 2, "{after} of {before}");
    }
}

#[test]
fn a_page_is_taken_for_no_leaf() {
    let (map, _) = loaded();
    let placed = map.placed();
    fill(&*placed);
    warm(&map, (0..RECORDS).map(|key| 3 * key));
    let fast = map.memory().arenas().range_of(TierId::FAST);
    let mut slots = fast.step_by(Map::NODE_BYTES);
    assert!(
        slots.all(|slot| placed.fence_at(slot).is_none()),
        "all leaves are slow"
    );
}

#[test]
fn pages_come_and_go() {
    let (map, watching) = loaded();
    let placed = map.placed();
    let arenas = map.memory().arenas();
    for _ in 0..3 {
        let pages = fill(&*placed);
        warm(&map, (0..50).map(|key| 3 * key));
        for left in (0..pages).rev() {
            assert!(placed.drop_record_page());
            assert_eq!(placed.record_pages().0, left);
        }
        assert!(!placed.drop_record_page());
        for key in 0..RECORDS {
            assert_eq!(get(&map, &watching, 3 * key), (Some(!key), false));
        }
        suite::check::reclaim_until(&*map.placed(), "pages", || {
            let used = arenas.used(TierId::FAST) + arenas.used(TierId::SLOW);
            used == map.stats().bytes_in_nodes
        });
    }
    fill(&*placed);
    map.clear();
    assert_eq!(placed.record_pages().0, 0);
}

/// A page takes the memory of a leaf that left, and its place in the directory some that chunks
/// have left to it.
#[test]
fn a_full_tier_exchanges_leaves_for_pages() {
    let arenas = arenas::two(1 << 20, arenas::AMPLE);
    let map = Map::in_memory(Native(arenas), Arc::new(Watching::default())).unwrap();
    map.bulk_load((0..100_000).map(|key| (key, !key))).unwrap();
    let placed = map.placed();
    let leaves = || (0..100_000).step_by(20).map(|key| NodeKey::of_word(key, 0));
    let full = leaves().find(|leaf| placed.promote_node(leaf) == Move::Full);
    assert!(full.is_some(), "{:?}", map.stats());
    assert!(!placed.add_record_page(), "{:?}", map.stats());
    for (pages, leaf) in leaves().step_by(10).take(20).enumerate() {
        assert_eq!(placed.demote(&leaf), Move::Moved(1));
        reclaim_until(&*placed, "memory of the leaf", || placed.add_record_page());
        assert_eq!(placed.record_pages().0, 1 + pages);
    }
}

/// The smallest pages have two buckets. Records of both slow tiers have copies, which follow none
/// of their leaves' moves.
#[test]
fn copies_of_the_least_and_greatest_keys_are_kept_in_any_node_size_and_tier() {
    let watching = Arc::new(Watching::default());
    let arenas = arenas::three([4 << 20, 64 << 10, arenas::AMPLE]);
    let map =
        BTree::<u64, u64, Native, NODE_128>::in_memory(Native(arenas), watching.clone()).unwrap();
    // More than the middle tier holds, but little beside the pages.
    let keys = [0, u64::MAX];
    keys.iter()
        .for_each(|&key| _ = map.insert(&key, 1).unwrap());
    for key in 1..10_000 {
        map.insert(&key, !key).unwrap();
    }
    let arenas = map.memory().arenas();
    assert!((0..3).all(|tier| arenas.used(TierId(tier)) > 0));
    let placed = map.placed();
    fill(&*placed);
    // Room for leaves that come.
    assert!((0..8).all(|_| placed.drop_record_page()));
    placed.reclaim();
    let get = |key| {
        let before = watching.copies.load(Relaxed);
        let value = map.get(&key);
        (value, watching.copies.load(Relaxed) > before)
    };
    let mut copied = 0;
    for (round, key) in (2..50).flat_map(|round| keys.map(|key| (round, key))) {
        let leaf = NodeKey::of_word(key, 0);
        placed.demote(&leaf);
        (0..8).for_each(|_| _ = map.get(&key));
        let (_, is_copied) = get(key);
        copied += usize::from(is_copied);
        map.insert(&key, round).unwrap();
        assert_eq!(get(key), (Some(round), is_copied));
        match round % 4 {
            0 => assert_eq!(map.remove(&key), Some(round)),
            1 => reclaim_until(&*map.placed(), "room for the leaf", || {
                placed.promote_node(&leaf) != Move::Full
            }),
            2 => _ = map.update(&key, round),
            _ => {
                _ = map
                    .compare_exchange(&key, Some(round), Some(round + 1))
                    .unwrap()
            }
        }
        let now = [None, Some(round), Some(round), Some(round + 1)][round as usize % 4];
        assert_eq!(map.get(&key), now);
        let last = |(_, value)| Some(value);
        let end = if key == 0 {
            map.first_key_value()
        } else {
            map.last_key_value()
        };
        assert!(now.is_none() || end.and_then(last) == now);
        map.insert(&key, round).unwrap();
    }
    assert!(copied >= 6, "{copied}");
}

/// What is copied is spread over as many pages as there may be with the memory that there is.
#[test]
fn the_cache_grows_and_shrinks_with_fast_memory() {
    let mut config = ArenasConfig::two_tiers(1 << 20, arenas::AMPLE);
    config.tiers[0].most = 8 << 20;
    config.chunk_bytes = arenas::CHUNK;
    config.huge_pages = false;
    let arenas = Arenas::new(&config).unwrap();
    let watching = Arc::new(Watching::default());
    let map = Map::in_memory(Native(arenas), watching.clone()).unwrap();
    for key in 0..RECORDS {
        map.insert(&(3 * key), !key).unwrap();
    }
    let placed = map.placed();
    for mib in [1, 4, 2] {
        map.set_fast_memory(mib << 20).unwrap();
        reclaim_until(&*placed, "pages", || placed.record_pages().0 == 0);
        let (_, most) = placed.record_pages();
        let nodes = (mib << 20) / Map::NODE_BYTES;
        assert!((nodes / 8 * 7..=nodes).contains(&most), "{most} of {nodes}");
        let mut pages = 0;
        // Inner nodes take some of it, too.
        while pages < most * 3 / 4 {
            reclaim_until(&*placed, "memory of a page", || placed.add_record_page());
            pages += 1;
        }
        warm(&map, (0..200).map(|key| 3 * key));
        let is_copied = |key: &u64| get(&map, &watching, 3 * key) == (Some(!key), true);
        let copied = (0..200).filter(is_copied).count();
        assert!(copied > 100, "{copied} with {mib} MiB");
        for key in 0..200 {
            map.update(&(3 * key), key).unwrap();
            assert_eq!(map.get(&(3 * key)), Some(key));
            map.update(&(3 * key), !key).unwrap();
        }
        // A small change is not worth losing all copies.
        map.set_fast_memory((mib << 20) + (100 << 10)).unwrap();
        assert_eq!(placed.record_pages(), (pages, most));
        map.set_fast_memory(mib << 20).unwrap();
    }
}

//! Copies of hot records apart from their leaves, in any map: that lookups find them, and that they
//! are as their records are, whatever happens to these.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use timberline_placement::{Access, LeafRef, Move, NewNode, Placement};
use timberline_tier::TierId;

use crate::suite::check::{self, reclaim_until};
use crate::suite::map::as_model;
use crate::suite::{TestMap, arenas};

/// Inner nodes fast, leaves slow unless told otherwise, as many pages as nodes fit, each access
/// reported.
#[derive(Default)]
pub struct Watching {
    pub copies: AtomicU64,
    rewrites: AtomicU64,
    /// New leaves are fast, whatever they are split from.
    leaves_are_fast: AtomicBool,
}

impl Watching {
    /// Whether new leaves are fast from now on.
    pub fn make_leaves_fast(&self, are: bool) {
        self.leaves_are_fast.store(are, Relaxed);
    }
}

impl Placement for Watching {
    fn place(&self, node: NewNode) -> TierId {
        match node.height == 0 && !self.leaves_are_fast.load(Relaxed) {
            true => TierId::SLOW,
            false => TierId::FAST,
        }
    }

    fn on_access(&self, _: LeafRef<'_>, access: Access) -> u32 {
        if let Access::Rewrite { .. } = access {
            self.rewrites.fetch_add(1, Relaxed);
        }
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

/// A map of records whose keys and values are known, and room for pages.
pub struct Loaded<T> {
    pub map: T,
    pub watching: Arc<Watching>,
    /// The keys, in ascending order.
    keys: Vec<u64>,
}

/// Keys that are neighbours, and keys that are far apart.
pub const SPREADS: [fn(u64) -> u64; 2] = [|n| 3 * n, |n| n << 48 | n << 21 | (5 * n)];

impl<T: TestMap> Loaded<T> {
    /// No page is there yet.
    pub fn new(spread: fn(u64) -> u64) -> Self {
        let fast = arenas::two(32 * T::SIZES * arenas::CHUNK, arenas::AMPLE);
        let watching = Arc::new(Watching::default());
        let map = T::make(fast, watching.clone()).unwrap();
        let keys: Vec<u64> = (0..RECORDS).map(spread).collect();
        for &key in &keys {
            map.insert(key, !key).unwrap();
        }
        Loaded {
            map,
            watching,
            keys,
        }
    }

    /// The same, with as many pages as find room.
    fn with_pages(spread: fn(u64) -> u64) -> Self {
        let loaded = Self::new(spread);
        loaded.fill();
        loaded
    }

    /// As many pages as find room.
    pub fn fill(&self) -> usize {
        let placed = self.map.placed();
        let pages = std::iter::repeat_with(|| placed.add_record_page());
        let pages = pages.take_while(|&is_new| is_new).count();
        assert!(pages > 8, "{pages} places");
        pages
    }

    /// Has each of these records asked for often enough to have a copy. In a row: of records that
    /// took turns, some might never be counted.
    pub fn warm(&self, keys: &[u64]) {
        for &key in keys {
            (0..8).for_each(|_| assert!(self.map.get(key).is_some()));
        }
    }

    /// The value, and whether a copy gave it.
    pub fn get(&self, key: u64) -> (Option<u64>, bool) {
        let before = self.watching.copies.load(Relaxed);
        let value = self.map.get(key);
        (value, self.watching.copies.load(Relaxed) > before)
    }

    /// How many of these records have copies.
    fn copied(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|&&key| self.get(key).1).count()
    }

    /// Makes room in fast memory, which is full of pages, for nodes of some sizes.
    fn make_room(&self) {
        let placed = self.map.placed();
        let pages = 8 * arenas::CHUNK / placed.record_page_bytes();
        assert!((0..pages).all(|_| placed.drop_record_page()));
        placed.reclaim();
    }

    /// Moves a record's leaf to fast memory, with its path.
    fn promote(&self, key: u64) {
        let placed = self.map.placed();
        reclaim_until(&*placed, "room for a leaf", || {
            placed.promote_path(T::leaf_of(key).key) != Move::Full
        });
    }
}

pub fn what_is_read_again_and_again_has_a_copy<T: TestMap>() {
    for spread in SPREADS {
        let it = Loaded::<T>::new(spread);
        let keys = &it.keys[..50];
        assert_eq!(it.get(keys[10]), (Some(!keys[10]), false), "no pages yet");
        let pages = it.fill();
        assert_eq!(it.map.placed().record_pages().0, pages);
        let stats = it.map.stats();
        let bytes = pages * it.map.placed().record_page_bytes();
        assert_eq!((stats.record_pages, stats.copies_bytes), (pages, bytes));
        it.warm(keys);
        let copied = keys
            .iter()
            .filter(|&&key| it.get(key) == (Some(!key), true));
        assert!(
            copied.count() > 40,
            "places for all but those that share a bucket with too many"
        );
        assert_eq!(it.get(keys[10] + 1), (None, false), "what is not there");
        let mut values = vec![None; 50];
        let before = it.watching.copies.load(Relaxed);
        it.map.get_many(keys, &mut values);
        assert!(values.into_iter().eq(keys.iter().map(|&key| Some(!key))));
        assert!(it.watching.copies.load(Relaxed) > before + 40);
    }
}

pub fn a_copy_is_what_its_record_is<T: TestMap>() {
    for spread in SPREADS {
        let it = Loaded::<T>::with_pages(spread);
        let (one, another, first) = (it.keys[10], it.keys[11], it.keys[0]);
        let (map, last) = (&it.map, it.keys[RECORDS as usize - 1]);
        it.warm(&[one, another, first, last]);
        assert_eq!(it.get(one), (Some(!one), true));
        map.update(one, 1);
        assert_eq!(it.get(one), (Some(1), true));
        map.insert(one, 2).unwrap();
        assert_eq!(it.get(one), (Some(2), true));
        assert_eq!(map.compare_exchange(one, Some(2), Some(4)), Ok(Some(2)));
        assert_eq!(map.compare_exchange(one, Some(2), Some(5)), Err(Some(4)));
        assert_eq!(it.get(one), (Some(4), true));
        assert_eq!(map.bulk_load([(one, 5)]), Ok(1));
        assert_eq!(it.get(one), (Some(5), true));
        assert_eq!(map.remove(one), Some(5));
        assert_eq!(it.get(one), (None, false));
        map.insert(one, 6).unwrap();
        assert_eq!(it.get(one), (Some(6), false));
        assert_eq!(it.get(another), (Some(!another), true));
        it.warm(&[one]);
        assert_eq!(map.compare_exchange(one, Some(6), None), Ok(Some(6)));
        assert_eq!(it.get(one), (None, false));
        assert_eq!(map.pop_first(), Some((first, !first)));
        assert_eq!(map.pop_last(), Some((last, !last)));
        for end in [first, last] {
            assert_eq!(it.get(end), (None, false));
            map.insert(end, 7).unwrap();
            assert_eq!(it.get(end), (Some(7), false));
        }
        let rest = it.keys.iter().map(|&key| (key, !key));
        let mut model = as_model(rest);
        model.remove(&one);
        model.extend([(first, 7), (last, 7)]);
        check::same(map, &model);
    }
}

pub fn a_placement_is_told_whose_changes_go_to_a_copy_too<T: TestMap>() {
    let it = Loaded::<T>::with_pages(SPREADS[1]);
    let (copied, another) = (it.keys[10], it.keys[11]);
    it.warm(&[copied]);
    let told = |change: &dyn Fn()| {
        let before = it.watching.rewrites.load(Relaxed);
        change();
        it.watching.rewrites.load(Relaxed) - before
    };
    assert_eq!(told(&|| assert!(it.map.update(copied, 1).is_some())), 1);
    assert_eq!(told(&|| assert!(it.map.insert(copied, 2).is_ok())), 1);
    assert_eq!(told(&|| assert!(it.map.update(another, 1).is_some())), 0);
    assert_eq!(told(&|| assert!(it.map.insert(another, 2).is_ok())), 0);
    assert_eq!(told(&|| assert_eq!(it.map.get(copied), Some(2))), 0);
    assert_eq!(told(&|| assert_eq!(it.map.remove(copied), Some(2))), 0);
}

pub fn records_of_fast_leaves_have_no_copies<T: TestMap>() {
    for spread in SPREADS {
        let it = Loaded::<T>::with_pages(spread);
        let (key, placed) = (it.keys[10], it.map.placed());
        it.warm(&[key]);
        assert_eq!(it.get(key), (Some(!key), true));
        let leaf = T::leaf_of(key);
        it.make_room();
        it.warm(&[key]);
        it.promote(key);
        assert_eq!(it.get(key), (Some(!key), false));
        it.map.update(key, 7);
        assert!(matches!(placed.demote_subtree(&leaf), Move::Moved(_)));
        assert_eq!(
            it.get(key),
            (Some(7), false),
            "what was copied before is gone"
        );
        it.warm(&[key]);
        assert_eq!(it.get(key).0, Some(7));
    }
}

/// Records whose leaves are split, or become nodes of other kinds, keep their copies while these
/// are slow, and lose them when they are fast.
pub fn records_that_go_to_other_nodes_keep_copies_there_if_they_are_slow<T: TestMap>() {
    let spreads = SPREADS.into_iter().zip([0, 1]);
    for ((spread, far), is_fast) in spreads.flat_map(|it| [(it, false), (it, true)]) {
        let it = Loaded::<T>::with_pages(spread);
        it.make_room();
        let keys = &it.keys[200..260];
        it.warm(keys);
        let before = it.copied(keys);
        assert!(before > 30, "{before}");
        it.watching.make_leaves_fast(is_fast);
        let mut model = as_model(it.keys.iter().map(|&key| (key, !key)));
        // Neighbours, and those that share all but the last bytes.
        for &key in keys {
            for other in [
                key + 1,
                key + 2,
                key + (1 << 9),
                key + (1 << 17),
                key + (1 << 33),
            ] {
                if model.insert(other, other).is_none() {
                    it.map.insert(other, other).unwrap();
                }
                // Where it was written over.
                it.map.update(other, other);
            }
        }
        let after = it.copied(keys);
        match is_fast {
            false => assert!(after > before / 2, "{after} of {before}"),
            true => assert!(after <= before - far, "{after} of {before}"),
        }
        for &key in keys {
            it.map.update(key, key + 7);
            assert_eq!(it.map.get(key), Some(key + 7));
            model.insert(key, key + 7);
        }
        // What would be left of copies is found again once the leaves are slow.
        for &key in keys {
            it.map.placed().demote_subtree(&T::leaf_of(key));
        }
        check::same(&it.map, &model);
        // Nodes that shrink, and go.
        for &key in keys {
            for other in [key + 1, key + 2, key + (1 << 9), key + (1 << 17)] {
                it.map.remove(other);
                model.remove(&other);
            }
        }
        check::same(&it.map, &model);
    }
}

pub fn a_page_is_taken_for_no_leaf<T: TestMap>() {
    let it = Loaded::<T>::with_pages(SPREADS[0]);
    it.warm(&it.keys);
    let (fast, placed) = (it.map.arenas().range_of(TierId::FAST), it.map.placed());
    let mut slots = fast.step_by(T::APART.max(64));
    assert!(
        slots.all(|slot| placed.fence_at(slot).is_none()),
        "all leaves are slow"
    );
}

pub fn pages_come_and_go<T: TestMap>() {
    let it = Loaded::<T>::new(SPREADS[1]);
    let placed = it.map.placed();
    let arenas = it.map.arenas();
    for _ in 0..3 {
        let pages = it.fill();
        it.warm(&it.keys[..50]);
        for left in (0..pages).rev() {
            assert!(placed.drop_record_page());
            assert_eq!(placed.record_pages().0, left);
        }
        assert!(!placed.drop_record_page());
        for &key in &it.keys {
            assert_eq!(it.get(key), (Some(!key), false));
        }
        reclaim_until(&*it.map.placed(), "pages", || {
            let used = arenas.used(TierId::FAST) + arenas.used(TierId::SLOW);
            used == it.map.stats().bytes_in_nodes
        });
    }
    it.fill();
    it.map.clear();
    assert_eq!(placed.record_pages().0, 0);
    check::within_budget(&it.map);
}

/// The tests above, for a map.
macro_rules! copies_suite_for {
    ($name:ident: $map:ty) => {
        mod $name {
            use super::*;

            copies_suite_for!(
                $map: what_is_read_again_and_again_has_a_copy
                a_copy_is_what_its_record_is
                a_placement_is_told_whose_changes_go_to_a_copy_too
                records_of_fast_leaves_have_no_copies
                records_that_go_to_other_nodes_keep_copies_there_if_they_are_slow
                a_page_is_taken_for_no_leaf
                pages_come_and_go
            );
        }
    };
    ($map:ty: $($test:ident)*) => {$(
        #[test]
        fn $test() {
            copied::$test::<$map>();
        }
    )*};
}

pub(crate) use copies_suite_for;

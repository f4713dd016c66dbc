//! Values that are an `Arc`: the map drops each that it had once, and not before readers are done
//! with it. On every map; keys are words, or strings of which some are long.

#[path = "../../tree/tests/suite/mod.rs"]
#[allow(dead_code, unused_macros)]
mod suite;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use suite::draw::{Draw, seed};
use suite::{arenas, effort, names, placing};
use timberline_placement::{NodeKey, Placed};
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, Native, TierId};
use timberline_tree::{Art, BTree, Masstree};

/// Body words of nodes of 128 bytes.
const NODE_128: usize = 12;
/// Keys are below.
const KEYS: u64 = 300;
/// What a value has until it is dropped.
const INTACT: u64 = 0x1ead_5afe;

/// A value of a key, which is known by its number.
struct Tracked {
    number: u64,
    intact: AtomicU64,
    live: Arc<AtomicUsize>,
}

impl Tracked {
    /// What a reader of a key sees.
    fn check(&self, at: u64) {
        assert_eq!(self.intact.load(Relaxed), INTACT, "not dropped");
        assert_eq!(self.number % KEYS, at, "a value of the key");
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        assert_eq!(self.intact.swap(0, Relaxed), INTACT, "dropped once");
        self.live.fetch_sub(1, Relaxed);
    }
}

/// Makes values, and knows how many are alive.
#[derive(Default)]
struct Maker {
    live: Arc<AtomicUsize>,
    made: AtomicU64,
}

impl Maker {
    fn value(&self, at: u64) -> Arc<Tracked> {
        self.live.fetch_add(1, Relaxed);
        Arc::new(Tracked {
            number: at + KEYS * self.made.fetch_add(1, Relaxed),
            intact: AtomicU64::new(INTACT),
            live: self.live.clone(),
        })
    }

    fn live(&self) -> usize {
        self.live.load(Relaxed)
    }
}

fn number(value: Option<Arc<Tracked>>) -> Option<u64> {
    value.map(|value| value.number)
}

/// One random move of nodes.
fn step(placed: &dyn Placed, draw: &mut Draw) {
    let mut fences = names::fences(placed);
    if !fences.is_empty() {
        let at = fences.swap_remove(draw.below(fences.len() as u64) as usize);
        match draw.below(4) {
            0 => _ = placed.add_record_page(),
            1 => _ = placed.demote(&NodeKey::leaf(at)),
            _ => _ = placed.promote_path(at),
        }
    }
    placed.reclaim();
}

/// A key of a map, by its number.
trait Numbered {
    type Owned;
    fn of(at: u64) -> Self::Owned;
}

impl Numbered for u64 {
    type Owned = u64;

    fn of(at: u64) -> u64 {
        at
    }
}

impl Numbered for str {
    type Owned = String;

    fn of(at: u64) -> String {
        let tail = "/".repeat((at % 4 * 9) as usize);
        format!("https://example.org/{at:05}{tail}")
    }
}

macro_rules! arcs_in {
    ($($name:ident: $map:ty, $key:ty;)*) => {$(
        mod $name {
            use super::*;

            fn key(at: u64) -> <$key as Numbered>::Owned {
                <$key>::of(at)
            }

            fn map_in(domain: Domain) -> $map {
                let arenas = arenas::two(16 << 10, arenas::AMPLE);
                let placement = placing::shuffle(seed()).placement;
                <$map>::in_domain(domain, Native(arenas), placement).unwrap()
            }

            fn filled(maker: &Maker) -> $map {
                let map = map_in(Domain::new());
                for at in 0..KEYS {
                    assert!(map.insert(&key(at), &maker.value(at)).unwrap().is_none());
                }
                map
            }

            #[test]
            fn each_operation_drops_what_it_replaces_and_removes() {
                let (maker, map) = (Maker::default(), map_in(Domain::new()));
                let mut draw = Draw::new(seed(), 1);
                let mut model = BTreeMap::<u64, Arc<Tracked>>::new();
                for _ in 0..effort::times(3_000) {
                    let at = draw.below(KEYS);
                    let (key, value, was) = (key(at), maker.value(at), model.get(&at).cloned());
                    let (before, expected) = match draw.below(15) {
                        0..3 => {
                            model.insert(at, value.clone());
                            (map.insert(&key, &value).unwrap(), was.clone())
                        }
                        3 => {
                            model.entry(at).and_modify(|now| *now = value.clone());
                            (map.update(&key, &value), was.clone())
                        }
                        4 => {
                            model.entry(at).and_modify(|now| *now = value.clone());
                            (map.modify(&key, |_| Some(value.clone())), was.clone())
                        }
                        5 => (map.modify(&key, |_| None), was.clone()),
                        6 => {
                            model.insert(at, value.clone());
                            let after = map.upsert_with(&key, |_| value.clone()).unwrap();
                            (Some(after), Some(value.clone()))
                        }
                        7 => {
                            let there = map.get_or_insert_with(&key, || value.clone()).unwrap();
                            let expected = model.entry(at).or_insert(value.clone()).clone();
                            (Some(there), Some(expected))
                        }
                        8 => {
                            let swap = |now: &mut Arc<Tracked>| *now = value.clone();
                            let there = map.entry(&key).and_modify(swap).or_insert(value.clone());
                            model.insert(at, value.clone());
                            (Some(there.unwrap()), Some(value.clone()))
                        }
                        9 => {
                            let other = maker.value(at);
                            let done = map.compare_exchange(&key, Some(&other), Some(&value));
                            assert_eq!(number(done.unwrap().err().unwrap()), number(was.clone()));
                            let done = map.compare_exchange(&key, was.as_ref(), Some(&value));
                            model.insert(at, value.clone());
                            (done.unwrap().ok().unwrap(), was.clone())
                        }
                        10 => {
                            model.remove(&at);
                            let done = map.compare_exchange(&key, was.as_ref(), None).unwrap();
                            (done.ok().unwrap(), was.clone())
                        }
                        11 => (map.remove(&key), model.remove(&at)),
                        12 => {
                            let last = model.pop_last().map(|(_, value)| value);
                            assert_eq!(number(map.pop_last().map(|it| it.1)), number(last));
                            let first = model.pop_first().map(|(_, value)| value);
                            (map.pop_first().map(|it| it.1), first)
                        }
                        13 if draw.once_in(2) => {
                            let keep = |value: &Arc<Tracked>| value.number / KEYS % 4 != 0;
                            map.retain(|_, value| keep(value));
                            model.retain(|_, value| keep(value));
                            (None, None)
                        }
                        13 => {
                            let end = at + draw.below(9);
                            let removed = map.remove_range(key..self::key(end));
                            let len = model.len();
                            model.retain(|other, _| !(at..end).contains(other));
                            assert_eq!(removed, len - model.len());
                            (None, None)
                        }
                        _ => {
                            step(&*map.placed(), &mut draw);
                            (map.get(&key), was.clone())
                        }
                    };
                    assert_eq!(number(before), number(expected));
                    drop((value, was));
                    map.domain().collect_all();
                    assert_eq!((maker.live(), map.len()), (model.len(), model.len()));
                }
                assert!(model.values().all(|value| Arc::strong_count(value) == 2));
                map.clear();
                map.domain().collect_all();
                assert!(model.values().all(|value| Arc::strong_count(value) == 1));
            }

            #[test]
            fn readers_and_moves_keep_no_count() {
                let maker = Maker::default();
                let map = filled(&maker);
                let (ended, seed) = (AtomicBool::new(false), seed());
                std::thread::scope(|scope| {
                    let writers = [1, 2].map(|salt| {
                        let (map, maker) = (&map, &maker);
                        scope.spawn(move || {
                            let mut draw = Draw::new(seed, salt);
                            for _ in 0..effort::times(10_000) {
                                let at = draw.below(KEYS);
                                let (key, value) = (key(at), maker.value(at));
                                match draw.below(5) {
                                    0 => _ = map.remove(&key),
                                    1 => _ = map.pop_first(),
                                    2 => _ = map.modify(&key, |_| Some(value.clone())),
                                    _ => _ = map.insert(&key, &value).unwrap(),
                                }
                            }
                        })
                    });
                    scope.spawn(|| {
                        let mut draw = Draw::new(seed, 3);
                        while !ended.load(Relaxed) {
                            step(&*map.placed(), &mut draw);
                        }
                    });
                    scope.spawn(|| {
                        let mut draw = Draw::new(seed, 4);
                        while !ended.load(Relaxed) {
                            let at = draw.below(KEYS);
                            map.get_with(&key(at), |value| value.check(at));
                            let other = draw.below(KEYS);
                            let mut values = [None, None];
                            map.get_many(&[key(at), key(other)], &mut values);
                            for (at, value) in [at, other].into_iter().zip(values) {
                                value.inspect(|value| value.check(at));
                            }
                            let whole = |value: &Tracked| value.check(value.number % KEYS);
                            map.scan(&key(at), 50, |_, value| {
                                whole(value);
                                ControlFlow::Continue(())
                            });
                            map.range(key(at)..).take(50).for_each(|(_, value)| whole(&value));
                            map.iter().rev().take(5).for_each(|(_, value)| whole(&value));
                        }
                    });
                    let done = writers.map(|writer| writer.join());
                    ended.store(true, Relaxed);
                    assert!(done.iter().all(Result::is_ok));
                });
                map.domain().collect_all();
                assert_eq!(maker.live(), map.len());
                assert!(map.iter().all(|(_, value)| Arc::strong_count(&value) == 2));
                map.clear();
                map.domain().collect_all();
                assert_eq!(maker.live(), 0);
            }

            #[test]
            fn a_map_that_ends_drops_what_it_has_and_what_it_retired() {
                let (maker, domain) = (Maker::default(), Domain::new());
                let map = filled(&maker);
                let mut range = map.range(..);
                let held = range.next().unwrap().1;
                drop(map);
                assert_eq!(maker.live(), KEYS as usize, "an iterator shares the map");
                drop(range);
                assert_eq!((maker.live(), Arc::strong_count(&held)), (1, 1));
                drop(held);
                // In a domain that outlives it, in which somebody may still read.
                let guard = domain.pin();
                let map = map_in(domain.clone());
                for at in [7, 7, 8] {
                    map.insert(&key(at), &maker.value(at)).unwrap();
                }
                assert_eq!(map.remove(&key(8)).unwrap().number % KEYS, 8);
                drop(map);
                assert_eq!(maker.live(), 2, "replaced and removed ones wait");
                drop(guard);
                domain.collect_all();
                assert_eq!(maker.live(), 0);
            }

            #[test]
            fn a_closure_that_panics_changes_no_count() {
                let maker = Maker::default();
                let map = filled(&maker);
                let panics = |work: &mut dyn FnMut()| {
                    assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
                };
                let (there, new) = (key(7), key(KEYS));
                panics(&mut || _ = map.modify(&there, |_| panic!("as asked")));
                panics(&mut || _ = map.upsert_with(&there, |_| panic!("as asked")));
                panics(&mut || _ = map.upsert_with(&new, |_| panic!("as asked")));
                panics(&mut || _ = map.get_or_insert_with(&new, || panic!("as asked")));
                let entry = || map.entry(&there).and_modify(|_| panic!("as asked"));
                panics(&mut || _ = entry().or_insert(maker.value(7)));
                panics(&mut || _ = map.get_with(&there, |_| panic!("as asked")));
                panics(&mut || _ = map.remove_if(&there, |_| panic!("as asked")));
                panics(&mut || map.retain(|_, _| panic!("as asked")));
                panics(&mut || _ = map.scan(&there, 9, |_, _| panic!("as asked")));
                map.domain().collect_all();
                assert_eq!((maker.live(), map.len()), (KEYS as usize, KEYS as usize));
                assert!(map.iter().all(|(_, value)| Arc::strong_count(&value) == 2));
            }

            #[test]
            fn a_refused_insert_takes_no_count() {
                let (maker, mut refused) = (Maker::default(), 0);
                let map = map_in(Domain::new());
                for (at, fails) in (0..KEYS).zip([0, 1, 1, 2, 3].into_iter().cycle()) {
                    for tier in [TierId::FAST, TierId::SLOW] {
                        map.memory().arenas().fail_from(tier, fails);
                    }
                    let value = maker.value(at);
                    let inserted = match at % 3 {
                        0 => map.insert(&key(at), &value).is_ok(),
                        1 => map.upsert_with(&key(at), |_| value.clone()).is_ok(),
                        _ => map.bulk_load([(key(at), value.clone())]).is_ok(),
                    };
                    assert_eq!(Arc::strong_count(&value), 1 + usize::from(inserted));
                    refused += u64::from(!inserted);
                    drop(value);
                    assert_eq!(maker.live(), map.len());
                }
                assert!(refused > 0 && map.len() as u64 == KEYS - refused);
                drop(map);
                assert_eq!(maker.live(), 0);
            }
        }
    )*};
}

arcs_in! {
    btree: BTree<u64, Arc<Tracked>, Native, NODE_128>, u64;
    art: Art<u64, Arc<Tracked>>, u64;
    art_of_strings: Art<str, Arc<Tracked>>, str;
    masstree: Masstree<u64, Arc<Tracked>>, u64;
    masstree_of_strings: Masstree<str, Arc<Tracked>, Native, NODE_128>, str;
}

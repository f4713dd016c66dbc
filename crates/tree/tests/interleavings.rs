//! Interleavings that a machine would hardly come to, chosen by the scheduler of shuttle: threads
//! change over at the steps of the lock's protocol (`timberline_sync::shim`). Histories as in
//! `suite/linear`, of one round each, beside a thread that moves nodes.
//!
//! `cargo test -p timberline-tree --features shuttle --test interleavings`. An operation that takes
//! no version lock (an update of a radix tree's leaf) is one step here.

#[path = "suite/art_of_words.rs"]
mod art_of_words;
#[path = "suite/btree_of_bytes.rs"]
mod btree_of_bytes;
#[path = "suite/btree_of_words.rs"]
mod btree_of_words;
#[path = "suite/masstree_of_words.rs"]
#[allow(dead_code)]
mod masstree_of_words;
#[allow(dead_code, unused_macros)]
mod suite;
#[path = "suite/wide.rs"]
mod wide;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use btree_of_words::NODE_128;
use suite::any_bits::AnyBits;
use suite::draw::seed;
use suite::linear::THREADS;
use suite::linear::call::perform;
use suite::linear::group::Group;
use suite::linear::history::History;
use suite::linear::keys::Keys;
use suite::{TestMap, arenas, migrator, placing};
use timberline_sync::shim::shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use timberline_sync::shim::shuttle::{Config, Runner, thread};
use timberline_tier::Native;
use timberline_tree::Art;
use timberline_tree::art::Near;

/// Of each scheduler.
const HISTORIES: usize = 4_000;
/// Moves beside a round.
const MOVES: usize = 20;
/// Changes of priority in a run by `PctScheduler`: bugs that need no more are found with a known
/// probability.
const CHANGES: usize = 3;
/// Bytes of a thread's stack.
const STACK: usize = 1 << 18;

/// One round on a new map.
fn play<T: TestMap>(seed: u64, number: u64) -> Result<(), String> {
    // Half of them where records may have copies. (Neighbours differ in their keys.)
    let (pair, of) = match number / 2 % 2 {
        0 => (number / 4, placing::COPYING),
        _ => (number / 4, placing::ALL),
    };
    let make = of[pair as usize % of.len()];
    let (map, _) = placing::map::<T>(make, seed, 8 * arenas::CHUNK, arenas::AMPLE);
    let keys = Keys::of::<T>(number);
    let group = Group::new(&keys, seed, number, true);
    group.fill(&map);
    group.have_copied(&map);
    let (clock, before) = (AtomicU64::new(0), map.all().collect());
    group.have_stale(&map, 0);
    let mut logs = Vec::new();
    thread::scope(|scope| {
        let (map, group, clock) = (&map, &group, &clock);
        let players = (0..THREADS)
            .map(|player| scope.spawn(move || group.take_part((map, 0, player), clock, &perform)));
        let players: Vec<_> = players.collect();
        scope.spawn(move || {
            let mut draw = group.draw(1, THREADS);
            for _ in 0..MOVES {
                let key = group.next_move(&mut draw);
                migrator::step_at(map, &mut draw, key);
            }
        });
        logs.extend(players.into_iter().map(|player| player.join().unwrap()));
    });
    logs.push(group.look_at_all(&map, 0, &clock));
    let context = |why| format!("TIMBERLINE_SEED={seed}, history {number}: {why}");
    History::of(before, logs).judge().map_err(context)
}

/// Plays under a scheduler until something is found that cannot be. `play` gets the number of the
/// run.
fn explore<W: Send + 'static>(
    scheduler: impl Scheduler + 'static,
    play: impl Fn(u64) -> Option<W> + Send + Sync + 'static,
) -> Option<W> {
    let mut config = Config::new();
    config.stack_size = STACK;
    let found = Arc::new(Mutex::new(None));
    let (number, finding) = (AtomicU64::new(0), found.clone());
    Runner::new(scheduler, config).run(move || {
        let number = number.fetch_add(1, Relaxed);
        let found = finding.lock().unwrap().is_some();
        if !found && let Some(what) = play(number) {
            *finding.lock().unwrap() = Some(what);
        }
    });
    found.lock().unwrap().take()
}

/// So many runs under each scheduler.
fn explore_both_ways<W: Send + 'static>(
    runs: usize,
    play: impl Fn(u64) -> Option<W> + Copy + Send + Sync + 'static,
) -> Option<W> {
    let random = RandomScheduler::new_from_seed(seed(), runs);
    let pct = PctScheduler::new_from_seed(seed(), CHANGES, runs);
    explore(random, play).or_else(|| explore(pct, play))
}

fn unexplained_history<T: TestMap>() -> Option<String> {
    let seed = seed();
    explore_both_ways(HISTORIES, move |number| play::<T>(seed, number).err())
}

fn are_linearizable<T: TestMap>() {
    if let Some(why) = unexplained_history::<AnyBits<T>>() {
        panic!("{why}");
    }
}

#[test]
fn of_a_btree() {
    are_linearizable::<btree_of_words::Map<NODE_128>>();
}

#[test]
fn of_a_btree_of_strings() {
    are_linearizable::<btree_of_bytes::Map<{ btree_of_bytes::NODE_128 }>>();
}

#[test]
fn of_a_masstree() {
    are_linearizable::<masstree_of_words::Map<NODE_128>>();
}

#[test]
fn of_a_radix_tree() {
    are_linearizable::<art_of_words::Map<Near>>();
}

/// The last record of a dense leaf comes while another goes, and a third thread looks for both.
/// Returns what it saw that cannot be.
fn fill_and_take() -> Option<&'static str> {
    let arenas = arenas::two(0, 1 << 20);
    let map: Art<u64, u64> =
        Art::in_memory(Native(arenas), placing::all_slow(0).placement).expect("a small map");
    let (new, old) = (7, 200);
    for key in (0..256).filter(|&key| key != new).chain(wide::keys()) {
        map.insert(&key, key).expect("memory");
    }
    let map = &map;
    let seen = thread::scope(|scope| {
        scope.spawn(|| map.insert(&new, new).expect("memory"));
        scope.spawn(|| map.remove(&old));
        let looks = scope.spawn(|| [new, old, new, old].map(|key| map.get(&key)));
        looks.join().expect("it looks")
    });
    match seen {
        [Some(_), _, None, _] => Some("a record went by itself"),
        [_, None, _, Some(_)] => Some("a record came back"),
        _ if map.get(&old).is_some() => Some("a record is still there"),
        _ if map.get(&new) != Some(new) => Some("a record is lost"),
        _ => None,
    }
}

fn fill_and_take_both_ways() -> Option<&'static str> {
    explore_both_ways(HISTORIES / 8, |_| fill_and_take())
}

#[test]
fn of_a_dense_leaf_that_has_all_its_records_for_a_moment() {
    assert_eq!(fill_and_take_both_ways(), None);
}

/// Two threads change a record with a copy while its leaf becomes the only one, and so the root:
/// lookups come to it without having looked for the copy. Returns what cannot be.
fn shrink_to_a_leaf() -> Option<String> {
    let (fast, make) = (8 * arenas::CHUNK, placing::COPYING[1]);
    let (map, _) = placing::map::<btree_of_words::Map<NODE_128>>(make, seed(), fast, arenas::AMPLE);
    for key in 0..7 {
        map.insert(&key, 0).expect("memory");
    }
    while map.placed().add_record_page() {}
    for key in 3..6 {
        map.remove(&key);
    }
    for _ in 0..8 {
        map.get(&0);
    }
    let change = |values: [u64; 3]| values.map(|value| map.update(&0, value));
    thread::scope(|scope| {
        scope.spawn(|| map.remove(&6));
        scope.spawn(|| change([1, 2, 3]));
        scope.spawn(|| change([4, 5, 6]));
    });
    let (looked_up, scanned) = (map.get(&0), map.iter().next());
    (looked_up != scanned.map(|(_, value)| value))
        .then(|| format!("a lookup finds {looked_up:?}, a scan {scanned:?}"))
}

#[test]
fn of_a_slow_leaf_that_becomes_the_root() {
    assert_eq!(
        explore_both_ways(2 * HISTORIES, |_| shrink_to_a_leaf()),
        None
    );
}

#[cfg(feature = "seeded-bugs")]
mod planted {
    use super::*;
    use timberline_tree::seeded::{Bug, plant};

    fn is_found(bug: Bug) {
        // All of shuttle's threads are this one.
        plant(bug);
        let found = unexplained_history::<btree_of_words::Map<NODE_128>>();
        println!("{}", found.expect("the bug is found"));
    }

    #[test]
    fn a_leaf_copied_before_it_is_locked_is_found() {
        is_found(Bug::CopiedBeforeLocked);
    }

    #[test]
    fn a_record_copied_before_the_bucket_is_locked_is_found() {
        is_found(Bug::CopiedUnlocked);
    }

    #[test]
    fn a_link_that_still_tells_of_all_records_is_found() {
        plant(Bug::StillToldFull);
        assert!(fill_and_take_both_ways().is_some());
    }

    #[test]
    fn a_copy_left_behind_is_found() {
        is_found(Bug::CopyLeftBehind);
    }

    #[test]
    fn a_page_that_goes_with_dirty_copies_is_found() {
        is_found(Bug::DroppedDirty);
    }

    #[test]
    fn a_scan_of_a_stale_leaf_is_found() {
        is_found(Bug::StaleLeafScanned);
    }
}

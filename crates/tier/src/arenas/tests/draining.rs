//! Memory that comes back: compaction candidates, and thread caches that are drained.

use super::super::supply::MIN_SLACK;
use super::*;

/// No thread caches a slot of a compaction candidate, and none is allocated while other chunks
/// have free slots.
#[test]
fn what_lies_in_compaction_candidates_can_leave_them() {
    let arenas = small(1 << 20, 1 << 20);
    let mut slots = fill(&arenas, TierId::FAST, 24);
    let staying = slots.iter().copied().step_by(20).collect::<Vec<_>>();
    slots.retain(|slot| !staying.contains(slot));
    for slot in slots {
        free(&arenas, slot, 24);
    }
    assert!(arenas.allocate(TierId::FAST, 512).is_err(), "no room");
    let candidates = arenas.compaction_candidates(TierId::FAST);
    assert!(candidates.bytes() > 900 << 10, "{}", candidates.bytes());
    let inside = |slot: &NonNull<u8>| candidates.contains(slot.as_ptr().addr());
    let mut moved = Vec::new();
    for slot in staying {
        if inside(&slot) {
            moved.push(arenas.allocate(TierId::FAST, 24).unwrap());
            free(&arenas, slot, 24);
        } else {
            moved.push(slot);
        }
    }
    assert!(!moved.iter().any(inside));
    let others = fill(&arenas, TierId::FAST, 512);
    assert!(
        others.len() * 512 >= candidates.bytes(),
        "{} slots",
        others.len()
    );
    for slot in others {
        free(&arenas, slot, 512);
    }
    for slot in moved {
        free(&arenas, slot, 24);
    }
    arenas.trim();
    assert_eq!(arenas.budget(TierId::FAST).used(), 0);
    assert!(arenas.compaction_candidates(TierId::FAST).is_empty());
}

#[test]
fn slots_kept_by_another_thread_are_found_when_memory_is_short() {
    let arenas = small(64 << 10, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let slot = arenas.allocate(TierId::FAST, 4096).unwrap();
            free(&arenas, slot, 4096);
        });
    });
    assert_eq!(fill(&arenas, TierId::FAST, 4096).len(), 16);
}

/// Each of a few cached slots used to keep a chunk: 2 MiB for a map of one record.
#[test]
fn an_emptied_tier_gives_its_memory_back() {
    let arenas = small(2 << 20, 2 << 20);
    for round in 0..3 {
        let slots = fill(&arenas, TierId::FAST, 1024);
        let full = arenas.budget(TierId::FAST).used();
        // All but the first, so that neighbours are given back far apart.
        for step in 1..slots.len() {
            free(&arenas, slots[1 + (step * 619) % (slots.len() - 1)], 1024);
        }
        let left = arenas.budget(TierId::FAST).used();
        assert!(full > 1 << 20 && left <= MIN_SLACK, "round {round}: {left}");
        // Caches are of use again as soon as memory is needed.
        let again = fill(&arenas, TierId::FAST, 1024);
        assert_eq!(again.len(), slots.len() - 1);
        again.into_iter().for_each(|slot| free(&arenas, slot, 1024));
        free(&arenas, slots[0], 1024);
        assert_eq!(arenas.used(TierId::FAST), 0);
    }
}

/// Every free used to lock the chunks until a chunk was added, which a tier that has enough of them
/// never does.
#[test]
fn a_tier_whose_memory_is_used_again_drains_no_longer() {
    let arenas = small(2 << 20, 2 << 20);
    let (caches, class) = (&arenas.tiers[0].caches, class_of(1024));
    // How many of some slots that are given back no thread caches.
    let uncached = |slots: &[NonNull<u8>]| {
        arenas.trim();
        slots.iter().for_each(|&slot| free(&arenas, slot, 1024));
        let cached = std::iter::from_fn(|| caches.pop(class)).count();
        slots.len() - cached
    };
    let mut slots = fill(&arenas, TierId::FAST, 1024);
    let full = arenas.budget(TierId::FAST).used();
    // Three of four everywhere, so that each chunk stays.
    let mut gone = Vec::new();
    for at in (0..slots.len()).rev().filter(|at| at % 4 != 0) {
        gone.push(slots.swap_remove(at));
    }
    gone.into_iter().for_each(|slot| free(&arenas, slot, 1024));
    assert!(arenas.tiers[0].slack() >= MIN_SLACK);
    assert_eq!(uncached(&slots.split_off(slots.len() - 4)), 4, "it drains");
    let allocate = || arenas.allocate(TierId::FAST, 1024).unwrap();
    while arenas.tiers[0].slack() >= MIN_SLACK {
        slots.push(allocate());
    }
    // Until slots come from the chunks once more.
    slots.extend(std::iter::repeat_with(allocate).take(32));
    assert_eq!(arenas.budget(TierId::FAST).used(), full, "no chunk more");
    assert_eq!(uncached(&slots.split_off(slots.len() - 4)), 0);
}

/// What a growing map has left behind used to stay.
#[test]
fn an_emptied_class_gives_its_memory_back_beside_a_full_one() {
    let arenas = small(4 << 20, 0);
    let allocate = |size| arenas.allocate(TierId::FAST, size).unwrap();
    let mut others = Vec::from_iter((0..2048).map(|_| allocate(1024)));
    let alone = arenas.budget(TierId::FAST).used();
    for round in 0..2 {
        let slots = Vec::from_iter((0..2048).map(|_| allocate(512)));
        for step in 0..slots.len() {
            free(&arenas, slots[(step * 619) % slots.len()], 512);
        }
        assert_eq!(arenas.budget(TierId::FAST).used(), alone, "round {round}");
    }
    // The other class has its caches all the time.
    let (caches, class) = (&arenas.tiers[0].caches, class_of(1024));
    free(&arenas, others.pop().unwrap(), 1024);
    assert!(caches.pop(class).is_some());
}

/// A map learns of them when it retires one, and need not wait for the next.
#[test]
fn the_last_slots_of_an_emptied_class_are_stragglers() {
    let arenas = small(4 << 20, 0);
    let slots = Vec::from_iter((0..4096).map(|_| arenas.allocate(TierId::FAST, 512).unwrap()));
    let last = slots[0];
    // In all chunks alike.
    for freed in 1..slots.len() {
        assert!(freed > 2048 || !arenas.is_straggler(last, 512), "{freed}");
        free(&arenas, slots[(freed * 619) % slots.len()], 512);
    }
    assert!(arenas.is_straggler(last, 512), "it keeps a chunk alone");
    let again = Vec::from_iter((0..4096).map(|_| arenas.allocate(TierId::FAST, 512).unwrap()));
    assert!(!arenas.is_straggler(last, 512), "the class is in use");
    again.into_iter().for_each(|slot| free(&arenas, slot, 512));
}

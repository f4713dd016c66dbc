//! Slots: their sizes, alignment and addresses, and which free memory serves which size.

use std::collections::BTreeSet;

use super::super::classes::{CLASSES, size_of_class};
use super::*;

#[test]
fn the_address_tells_the_tier() {
    let arenas = small(1 << 20, 1 << 20);
    for tier in [TierId::FAST, TierId::SLOW] {
        let slot = arenas.allocate(tier, 256).unwrap();
        assert_eq!(arenas.tier_of(slot.as_ptr() as usize), tier);
        assert!(arenas.range_of(tier).contains(&(slot.as_ptr() as usize)));
    }
}

#[test]
fn a_full_tier_is_full_to_the_page() {
    let limit = (64 << 10) * 2 + 3 * 4096 + 17;
    let arenas = small(limit, 1 << 20);
    let budget = arenas.budget(TierId::FAST);
    for size in [1024, 24, 1, 40, 1040, 4096, 64] {
        let slots = fill(&arenas, TierId::FAST, size);
        let (slot, used) = (slot_size(size), arenas.used(TierId::FAST));
        assert!(budget.used() <= limit && limit - budget.used() < 4096);
        assert_eq!(used, slots.len() * slot, "slots of {slot} bytes");
        if slot.is_power_of_two() {
            assert_eq!(used, budget.used(), "slots of {slot} bytes");
        }
        // At the budget's end chunks are small, and each may leave less than a slot unused.
        assert!(budget.used() - used < slot * 12, "{used} bytes in {slot}s");
        for slot in slots {
            free(&arenas, slot, size);
        }
        arenas.trim();
        let left = (arenas.used(TierId::FAST), budget.used());
        assert_eq!(left, (0, 0), "all is given back");
    }
}

#[test]
fn every_size_round_trips_aligned_and_apart() {
    for chunk_bytes in [PAGE, 64 << 10, 2 << 20] {
        let mut config = ArenasConfig::two_tiers(0, 64 << 20);
        config.chunk_bytes = chunk_bytes;
        let arenas = Arenas::new(&config).unwrap();
        let mut held = BTreeSet::new();
        for round in 0..3 {
            for size in (0..CLASSES).map(size_of_class) {
                let slot = arenas.allocate(TierId::SLOW, size - round).unwrap();
                let address = slot.as_ptr() as usize;
                assert_eq!(arenas.tier_of(address), TierId::SLOW);
                assert_eq!(slot_size(size - round), size);
                let align = 1 << size.trailing_zeros().min(PAGE.trailing_zeros());
                assert_eq!(address % align, 0, "{size} bytes at {address:#x}");
                if size.is_power_of_two() {
                    assert_eq!((address - arenas.range().start) % size, 0);
                }
                write(slot, size, round as u8);
                held.insert((address, size, round));
            }
        }
        let ends = held.iter().map(|&(address, size, _)| address + size);
        let starts = held.iter().map(|&(address, ..)| address).skip(1);
        assert!(ends.zip(starts).all(|(end, next)| end <= next));
        let bytes: usize = held.iter().map(|&(_, size, _)| size).sum();
        assert_eq!(arenas.used(TierId::SLOW), bytes);
        for (address, size, round) in held {
            let slot = NonNull::new(address as *mut u8).unwrap();
            assert_eq!(read(slot, size), [round as u8; 2]);
            free(&arenas, slot, size - round);
        }
        arenas.trim();
        let used = (
            arenas.used(TierId::SLOW),
            arenas.budget(TierId::SLOW).used(),
        );
        assert_eq!((used, resident(arenas.range())), ((0, 0), 0));
    }
}

#[test]
fn records_that_come_one_after_the_other_lie_side_by_side() {
    let arenas = small(1 << 20, 0);
    let address = |_| arenas.allocate(TierId::FAST, 24).unwrap().as_ptr() as usize;
    let addresses: Vec<usize> = (0..600).map(address).collect();
    assert!(addresses.windows(2).all(|pair| pair[0] + 24 == pair[1]));
}

#[test]
fn many_sizes_take_little() {
    let arenas = Arenas::new(&ArenasConfig::one_tier(8 << 20)).unwrap();
    let budget = arenas.budget(TierId::FAST);
    for size in (0..CLASSES).map(size_of_class) {
        let before = budget.used();
        arenas.allocate(TierId::FAST, size).unwrap();
        let taken = budget.used() - before;
        assert!(taken <= (16 << 10).max(size + PAGE), "{taken} for {size}");
    }
    assert_eq!(resident(arenas.range()), budget.used());
}

#[test]
fn a_size_larger_than_chunks_gets_the_pages_it_needs() {
    for chunk_bytes in [PAGE, 64 << 10] {
        let mut config = ArenasConfig::one_tier((72 << 10) * 5 + 2 * PAGE);
        config.chunk_bytes = chunk_bytes;
        let arenas = Arenas::new(&config).unwrap();
        let slots = fill(&arenas, TierId::FAST, 70 << 10);
        assert_eq!(slots.len() * (72 << 10), arenas.used(TierId::FAST));
        assert_eq!(arenas.used(TierId::FAST), resident(arenas.range()));
        // The rest of the 128 KiB block of addresses that each is cut from is for others.
        let pages = fill(&arenas, TierId::FAST, PAGE);
        assert_eq!((slots.len(), pages.len()), (5, 2));
    }
}

#[test]
fn a_full_size_uses_what_others_emptied_but_not_what_they_left_free() {
    let arenas = small(64 << 10, 0);
    let mut small = fill(&arenas, TierId::FAST, 64);
    let error = arenas.allocate(TierId::FAST, 1024).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tier 0 is full: its limit is 65536 bytes"
    );
    // Every other slot of 64 bytes is free, and no chunk is.
    small.sort();
    for slot in small.iter().skip(1).step_by(2) {
        free(&arenas, *slot, 64);
    }
    assert_eq!(arenas.used(TierId::FAST), 32 << 10);
    assert_eq!(arenas.allocate(TierId::FAST, 1024), Err(error));
    let one_of_these = arenas.allocate(TierId::FAST, 60).unwrap();
    free(&arenas, one_of_these, 60);
    // With the other half of the first chunk free, it is of use to all.
    let first = arenas.range().start + (16 << 10);
    let others = small.iter().step_by(2);
    for slot in others.take_while(|slot| (slot.as_ptr() as usize) < first) {
        free(&arenas, *slot, 64);
    }
    assert!(!fill(&arenas, TierId::FAST, 1024).is_empty());
}

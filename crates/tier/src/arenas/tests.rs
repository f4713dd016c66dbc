//! Arenas: slots, budgets to the page, what the kernel really commits.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use super::classes::{CLASSES, size_of_class};
use super::*;

fn small(fast: usize, slow: usize) -> Arenas {
    let mut config = ArenasConfig::two_tiers(fast, slow);
    config.chunk_bytes = 64 << 10;
    Arenas::new(&config).unwrap()
}

fn fill(arenas: &Arenas, tier: TierId, size: usize) -> Vec<NonNull<u8>> {
    std::iter::from_fn(|| arenas.allocate(tier, size).ok()).collect()
}

#[test]
fn the_address_tells_the_tier() {
    let arenas = small(1 << 20, 1 << 20);
    for tier in [TierId::FAST, TierId::SLOW] {
        let slot = arenas.allocate(tier, 256).unwrap();
        assert_eq!(arenas.tier_of(slot.as_ptr() as usize), tier);
        assert!(arenas.range_of(tier).contains(&(slot.as_ptr() as usize)));
    }
}

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
    let room = fill(&arenas, TierId::FAST, 512);
    assert!(
        room.len() * 512 >= candidates.bytes(),
        "{} slots",
        room.len()
    );
    for slot in room {
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

/// Bytes of a range that have memory behind them, page by page. (`smaps` would count neighbours
/// too: the kernel joins mappings that lie side by side.)
fn resident(range: Range<usize>) -> usize {
    const PRESENT: u64 = 1 << 63;
    let mut entries = vec![0; range.len() / PAGE * size_of::<u64>()];
    let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
    let offset = range.start / PAGE * size_of::<u64>();
    pagemap.read_exact_at(&mut entries, offset as u64).unwrap();
    let (entries, _) = entries.as_chunks();
    let present = |&&entry: &&[u8; 8]| u64::from_ne_bytes(entry) & PRESENT != 0;
    entries.iter().filter(present).count() * PAGE
}

#[test]
fn huge_pages_commit_no_more_than_was_charged() {
    // Two whole chunks and three pages; the ranges change their roles from round to round.
    let limit = (4 << 20) + 3 * PAGE;
    let arenas = Arenas::new(&ArenasConfig::one_tier(limit)).unwrap();
    for round in 0..3 {
        let slots = fill(&arenas, TierId::FAST, 1024);
        assert_eq!(resident(arenas.range()), limit, "round {round}");
        for slot in slots.into_iter().rev() {
            free(&arenas, slot, 1024);
        }
        arenas.trim();
        assert_eq!(resident(arenas.range()), 0, "round {round}");
    }
}

#[test]
fn what_is_charged_is_what_the_kernel_committed() {
    // Large and small chunks come and go at the same addresses, in huge pages and not.
    let arenas = Arenas::new(&ArenasConfig::one_tier((9 << 20) + PAGE)).unwrap();
    let mut held: Vec<(NonNull<u8>, usize)> = Vec::new();
    for sizes in [[1024, 24], [24, 70_000], [480, 5000], [9000, 1024]] {
        for size in sizes {
            let room = 6 << 20;
            while arenas.used(TierId::FAST) < room
                && let Ok(slot) = arenas.allocate(TierId::FAST, size)
            {
                held.push((slot, size));
            }
            let used = arenas.budget(TierId::FAST).used();
            assert_eq!(resident(arenas.range()), used, "with slots of {size}");
            // The first half goes, and with it whole chunks; then most of the rest.
            let keep = held.split_off(held.len() / 2);
            for (slot, size) in std::mem::replace(&mut held, keep) {
                free(&arenas, slot, size);
            }
            arenas.trim();
            let used = arenas.budget(TierId::FAST).used();
            assert_eq!(resident(arenas.range()), used, "with slots of {size}");
        }
    }
    for (slot, size) in held {
        free(&arenas, slot, size);
    }
    arenas.trim();
    let used = arenas.budget(TierId::FAST).used();
    assert_eq!((used, resident(arenas.range())), (0, 0));
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

#[test]
fn a_tier_without_a_limit_takes_memory_by_need() {
    let mut config = ArenasConfig::two_tiers(1 << 20, NO_LIMIT);
    for reach in [usize::MAX, 1 << 30] {
        config.reach = reach;
        let arenas = Arenas::new(&config).unwrap();
        assert!(arenas.range().len() <= reach);
        assert!(arenas.range_of(TierId::SLOW).len() >= 1 << 29);
        let used = || arenas.budget(TierId::SLOW).used();
        assert_eq!(used(), 0);
        let first = arenas.allocate(TierId::SLOW, 1024).unwrap();
        assert_eq!(used(), 16 << 10);
        let more: Vec<_> = (0..20 << 10)
            .map(|_| arenas.allocate(TierId::SLOW, 1024).unwrap())
            .collect();
        assert!(used() <= 22 << 20, "{}", used());
        assert!(resident(first.addr().get()..first.addr().get() + (24 << 20)) <= used());
        more.into_iter().for_each(|slot| free(&arenas, slot, 1024));
        free(&arenas, first, 1024);
        arenas.trim();
        assert_eq!(used(), 0);
    }
}

#[test]
fn a_full_tier_says_what_it_met() {
    let met = |arenas: &Arenas| loop {
        if let Err(full) = arenas.allocate(TierId::FAST, 1024) {
            assert!(!full.to_string().contains('\n'));
            return (full.of, full.limit);
        }
    };
    let mut config = ArenasConfig::one_tier(3 << 20);
    let arenas = Arenas::new(&config).unwrap();
    assert_eq!(met(&arenas), (Limit::Budget, 3 << 20));
    for limit in [NO_LIMIT, 9 << 20] {
        config.tiers[0].limit = limit;
        config.reach = (4 << 20) + 4095;
        let arenas = Arenas::new(&config).unwrap();
        assert_eq!(met(&arenas), (Limit::Addresses, 4 << 20));
        assert_eq!(
            arenas.used(TierId::FAST),
            4 << 20,
            "all addresses are of use"
        );
    }
    let arenas = Arenas::new(&ArenasConfig::growing()).unwrap();
    arenas.fail_commits(TierId::FAST, 3, true);
    assert_eq!(met(&arenas), (Limit::Machine, 32 << 10));
    assert_eq!(arenas.budget(TierId::FAST).used(), 32 << 10);
    arenas.fail_commits(TierId::FAST, 0, false);
    assert!(arenas.allocate(TierId::FAST, 1024).is_ok());
}

/// Each has addresses for more than a machine's memory until these are scarce.
#[test]
fn thousands_of_arenas_have_addresses() {
    // ThreadSanitizer leaves fewer addresses.
    let count = if cfg!(tsan) { 30 } else { 3_000 };
    let arenas: Vec<_> = (0..count)
        .map(|_| Arenas::new(&ArenasConfig::growing()).unwrap())
        .collect();
    assert!(arenas.iter().all(|it| it.range().len() >= 1 << 30));
    assert!(
        arenas
            .iter()
            .all(|it| it.allocate(TierId::FAST, 64).is_ok())
    );
    let first = arenas[0].range().len();
    drop(arenas);
    let again = Arenas::new(&ArenasConfig::growing()).unwrap();
    assert!(again.range().len() >= first, "addresses come back");
}

#[test]
fn the_nth_allocation_fails_once_or_with_all_that_follow() {
    let arenas = small(1 << 20, 0);
    for sizes in [[64; 4], [24, 40, 9000, 130_000]] {
        arenas.fail_nth(TierId::FAST, 2);
        let outcomes = sizes.map(|size| arenas.allocate(TierId::FAST, size).is_ok());
        assert_eq!(outcomes, [true, false, true, true], "{sizes:?}");
    }
    arenas.fail_from(TierId::FAST, 3);
    let outcomes = [64; 5].map(|size| arenas.allocate(TierId::FAST, size).is_ok());
    assert_eq!(outcomes, [true, true, false, false, false]);
    assert_eq!(arenas.failed(TierId::FAST), 3);
    arenas.fail_nth(TierId::FAST, 0);
    assert_eq!(arenas.failed(TierId::FAST), 0);
    assert!(arenas.allocate(TierId::FAST, 64).is_ok());
}

#[test]
fn pages_are_where_the_tier_is_bound() {
    let mut config = ArenasConfig::two_tiers(1 << 20, 1 << 20);
    config.chunk_bytes = 64 << 10;
    config.tiers[0].nodes = vec![0];
    let arenas = match Arenas::new(&config) {
        Ok(arenas) => arenas,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    arenas.allocate(TierId::FAST, 1024).unwrap();
    let census = arenas.census(TierId::FAST).unwrap();
    let expected = PageCensus {
        pages: 4,
        misplaced: 0,
        absent: 0,
    };
    assert_eq!(census, expected);
}

#[test]
fn a_missing_node_is_one_clear_line() {
    let mut config = ArenasConfig::one_tier(1 << 20);
    config.tiers[0].nodes = vec![900];
    let error = Arenas::new(&config).err().unwrap().to_string();
    assert!(error.contains("900") && !error.contains('\n'), "{error}");
}

#[test]
fn threads_never_share_a_slot() {
    const SIZES: [usize; 6] = [512, 24, 40, 1040, 16, 9000];
    let arenas = small(1 << 20, 0);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let arenas = &arenas;
            scope.spawn(move || {
                for round in 0..200 {
                    let allocate = |nth: usize| {
                        let size = SIZES[(nth + round) % SIZES.len()];
                        Some((arenas.allocate(TierId::FAST, size).ok()?, size))
                    };
                    let held: Vec<_> = (0..40).map_while(allocate).collect();
                    for &(slot, size) in &held {
                        write(slot, size, thread);
                    }
                    for (slot, size) in held {
                        assert_eq!(read(slot, size), [thread; 2], "round {round}");
                        free(arenas, slot, size);
                    }
                }
            });
        }
    });
    assert_eq!(arenas.used(TierId::FAST), 0);
}

#[test]
fn slots_travel_between_threads() {
    let arenas = small(256 << 10, 0);
    let (sender, receiver) = std::sync::mpsc::sync_channel::<(usize, usize)>(64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (address, size) in receiver {
                free(&arenas, NonNull::new(address as *mut u8).unwrap(), size);
            }
        });
        for nth in 0..20_000 {
            // At most a hundred slots are held: there is room for these and for what lanes keep.
            let size = [24, 96, 480][nth % 3];
            let slot = arenas.allocate(TierId::FAST, size).unwrap();
            sender.send((slot.as_ptr() as usize, size)).unwrap();
        }
        drop(sender);
    });
    assert_eq!(arenas.used(TierId::FAST), 0, "though no lane's count is 0");
}

#[allow(unsafe_code)]
fn free(arenas: &Arenas, slot: NonNull<u8>, size: usize) {
    // SAFETY: the tests free each slot once, with the size it was allocated with.
    unsafe { arenas.free(slot, size) };
}

#[allow(unsafe_code)]
fn write(slot: NonNull<u8>, size: usize, byte: u8) {
    // SAFETY: the slot has `size` bytes and is this thread's until it is freed.
    unsafe { slot.as_ptr().write_bytes(byte, size) };
}

/// The first and the last byte of a slot.
#[allow(unsafe_code)]
fn read(slot: NonNull<u8>, size: usize) -> [u8; 2] {
    // SAFETY: as for `write`.
    [0, size - 1].map(|at| unsafe { slot.as_ptr().add(at).read() })
}

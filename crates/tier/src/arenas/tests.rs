//! Arenas: slots, budgets to the page, what the kernel really commits.

use std::os::unix::fs::FileExt;

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

#[test]
fn a_full_tier_is_full_to_the_page() {
    let limit = (64 << 10) * 2 + 3 * 4096 + 17;
    let arenas = small(limit, 1 << 20);
    let slots = fill(&arenas, TierId::FAST, 1024);
    assert_eq!(slots.len(), (limit / 4096) * 4);
    let budget = arenas.budget(TierId::FAST);
    assert!(budget.used() <= limit && limit - budget.used() < 4096);
    for slot in slots {
        free(&arenas, slot, 1024);
    }
    arenas.trim();
    assert_eq!(
        (arenas.used(TierId::FAST), budget.used()),
        (0, 0),
        "all is given back"
    );
    assert_eq!(
        fill(&arenas, TierId::FAST, 1024).len(),
        (limit / 4096) * 4,
        "and taken again"
    );
}

/// Bytes of a range that have memory behind them, page by page. (`smaps` would count neighbours too:
/// the kernel joins mappings that lie side by side.)
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

#[test]
fn the_nth_allocation_fails_once() {
    let arenas = small(1 << 20, 0);
    arenas.fail_nth(TierId::FAST, 2);
    let outcomes: Vec<bool> = (0..4)
        .map(|_| arenas.allocate(TierId::FAST, 64).is_ok())
        .collect();
    assert_eq!(outcomes, [true, false, true, true]);
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
        pages: 16,
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
    let arenas = small(1 << 20, 0);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let arenas = &arenas;
            scope.spawn(move || {
                for round in 0..200 {
                    let held: Vec<_> = (0..40)
                        .map_while(|_| arenas.allocate(TierId::FAST, 512).ok())
                        .collect();
                    for slot in &held {
                        write(*slot, thread);
                    }
                    for slot in held {
                        assert_eq!(read(slot), thread, "round {round}");
                        free(arenas, slot, 512);
                    }
                }
            });
        }
    });
    assert_eq!(arenas.used(TierId::FAST), 0);
}

#[allow(unsafe_code)]
fn free(arenas: &Arenas, slot: NonNull<u8>, size: usize) {
    // SAFETY: the tests free each slot once, with the size it was allocated with.
    unsafe { arenas.free(slot, size) };
}

#[allow(unsafe_code)]
fn write(slot: NonNull<u8>, byte: u8) {
    // SAFETY: the slot is this thread's until it is freed.
    unsafe { slot.as_ptr().write_bytes(byte, 512) };
}

#[allow(unsafe_code)]
fn read(slot: NonNull<u8>) -> u8 {
    // SAFETY: as for `write`.
    unsafe { slot.as_ptr().add(511).read() }
}

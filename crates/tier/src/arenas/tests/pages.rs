//! Pages and addresses: the kernel commits what is charged, where the tier is bound.

use super::*;

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
            let half_full = 6 << 20;
            while arenas.used(TierId::FAST) < half_full
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

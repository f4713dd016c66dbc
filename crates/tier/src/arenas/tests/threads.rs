//! Several threads allocate and free.

use super::*;

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
            // At most a hundred slots are held; the tier has those and what threads cache.
            let size = [24, 96, 480][nth % 3];
            let slot = arenas.allocate(TierId::FAST, size).unwrap();
            sender.send((slot.as_ptr() as usize, size)).unwrap();
        }
        drop(sender);
    });
    assert_eq!(
        arenas.used(TierId::FAST),
        0,
        "though no thread's count is 0"
    );
}

/// While one thread commits the last chunk of a tier, the others meet its limit, and must not take
/// that for the end.
#[test]
fn threads_wait_for_the_last_chunk_that_is_on_its_way() {
    const LIMIT: usize = 24 << 20;
    const SIZE: usize = 1024;
    for round in 0..10 {
        let mut config = ArenasConfig::two_tiers(LIMIT, 0);
        config.chunk_bytes = 1 << 20;
        config.huge_pages = false;
        let arenas = Arenas::new(&config).unwrap();
        let held = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let bytes = fill(&arenas, TierId::FAST, SIZE).len() * SIZE;
                    // What threads have cached may be on its way to them.
                    let used = arenas.used(TierId::FAST);
                    assert!(used + (256 << 10) >= LIMIT, "full with {used} bytes in use");
                    held.fetch_add(bytes, Relaxed);
                });
            }
        });
        arenas.trim();
        let rest = fill(&arenas, TierId::FAST, SIZE).len() * SIZE;
        assert_eq!(held.into_inner() + rest, LIMIT, "round {round}");
        assert_eq!(arenas.budget(TierId::FAST).peak(), LIMIT);
    }
}

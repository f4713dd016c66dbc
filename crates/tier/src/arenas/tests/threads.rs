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

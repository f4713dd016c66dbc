//! A mistake for sanitizers: memory is given back while others read it. Nothing is asserted here;
//! AddressSanitizer has to find the read of what is freed, and ThreadSanitizer that nothing orders
//! the read and the write of who gets the memory next. `cargo xtask sanitize` runs this, and fails
//! unless they do.

#[allow(dead_code, unused_macros)]
mod suite;

use suite::{arenas, placing};
use timberline_tier::Native;
use timberline_tree::BTree;
use timberline_tree::seeded::{Bug, plant};

#[test]
#[ignore = "it reads freed memory: for a sanitizer to find"]
fn strings_are_freed_while_they_are_read() {
    const ROUNDS: u64 = 20_000;
    let arenas = arenas::two(0, arenas::AMPLE);
    let map: BTree<u64, Vec<u8>> =
        BTree::in_memory(Native(arenas), placing::all_slow(0).placement).unwrap();
    map.insert(&1, &[0; 500]).unwrap();
    let sum = |value: &[u8]| value.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            plant(Bug::FreedAtOnce);
            for round in 0..ROUNDS {
                map.insert(&1, &[round as u8; 500]).unwrap();
                map.insert(&2, &[round as u8; 500]).unwrap();
            }
        });
        for _ in 0..ROUNDS {
            std::hint::black_box(map.get_with(&1, sum));
        }
    });
}

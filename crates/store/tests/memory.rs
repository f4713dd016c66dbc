//! Resident memory, in a process of its own: all of it counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use timberline_store::{Durability, Options, Store};

const LIMIT: u64 = 128 << 20;
const RECORDS: u64 = 200_000;
const THREADS: u64 = 16;
const GETS: u64 = 10_000;

/// What the kernel says of this process' memory, in bytes.
fn memory(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix(what)).unwrap();
    let kilobytes: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    kilobytes << 10
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Between 600 and 1,400 bytes.
fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 600 + (number * 7919 % 800) as usize]
}

/// One thread writes more than fits into memory, and then others, each with its own part of the
/// heap, read it: what they put into the cache takes the place of what was there. Then the first
/// overwrites it, and the log's window takes memory back from the cache.
#[test]
fn threads_that_wait_stay_within_the_limit_together() {
    timberline_tier::keep_large_blocks_apart();
    let folder = std::env::temp_dir().join(format!("timberline-memory-{}", std::process::id()));
    let before = memory("VmRSS:");
    let options = Options {
        durability: Durability::None,
        memory_bytes: LIMIT,
        cache_bytes: u64::MAX,
        ..Options::default()
    };
    let (store, _) = Store::open(&folder, options).unwrap();
    for number in 0..RECORDS {
        store.blocking().put(&key(number), &value(number)).unwrap();
    }
    let written = memory("VmHWM:") - before;
    let random = AtomicU64::new(1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..GETS {
                    // Weyl's sequence, over all records.
                    let next = random.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
                    let number = ((next >> 32) * RECORDS) >> 32;
                    let found = store.blocking().get(&key(number)).unwrap();
                    assert_eq!(found, Some(value(number)));
                }
            });
        }
    });
    let read = memory("VmHWM:") - before;
    let cached = store.stats().cached_bytes;
    for number in 0..RECORDS {
        store.blocking().put(&key(number), &value(number)).unwrap();
    }
    let all = memory("VmHWM:") - before;
    store.stop().unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    println!("bytes at the peak: {written} after the puts, {read} after the gets, {all} in all");
    println!("cached {cached}");
    assert!(all <= LIMIT, "{all} bytes of {LIMIT}");
    // It uses what it may.
    assert!(cached >= LIMIT / 2, "{cached} bytes of {LIMIT} are cached");
}

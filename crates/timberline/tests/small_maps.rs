//! What small maps take: a program may have thousands. Alone in its process, as it counts what the
//! allocator hands out.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use timberline::{Art, BTree, Masstree};

struct Counting;

/// Bytes that are allocated now.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RECORDS: u64 = 10;

/// Makes many maps and returns them, if each takes at most so many bytes of the allocator and in
/// committed pages.
fn make<M>(
    maps: usize,
    most: [usize; 2],
    make: impl Fn() -> M,
    committed: impl Fn(&M) -> (usize, usize),
) -> Vec<M> {
    let before = ALLOCATED.load(Relaxed);
    let made: Vec<M> = (0..maps).map(|_| make()).collect();
    let allocated = (ALLOCATED.load(Relaxed) - before) / maps;
    let committed = made.iter().map(committed).map(|(fast, slow)| fast + slow);
    let taken = [allocated, committed.max().unwrap_or(0)];
    assert!(
        taken[0] <= most[0] && taken[1] <= most[1],
        "{taken:?} of {most:?}"
    );
    made
}

#[test]
fn ten_thousand_maps_take_little_memory() {
    let btree = || {
        let map = BTree::new();
        (0..RECORDS).for_each(|key| _ = map.insert(&key, key).unwrap());
        map
    };
    let art = || {
        let map = Art::new();
        (0..RECORDS).for_each(|key| _ = map.insert(&(key << 20), key).unwrap());
        map
    };
    let masstree = || {
        let map = Masstree::new();
        (0..RECORDS).for_each(|key| _ = map.insert(&key, key).unwrap());
        map
    };
    const KIB: usize = 1 << 10;
    let btrees: Vec<BTree<u64, u64>> = make(6_000, [32 * KIB, 16 * KIB], btree, BTree::committed);
    let arts: Vec<Art<u64, u64>> = make(2_000, [36 * KIB, 48 * KIB], art, Art::committed);
    let masstrees: Vec<Masstree<u64, u64>> =
        make(2_000, [36 * KIB, 48 * KIB], masstree, Masstree::committed);
    // Each can become large.
    let large = btrees.last().unwrap();
    (0..100_000).for_each(|key| _ = large.insert(&key, key).unwrap());
    assert!(btrees.iter().all(|map| map.get(&7) == Some(7)));
    assert!(arts.iter().all(|map| map.get(&(7 << 20)) == Some(7)));
    assert!(masstrees.iter().all(|map| map.get(&7) == Some(7)));
}

//! Threads and descriptors that maps take. Alone in its process, as it counts threads.

use timberline::{Art, BTree, Builder, Map};

/// Entries of a folder of `/proc/self`; `None` off Linux.
fn count(folder: &str) -> Option<usize> {
    let entries = std::fs::read_dir(format!("/proc/self/{folder}")).ok()?;
    Some(entries.count())
}

#[test]
fn two_thousand_maps_take_one_thread_and_no_descriptor() {
    let taken = || count("task").zip(count("fd"));
    let Some((threads, descriptors)) = taken() else {
        return;
    };
    fn small<M>(builder: Builder<M>) -> Builder<M> {
        builder.fast_memory(256 << 10).slow_memory(1 << 20)
    }
    let btree = |_| small(BTree::builder()).build().unwrap();
    let btrees: Vec<BTree<u64, u64>> = (0..1_000).map(btree).collect();
    let art = |_| small(Art::builder()).build().unwrap();
    let arts: Vec<Art<str, u64>> = (0..1_000).map(art).collect();
    for key in 0..8 {
        for (btree, art) in btrees.iter().zip(&arts) {
            btree.insert(&key, !key).unwrap();
            art.insert(&key.to_string(), !key).unwrap();
        }
    }
    assert_eq!(taken(), Some((threads + 1, descriptors)));
    let failure = btrees.iter().find_map(Map::worker_failure);
    assert_eq!(failure.or(arts.iter().find_map(Map::worker_failure)), None);
    // In another order than they were made in.
    drop(btrees);
    assert_eq!(arts[999].get("7"), Some(!7));
    drop(arts);
    // The thread was joined, and the kernel may list it for a moment more.
    while taken() != Some((threads, descriptors)) {
        std::thread::yield_now();
    }
}

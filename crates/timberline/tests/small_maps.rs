//! The memory of small maps: a program may have thousands. Alone in its process, as it asks for all
//! memory of that.
#![cfg(target_os = "linux")]

use timberline::{Art, BTree, Masstree};

const KIB: usize = 1 << 10;
const RECORDS: u64 = 10;

/// Bytes of this process that have memory behind them.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split(' ').nth(1).unwrap();
    pages.parse::<usize>().unwrap() * 4 * KIB
}

/// Makes many maps. On average each takes at most `most` bytes of the process, all in all.
fn make<M>(maps: usize, most: usize, make: impl Fn() -> M) -> Vec<M> {
    let before = resident();
    let made: Vec<M> = (0..maps).map(|_| make()).collect();
    let each = resident().saturating_sub(before) / maps;
    assert!(each <= most, "{each} bytes each, at most {most} are fine");
    made
}

#[test]
#[cfg_attr(asan, ignore = "AddressSanitizer takes memory for each of them")]
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
    let btrees: Vec<BTree<u64, u64>> = make(6_000, 52 * KIB, btree);
    let arts: Vec<Art<u64, u64>> = make(2_000, 92 * KIB, art);
    let masstrees: Vec<Masstree<u64, u64>> = make(2_000, 92 * KIB, masstree);
    // Each can become large.
    let large = btrees.last().unwrap();
    (0..100_000).for_each(|key| _ = large.insert(&key, key).unwrap());
    assert!(btrees.iter().all(|map| map.get(&7) == Some(7)));
    assert!(arts.iter().all(|map| map.get(&(7 << 20)) == Some(7)));
    assert!(masstrees.iter().all(|map| map.get(&7) == Some(7)));
}

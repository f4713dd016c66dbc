//! A store whose index is in two tiers of memory.

use std::task::{Context, Waker};

use crate::opened::{simulated, tiers, with_store};
use timberline_store::{Batch, Durability, Error, IndexMap, IndexMemory, Options, Store};
use timberline_tree::Art;

/// So many that most of the index is in slow memory.
const RECORDS: u32 = 100_000;

fn options(index: IndexMemory) -> Options {
    Options {
        durability: Durability::None,
        segment_bytes: 1 << 20,
        direct: false,
        index,
        ..Options::default()
    }
}

/// Neighbours are far from each other in the index.
fn key(nth: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&nth.wrapping_mul(0x9E37_79B1).to_be_bytes());
    key
}

async fn put(store: &Store, nth: u32, value: u32) {
    let put = store.put(&key(nth), &value.to_le_bytes()).await;
    put.expect("there is space");
}

async fn assert_has(store: &Store, nth: u32, value: Option<u32>) {
    let found = store.get(&key(nth)).await.expect("it is read");
    let value = value.map(|it| it.to_le_bytes().to_vec());
    assert_eq!(found, value, "{nth}");
}

#[test]
fn an_index_in_tiers_does_all_that_one_in_plain_memory_does() {
    IndexMap::ALL
        .into_iter()
        .for_each(in_tiers_and_opened_again);
}

fn in_tiers_and_opened_again(map: IndexMap) {
    let in_tiers = || tiers(map, 64 << 20);
    let (_, disk, mut driver) = simulated(1);
    driver.block_on(async {
        with_store(&disk, options(in_tiers()), async |store| {
            for nth in 0..RECORDS {
                put(store, nth, nth).await;
            }
            assert!(store.stats().index_bytes > 2 << 20);
            for nth in (0..RECORDS).step_by(2) {
                put(store, nth, nth + 1).await;
            }
            for nth in (0..RECORDS).step_by(5) {
                assert!(store.delete(&key(nth)).await.expect("it is deleted"));
            }
            let mut batch = Batch::new();
            for nth in (0..100).step_by(5) {
                batch.put(&key(nth), &7u32.to_le_bytes());
            }
            store.write(&batch).await.expect("there is space");
        })
        .await;
        // From a checkpoint, and then in plain memory.
        for index in [in_tiers(), IndexMemory::plain(map)] {
            with_store(&disk, options(index), async |store| {
                assert_eq!(store.len() as u32, RECORDS - RECORDS / 5 + 20);
                for nth in 0..RECORDS {
                    let value = match nth % 5 {
                        0 if nth < 100 => Some(7),
                        0 => None,
                        _ => Some(nth + (nth + 1) % 2),
                    };
                    assert_has(store, nth, value).await;
                }
                let mut scan = store.range(..);
                let (mut count, mut last) = (0, Vec::new());
                while let Some(record) = scan.next().await {
                    let (key, _) = record.expect("it is read");
                    assert!(key > last);
                    (count, last) = (count + 1, key);
                }
                assert_eq!(count, store.len());
            })
            .await;
        }
    });
}

#[test]
fn an_index_without_memory_refuses_new_keys_and_nothing_else() {
    IndexMap::ALL.into_iter().for_each(without_memory);
}

fn without_memory(map: IndexMap) {
    let (_, disk, mut driver) = simulated(2);
    let small = tiers(map, 2 << 20);
    driver.block_on(with_store(&disk, options(small), async |store| {
        let mut nth = 0;
        let refused = loop {
            match store.put(&key(nth), &nth.to_le_bytes()).await {
                Ok(()) => nth += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::OutOfMemory), "{refused}");
        assert!(nth > 10_000, "{nth} fit into 3 MiB");
        assert_has(store, nth, None).await;
        for nth in 0..nth {
            assert_has(store, nth, Some(nth)).await;
        }
        put(store, 3, 33).await;
        assert_has(store, 3, Some(33)).await;
    }));
}

#[test]
fn memory_that_is_not_there_is_one_line() {
    let (_, disk, mut driver) = simulated(3);
    let impossible = IndexMemory::of(|| Art::builder().slow_memory(1 << 20).build());
    let opened = Store::open_on(&disk, "store".as_ref(), options(impossible));
    let refused = driver.block_on(opened).map(|_| ()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the index's memory: a map in two tiers needs a limit of its fast memory"
    );
}

#[test]
fn a_get_lets_others_go_on_where_the_index_may_be_in_slow_memory() {
    let (_, disk, mut driver) = simulated(4);
    let in_tiers = IndexMap::ALL.map(|map| (tiers(map, 64 << 20), true));
    let plain = IndexMap::ALL.map(|map| (IndexMemory::plain(map), false));
    for (index, is_tiered) in in_tiers.into_iter().chain(plain) {
        driver.block_on(with_store(&disk, options(index), async |store| {
            // Their values are in memory.
            for nth in 0..1000 {
                put(store, nth, nth).await;
            }
            let key = key(1);
            let mut get = Box::pin(store.get(&key));
            let mut context = Context::from_waker(Waker::noop());
            assert_eq!(get.as_mut().poll(&mut context).is_pending(), is_tiered);
        }));
    }
}

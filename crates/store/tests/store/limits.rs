//! Another limit of memory while the store is open.

use crate::opened::{simulated, with_store};
use timberline_store::{Durability, Error, Options, Store};

const MIB: u64 = 1 << 20;
/// What the store keeps for what is on its way to the disk.
const BUFFERS: u64 = Options::LEAST_MEMORY / 2;
const LARGE: u64 = 128 * MIB;

fn options(memory_bytes: u64) -> Options {
    Options {
        durability: Durability::None,
        segment_bytes: 8 * MIB,
        direct: false,
        cache_bytes: u64::MAX,
        memory_bytes,
        index: crate::index(),
        ..Options::default()
    }
}

/// Bytes of memory that it takes, but for buffers.
fn taken(store: &Store) -> u64 {
    let stats = store.stats();
    stats.cached_bytes + stats.index_bytes
}

#[test]
fn the_cache_gives_memory_back_at_once_and_takes_more_as_it_is_used() {
    const RECORDS: u32 = 600;
    let value = |nth: u32| vec![nth as u8; 100_000];
    let (_, disk, mut driver) = simulated(1);
    driver.block_on(with_store(&disk, options(LARGE), async |store| {
        for nth in 0..RECORDS {
            let put = store.put(&nth.to_be_bytes(), &value(nth)).await;
            put.expect("there is space");
        }
        store.sync().await.expect("it is on the disk");
        let before = taken(store);
        assert!(before > 50 * MIB, "{before}");
        let least = Options::LEAST_MEMORY;
        store.set_memory_bytes(least).expect("it can be");
        assert_eq!(store.memory_bytes(), least);
        let fewer = taken(store);
        assert!(fewer <= least - BUFFERS, "{fewer}");
        let read_all = async || {
            for nth in 0..RECORDS {
                let found = store.get(&nth.to_be_bytes()).await.expect("it is read");
                assert_eq!(found, Some(value(nth)));
            }
            taken(store)
        };
        // That it is used does not make it grow.
        let fewer = read_all().await;
        assert!(fewer <= least - BUFFERS, "{fewer}");
        store.set_memory_bytes(LARGE).expect("it can be");
        read_all().await;
        let again = read_all().await;
        assert!(again > 50 * MIB && again <= LARGE - BUFFERS, "{again}");
    }));
}

/// Long keys fill the index fast.
#[test]
pub fn an_index_that_takes_too_much_takes_new_keys_again_when_there_is_more() {
    let key = |nth: u32| [nth.to_be_bytes(); 250].concat();
    let (_, disk, mut driver) = simulated(2);
    driver.block_on(with_store(&disk, options(LARGE), async |store| {
        let mut keys = 0;
        while store.stats().index_bytes < 40 * MIB {
            store.put(&key(keys), b"value").await.expect("it fits");
            keys += 1;
        }
        let least = Options::LEAST_MEMORY;
        store.set_memory_bytes(least).expect("it can be");
        let refused = store.put(&key(keys), b"new").await;
        assert!(matches!(refused, Err(Error::OutOfMemory)), "{refused:?}");
        store.put(&key(0), b"again").await.expect("it has a place");
        store.set_memory_bytes(LARGE).expect("it can be");
        store.put(&key(keys), b"new").await.expect("it fits");
        let too_few = store.set_memory_bytes(least - 1);
        assert!(matches!(too_few, Err(Error::Configuration(_))));
        assert_eq!(store.memory_bytes(), LARGE);
    }));
}

//! A store that was closed is on the disk as a whole.

use std::collections::BTreeMap;

use timberline_io::Disk;
use timberline_store::{Durability, Options};

use crate::opened::two_tiers;
use crate::{SEGMENT, options, simulated, with_store};

/// Commits write what cleaning has moved so far and do not wait until it is on the disk. It is
/// closed at any time of cleaning.
#[test]
fn what_cleaning_moved_survives_a_crash_after_the_store_was_closed() {
    let mut cleaned = 0;
    for seed in 0..40 {
        let (simulation, disk, mut driver) = simulated(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = Options {
            durability: Durability::Each,
            // Cleaning gives others a turn at each node.
            index: two_tiers(),
            capacity: 16 * SEGMENT,
            ..options()
        };
        let mut model = BTreeMap::new();
        cleaned += driver.block_on(with_store(&disk, options.clone(), async |store| {
            for _ in 0..rng.u32(600..1000) {
                let (key, value) = ([rng.u8(..)], vec![rng.u8(..); rng.usize(0..3600)]);
                store.put(&key, &value).await.expect("there is space");
                model.insert(key, value);
            }
            store.stats().cleaned
        }));
        let (disk, mut driver) = Disk::simulated(&simulation.crash());
        driver.block_on(with_store(&disk, options, async |store| {
            assert_eq!(store.len(), model.len());
            for (key, value) in &model {
                let found = store.get(key).await.expect("it is read");
                assert!(found.as_ref() == Some(value), "seed {seed}");
            }
        }));
    }
    assert!(cleaned > 0);
}

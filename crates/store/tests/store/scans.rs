//! Scans: their order, and that writers beside them don't disturb them.

use std::collections::BTreeMap;

use timberline_store::{Durability, Options};

use crate::{options, simulated, with_store};

#[test]
pub fn records_come_in_key_order_from_both_ends() {
    let (_, disk, mut driver) = simulated(11);
    driver.block_on(with_store(&disk, options(), async |store| {
        let mut model = BTreeMap::new();
        for number in 0..500u32 {
            let key = format!("{:04}", number * 7919 % 5000).into_bytes();
            let value = vec![number as u8; 300];
            store.put(&key, &value).await.expect("there is space");
            model.insert(key, value);
        }
        for (from, to) in [("", "9"), ("1000", "2500"), ("3", "3"), ("7", "71")] {
            let bounds = from.as_bytes()..to.as_bytes();
            let expected: Vec<_> = model
                .range::<[u8], _>((
                    std::ops::Bound::Included(bounds.start),
                    std::ops::Bound::Excluded(bounds.end),
                ))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let (mut up, mut down, mut mixed) = (vec![], vec![], (vec![], vec![]));
            let mut scan = store.range(bounds.clone());
            while let Some(record) = scan.next().await {
                up.push(record.expect("it is read"));
            }
            let mut scan = store.range(bounds.clone());
            while let Some(record) = scan.next_back().await {
                down.push(record.expect("it is read"));
            }
            let mut scan = store.range(bounds.clone());
            while let Some(record) = scan.next().await {
                mixed.0.push(record.expect("it is read"));
                mixed
                    .1
                    .extend(scan.next_back().await.map(|it| it.expect("it is read")));
            }
            down.reverse();
            mixed.1.reverse();
            mixed.0.append(&mut mixed.1);
            assert_eq!((&up, &down, &mixed.0), (&expected, &expected, &expected));
        }
        let mut scan = store.prefix(b"49");
        let mut count = 0;
        while let Some(record) = scan.next().await {
            assert!(record.expect("it is read").0.starts_with(b"49"));
            count += 1;
        }
        assert_eq!(
            count,
            model.keys().filter(|it| it.starts_with(b"49")).count()
        );
    }));
}

/// A scan goes on while records are moved, deleted and put.
#[test]
pub fn a_scan_returns_what_is_there_all_the_time() {
    let (_, disk, mut driver) = simulated(12);
    let options = Options {
        durability: Durability::None,
        ..options()
    };
    driver.block_on(with_store(&disk, options, async |store| {
        for number in 0..400u32 {
            store
                .put(&number.to_be_bytes(), &[1; 500])
                .await
                .expect("there is space");
        }
        let mut scan = store.range(..);
        let mut seen = Vec::new();
        while let Some(record) = scan.next().await {
            seen.push(record.expect("it is read").0);
            // Odd keys come and go, so that segments of even ones are cleaned.
            for number in (1..400u32).step_by(8) {
                let key = number.to_be_bytes();
                store.put(&key, &[2; 900]).await.expect("there is space");
                store.delete(&key).await.expect("it is there");
            }
        }
        assert!(seen.is_sorted());
        let even = seen.iter().filter(|it| it[3].is_multiple_of(2)).count();
        assert_eq!(even, 200);
        assert!(store.stats().moved > 0);
    }));
}

//! No more of a leaf is read or written than is needed, and scans miss nothing of it.

use std::collections::BTreeMap;
use std::ops::Bound::Included;
use std::sync::Arc;

use timberline_io::wait_for;
use timberline_remote::fabric::{Counts, InProcess};
use timberline_remote::{Layout, LeafAdmission, NODE_BYTES, Options, RemoteTree, Result, load};

async fn loaded(
    records: impl IntoIterator<Item = (u64, u64)>,
    options: Options,
) -> Result<RemoteTree> {
    let pool = Arc::new(InProcess::new(1, 16 << 20)?);
    load(pool.clone(), Layout::default(), records).await?;
    RemoteTree::open(pool, options).await
}

/// What an operation costs.
async fn cost<T>(tree: &RemoteTree, operation: impl Future<Output = Result<T>>) -> Result<Counts> {
    let before = tree.counts();
    operation.await?;
    Ok(tree.counts() - before)
}

async fn scanned(
    tree: &RemoteTree,
    (first, last): (u64, u64),
    is_up: bool,
    limit: Option<usize>,
) -> Result<Vec<(u64, u64)>> {
    let mut scan = match is_up {
        true => tree.scan(first..=last)?,
        false => tree.scan_down(first..=last)?,
    };
    if let Some(limit) = limit {
        scan = scan.limit(limit);
    }
    let mut records = Vec::new();
    while let Some(record) = scan.next().await? {
        records.push(record);
    }
    Ok(records)
}

/// Scans of any range, direction and length find what a map in memory has, however unevenly keys
/// are spread within their leaves, while leaves change and split.
#[test]
fn scans_find_all_that_is_there() -> Result<()> {
    let rounds = if cfg!(debug_assertions) {
        3_000
    } else {
        30_000
    };
    for (seed, exponent) in (0..).zip([1, 2, 4, 6]) {
        // Hundreds of keys, each of which are the less even the higher the exponent.
        let key = |number: u64| (number / 100) << 40 | (number % 100).pow(exponent);
        let records: Vec<_> = (0..3_000).map(|number| (key(number), number)).collect();
        let options = Options {
            cache_bytes: 200 << 10,
            leaf_admission: [LeafAdmission::Chance(0.0), LeafAdmission::Chance(0.1)]
                [seed as usize % 2],
            copies: [0.0, 0.3][seed as usize / 2],
            seed,
            ..Options::default()
        };
        wait_for(async {
            let mut draws = fastrand::Rng::with_seed(seed);
            let tree = loaded(records.clone(), options).await?;
            let mut model: BTreeMap<u64, u64> = records.iter().copied().collect();
            for round in 0..rounds {
                let mut draw_key = || {
                    let near = records[draws.usize(0..records.len())].0;
                    near.saturating_add(draws.u64(0..4)).saturating_sub(2)
                };
                let (one, other) = (draw_key(), draw_key());
                match draws.u8(0..8) {
                    0 => assert_eq!(tree.insert(one, round).await?, model.insert(one, round)),
                    1 => assert_eq!(tree.remove(one).await?, model.remove(&one)),
                    _ => {
                        let range = match draws.u8(0..4) {
                            0 => (one, u64::MAX),
                            1 => (0, one),
                            _ => (one.min(other), one.max(other)),
                        };
                        let limit = draws.bool().then(|| draws.usize(0..150));
                        let is_up = draws.bool();
                        let there = model.range((Included(range.0), Included(range.1)));
                        let mut there: Vec<_> = there.map(|(&key, &value)| (key, value)).collect();
                        if !is_up {
                            there.reverse();
                        }
                        there.truncate(limit.unwrap_or(usize::MAX));
                        let found = scanned(&tree, range, is_up, limit).await?;
                        assert_eq!(found, there, "seed {seed}: {range:?} {is_up} {limit:?}");
                    }
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn what_a_scan_does_not_need_is_not_read() -> Result<()> {
    let records = (0..10_000).map(|number| (number << 40, number));
    let options = Options {
        cache_bytes: 200 << 10,
        leaf_admission: LeafAdmission::Chance(0.0),
        copies: 0.0,
        ..Options::default()
    };
    wait_for(async {
        let tree = loaded(records, options).await?;
        // Inner nodes stay.
        let all = cost(&tree, scanned(&tree, (0, u64::MAX), true, None)).await?;
        assert!(all.bytes < 10_000 * 20 + 16 * NODE_BYTES as u64, "{all:?}");
        for is_up in [true, false] {
            let (mut reads, mut bytes) = (0, 0);
            for first in 0..1_000 {
                let range = match is_up {
                    true => (first << 40, u64::MAX),
                    false => (0, (first + 1_000) << 40),
                };
                let each = cost(&tree, scanned(&tree, range, is_up, Some(100))).await?;
                reads += each.reads;
                bytes += each.bytes;
            }
            // 1,600 bytes are the records; 3.3 leaves are 3,300.
            assert!(bytes < 1_000 * 1_900, "{is_up}: {bytes} bytes");
            assert!(reads < 1_000 * 5, "{is_up}: {reads} reads");
        }
        Ok(())
    })
}

/// Of a cached leaf whose values alone were changed, no more is written than the lines from the
/// first that was changed to the last.
#[test]
fn what_did_not_change_is_not_written() -> Result<()> {
    let records = (0..1_000).map(|number| (number, number));
    let options = Options {
        cache_bytes: 200 << 10,
        leaf_admission: LeafAdmission::Chance(1.0),
        copies: 0.0,
        ..Options::default()
    };
    wait_for(async {
        let tree = loaded(records, options).await?;
        tree.get(500).await?;
        // Records of one leaf, a line apart at least.
        for (changed, most) in [(vec![500], 64), (vec![500, 501], 128), (vec![], 0)] {
            for key in changed {
                tree.update(key, 7).await?;
            }
            let flush = cost(&tree, tree.flush()).await?;
            assert!(flush.bytes <= most, "{flush:?}");
            assert_eq!(flush.writes, u64::from(most > 0));
        }
        tree.remove(500).await?;
        let flush = cost(&tree, tree.flush()).await?;
        assert!((65..=NODE_BYTES as u64).contains(&flush.bytes), "{flush:?}");
        assert_eq!(tree.get(500).await?, None);
        assert_eq!(tree.get(501).await?, Some(7));
        Ok(())
    })
}

//! Operations as data, the thread that chooses them, and what each does to a map and to the
//! standard library's.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, RangeBounds};

use super::draw::Draw;
use super::map::Bounds;
use super::{TestMap, asks, names};

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    Insert(u64, u64),
    Update(u64, u64),
    /// Expects the value that is there, or another one.
    CompareAndSet(u64, bool, u64),
    Remove(u64),
    Get(u64),
    GetMany(Vec<u64>),
    /// Takes from the front (true) and the back in this order, then the rest.
    Range(Bounds, Vec<bool>),
    Scan(u64, usize),
    /// Loads this many keys from here on, with gaps.
    BulkLoad(u64, u64, u64),
    RemoveRun(u64, u64),
    PopFirst,
    PopLast,
    Clear,
    Promote(u64),
    Demote(u64, u8),
    DemoteSubtree(u64, u8),
    /// Something of what placements may call, about the leaf of a key: the call, and what else
    /// there is to choose.
    Ask(u64, u8, u64),
    Reclaim,
}

/// Whether a key is within bounds, which may be empty or the wrong way round.
fn within(bounds: &Bounds, key: u64) -> bool {
    bounds.contains(&key)
}

fn range(map: &impl TestMap, model: &BTreeMap<u64, u64>, bounds: Bounds, turns: &[bool]) {
    let mut expected = model
        .iter()
        .map(|(&key, &value)| (key, value))
        .filter(|&(key, _)| within(&bounds, key));
    let mut range = map.range(bounds);
    for &front in turns {
        if front {
            assert_eq!(range.next(), expected.next(), "{bounds:?} {turns:?}");
        } else {
            assert_eq!(
                range.next_back(),
                expected.next_back(),
                "{bounds:?} {turns:?}"
            );
        }
    }
    assert!(range.eq(expected), "the rest of {bounds:?} {turns:?}");
}

fn scan(map: &impl TestMap, model: &BTreeMap<u64, u64>, from: u64, limit: usize) {
    let mut seen = Vec::new();
    let count = map.scan(from, limit, |key, value| {
        seen.push((key, value));
        // Breaking early counts the last one in.
        if key % 64 == 63 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let mut expected: Vec<_> = model
        .range(from..)
        .map(|(&k, &v)| (k, v))
        .take(limit)
        .collect();
    if let Some(end) = expected.iter().position(|&(key, _)| key % 64 == 63) {
        expected.truncate(end + 1);
    }
    assert_eq!((count, &seen), (expected.len(), &expected), "from {from}");
}

/// Applies an operation to both, and compares what they say.
pub fn apply<T: TestMap>(map: &T, model: &mut BTreeMap<u64, u64>, op: &Op) {
    match *op {
        Op::Insert(key, value) => {
            assert_eq!(
                map.insert(key, value),
                Ok(model.insert(key, value)),
                "{key}"
            );
        }
        Op::Update(key, value) => {
            let before = model.get_mut(&key).map(|v| std::mem::replace(v, value));
            assert_eq!(map.update(key, value), before, "{key}");
        }
        Op::CompareAndSet(key, hit, new) => {
            let now = model.get(&key).copied();
            let expected = now.unwrap_or(7).wrapping_add(u64::from(!hit));
            let outcome = if hit && now.is_some() {
                model.insert(key, new);
                Ok(())
            } else {
                Err(now)
            };
            assert_eq!(map.compare_and_set(key, expected, new), outcome, "{key}");
        }
        Op::Remove(key) => assert_eq!(map.remove(key), model.remove(&key), "{key}"),
        Op::Get(key) => assert_eq!(map.get(key), model.get(&key).copied(), "{key}"),
        Op::GetMany(ref keys) => {
            let mut values = vec![Some(1); keys.len()];
            map.get_many(keys, &mut values);
            let expected = keys.iter().map(|key| model.get(key).copied());
            assert_eq!(values, expected.collect::<Vec<_>>(), "{keys:?}");
        }
        Op::Range(bounds, ref turns) => range(map, model, bounds, turns),
        Op::Scan(from, limit) => scan(map, model, from, limit),
        Op::BulkLoad(from, count, gap) => {
            let keys = (0..count).map_while(|step| from.checked_add(step * gap));
            let records: Vec<_> = keys.map(|key| (key, key ^ gap)).collect();
            assert_eq!(map.bulk_load(records.iter().copied()), Ok(records.len()));
            model.extend(records);
        }
        Op::RemoveRun(from, count) => {
            for key in (0..count).map_while(|step| from.checked_add(step)) {
                assert_eq!(map.remove(key), model.remove(&key), "{key}");
            }
        }
        Op::PopFirst => assert_eq!(map.pop_first(), model.pop_first()),
        Op::PopLast => assert_eq!(map.pop_last(), model.pop_last()),
        Op::Clear => {
            map.clear();
            model.clear();
        }
        Op::Promote(key) => {
            map.placed().promote_path(T::leaf_of(key).key);
        }
        Op::Demote(key, height) => {
            let (leaf, placed) = (T::leaf_of(key), map.placed());
            placed.demote(&names::above(&*placed, leaf, height));
        }
        Op::DemoteSubtree(key, height) => {
            let (leaf, placed) = (T::leaf_of(key), map.placed());
            placed.demote_subtree(&names::above(&*placed, leaf, height));
        }
        Op::Ask(key, question, choice) => {
            let mut draw = Draw::new(choice, 0);
            asks::ask(&*map.placed(), T::leaf_of(key), question.into(), &mut draw);
        }
        Op::Reclaim => map.placed().reclaim(),
    }
}

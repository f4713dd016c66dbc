//! Operations on a map over byte strings as data, and what each does to a map and to the standard
//! library's.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use timberline_tier::TierId;

use super::map::ByteMap;
use crate::suite::draw::Draw;
use crate::suite::placing::Placing;
use crate::suite::{asks, check, names};

/// What a map should contain.
pub type Model = BTreeMap<Vec<u8>, u64>;
type OwnedBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    Insert(Vec<u8>, u64),
    Update(Vec<u8>, u64),
    /// Adds three to what is there.
    Upsert(Vec<u8>),
    /// Inserts these in order.
    BulkLoad(Model),
    Remove(Vec<u8>),
    Get(Vec<u8>),
    GetMany(Vec<Vec<u8>>),
    PopFirst,
    PopLast,
    /// Takes from the front (true) and the back in this order, then the rest.
    Range(OwnedBounds, Vec<bool>),
    /// Both ways.
    Prefix(Vec<u8>),
    /// What comes from here on, after this many records of all.
    Seek(usize, Vec<u8>),
    Scan(Vec<u8>, usize),
    Clear,
    Promote(Vec<u8>),
    /// The node this many steps above the leaf.
    Demote(Vec<u8>, u8),
    DemoteSubtree(Vec<u8>, u8),
    /// Something of what placements may call: the call, and what else there is to choose.
    Ask(Vec<u8>, u8, u64),
    Reclaim,
}

impl Op {
    /// Moves a node, if that is what it does.
    pub fn move_node<T: ByteMap>(&self, map: &T) {
        let placed = map.placed();
        match self {
            Op::Promote(key) => placed.promote_node(&T::leaf_of(key)),
            Op::Demote(key, height) => {
                placed.demote(&names::above(&*placed, T::leaf_of(key), *height))
            }
            Op::DemoteSubtree(key, height) => {
                placed.demote_subtree(&names::above(&*placed, T::leaf_of(key), *height))
            }
            _ => return,
        };
    }
}

fn within((low, high): &OwnedBounds, key: &Vec<u8>) -> bool {
    let above = match low {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    };
    above
        && match high {
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
            Bound::Unbounded => true,
        }
}

/// A record of the model as a map shows it.
fn shown((key, &value): (&Vec<u8>, &u64)) -> (Vec<u8>, u64) {
    (key.clone(), value)
}

fn range<T: ByteMap>(map: &T, model: &Model, bounds: &OwnedBounds, turns: &[bool]) {
    let expected = model.iter().filter(|(key, _)| within(bounds, key));
    let mut expected = expected.map(shown);
    let low = bounds.0.as_ref().map(Vec::as_slice);
    let mut range = map.range((low, bounds.1.as_ref().map(Vec::as_slice)));
    for &front in turns {
        if front {
            assert_eq!(range.next(), expected.next(), "{bounds:?}");
        } else {
            assert_eq!(range.next_back(), expected.next_back(), "{bounds:?}");
        }
    }
    assert!(range.eq(expected), "the rest of {bounds:?}");
}

fn scan<T: ByteMap>(map: &T, model: &Model, from: &[u8], limit: usize) {
    let mut seen = Vec::new();
    let count = map.scan(from, limit, |key, value| {
        seen.push((key.to_vec(), value));
        ControlFlow::Continue(())
    });
    let expected = model.range(from.to_vec()..).map(shown).take(limit);
    assert_eq!(seen, expected.collect::<Vec<_>>(), "{from:?}");
    assert_eq!(count, seen.len());
    let values = seen.into_iter().map(|(_, value)| value);
    assert!(map.values_from(from, limit).into_iter().eq(values));
}

/// Applies an operation to both, and compares what they say.
pub fn apply<T: ByteMap>(map: &T, model: &mut Model, op: &Op) {
    match op {
        Op::Insert(key, value) => {
            let before = model.insert(key.clone(), *value);
            assert_eq!(map.insert(key, *value), Ok(before), "{op:?}");
        }
        Op::Update(key, value) => {
            let now = model.get_mut(key);
            let before = now.map(|now| std::mem::replace(now, *value));
            assert_eq!(map.update(key, *value), before, "{op:?}");
        }
        Op::Upsert(key) => {
            let now = model.entry(key.clone()).or_insert(0);
            *now = now.wrapping_add(3);
            let after = map.upsert_with(key, |now| now.map_or(3, |now| now.wrapping_add(3)));
            assert_eq!(after, Ok(*now), "{op:?}");
        }
        Op::BulkLoad(records) => {
            let sorted: Vec<_> = records.iter().map(shown).collect();
            assert_eq!(map.bulk_load(&sorted), Ok(sorted.len()), "{op:?}");
            model.extend(sorted);
        }
        Op::Remove(key) => assert_eq!(map.remove(key), model.remove(key), "{op:?}"),
        Op::Get(key) => assert_eq!(map.get(key), model.get(key).copied(), "{op:?}"),
        Op::GetMany(keys) => {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let mut values = vec![Some(7); keys.len()];
            map.get_many(&keys, &mut values);
            let singly = keys.iter().map(|&key| model.get(key).copied());
            assert!(values.into_iter().eq(singly), "{op:?}");
        }
        Op::PopFirst => assert_eq!(map.pop_first(), model.pop_first()),
        Op::PopLast => assert_eq!(map.pop_last(), model.pop_last()),
        Op::Range(bounds, turns) => range(map, model, bounds, turns),
        Op::Prefix(prefix) => {
            let expected = model.iter().filter(|(key, _)| key.starts_with(prefix));
            let expected = expected.map(shown);
            assert!(map.prefix(prefix).eq(expected.clone()), "{op:?}");
            assert!(map.prefix(prefix).rev().eq(expected.rev()), "{op:?}");
        }
        Op::Seek(taken, key) => {
            let rest = model.iter().skip(*taken).filter(|(it, _)| *it >= key);
            assert!(
                map.after_seek(*taken, key).into_iter().eq(rest.map(shown)),
                "{op:?}"
            );
        }
        Op::Scan(from, limit) => scan(map, model, from, *limit),
        Op::Clear => {
            map.clear();
            model.clear();
        }
        Op::Promote(_) | Op::Demote(..) | Op::DemoteSubtree(..) => op.move_node(map),
        Op::Ask(key, question, choice) => {
            let mut draw = Draw::new(*choice, 0);
            let question = (*question).into();
            asks::ask(&*map.placed(), T::leaf_of(key), question, &mut draw);
        }
        Op::Reclaim => map.placed().reclaim(),
    }
}

/// All records, in order.
pub fn all<T: ByteMap>(map: &T) -> impl DoubleEndedIterator<Item = (Vec<u8>, u64)> {
    map.range((Bound::Unbounded, Bound::Unbounded))
}

/// The map's content, seen every way, is the model's.
pub fn same<T: ByteMap>(map: &T, model: &Model) {
    let expected: Vec<_> = model.clone().into_iter().collect();
    assert!(all(map).eq(expected.iter().cloned()), "forward");
    assert!(
        all(map).rev().eq(expected.iter().rev().cloned()),
        "backward"
    );
    assert_eq!(map.len(), expected.len());
    assert_eq!(map.first(), expected.first().cloned());
    assert_eq!(map.last(), expected.last().cloned());
    for (key, value) in model {
        assert_eq!(map.get(key), Some(*value), "{}", key.escape_ascii());
    }
}

/// The leaves are the records, each found by its address, and nothing leaked. Then everything is
/// removed.
pub fn ends_well<T: ByteMap>(map: &T, model: &Model, placing: &Placing) {
    same(map, model);
    if let Some(settle) = &placing.settle {
        settle(&*map.placed());
        assert_eq!(map.stats().above_boundary, 0);
    }
    let placed = map.placed();
    placed.each_leaf(&[], &mut |leaf| {
        let fence = leaf.fence.to_bytes();
        assert_eq!(placed.fence_at(leaf.address), Some(fence));
        ControlFlow::Continue(())
    });
    let used = || {
        let arenas = map.arenas();
        (0..arenas.tiers())
            .map(|tier| arenas.used(TierId(tier as u8)))
            .sum::<usize>()
    };
    check::reclaim_until(&*map.placed(), "nodes of no map", || {
        used() == map.stats().bytes_in_nodes
    });
    map.clear();
    assert_eq!((map.len(), all(map).next()), (0, None));
    asks::ask_all(&*placed, &T::leaf_of(b""), &mut Draw::new(0, 0));
    check::reclaim_until(&*map.placed(), "all nodes", || {
        used() == map.stats().bytes_in_nodes
    });
}

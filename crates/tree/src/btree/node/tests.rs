//! Entries come and go; those that are not there look so.

use super::*;
use crate::btree::{NODE_1K, NODE_256};

type Small = Body<NODE_256>;
type LockedSmall = LockedNode<'static, NODE_256>;

fn node<const WORDS: usize>(keys: Range<u64>) -> LockedNode<'static, WORDS> {
    let node = Versioned::new(Body {
        count: AtomicU8::new(0),
        height: AtomicU8::new(0),
        heat: AtomicU16::new(0),
        layer: AtomicU32::new(0),
        lower: AtomicU64::new(0),
        upper: AtomicU64::new(0),
        words: std::array::from_fn(|_| AtomicU64::new(0)),
    });
    let node = Box::leak(Box::new(node)).lock().expect("not retired");
    node.reset(0, 0, 0, u64::MAX);
    keys.for_each(|key| node.push_word(key, !key));
    node
}

/// Asserts that it has these records, and empty entries after them.
#[track_caller]
fn assert_holds(node: &Small, keys: Range<u64>) {
    let records: Vec<_> = keys.map(|key| (key, !key)).collect();
    assert_eq!(node.entries(0..usize::MAX).collect::<Vec<_>>(), records);
    let empty = &node.words[records.len()..Small::CAPACITY];
    assert!(empty.iter().all(|key| key.load(Relaxed) == EMPTY));
}

#[test]
fn entries_that_go_leave_empty_ones() {
    let (left, right): (LockedSmall, LockedSmall) = (node(0..10), node(10..13));
    left.move_tail(6, &right);
    assert_holds(&left, 0..6);
    assert_holds(&right, 6..13);
    right.move_head(5, &left);
    assert_holds(&left, 0..11);
    assert_holds(&right, 11..13);
    right.remove_entry(0);
    assert_holds(&right, 12..13);
    left.remove_entry(10);
    left.insert(10, 10, !10);
    assert_holds(&left, 0..11);
    left.copy_from(&right);
    assert_holds(&left, 12..13);
}

#[test]
fn the_greatest_key_is_told_from_empty_entries() {
    for search in Search::all() {
        let node: LockedSmall = node(5..9);
        assert_eq!(node.find(search, EMPTY), Err(4));
        assert_eq!(node.child_for(search, EMPTY), 3);
        node.push_word(EMPTY, 0);
        assert_eq!(node.find(search, EMPTY).map(Hit::index), Ok(4));
        assert_eq!(node.child_for(search, EMPTY), 4);
        assert_eq!(node.child_for(search, EMPTY - 1), 3);
    }
    let large: LockedNode<'static, NODE_1K> = node(4..7);
    assert_eq!(large.find_near(Search::detect(), EMPTY, 0), None);
    let near = large.find_near(Search::detect(), 6, 0);
    assert_eq!(near.map(Hit::index), Some(2));
}

/// A thread that asks before the node is locked may see one that others have emptied: found by
/// AddressSanitizer's slow threads.
#[test]
fn an_empty_node_has_a_split_point_too() {
    assert_eq!(node::<NODE_256>(0..0).split_point(7).0, 0);
    assert_eq!(node::<NODE_256>(0..10).split_point(10), (10, 10));
    assert_eq!(node::<NODE_256>(0..10).split_point(3), (5, 5));
}

//! Removing all records of a map, whatever others insert meanwhile.

use std::ops::{Bound, ControlFlow};

use crate::range::{Ordered, Way};

/// Keys that are looked up at once.
pub(crate) const GROUP: usize = 64;

/// Removes the records up to `last`, the greatest key when this begins, in ascending order. `next`
/// appends up to [`GROUP`] keys behind one to a list, or the first ones.
///
/// Every record that is there throughout is removed. One that is inserted meanwhile stays if its
/// key is passed already, or greater than `last`: so this ends, also where others insert faster
/// than it removes.
pub(crate) fn clear<K: Ord>(
    last: Option<K>,
    mut next: impl FnMut(Option<&K>, &mut Vec<K>),
    mut remove: impl FnMut(&K),
) {
    let Some(last) = last else { return };
    let (mut keys, mut passed) = (Vec::with_capacity(GROUP), None);
    while passed.as_ref() < Some(&last) {
        next(passed.as_ref(), &mut keys);
        keys.iter()
            .take_while(|key| **key <= last)
            .for_each(&mut remove);
        passed = keys.pop();
        keys.clear();
        if passed.is_none() {
            return;
        }
    }
}

/// The same where keys are strings. `remove` removes one.
pub(crate) fn clear_ordered(tree: &impl Ordered, remove: impl FnMut(&Vec<u8>)) {
    let append = |way, from: Bound<&[u8]>, limit, keys: &mut Vec<Vec<u8>>| {
        tree.walk(way, from, limit, |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        });
    };
    let mut last = Vec::new();
    append(Way::Backward, Bound::Unbounded, 1, &mut last);
    let next = |passed: Option<&Vec<u8>>, keys: &mut Vec<Vec<u8>>| {
        let from = passed.map_or(Bound::Unbounded, |passed| Bound::Excluded(&passed[..]));
        append(Way::Forward, from, GROUP, keys);
    };
    clear(last.pop(), next, remove);
}

//! Records that were found together, and are changed one by one without a second search.

use std::borrow::Borrow;

use timberline_tier::Memory;

use super::find::Cursor;
use super::node::{Leaf, Reach};
use super::tree::Tree;
use crate::Key;
use crate::map::{Held, Map};
use crate::traverse::DEPTH;
use crate::value::{Word, owned};

/// Where a record was found.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'h>(Leaf<'h>);

impl<K: Key + ?Sized, M: Memory, R: Reach> Map<Tree<M, R>, K, u64> {
    /// As [`get_many`](Self::get_many), with the place of each record, for
    /// [`get_at`](Self::get_at) and [`update_at`](Self::update_at); a record that shares a
    /// node with others has none.
    ///
    /// ```
    /// use timberline_tree::Art;
    ///
    /// let map: Art<str, u64> = [("pea", 1), ("pear", 2)].into();
    /// let held = map.hold();
    /// let mut found = [None; 3];
    /// map.find_many(&held, &["pea", "plum", "pear"], &mut found);
    /// let [Some((1, Some(pea))), None, Some((2, Some(pear)))] = found else {
    ///     panic!("two are there");
    /// };
    /// map.remove("pear");
    /// assert_eq!(map.update_at(pea, "pea", 7), Some(1));
    /// assert_eq!(map.get_at(pea, "pea"), Some(7));
    /// assert_eq!(map.update_at(pear, "pear", 8), None);
    /// assert_eq!(map.get_at(pear, "pear"), None);
    /// assert_eq!((map.get("pea"), map.get("pear")), (Some(7), None));
    /// # Ok::<(), timberline_tree::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the slices differ in length, or `held` is another map's.
    pub fn find_many<'h, Q: Borrow<K::Borrowed>>(
        &'h self,
        held: &'h Held<'_>,
        keys: &[Q],
        found: &mut [Option<(u64, Option<Spot<'h>>)>],
    ) {
        assert_eq!(keys.len(), found.len(), "a place for each key");
        let tree: &Tree<M, R> = &self.tree;
        let guard = held.guard(&tree.store);
        if M::CHARGES {
            return tree.get_each::<Word, _>(bytes_of::<K, Q>(keys), DEPTH, |at, loan| {
                found[at] = loan.map(|loan| (loan.word(), None));
            });
        }
        tree.find_each(guard, bytes_of::<K, Q>(keys), DEPTH, |at, cursor| {
            found[at] = cursor.and_then(|cursor| {
                let spot = match cursor {
                    Cursor::Leaf(leaf) => Some(Spot(leaf)),
                    Cursor::InPack(..) | Cursor::InDense(..) => None,
                };
                Some((tree.read(cursor, guard)?.word(), spot))
            });
        });
    }

    /// As [`get`](Self::get) of a record that was found there; `None` if it was removed or moved
    /// since, or is another one.
    pub fn get_at(&self, spot: Spot<'_>, key: &K::Borrowed) -> Option<u64> {
        let Spot(leaf) = spot;
        let value = leaf.value().word();
        // It stays obsolete, so it was not when its value was read.
        let is_there = !leaf.is_obsolete() && leaf.key() == key.to_bytes().as_ref();
        is_there.then_some(value)
    }

    /// As [`update`](Self::update) of a record that was found there; `None` if it was removed or
    /// moved since, or is another one. Then nothing is changed.
    pub fn update_at(&self, spot: Spot<'_>, key: &K::Borrowed, value: u64) -> Option<u64> {
        let Spot(leaf) = spot;
        if leaf.key() != key.to_bytes().as_ref() {
            return None;
        }
        let tree: &Tree<M, R> = &self.tree;
        let guard = tree.store.pin();
        let mut change = <Word as crate::value::Represent>::setting(&tree.store, value, |_| true);
        let before = tree.change(leaf, &mut change, &guard).ok()?;
        Some(owned(tree.memory(), before))
    }
}

fn bytes_of<'q, K: Key + ?Sized + 'q, Q: Borrow<K::Borrowed>>(
    keys: &'q [Q],
) -> impl Iterator<Item = impl AsRef<[u8]> + 'q>
where
    K::Borrowed: 'q,
{
    keys.iter().map(|key| key.borrow().to_bytes())
}

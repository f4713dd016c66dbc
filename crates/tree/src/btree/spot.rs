//! Records of byte strings that were found together, and are changed one by one without a second
//! search. Those of words share nodes that are searched as fast.

use std::borrow::Borrow;

use timberline_tier::Memory;

use super::choice::{Choice, Chosen};
use crate::Key;
use crate::map::{Core, Held, Map};
pub use crate::strings::Spot;
use crate::value::Word;

impl<K: Key + ?Sized, M: Memory, const WORDS: usize> Map<Choice<K, M, WORDS, Word>, K, u64> {
    /// As [`get_many`](Self::get_many), with the place of each record, for
    /// [`get_at`](Self::get_at) and [`update_at`](Self::update_at); keys that are words have none,
    /// nor have records in emulated memory.
    ///
    /// ```
    /// use timberline_tree::BTree;
    ///
    /// let map: BTree<str, u64> = [("pea", 1), ("pear", 2)].into();
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
        found: &mut [Option<(u64, Option<Spot<'h, WORDS>>)>],
    ) {
        assert_eq!(keys.len(), found.len(), "a place for each key");
        let guard = held.guard(Core::<K, u64>::store(&*self.tree));
        match self.tree.chosen() {
            Chosen::Strings(tree) if !M::CHARGES => {
                let bytes = keys.iter().map(|key| key.borrow().to_bytes());
                tree.find_each(guard, bytes, |at, record| {
                    found[at] = record.map(|(value, spot)| (value, Some(spot)));
                });
            }
            _ => {
                let mut values = vec![None; keys.len()];
                self.get_many(keys, &mut values);
                for (found, value) in found.iter_mut().zip(values) {
                    *found = value.map(|value| (value, None));
                }
            }
        }
    }

    /// As [`get`](Self::get) of a record that was found there; `None` if it was removed, or is
    /// elsewhere by now.
    pub fn get_at(&self, spot: Spot<'_, WORDS>, key: &K::Borrowed) -> Option<u64> {
        match self.tree.chosen() {
            Chosen::Strings(tree) => tree.get_at(spot, key.to_bytes().as_ref()),
            Chosen::Words(_) => None,
        }
    }

    /// As [`update`](Self::update) of a record that was found there; `None` if it was removed, or
    /// is elsewhere by now. Then nothing is changed.
    pub fn update_at(&self, spot: Spot<'_, WORDS>, key: &K::Borrowed, value: u64) -> Option<u64> {
        match self.tree.chosen() {
            Chosen::Strings(tree) => tree.update_at(spot, key.to_bytes().as_ref(), value),
            Chosen::Words(_) => None,
        }
    }
}

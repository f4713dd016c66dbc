//! Records that were found together, and are read and changed one by one without a second search.

use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::get::{Found, Search, in_groups};
use super::node::{LeafView, Link, Page, Sought};
use super::tree::Tree;
use crate::traverse::{DEPTH, interleave};
use crate::value::Word;

/// Where a record was found: in which leaf, and where in it. Leaves are rewritten, and records move
/// in them, so it is compared with a key before it is used.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'h, const WORDS: usize> {
    leaf: Link<'h, WORDS>,
    index: usize,
}

impl<'h, const WORDS: usize> Spot<'h, WORDS> {
    /// The leaf as it is now; one that is retired has no records.
    fn leaf(self) -> Option<LeafView<'h, WORDS>> {
        self.leaf.read().ok()?.leaf()
    }
}

impl<M: Memory, const WORDS: usize> Tree<M, WORDS, Word> {
    /// Passes the position, the value and the place of each key to `found`.
    pub fn find_each<'g, B: AsRef<[u8]>>(
        &'g self,
        guard: &'g Guard<'g>,
        keys: impl Iterator<Item = B>,
        mut found: impl FnMut(usize, Option<(u64, Spot<'g, WORDS>)>),
    ) {
        in_groups(keys, |first, group| {
            let searches = group
                .iter()
                .map(|key| Search::new(self, key.as_ref(), guard, guard));
            interleave(DEPTH, searches, |at, record| {
                let place = |Found { leaf, index, value }: Found<'g, WORDS>| {
                    let leaf = leaf.link();
                    (value.word(), Spot { leaf, index })
                };
                found(first + at, record.map(place));
            });
        });
    }

    /// The value of a record that was found there; `None` if it is elsewhere by now.
    pub fn get_at(&self, spot: Spot<'_, WORDS>, key: &[u8]) -> Option<u64> {
        let key = Sought::new(key);
        self.retry(|| {
            let Some(leaf) = spot.leaf() else {
                return Ok(None);
            };
            let found = leaf.lend_at(spot.index, key, self.memory())?;
            Ok(found.map(|value| value.word()))
        })
    }

    /// Replaces the value of a record that was found there. Returns the one before; `None` if it is
    /// elsewhere by now.
    pub fn update_at(&self, spot: Spot<'_, WORDS>, key: &[u8], value: u64) -> Option<u64> {
        let (key, guard) = (Sought::new(key), self.store.pin());
        self.retry(|| {
            let Some(leaf) = spot.leaf() else {
                return Ok(None);
            };
            let Some(before) = leaf.lend_at(spot.index, key, self.memory())? else {
                return Ok(None);
            };
            let held = leaf.upgrade()?;
            let replaced = Page::replace_value(&held, spot.index, value);
            self.reclaim_value(replaced, &guard);
            self.note_unlocked(held, leaf, Access::Reuse, &guard);
            Ok(Some(before.word()))
        })
    }
}

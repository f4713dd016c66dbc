//! Records that were found together, and are read and changed one by one without a second search.

use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::get::Search;
use super::node::{Link, Page, Sought};
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

impl<M: Memory, const WORDS: usize> Tree<M, WORDS, Word> {
    /// Passes the position, the value and the place of each key to `found`.
    pub fn find_each<'g, 'k>(
        &'g self,
        guard: &'g Guard<'g>,
        keys: impl Iterator<Item = &'k [u8]>,
        mut found: impl FnMut(usize, Option<(u64, Spot<'g, WORDS>)>),
    ) {
        let searches = keys.map(|key| Search::new(self, key, guard, guard));
        interleave(DEPTH, searches, |at, record| {
            let spot = |it: super::get::Found<'g, WORDS>| Spot {
                leaf: it.leaf.link(),
                index: it.index,
            };
            found(at, record.map(|it| (it.value.word(), spot(it))));
        });
    }

    /// The value of a record that was found there; `None` if it is elsewhere by now.
    pub fn get_at(&self, spot: Spot<'_, WORDS>, key: &[u8]) -> Option<u64> {
        let key = Sought::new(key);
        loop {
            // A leaf that is retired has no records.
            let leaf = spot.leaf.read().ok()?.leaf()?;
            if let Ok(value) = leaf.lend_at(spot.index, key, self.memory()) {
                return value.map(|it| it.word());
            }
        }
    }

    /// Replaces the value of a record that was found there. Returns the one before; `None` if it is
    /// elsewhere by now.
    pub fn update_at(&self, spot: Spot<'_, WORDS>, key: &[u8], value: u64) -> Option<u64> {
        let (key, guard) = (Sought::new(key), self.store.pin());
        loop {
            let leaf = spot.leaf.read().ok()?.leaf()?;
            let Ok(present) = leaf.lend_at(spot.index, key, self.memory()) else {
                continue;
            };
            let before = present?.word();
            if let Ok(held) = leaf.upgrade() {
                let replaced = Page::replace_value(&held, spot.index, value);
                self.reclaim_value(replaced, &guard);
                self.note_unlocked(held, leaf, Access::Reuse, &guard);
                return Some(before);
            }
        }
    }
}

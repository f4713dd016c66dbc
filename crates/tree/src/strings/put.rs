//! Inserting a record, or replacing its value.

use timberline_placement::Access;
use timberline_sync::epoch::Guard;
use timberline_tier::{Memory, TierId, hint};

use super::find::NodeName;
use super::node::{LongKeys, Page, Sought};
use super::split::Halves;
use super::tree::Tree;
use crate::abort::{Abort, attempt};
use crate::error::Refused;
use crate::value::{Change, Loan, Represent};

enum Put<R> {
    /// The result of `out` for the old value.
    Done(Option<R>),
    /// The leaf is full.
    Full,
}

/// The block of a key that is too long for its leaf, in a tier.
struct Prepared<'t> {
    keys: LongKeys<'t>,
    tier: Option<TierId>,
}

impl<M: Memory, const WORDS: usize, H: Represent> Tree<M, WORDS, H> {
    /// Inserts or replaces a record atomically: `change` computes the new value from the old one.
    /// Returns `out` of the old value.
    #[inline]
    pub(super) fn upsert<R>(
        &self,
        key: &[u8],
        mut change: impl Change,
        mut out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        let key = Sought::new(key);
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            let mut prepared = Prepared {
                keys: LongKeys::none(),
                tier: None,
            };
            loop {
                let put = || self.put::<true, _, _>(key, change, &mut out, &mut prepared, &guard);
                match attempt(put)? {
                    Put::Done(before) => return Ok(before),
                    Put::Full => {
                        self.make_room(NodeName::leaf(key.bytes), Halves::Even, &guard)?;
                    }
                }
            }
        })
    }

    /// Replaces a present record's value by `change` of it, atomically. Returns what `out` makes of
    /// the value before.
    #[inline]
    pub(super) fn modify<R>(
        &self,
        key: &[u8],
        mut change: impl Change,
        mut out: impl FnMut(Loan<'_>) -> R,
    ) -> Result<Option<R>, Refused> {
        let key = Sought::new(key);
        self.store.reclaiming(&mut change, |change| {
            let guard = self.store.pin();
            let mut prepared = Prepared {
                keys: LongKeys::none(),
                tier: None,
            };
            let put = || self.put::<false, _, _>(key, change, &mut out, &mut prepared, &guard);
            match attempt(put)? {
                Put::Done(before) => Ok(before),
                Put::Full => unreachable!("nothing is inserted"),
            }
        })
    }

    #[inline(always)]
    fn put<'t, const INSERTS: bool, R, C: Change>(
        &'t self,
        key: Sought<'_>,
        change: &mut C,
        out: &mut impl FnMut(Loan<'_>) -> R,
        prepared: &mut Prepared<'t>,
        guard: &Guard,
    ) -> Result<Put<R>, Abort> {
        let (leaf, memory) = (self.leaf(key.bytes, guard), self.memory());
        self.charge_leaf(&leaf);
        let found = match leaf.find(key, memory)? {
            Some(index) => Ok(index),
            None if !INSERTS => return Ok(Put::Done(None)),
            None => {
                // What follows moves most of the leaf.
                hint::prefetch_lines(leaf.address(), Self::BYTES / hint::LINE);
                Err(leaf.rank(key.bytes, memory)?)
            }
        };
        let tier = self.tier_at(leaf.address());
        if found.is_err() {
            let bytes = key.bytes;
            let (has_room, is_long) =
                leaf.get(|page| (page.has_room_for(bytes), page.needs_block(bytes)))?;
            if !has_room {
                return Ok(Put::Full);
            }
            if is_long && prepared.tier != Some(tier) {
                prepared.keys = LongKeys::of::<WORDS>(&self.store, bytes, 1, tier)?;
                prepared.tier = Some(tier);
            }
        }
        if C::PREPARES {
            let seen = found.ok().map(|index| leaf.value(index)).transpose()?;
            change.prepare(seen, tier)?;
        }
        let held = leaf.upgrade()?;
        if let Ok(index) | Err(index) = found
            && M::CHARGES
        {
            let (_, payloads, entry) = held.places(index);
            memory.charge_lines(leaf.address() + payloads + 8 * index, 8);
            memory.charge_lines(leaf.address() + entry, 1);
        }
        let before = found.ok().map(|index| Page::value(&held, index));
        let Some(after) = change.change(before) else {
            held.unchanged();
            return Ok(Put::Done(before.map(out)));
        };
        let access = match found {
            Ok(index) => {
                let replaced = Page::replace_value(&held, index, after);
                self.reclaim_value(replaced, guard);
                Access::Reuse
            }
            Err(index) => {
                Page::insert_record(&held, index, key, after, &mut prepared.keys);
                self.store.count(1);
                Access::Insert
            }
        };
        self.note_unlocked(held, leaf, access, guard);
        Ok(Put::Done(before.map(out)))
    }
}

//! Dividing entries between neighbours: sharing, merges, and what they have in common with splits
//! (`cut.rs`). What a neighbour gets is planned without a lock, and then done under the locks of
//! both and of their parent, if neither changed.

use std::ops::Range;

use timberline_sync::Restart;
use timberline_tier::{Memory, TierId};

use super::text::separator;
use super::{LONG, LockedNode, Long, LongKeys, Page, SLOT, Text, Unlinked, View, slots};
use crate::key::common;
use crate::store::Store;

/// A plan for two neighbours to share entries: how many go, and the fence between them then.
pub struct Shares {
    /// Entries from this one on go from the left to the right, or up to it the other way.
    border: Border,
    /// The lower fence of the right one.
    pub key: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Border {
    InLeft(usize),
    InRight(usize),
}

/// Both fences of a locked node, with their blocks.
pub(super) struct Ends {
    lower: (Vec<u8>, u64),
    upper: Option<(Vec<u8>, u64)>,
}

impl Ends {
    pub(super) fn of<const WORDS: usize>(
        node: &LockedNode<'_, WORDS>,
        memory: &impl Memory,
    ) -> Self {
        let open = Long(memory).in_locked(node);
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        let read = node.lower(&mut lower, &open);
        let is_there = read.and_then(|()| node.upper(&mut upper, &open));
        let is_there = is_there.expect("a locked node does not change");
        let fences = node.fences();
        let lower = (lower, node.block_at(fences.lower));
        let upper = is_there.then(|| (upper, node.block_at(fences.upper)));
        Ends { lower, upper }
    }

    pub(super) fn lower(&self) -> Text<'_> {
        let (bytes, block) = &self.lower;
        Text {
            bytes,
            block: *block,
        }
    }

    pub(super) fn upper(&self) -> Option<Text<'_>> {
        let (bytes, block) = self.upper.as_ref()?;
        Some(Text {
            bytes,
            block: *block,
        })
    }
}

impl<const WORDS: usize> Page<WORDS> {
    /// The word of the block of a fence at an offset; 0 is none.
    pub(super) fn block_at(&self, at: usize) -> u64 {
        match at != 0 && self.tag(at) == LONG {
            true => self.long_word(at),
            false => 0,
        }
    }

    /// Bytes in the heap of some entries, if the prefix had so many bytes; `None` where a key would
    /// need a block that it has not.
    pub(super) fn heap_of(&self, entries: Range<usize>, prefix: usize) -> Option<usize> {
        let (cap, now) = (self.shape().cap, self.fences().prefix);
        let mut bytes = 0;
        for index in entries {
            let (rest, has_block) = self.rest_beyond(cap, now, index, prefix);
            if rest > Self::INLINE && !has_block {
                return None;
            }
            bytes += self.heap_for_key(rest, has_block);
        }
        Some(bytes)
    }

    /// The same, with a block for each key that needs one.
    fn heap_with_blocks(&self, entries: Range<usize>, prefix: usize) -> usize {
        let (cap, now) = (self.shape().cap, self.fences().prefix);
        let bytes = |index| {
            let (rest, has_block) = self.rest_beyond(cap, now, index, prefix);
            self.heap_for_key(rest, has_block)
        };
        entries.map(bytes).sum()
    }

    /// The length of an entry's key beyond a prefix of so many bytes, and whether it has a block,
    /// in a page with so many slots and the prefix that it has now.
    #[inline(always)]
    fn rest_beyond(&self, cap: usize, now: usize, index: usize, prefix: usize) -> (usize, bool) {
        let at = self.offset(cap, index);
        let (len, has_block) = match self.tag(at) {
            LONG => (super::long::len(self.long_word(at)), true),
            len => (usize::from(len) + now, false),
        };
        (len.saturating_sub(prefix), has_block)
    }

    /// Whether the key of an entry would need a block if the prefix had so many bytes, and has
    /// none.
    fn outgrows(&self, index: usize, prefix: usize) -> bool {
        let (cap, now) = (self.shape().cap, self.fences().prefix);
        let (rest, has_block) = self.rest_beyond(cap, now, index, prefix);
        rest > Self::INLINE && !has_block
    }

    /// The number of entries whose bytes are half of all.
    pub(super) fn half(&self) -> usize {
        let count = self.count();
        let size = |index| SLOT + self.entry_bytes(index);
        let all = (0..count).map(size).sum::<usize>();
        let (mut bytes, mut middle) = (0, 0);
        while middle + 1 < count && (bytes < all / 2 || middle == 0) {
            bytes += size(middle);
            middle += 1;
        }
        middle
    }
}

/// Bytes of two fences.
pub(super) fn fences<const WORDS: usize>(lower: &[u8], upper: Option<&[u8]>) -> usize {
    let bytes = |fence: &[u8]| Page::<WORDS>::heap_for_fence(fence.len());
    bytes(lower) + upper.map_or(0, bytes)
}

impl Shares {
    /// How a full node and its neighbour can share, so that both have room. `None` if they can't,
    /// or if a key between them needs a block.
    pub fn of<const WORDS: usize>(
        left: &View<'_, WORDS>,
        right: &View<'_, WORDS>,
        memory: &impl Memory,
    ) -> Result<Option<Shares>, Restart> {
        let sizes = [left.get(Page::live)?, right.get(Page::live)?];
        let moving = sizes[0].abs_diff(sizes[1]) / 2;
        let (from, is_left) = match sizes[0] > sizes[1] {
            true => (left, true),
            false => (right, false),
        };
        let count = from.get(Page::count)?;
        let at = from.get(|page| {
            let size = |index| SLOT + page.entry_bytes(index);
            let (mut bytes, mut moved) = (0, 0);
            while bytes < moving && moved < count {
                bytes += size(match is_left {
                    true => count - 1 - moved,
                    false => moved,
                });
                moved += 1;
            }
            moved
        })?;
        let border = match is_left {
            true => count - at.min(count),
            false => at,
        };
        if border == 0 || border >= count {
            return Ok(None);
        }
        let above = from.key(border, memory)?;
        let key = match from.height() {
            0 => separator(&from.key(border - 1, memory)?, &above).to_vec(),
            _ => above,
        };
        if key.len() > Page::<WORDS>::INLINE {
            return Ok(None);
        }
        let (lower, upper) = (left.lower(memory)?, right.upper(memory)?);
        let prefixes = [
            common(&lower, &key),
            upper.as_ref().map_or(0, |upper| common(&key, upper)),
        ];
        let counts = [left.get(Page::count)?, right.get(Page::count)?];
        let heap = |side: usize, of: &View<'_, WORDS>, entries: Range<usize>| {
            of.get(|page| page.heap_of(entries.clone(), prefixes[side]))
        };
        let (in_left, in_right, left_count) = match is_left {
            true => {
                let stays = heap(0, left, 0..border)?;
                let (goes, theirs) = (heap(1, left, border..count)?, heap(1, right, 0..counts[1])?);
                (stays, goes.zip(theirs).map(|(a, b)| a + b), border)
            }
            false => {
                let (theirs, goes) = (heap(0, left, 0..counts[0])?, heap(0, right, 0..border)?);
                let stays = heap(1, right, border..count)?;
                (
                    theirs.zip(goes).map(|(a, b)| a + b),
                    stays,
                    counts[0] + border,
                )
            }
        };
        let all = counts[0] + counts[1];
        let fits = |heap: Option<usize>, count: usize, fences: usize| {
            // With room for one more, whatever it is.
            let bytes = slots(count + 1) + fences + 1 + Page::<WORDS>::INLINE;
            heap.is_some_and(|heap| heap + bytes <= Page::<WORDS>::AREA)
        };
        let fit = fits(in_left, left_count, fences::<WORDS>(&lower, Some(&key)))
            && fits(
                in_right,
                all - left_count,
                fences::<WORDS>(&key, upper.as_deref()),
            );
        let border = match is_left {
            true => Border::InLeft(border),
            false => Border::InRight(border),
        };
        Ok(fit.then_some(Shares { border, key }))
    }

    /// Moves the entries, and the fence in the parent, which has room for it.
    pub fn share<const WORDS: usize>(
        &self,
        above: &LockedNode<'_, WORDS>,
        left: &LockedNode<'_, WORDS>,
        right: &LockedNode<'_, WORDS>,
        keys: &mut LongKeys<'_>,
        memory: &impl Memory,
    ) {
        let (ends, after) = (Ends::of(left, memory), Ends::of(right, memory));
        let (counts, height) = ([left.count(), right.count()], left.height());
        let (one, two) = (Page::default(), Page::default());
        let (in_left, in_right) = match self.border {
            Border::InLeft(at) => (at, 0),
            Border::InRight(at) => (counts[0], at),
        };
        let (count, key) = (in_left + in_right, Text::new(&self.key));
        one.reset(height, count + 1, ends.lower(), Some(key));
        one.append(left, 0..in_left, keys, memory);
        one.append(right, 0..in_right, keys, memory);
        let count = counts[0] + counts[1] - count;
        two.reset(height, count + 1, key, after.upper());
        two.append(left, in_left..counts[0], keys, memory);
        two.append(right, in_right..counts[1], keys, memory);
        if let Some(upper) = ends.upper() {
            keys.drop_block(upper.block);
        }
        keys.drop_block(after.lower().block);
        left.copy_words(&one);
        right.copy_words(&two);
        above.replace_key(above.index_of(right), &self.key, keys);
    }
}

impl<'g, const WORDS: usize> Page<WORDS> {
    /// The lower fence of a locked node.
    pub fn lower_of(node: &LockedNode<'g, WORDS>, memory: &impl Memory) -> Vec<u8> {
        Ends::of(node, memory).lower.0
    }

    /// A mistake for a check to find: the last entry goes, and what it led to is lost.
    pub fn lose_last(node: &LockedNode<'g, WORDS>) {
        if let Some(last) = node.count().checked_sub(1) {
            node.remove(last);
        }
    }

    /// Whether two neighbours fit one page, of which they may fill all or three quarters beside the
    /// fences.
    ///
    /// Returns the blocks for keys that need one then, in this tier.
    pub fn fit_together<'t, M: Memory>(
        one: &View<'g, WORDS>,
        two: &View<'g, WORDS>,
        all: bool,
        tier: TierId,
        store: &'t Store<M>,
    ) -> Result<Option<LongKeys<'t>>, Restart> {
        let memory = &store.memory;
        // A shorter prefix makes no key shorter.
        if one.get(Page::entries_bytes)? + two.get(Page::entries_bytes)? > Self::AREA {
            return Ok(None);
        }
        let (lower, upper) = (one.lower(memory)?, two.upper(memory)?);
        let prefix = upper.as_ref().map_or(0, |upper| common(&lower, upper));
        let fences = fences::<WORDS>(&lower, upper.as_deref());
        let (mut bytes, mut entries, mut grown) = (0, 0, Vec::new());
        for node in [one, two] {
            let (count, heap, outgrow) = node.get(|page| {
                let count = page.count();
                let outgrow = (0..count).filter(|&index| page.outgrows(index, prefix));
                let outgrow = outgrow.collect::<Vec<_>>();
                (count, page.heap_with_blocks(0..count, prefix), outgrow)
            })?;
            (bytes, entries) = (bytes + heap, entries + count);
            for index in outgrow {
                grown.push(node.key(index, memory)?);
            }
        }
        let left = Self::AREA - fences;
        let leaves_room = all || entries * SLOT + bytes <= left / 4 * 3;
        if !leaves_room || slots(entries) + bytes > left {
            return Ok(None);
        }
        // Without memory for them, nothing is merged.
        Ok(LongKeys::of_all(store, grown, tier).ok())
    }

    /// Moves all entries of two neighbours to one of them, and takes the other out of the parent.
    pub fn merge(
        above: &LockedNode<'g, WORDS>,
        [one, two]: [&LockedNode<'g, WORDS>; 2],
        into_left: bool,
        keys: &mut LongKeys<'_>,
        memory: &impl Memory,
    ) -> Unlinked<'g, WORDS> {
        let (first, second) = (Ends::of(one, memory), Ends::of(two, memory));
        let (counts, all) = ([one.count(), two.count()], Page::default());
        let count = counts[0] + counts[1];
        all.reset(one.height(), count, first.lower(), second.upper());
        all.append(one, 0..counts[0], keys, memory);
        all.append(two, 0..counts[1], keys, memory);
        if let Some(upper) = first.upper() {
            keys.drop_block(upper.block);
        }
        keys.drop_block(second.lower().block);
        let (gone, stays) = match into_left {
            true => (two, one),
            false => (one, two),
        };
        stays.copy_words(&all);
        Self::remove_child(above, gone, stays, keys)
    }
}

//! Where to split a node. What the new one gets is planned without a lock, and then done under the
//! locks of both and of their parent, if the node did not change.

use std::ops::Range;

use timberline_sync::Restart;
use timberline_tier::Memory;

use super::halves::{Ends, fences};
use super::text::separator;
use super::{Fresh, LockedNode, LongKeys, Page, View, slots};
use crate::key::common;

/// A plan to split a node.
pub struct Cut {
    /// Entries that stay.
    middle: usize,
    /// The lower fence of the new node.
    pub key: Vec<u8>,
}

impl Cut {
    /// Where to split a node, so that `key` may be inserted. If that is one of a run of ascending
    /// keys, behind all others, these stay in a full node.
    pub fn of<const WORDS: usize>(
        node: &View<'_, WORDS>,
        key: &[u8],
        is_run: bool,
        memory: &impl Memory,
    ) -> Result<Cut, Restart> {
        let (count, half) = node.get(|page| (page.count(), page.half()))?;
        if count < 2 {
            // It is not full any more.
            return Err(Restart);
        }
        let last = node.key(count - 1, memory)?;
        if is_run && key > &last[..] {
            let lower = node.lower(memory)?;
            let cut = match node.height() {
                0 => Cut {
                    middle: count,
                    key: separator(&last, key).to_vec(),
                },
                _ => Cut {
                    middle: count - 1,
                    key: last,
                },
            };
            let prefix = common(&lower, &cut.key);
            let heap = node.get(|page| page.heap_of(0..cut.middle, prefix))?;
            let around = slots(cut.middle) + fences::<WORDS>(&lower, Some(&cut.key));
            if heap.is_some_and(|heap| heap + around <= Page::<WORDS>::AREA) {
                return Ok(cut);
            }
        }
        let above = node.key(half, memory)?;
        let key = match node.height() {
            0 => separator(&node.key(half - 1, memory)?, &above).to_vec(),
            _ => above,
        };
        Ok(Cut { middle: half, key })
    }

    /// Where to split a leaf for ascending keys to come, below its upper fence: so that it just has
    /// room for those before the new one. `None` if the first does not belong behind the leaf's
    /// last key.
    pub fn of_run<'k, const WORDS: usize>(
        node: &View<'_, WORDS>,
        ahead: impl Iterator<Item = &'k [u8]>,
        memory: &impl Memory,
    ) -> Result<Option<Cut>, Restart> {
        let (count, lower) = (node.get(Page::count)?, node.lower(memory)?);
        let last = count.checked_sub(1).map(|last| node.key(last, memory));
        let last = last.transpose()?;
        let heap = |prefix| node.get(|page| page.heap_of(0..count, prefix));
        let rest = |len: &usize, prefix| Page::<WORDS>::heap_for_record(len.saturating_sub(prefix));
        // Keys that the fence may lie between: it is made of the last of these.
        let (mut before, mut fence) = (last.as_deref(), None);
        let (mut prefix, mut used, mut lens) = (lower.len(), heap(lower.len())?, Vec::new());
        // A key that may be the first behind the fence.
        for key in ahead {
            if lens.is_empty() && before.is_some_and(|last| key <= last) {
                break;
            }
            if !key.starts_with(&lower[..prefix]) {
                prefix = common(&lower, key);
                let ahead: usize = lens.iter().map(|len| rest(len, prefix)).sum();
                used = heap(prefix)?.map(|heap| heap + ahead);
            }
            // The fence is no longer than the key.
            let fence_bytes = Page::<WORDS>::most_for_fence(key.len());
            let around = slots(count + lens.len()) + fences::<WORDS>(&lower, None) + fence_bytes;
            let Some(heap) = used.filter(|heap| heap + around <= Page::<WORDS>::AREA) else {
                break;
            };
            fence = before.map(|before| (before, key)).or(fence);
            used = Some(heap + rest(&key.len(), prefix));
            lens.push(key.len());
            before = Some(key);
        }
        Ok(fence.map(|(before, key)| Cut {
            middle: count,
            key: separator(before, key).to_vec(),
        }))
    }

    /// A split before the entry at an index, for ascending keys to come that are smaller: the last
    /// of these. `None` if a half would not fit between its fences.
    pub fn behind_run<const WORDS: usize>(
        node: &View<'_, WORDS>,
        index: usize,
        last: &[u8],
        memory: &impl Memory,
    ) -> Result<Option<Cut>, Restart> {
        let (lower, first) = (node.lower(memory)?, node.key(index, memory)?);
        if last >= &first[..] {
            return Ok(None);
        }
        let (fence, upper) = (separator(last, &first), node.upper(memory)?);
        let count = node.get(Page::count)?;
        let fits = |entries: Range<usize>, lower: &[u8], upper: Option<&[u8]>| {
            let prefix = upper.map_or(0, |upper| common(lower, upper));
            let around = slots(entries.len() + 1) + fences::<WORDS>(lower, upper);
            let heap = node.get(|page| page.heap_of(entries, prefix))?;
            Ok(heap.is_some_and(|heap| heap + around <= Page::<WORDS>::AREA))
        };
        let fit =
            fits(0..index, &lower, Some(fence))? && fits(index..count, fence, upper.as_deref())?;
        let key = fence.to_vec();
        Ok(fit.then_some(Cut { middle: index, key }))
    }

    /// The blocks that a split takes: two for the fences, one for the parent.
    pub const BLOCKS: usize = 3;

    /// The first entry that goes to the new node.
    pub fn first(&self) -> usize {
        self.middle
    }

    /// Copies the right half of `left` into a new node.
    pub fn fill_right<'t, const WORDS: usize>(
        &self,
        half: &Fresh<'t, WORDS>,
        left: &LockedNode<'t, WORDS>,
        keys: &mut LongKeys<'_>,
        memory: &impl Memory,
    ) {
        let (ends, count) = (Ends::of(left, memory), left.count());
        let lower = keys.text::<WORDS>(&self.key, 0);
        half.reset(left.height(), count - self.middle + 1, lower, ends.upper());
        half.append(left, self.middle..count, keys, memory);
    }

    /// Removes the right half, which [`fill_right`](Self::fill_right) copied.
    pub fn finish<const WORDS: usize>(
        &self,
        left: &LockedNode<'_, WORDS>,
        keys: &mut LongKeys<'_>,
        memory: &impl Memory,
    ) {
        let (ends, rest) = (Ends::of(left, memory), Page::default());
        let upper = keys.text::<WORDS>(&self.key, 0);
        rest.reset(left.height(), self.middle, ends.lower(), Some(upper));
        rest.append(left, 0..self.middle, keys, memory);
        left.copy_words(&rest);
    }
}

//! Records in leaves: how their values are lent to readers, given up by writers, and copied for
//! scans.

use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use smallvec::SmallVec;
use timberline_sync::Restart;
use timberline_tier::Memory;

use super::link::LeafView;
use super::{HEADER, LockedNode, Long, LongKeys, Page, Sought};
use crate::range::Way;
use crate::value::{Loan, RetiredValue};

impl<'g, const WORDS: usize> LeafView<'g, WORDS> {
    /// The index of a key and its value.
    #[inline(always)]
    pub fn lend(
        &self,
        key: Sought<'_>,
        memory: &impl Memory,
    ) -> Result<Option<(usize, Loan<'g>)>, Restart> {
        self.lend_where(memory, |page| page.find(key, Long(memory).in_view(self)))
    }

    /// The value of the record at an index, if that has this key.
    #[inline(always)]
    pub fn lend_at(
        &self,
        index: usize,
        key: Sought<'_>,
        memory: &impl Memory,
    ) -> Result<Option<Loan<'g>>, Restart> {
        let found = self.lend_where(memory, |page| {
            let is_there = page.is_at(index, key, Long(memory).in_view(self))?;
            Ok(is_there.then_some(index))
        })?;
        Ok(found.map(|(_, value)| value))
    }

    /// The index that is found in the page, and the value there.
    #[inline(always)]
    fn lend_where(
        &self,
        memory: &impl Memory,
        find: impl FnOnce(&Page<WORDS>) -> Result<Option<usize>, Restart>,
    ) -> Result<Option<(usize, Loan<'g>)>, Restart> {
        let found = self.get(|page| {
            let value = |index: usize| {
                let (_, payloads, entry) = page.places(index);
                memory.charge_lines(self.address() + entry, 1);
                memory.charge_lines(self.address() + payloads + 8 * index, 8);
                (index, page.payload(index))
            };
            Ok(find(page)?.map(value))
        })??;
        // SAFETY: validated, so that it is the payload of a present entry.
        Ok(found.map(|(index, word)| (index, unsafe { Loan::new(word) })))
    }

    /// The value of the record at an index.
    ///
    /// # Errors
    /// There are not that many, or the leaf changed.
    #[inline(always)]
    pub fn value(&self, index: usize) -> Result<Loan<'g>, Restart> {
        let word = self.get(|page| (index < page.count()).then(|| page.payload(index)))?;
        // SAFETY: validated, so that it is the payload of a present entry.
        word.map(|word| unsafe { Loan::new(word) }).ok_or(Restart)
    }
}

/// Records of a leaf, copied at one moment.
#[derive(Default)]
pub struct Copied<'g> {
    /// What all keys begin with.
    prefix: Vec<u8>,
    /// The keys behind it, and where each ends. A key in a block has nothing there.
    rests: Vec<u8>,
    ends: Vec<usize>,
    values: SmallVec<[Loan<'g>; 64]>,
    /// The indices of keys in blocks, and their words.
    blocks: Vec<(usize, Loan<'g>)>,
}

impl<'g> Copied<'g> {
    /// The number of records.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    fn clear(&mut self) {
        let Copied {
            prefix,
            rests,
            ends,
            values,
            blocks,
        } = self;
        prefix.clear();
        rests.clear();
        ends.clear();
        values.clear();
        blocks.clear();
    }

    /// Copies up to `limit` records of a leaf, one way from a bound on, with their keys or without.
    #[inline(always)]
    pub fn copy<const WORDS: usize>(
        &mut self,
        leaf: &LeafView<'g, WORDS>,
        with_keys: bool,
        (way, from): (Way, Bound<Sought<'_>>),
        limit: usize,
        memory: &impl Memory,
    ) -> Result<(), Restart> {
        self.clear();
        let read = leaf.get(|page| {
            let shape = page.shape();
            let range = page.choose(way, from, limit, Long(memory).in_view(leaf))?;
            let end = range.end.min(shape.count);
            let range = range.start.min(end)..end;
            let payloads = shape.cap / 8 * 7;
            let words = page.words();
            let (from, to) = (payloads + range.start, payloads + range.end);
            let words = words.get(from..to).ok_or(Restart)?;
            // SAFETY: they are present entries' if the read is valid; otherwise they are dropped
            // below.
            let loan = |word: &AtomicU64| unsafe { Loan::new(word.load(Relaxed)) };
            self.values.extend(words.iter().map(loan));
            memory.charge_lines(leaf.address() + HEADER + 8 * from, 8 * words.len());
            if with_keys {
                let fences = page.fences();
                let open = Long(memory).in_view(leaf);
                page.push_fence(fences.lower, fences.prefix, &mut self.prefix, open)?;
                for index in range {
                    let block = page.push_rest(index, &mut self.rests);
                    if block != 0 {
                        // SAFETY: as for the values.
                        let block = unsafe { Loan::new(block) };
                        self.blocks.push((self.ends.len(), block));
                    }
                    self.ends.push(self.rests.len());
                }
            }
            Ok(())
        });
        let read = read.and_then(|read| read);
        if read.is_err() {
            self.clear();
        }
        read
    }

    /// The value of the record at an index.
    #[inline(always)]
    pub fn value(&self, index: usize) -> Loan<'g> {
        self.values[index]
    }

    /// Replaces `to` by the key of the record at an index.
    #[inline(always)]
    pub fn key(&self, index: usize, memory: &impl Memory, to: &mut Vec<u8>) {
        to.clear();
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        if !self.blocks.is_empty()
            && let Ok(at) = self
                .blocks
                .binary_search_by_key(&index, |&(index, _)| index)
        {
            to.extend_from_slice(self.blocks[at].1.bytes(memory));
            return;
        }
        to.extend_from_slice(&self.prefix);
        to.extend_from_slice(&self.rests[start..self.ends[index]]);
    }
}

impl<const WORDS: usize> Page<WORDS> {
    /// The indices of up to `limit` records, one way from a bound on.
    #[inline(always)]
    fn choose<'g>(
        &self,
        way: Way,
        from: Bound<Sought<'_>>,
        limit: usize,
        open: impl Fn(u64) -> Result<&'g [u8], Restart>,
    ) -> Result<Range<usize>, Restart> {
        let at = match from {
            Bound::Included(key) => match self.seek(key, open)? {
                Ok(index) => index + usize::from(way == Way::Backward),
                Err(index) => index,
            },
            Bound::Excluded(key) => match self.seek(key, open)? {
                Ok(index) => index + usize::from(way == Way::Forward),
                Err(index) => index,
            },
            Bound::Unbounded => match way {
                Way::Forward => 0,
                Way::Backward => self.count(),
            },
        };
        Ok(match way {
            Way::Forward => at..at.saturating_add(limit),
            Way::Backward => at.saturating_sub(limit)..at,
        })
    }
}

/// Records of locked leaves.
impl<const WORDS: usize> Page<WORDS> {
    /// The value of the record at an index; there are that many.
    #[inline(always)]
    pub fn value<'g>(leaf: &LockedNode<'g, WORDS>, index: usize) -> Loan<'g> {
        debug_assert_eq!(leaf.height(), 0, "its payloads are links");
        assert!(index < leaf.count(), "no entry");
        // SAFETY: the payload of a present entry.
        unsafe { Loan::new(leaf.payload(index)) }
    }

    /// Replaces the value of the record at an index.
    #[inline(always)]
    pub fn replace_value<'g>(
        leaf: &LockedNode<'g, WORDS>,
        index: usize,
        value: u64,
    ) -> RetiredValue<'g> {
        let before = Self::value(leaf, index);
        leaf.set_payload(index, value);
        // SAFETY: it was in this entry, which has another.
        unsafe { RetiredValue::new(before) }
    }

    /// Inserts a record before an index; there is room, and a block if the key needs one.
    pub fn insert_record(
        leaf: &LockedNode<'_, WORDS>,
        index: usize,
        key: Sought<'_>,
        value: u64,
        keys: &mut LongKeys<'_>,
    ) {
        debug_assert_eq!(leaf.height(), 0, "its payloads are links");
        let text = keys.text::<WORDS>(key.bytes, leaf.fences().prefix);
        leaf.insert(index, key.print, text, value);
    }

    /// Removes the record at an index.
    pub fn remove_record<'g>(
        leaf: &LockedNode<'g, WORDS>,
        index: usize,
        keys: &mut LongKeys<'_>,
    ) -> RetiredValue<'g> {
        let value = Self::value(leaf, index);
        keys.drop_block(leaf.block_of(index));
        leaf.remove(index);
        // SAFETY: it was in this entry, which is gone.
        unsafe { RetiredValue::new(value) }
    }
}

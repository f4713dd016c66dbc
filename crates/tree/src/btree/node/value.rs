//! Values in leaves: how they are lent to readers, and given up by writers.
#![allow(unsafe_code)]

use std::ops::Range;

use timberline_sync::Restart;

use super::link::LeafView;
use super::{Body, Hit, LockedNode, Record, Write};
use crate::value::{Loan, RetiredValue};

impl<'g, const WORDS: usize> LeafView<'g, WORDS> {
    /// The value of the record that `find` finds in this leaf.
    #[inline(always)]
    pub fn lend(
        &self,
        find: impl for<'b> FnOnce(&'b Body<WORDS>) -> Option<Hit<'b>>,
    ) -> Result<Option<Loan<'g>>, Restart> {
        // SAFETY: it gets out if the read is valid: then it is the payload of an entry that is
        // there. As `find` is for any lifetime, it cannot return a hit in another body.
        let lend =
            |body: &Body<WORDS>, hit: Hit<'_>| unsafe { Loan::new(body.payload(hit.index())) };
        self.get(|body| find(body).map(|hit| lend(body, hit)))
    }

    /// The value of the record at an index.
    ///
    /// # Errors
    /// There are not that many, or the leaf changed.
    #[inline(always)]
    pub fn value(&self, index: usize) -> Result<Loan<'g>, Restart> {
        let word = self.get(|body| (index < body.count()).then(|| body.payload(index)))?;
        // SAFETY: validated, so that it is the payload of a present entry.
        word.map(|word| unsafe { Loan::new(word) }).ok_or(Restart)
    }

    /// Appends the records in the range of indices that `choose` finds, as far as there are any.
    #[inline(always)]
    pub fn copy_values<R>(
        &self,
        to: &mut Vec<(u64, Loan<'g>)>,
        choose: impl FnOnce(&Body<WORDS>) -> (Range<usize>, R),
    ) -> Result<R, Restart> {
        let start = to.len();
        let read = self.get(|body| {
            let (range, read) = choose(body);
            // SAFETY: the entries are present if the read is valid; otherwise they are dropped
            // below.
            let record = |(key, word)| (key, unsafe { Loan::new(word) });
            to.extend(body.entries(range).map(record));
            read
        });
        if read.is_err() {
            to.truncate(start);
        }
        read
    }
}

impl<const WORDS: usize> Body<WORDS> {
    /// The value of the record at an index of a locked leaf; there are that many.
    #[inline(always)]
    pub fn value<'g>(leaf: &LockedNode<'g, WORDS>, index: usize) -> Loan<'g> {
        debug_assert_eq!(leaf.height(), 0, "its payloads are links");
        assert!(index < leaf.count(), "no entry");
        // SAFETY: the payload of a present entry.
        unsafe { Loan::new(leaf.payload(index)) }
    }

    /// Replaces the value of the record at an index of a locked leaf.
    #[inline(always)]
    pub fn replace_value<'g>(
        leaf: &LockedNode<'g, WORDS>,
        index: usize,
        value: u64,
    ) -> RetiredValue<'g> {
        let before = Self::value(leaf, index);
        leaf.set_word(index, value);
        // SAFETY: it was in this entry, which has another; if the leaf is a copy, also in the one
        // that it replaces.
        unsafe { RetiredValue::new(before) }
    }

    /// Has the record at an index of a locked leaf take over the value of its dirty copy. What it
    /// had before was retired when that was changed.
    pub fn take_over(leaf: &LockedNode<'_, WORDS>, index: usize, value: Loan<'_>) {
        leaf.set_word(index, value.word());
    }

    /// Removes the record at an index of a locked leaf.
    #[inline(always)]
    pub fn remove_value<'g>(leaf: &LockedNode<'g, WORDS>, index: usize) -> RetiredValue<'g> {
        let value = Self::value(leaf, index);
        leaf.remove_entry(index);
        // SAFETY: it was in this entry, which is gone.
        unsafe { RetiredValue::new(value) }
    }
}

impl<'g> Record<'g> {
    /// Replaces the value of a record beside a leaf that is locked.
    pub fn replace<const WORDS: usize>(
        self,
        _leaf: &impl Write<WORDS>,
        value: u64,
    ) -> RetiredValue<'g> {
        let before = self.value();
        self.set_value(value);
        // SAFETY: it was in this record, which has another.
        unsafe { RetiredValue::new(before) }
    }

    /// The value of a record that is about to be unlinked, without its value.
    pub(super) fn take(self) -> RetiredValue<'g> {
        // SAFETY: only the record has it.
        unsafe { RetiredValue::new(self.value()) }
    }
}

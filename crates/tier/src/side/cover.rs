//! Which pages of a [`SlotTable`](super::SlotTable) are committed: those with entries of committed
//! chunks.
//!
//! The arenas cover a chunk with pages of the table before they commit it, and uncover it when it
//! goes. Invariants: a page is committed while a chunk needs it and no longer; it lies in the tier
//! of its chunks and is charged to that tier. So fast memory holds heat of its own leaves only, and
//! slow memory of any size takes nothing of it.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::os::{PAGE, Reservation};
use crate::{Arenas, ArenasError, Limit, TierId};

/// Bytes of an entry.
const ENTRY: usize = 2;

/// The memory of a table with an entry for each `1 << shift` bytes of addresses.
pub struct Cover {
    pub memory: Reservation,
    pub shift: u32,
    parts: Vec<Part>,
}

/// A tier's part of the table.
struct Part {
    start: usize,
    /// How many chunks need each page, up to the last page that was ever needed.
    needed: Mutex<Vec<u32>>,
}

impl Cover {
    /// A table beside these arenas, none of which is committed. A page's entries are all of one
    /// tier.
    pub fn new(arenas: &Arenas, shift: u32) -> Result<Self, ArenasError> {
        let span = arenas.range();
        let bytes = (span.len() >> shift) * ENTRY;
        let memory = Reservation::new(bytes, PAGE).map_err(|e| ArenasError::Reserve(bytes, e))?;
        // A huge page would commit more than is charged.
        memory.use_huge_pages(0, bytes, false);
        let mut parts = Vec::new();
        for tier in (0..arenas.tiers()).map(|tier| TierId(tier as u8)) {
            let range = arenas.range_of(tier);
            let start = ((range.start - span.start) >> shift) * ENTRY;
            let bytes = (range.len() >> shift) * ENTRY;
            assert!((start | bytes).is_multiple_of(PAGE), "tiers share a page");
            arenas.bind(tier, &memory, start, bytes)?;
            parts.push(Part {
                start,
                needed: Mutex::default(),
            });
        }
        Ok(Cover {
            memory,
            shift,
            parts,
        })
    }

    /// Commits the pages of a chunk, `bytes` from `offset` on in its tier.
    pub fn cover(
        &self,
        arenas: &Arenas,
        tier: TierId,
        offset: usize,
        bytes: usize,
    ) -> Result<(), Limit> {
        let part = &self.parts[tier.index()];
        let pages = self.pages(offset, bytes);
        let mut needed = part.lock();
        if needed.len() < pages.end {
            needed.resize(pages.end, 0);
        }
        for page in pages.clone() {
            if needed[page] == 0
                && let Err(limit) = arenas.commit_table(tier, &self.memory, part.at(page), PAGE)
            {
                drop(needed);
                self.release(arenas, tier, pages.start..page);
                return Err(limit);
            }
            needed[page] += 1;
        }
        Ok(())
    }

    /// A chunk is gone.
    pub fn uncover(&self, arenas: &Arenas, tier: TierId, offset: usize, bytes: usize) {
        self.release(arenas, tier, self.pages(offset, bytes));
    }

    fn release(&self, arenas: &Arenas, tier: TierId, pages: Range<usize>) {
        let part = &self.parts[tier.index()];
        let mut needed = part.lock();
        for page in pages {
            needed[page] -= 1;
            if needed[page] == 0 {
                arenas.decommit_table(tier, &self.memory, part.at(page), PAGE);
            }
        }
    }

    /// Calls `visit` with the index of each committed page's first entry within the tier's part,
    /// and how many entries follow. The page stays committed meanwhile.
    pub fn each_page(&self, tier: TierId, mut visit: impl FnMut(Range<usize>)) {
        let part = &self.parts[tier.index()];
        let mut page = 0;
        loop {
            // Locked page by page, so that no chunk waits long.
            let needed = part.lock();
            let Some(next) = (page..needed.len()).find(|&page| needed[page] > 0) else {
                return;
            };
            let first = next * PAGE / ENTRY;
            visit(first..first + PAGE / ENTRY);
            page = next + 1;
        }
    }

    /// The pages, in the tier's part, with the entries of a chunk.
    fn pages(&self, offset: usize, bytes: usize) -> Range<usize> {
        let entry = |address: usize| (address >> self.shift) * ENTRY;
        entry(offset) / PAGE..entry(offset + bytes - 1) / PAGE + 1
    }
}

impl Part {
    fn at(&self, page: usize) -> usize {
        self.start + page * PAGE
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

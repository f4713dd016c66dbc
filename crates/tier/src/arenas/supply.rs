//! The slow path of the arenas: moves slots between thread caches and chunks, and commits and
//! decommits chunks.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};

use super::chunks::Chunks;
use super::{Arenas, Limit, OutOfMemory, Tier, lock, thread_caches};
use crate::TierId;
use crate::os::Reservation;

/// A tier with less [slack](Tier::slack) than this does not drain its caches.
pub(super) const MIN_SLACK: usize = 256 << 10;

impl Arenas {
    /// Allocates a slot from the chunks, and refills the thread cache.
    #[cold]
    #[inline(never)]
    pub(super) fn fetch(&self, id: TierId, class: usize) -> Result<usize, OutOfMemory> {
        let slot = self.refill(id, class).or_else(|_| {
            // Other threads' caches may have free slots.
            self.flush(id);
            self.refill(id, class)
        });
        slot.map_err(|limit| self.out_of(id, limit))
    }

    fn refill(&self, id: TierId, class: usize) -> Result<usize, Limit> {
        let tier = &self.tiers[id.index()];
        let mut chunks = lock(&tier.chunks);
        let mut slots = loop {
            let slots = chunks.take(class, thread_caches::batch(class));
            if !slots.is_empty() {
                break slots;
            }
            if chunks.enough_coming(class) {
                chunks = tier.wait_for_chunk(chunks);
                continue;
            }
            match self.begin(id, &mut chunks, class) {
                Ok((offset, bytes)) => {
                    drop(chunks);
                    let slots;
                    (chunks, slots) = self.commit(id, class, offset, bytes)?;
                    break slots;
                }
                // What is missing may be on its way.
                Err(_) if chunks.is_coming(class) => chunks = tier.wait_for_chunk(chunks),
                Err(limit) => return Err(limit),
            }
        };
        if tier.bypasses(class) {
            chunks.end_drain_of(class);
            if tier.slack() < MIN_SLACK {
                chunks.end_drain();
            }
            tier.let_bypass(&chunks);
        }
        drop(chunks);
        for slot in &mut slots {
            *slot += tier.span.start;
        }
        slots.reverse();
        Ok(tier.caches.stock(class, &slots).expect("some were taken"))
    }

    /// Charges a new chunk, and reserves its addresses: the largest wanted size for which there are
    /// both. Returns its offset in the tier, and its bytes.
    fn begin(
        &self,
        id: TierId,
        chunks: &mut Chunks,
        class: usize,
    ) -> Result<(usize, usize), Limit> {
        let tier = &self.tiers[id.index()];
        let mut met = Limit::Budget;
        for bytes in chunks.sizes(class) {
            if !tier.budget.charge_leaving(bytes, tier.left_to_tables()) {
                continue;
            }
            match self.place(id, chunks, class, bytes) {
                Ok(offset) => return Ok((offset, bytes)),
                Err(limit) => {
                    tier.budget.release(bytes);
                    met = limit;
                }
            }
            if met == Limit::Machine {
                break;
            }
        }
        Err(met)
    }

    /// Reserves addresses for a charged chunk, and commits its part of the side table.
    fn place(
        &self,
        id: TierId,
        chunks: &mut Chunks,
        class: usize,
        bytes: usize,
    ) -> Result<usize, Limit> {
        let offset = chunks.begin(class, bytes).ok_or(Limit::Addresses)?;
        if let Some(side) = self.side.get() {
            let covered = side.cover(self, id, offset, bytes);
            covered.inspect_err(|_| chunks.give_up(class, offset, bytes))?;
        }
        Ok(offset)
    }

    /// Commits the memory of a chunk that has [begun](Self::begin), adds it, and takes some of its
    /// slots. The chunks are not locked while the kernel provides the memory, as that can take
    /// milliseconds.
    fn commit(
        &self,
        id: TierId,
        class: usize,
        offset: usize,
        bytes: usize,
    ) -> Result<(MutexGuard<'_, Chunks>, Vec<usize>), Limit> {
        let tier = &self.tiers[id.index()];
        let start = tier.span.start - self.span.start + offset;
        if self.huge_chunk == Some(bytes) {
            self.range.use_huge_pages(start, bytes, true);
        }
        let committed = tier.commit(&self.range, start, bytes);
        let mut chunks = lock(&tier.chunks);
        tier.chunk_came.notify_all();
        if let Err(limit) = committed {
            self.decommit(id, offset, bytes);
            chunks.give_up(class, offset, bytes);
            tier.budget.release(bytes);
            return Err(limit);
        }
        let slots = chunks.add(class, offset, bytes, thread_caches::batch(class));
        tier.let_bypass(&chunks);
        Ok((chunks, slots))
    }

    /// Decommits a chunk's memory, and the part of the side table that only it needs. The caller
    /// holds the lock of the tier's chunks, so that no other chunk gets the addresses before.
    #[allow(unsafe_code)]
    fn decommit(&self, id: TierId, offset: usize, bytes: usize) {
        let start = self.tiers[id.index()].span.start - self.span.start + offset;
        // SAFETY: none of its slots is in use: the chunk was removed when all of them were freed,
        // or could not be added. Late readers read only atomics there.
        unsafe { self.range.decommit(start, bytes) };
        if self.huge_chunk == Some(bytes) {
            self.range.use_huge_pages(start, bytes, false);
        }
        if let Some(side) = self.side.get() {
            side.uncover(self, id, offset, bytes);
        }
    }

    pub(super) fn put(&self, id: TierId, chunks: &mut Chunks, class: usize, slots: &[usize]) {
        let tier = &self.tiers[id.index()];
        for slot in slots {
            if let Some((offset, bytes)) = chunks.put(class, slot - tier.span.start) {
                self.decommit(id, offset, bytes);
                tier.budget.release(bytes);
            }
        }
        tier.let_bypass(chunks);
    }

    /// If most committed memory is free, empties the thread caches and makes slots bypass them, as
    /// a cached slot keeps its whole chunk committed. That ends when another chunk is needed, or
    /// when most of the memory is used again.
    #[cold]
    pub(super) fn drain_if_slack(&self, id: TierId) {
        let tier = &self.tiers[id.index()];
        if tier.slack() < MIN_SLACK {
            return;
        }
        let mut chunks = lock(&tier.chunks);
        if !chunks.begin_drain() {
            return;
        }
        tier.let_bypass(&chunks);
        drop(chunks);
        self.flush(id);
    }

    /// The same for one class, if most memory of its chunks is free. A map that grows empties
    /// whole classes, while others take more than they leave.
    #[cold]
    pub(super) fn drain_if_sparse(&self, id: TierId, class: usize) {
        let tier = &self.tiers[id.index()];
        let mut chunks = lock(&tier.chunks);
        if !chunks.begin_drain_of(class) {
            return;
        }
        tier.let_bypass(&chunks);
        drop(chunks);
        let slots = tier.caches.drain_of(class);
        self.put(id, &mut lock(&tier.chunks), class, &slots);
    }

    pub(super) fn flush(&self, id: TierId) {
        for (class, slots) in self.tiers[id.index()].caches.drain() {
            if !slots.is_empty() {
                let chunks = &self.tiers[id.index()].chunks;
                self.put(id, &mut lock(chunks), class, &slots);
            }
        }
    }
}

impl Tier {
    /// Committed bytes beyond twice the used bytes. Sums the counts of all thread caches.
    pub(super) fn slack(&self) -> usize {
        let used = self.caches.used();
        self.budget.used().saturating_sub(2 * used)
    }

    /// Whether some slots of a class bypass the thread caches.
    #[inline(always)]
    pub(super) fn bypasses(&self, class: usize) -> bool {
        self.bypass[class / 64].load(Relaxed) >> (class % 64) & 1 != 0
    }

    /// Makes slots bypass the thread caches as the chunks want it.
    pub(super) fn let_bypass(&self, chunks: &Chunks) {
        let bits = chunks.bypassing();
        self.bypass[0].store(bits as u64, Relaxed);
        self.bypass[1].store((bits >> 64) as u64, Relaxed);
    }

    /// Waits until another thread has committed a chunk, or could not.
    pub(super) fn wait_for_chunk<'a>(
        &self,
        chunks: MutexGuard<'a, Chunks>,
    ) -> MutexGuard<'a, Chunks> {
        let woken = self.chunk_came.wait(chunks);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits charged memory.
    pub(super) fn commit(
        &self,
        range: &Reservation,
        offset: usize,
        bytes: usize,
    ) -> Result<(), Limit> {
        match self.commit_faults.is_due() || range.commit(offset, bytes).is_err() {
            true => Err(Limit::Machine),
            false => Ok(()),
        }
    }
}

//! The memory of one tree: an arena for each tier, side by side in one reserved address range.
//!
//! The tier of a node is a range check on its address. Memory is committed in chunks of slots of
//! one size, each charged to its tier's [`Budget`] before it is there and given back when its last
//! slot is; slots are cached per thread. Freed memory stays mapped (and reads as old content or
//! zero), so a reader that lost a race never faults. Budgets count committed bytes, not
//! requested ones. What is kept of chunks grows with the addresses that were ever in use.
//!
//! A class of slots that has run out of them needs a new chunk: free slots of other classes do not
//! help it, but the memory of empty chunks does: it is given back at once.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::TierId;
use crate::budget::Budget;
use crate::os::{HUGE_PAGE, PAGE, Reservation};
use crate::side::{COARSEST, Cover};

use addresses::Addresses;
use chunks::Chunks;
use classes::class_of;
use faults::Faults;
use thread_caches::ThreadCaches;

pub use census::PageCensus;
pub use classes::{MAX_SLOT, slot_size};
pub use compaction::CompactionCandidates;
pub use config::{ArenasConfig, ArenasError, Limit, NO_LIMIT, OutOfMemory, TierConfig};
pub use poison::Look;
pub use slot::Slot;

mod addresses;
mod bits;
mod census;
mod chunks;
mod classes;
mod compaction;
mod config;
mod faults;
mod poison;
mod slot;
mod tables;
mod thread_caches;
mod vacant;

/// The least bytes of addresses that a tier has. A page of a side table covers no more.
const BLOCK: usize = {
    let covered = PAGE / size_of::<u16>() * COARSEST;
    if covered > HUGE_PAGE {
        covered
    } else {
        HUGE_PAGE
    }
};

/// A tier with less slack than this keeps it: [`Tier::slack`].
const MIN_SLACK: usize = 256 << 10;

struct Tier {
    span: Range<usize>,
    /// The NUMA nodes its memory comes from; empty: any.
    nodes: Vec<u32>,
    budget: Budget,
    chunks: Mutex<Chunks>,
    caches: ThreadCaches,
    /// Whether some slots go straight back to their chunks, because no thread may cache them.
    bypass: AtomicBool,
    /// Bytes in tables beside the arenas.
    tables: AtomicUsize,
    /// Of allocations.
    faults: Faults,
    /// Of commits, as if the machine had no memory.
    commit_faults: Faults,
}

/// The memory of one tree: an arena for each tier, side by side in one reserved address range.
/// Committed bytes never exceed a tier's limit, unless that is lowered. Freed memory stays mapped,
/// so a stale read never faults.
pub struct Arenas {
    range: Addresses,
    span: Range<usize>,
    /// The bytes that a chunk must have to be in huge pages; none: no chunk is.
    huge_chunk: Option<usize>,
    tiers: Vec<Tier>,
    slowest: TierId,
    /// The table with an entry for each slot, if there is one.
    side: OnceLock<Arc<Cover>>,
}

impl Arenas {
    /// Reserves the address ranges and binds them. Commits nothing.
    ///
    /// # Errors
    /// Too few addresses, or a NUMA node that is not there.
    pub fn new(config: &ArenasConfig) -> Result<Arenas, ArenasError> {
        assert!(!config.tiers.is_empty(), "a tree needs a tier");
        let chunk = config.chunk_bytes;
        assert!(
            chunk.is_power_of_two() && (PAGE..=1 << 30).contains(&chunk),
            "chunks of {chunk} bytes"
        );
        // Blocks of addresses that fit any slot, so that slots of a power of two are aligned to
        // their size within the whole range, and that tiers share no page of a side table.
        let block = chunk.max(BLOCK);
        let range = Addresses::reserve(config, block)?;
        let span = range.span();
        // A huge page commits all of its addresses at once: only whole chunks may have any.
        range.use_huge_pages(0, span.len(), false);
        poison::hide(span.start..span.end.min(span.start + poison::FRESH));

        let mut tiers = Vec::new();
        for (index, (tier, part)) in config.tiers.iter().zip(&range.parts).enumerate() {
            let (offset, id) = (part.start - span.start, TierId(index as u8));
            bind(id, &tier.nodes, &range, offset, part.len())?;
            tiers.push(Tier {
                span: part.clone(),
                nodes: tier.nodes.clone(),
                budget: Budget::new(tier.limit),
                chunks: Mutex::new(Chunks::new(chunk, block, part.len())),
                caches: ThreadCaches::default(),
                bypass: AtomicBool::new(false),
                tables: AtomicUsize::new(0),
                faults: Faults::default(),
                commit_faults: Faults::default(),
            });
        }

        let has_memory = |tier: &Tier| tier.budget.limit() > 0;
        let slowest = tiers.iter().rposition(has_memory);
        let slowest = TierId(slowest.unwrap_or(tiers.len().saturating_sub(1)) as u8);
        let huge = config.huge_pages && chunk >= HUGE_PAGE;
        Ok(Arenas {
            range,
            span,
            huge_chunk: huge.then_some(chunk),
            tiers,
            slowest,
            side: OnceLock::new(),
        })
    }

    /// A slot of at least `size` bytes, from 1 to [`MAX_SLOT`]: of [`slot_size`]`(size)`. Aligned
    /// to the largest power of two that divides the slot size, at most a page; one whose slot size
    /// is a power of two is aligned to all of it within [`Arenas::range`]. Its content is
    /// initialised but undefined: zero, or what lay in any slot of this size before.
    ///
    /// # Errors
    /// The tier is full.
    ///
    /// # Panics
    /// On a size of 0 or above [`MAX_SLOT`].
    pub fn allocate(&self, tier: TierId, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let class = class_of(size);
        let this = &self.tiers[tier.index()];
        if this.faults.is_due() {
            return Err(self.out_of(tier, Limit::Budget));
        }
        let slot = match this.caches.pop(class) {
            Some(slot) => slot,
            None => self.fetch(tier, class)?,
        };
        poison::show(slot, size);
        Ok(NonNull::new(slot as *mut u8).expect("no slot lies at 0"))
    }

    /// The same, as a slot that is given back unless it is [kept](Slot::keep).
    ///
    /// # Errors
    /// The tier is full.
    ///
    /// # Panics
    /// On a size of 0 or above [`MAX_SLOT`].
    #[inline(always)]
    pub fn slot(&self, tier: TierId, size: usize) -> Result<Slot<'_>, OutOfMemory> {
        let start = self.allocate(tier, size)?;
        // SAFETY: it was just handed out, for this size, to nobody else.
        #[allow(unsafe_code)]
        let slot = unsafe { Slot::new(self, start, size) };
        Ok(slot)
    }

    /// Gives a slot back.
    ///
    /// # Safety
    /// The slot was handed out by these arenas, for this size (or another of the same
    /// [`slot_size`]), was not given back since, and is no longer used.
    #[allow(unsafe_code)]
    pub unsafe fn free(&self, slot: NonNull<u8>, size: usize) {
        let address = slot.as_ptr() as usize;
        let tier = self.tier_of(address);
        let this = &self.tiers[tier.index()];
        let class = class_of(size);
        poison::hide(address..address + slot_size(size));
        let offset = address - this.span.start;
        if this.bypass.load(Relaxed) {
            let mut chunks = lock(&this.chunks);
            if chunks.bypasses(offset) {
                this.caches.pass(class);
                return self.put(tier, &mut chunks, class, &[address]);
            }
        }
        if this.caches.push(class, address) {
            let slots = this.caches.shed(class);
            self.put(tier, &mut lock(&this.chunks), class, &slots);
            self.drain_if_slack(tier);
        }
    }

    /// The tier that an address is in.
    #[inline(always)]
    pub fn tier_of(&self, address: usize) -> TierId {
        debug_assert!(self.span.contains(&address), "{address:#x} is in no arena");
        let later = |tier: &&Tier| address >= tier.span.end;
        TierId(
            self.tiers[..self.tiers.len() - 1]
                .iter()
                .take_while(later)
                .count() as u8,
        )
    }

    /// The addresses of all tiers together.
    pub fn range(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The addresses of one tier.
    pub fn range_of(&self, tier: TierId) -> Range<usize> {
        self.tiers[tier.index()].span.clone()
    }

    /// Permission to read up to [`MAX_SLOT`] bytes from `address` on without knowing whether a slot
    /// is allocated there, or of which size: up to the end of the arenas. (Under AddressSanitizer,
    /// up to the first slot that is not allocated.)
    #[inline(always)]
    pub fn look(&self, address: usize) -> Look {
        Look::at(address..self.span.end.min(address + MAX_SLOT))
    }

    /// How many tiers there are.
    pub fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// The slowest tier that may have any memory.
    pub fn slowest(&self) -> TierId {
        self.slowest
    }

    /// A tier's budget: limit, committed bytes, their peak.
    pub fn budget(&self, tier: TierId) -> &Budget {
        &self.tiers[tier.index()].budget
    }

    /// Bytes of a tier in slots that are handed out, by their [`slot_size`]. Exact while no thread
    /// allocates or frees; otherwise near, and never more than is committed. Takes a look at each
    /// thread's count.
    pub fn used(&self, tier: TierId) -> usize {
        let this = &self.tiers[tier.index()];
        this.caches.used().min(this.budget.used())
    }

    /// Bytes of a tier that slots can use: its limit without the tables that it has now.
    pub fn usable(&self, tier: TierId) -> usize {
        let tables = self.tiers[tier.index()].tables.load(Relaxed);
        self.budget(tier).limit().saturating_sub(tables)
    }

    /// Sets the limit of a tier. While more than that is committed, no more is committed, and
    /// [`Arenas::evacuate`] chooses the chunks to empty.
    ///
    /// # Errors
    /// There are too few addresses for it: those for [`TierConfig::most`] bytes were reserved, or
    /// as many as there were.
    pub fn set_limit(&self, tier: TierId, bytes: usize) -> Result<(), OutOfMemory> {
        let this = &self.tiers[tier.index()];
        if bytes > this.span.len() {
            return Err(self.out_of(tier, Limit::Addresses));
        }
        this.budget.set_limit(bytes);
        Ok(())
    }

    /// Returns cached slots to their chunks, and empty chunks to the system.
    pub fn trim(&self) {
        for tier in 0..self.tiers.len() {
            self.flush(TierId(tier as u8));
        }
    }

    /// Leaves the memory of all tiers to the kernel: pages stay where they are until the kernel
    /// moves them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn unbind(&self) -> io::Result<()> {
        self.range.unbind(0, self.span.len())
    }

    /// Locks the committed pages of a tier in memory, where they are.
    ///
    /// # Errors
    /// It is more than this process may lock.
    pub fn lock(&self, tier: TierId) -> io::Result<()> {
        let mut chunks = self.committed(tier).into_iter();
        chunks.try_for_each(|chunk| self.range.lock(chunk.start - self.span.start, chunk.len()))
    }

    /// The committed addresses of a tier: chunks, the first to be committed first unless some were
    /// given back meanwhile.
    pub fn committed(&self, tier: TierId) -> Vec<Range<usize>> {
        let this = &self.tiers[tier.index()];
        let chunks = lock(&this.chunks);
        let range = |(offset, bytes)| this.span.start + offset..this.span.start + offset + bytes;
        chunks.committed().map(range).collect()
    }

    /// The error of a tier that has run out of something.
    pub fn out_of(&self, id: TierId, of: Limit) -> OutOfMemory {
        let tier = &self.tiers[id.index()];
        let limit = match of {
            Limit::Budget => tier.budget.limit(),
            Limit::Addresses => tier.span.len(),
            Limit::Machine => tier.budget.used(),
        };
        OutOfMemory {
            tier: id,
            of,
            limit,
        }
    }

    /// A slot from the chunks, and more for later.
    #[cold]
    #[inline(never)]
    fn fetch(&self, id: TierId, class: usize) -> Result<usize, OutOfMemory> {
        let slot = self.refill(id, class).or_else(|_| {
            // Slots in other threads' caches are needed now.
            self.flush(id);
            self.refill(id, class)
        });
        slot.map_err(|limit| self.out_of(id, limit))
    }

    fn refill(&self, id: TierId, class: usize) -> Result<usize, Limit> {
        let tier = &self.tiers[id.index()];
        let mut chunks = lock(&tier.chunks);
        let mut slots = chunks.take(class, thread_caches::batch(class));
        if slots.is_empty() {
            self.commit(id, &mut chunks, class)?;
            slots = chunks.take(class, thread_caches::batch(class));
        }
        if tier.bypass.load(Relaxed) && tier.slack() < MIN_SLACK {
            chunks.end_drain();
            tier.bypass.store(chunks.any_bypass(), Relaxed);
        }
        drop(chunks);
        for slot in &mut slots {
            *slot += tier.span.start;
        }
        slots.reverse();
        Ok(tier.caches.stock(class, &slots).expect("a chunk has slots"))
    }

    /// Makes a new chunk: the largest that is wanted, affordable, and has addresses.
    fn commit(&self, id: TierId, chunks: &mut Chunks, class: usize) -> Result<(), Limit> {
        let tier = &self.tiers[id.index()];
        let mut met = Limit::Budget;
        for bytes in chunks.sizes(class) {
            if !tier.budget.charge(bytes) {
                continue;
            }
            match self.back(id, chunks, bytes) {
                Ok(offset) => {
                    chunks.add(class, offset, bytes);
                    tier.bypass.store(chunks.any_bypass(), Relaxed);
                    return Ok(());
                }
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

    /// Finds addresses for a chunk that is charged, and commits memory behind them and for its part
    /// of the side table. Returns its offset in the tier.
    fn back(&self, id: TierId, chunks: &mut Chunks, bytes: usize) -> Result<usize, Limit> {
        let tier = &self.tiers[id.index()];
        let offset = chunks.reserve(bytes).ok_or(Limit::Addresses)?;
        let covered = self
            .side
            .get()
            .map_or(Ok(()), |side| side.cover(self, id, offset, bytes));
        if let Err(limit) = covered {
            chunks.vacate(offset, bytes);
            return Err(limit);
        }
        let start = tier.span.start - self.span.start + offset;
        if self.huge_chunk == Some(bytes) {
            self.range.use_huge_pages(start, bytes, true);
        }
        let committed = tier.commit(&self.range, start, bytes);
        committed.inspect_err(|_| {
            chunks.vacate(offset, bytes);
            self.decommit(id, offset, bytes);
        })?;
        Ok(offset)
    }

    /// Returns the memory of a chunk that is gone, and what only it needs of the side table. Its
    /// addresses are vacant, but its tier's chunks still locked.
    #[allow(unsafe_code)]
    fn decommit(&self, id: TierId, offset: usize, bytes: usize) {
        let start = self.tiers[id.index()].span.start - self.span.start + offset;
        // SAFETY: a chunk goes when all of its slots were given back, which says that they are not
        // used any more; what late readers still look at there are atomics.
        unsafe { self.range.decommit(start, bytes) };
        if self.huge_chunk == Some(bytes) {
            self.range.use_huge_pages(start, bytes, false);
        }
        if let Some(side) = self.side.get() {
            side.uncover(self, id, offset, bytes);
        }
    }

    fn put(&self, id: TierId, chunks: &mut Chunks, class: usize, slots: &[usize]) {
        let tier = &self.tiers[id.index()];
        for slot in slots {
            if let Some((offset, bytes)) = chunks.put(class, slot - tier.span.start) {
                self.decommit(id, offset, bytes);
                tier.budget.release(bytes);
            }
        }
        tier.bypass.store(chunks.any_bypass(), Relaxed);
    }

    /// If most committed memory is free, empties the thread caches and lets slots bypass
    /// them: a cached slot keeps its whole chunk committed. That lasts until one more chunk is
    /// needed, or most of the memory is used again.
    #[cold]
    fn drain_if_slack(&self, id: TierId) {
        let tier = &self.tiers[id.index()];
        if tier.slack() < MIN_SLACK {
            return;
        }
        let mut chunks = lock(&tier.chunks);
        if !chunks.begin_drain() {
            return;
        }
        tier.bypass.store(true, Relaxed);
        drop(chunks);
        self.flush(id);
    }

    fn flush(&self, id: TierId) {
        for (class, slots) in self.tiers[id.index()].caches.drain() {
            if !slots.is_empty() {
                let chunks = &self.tiers[id.index()].chunks;
                self.put(id, &mut lock(chunks), class, &slots);
            }
        }
    }
}

impl Drop for Arenas {
    fn drop(&mut self) {
        // The next mapping at these addresses knows nothing of slots.
        poison::show(self.span.start, self.span.len());
    }
}

impl Tier {
    /// Bytes of free memory that it has committed, beyond as much again as is used. Takes a look at
    /// each thread's count.
    fn slack(&self) -> usize {
        let used = self.caches.used();
        self.budget.used().saturating_sub(2 * used)
    }

    /// Commits what is charged.
    fn commit(&self, range: &Reservation, offset: usize, bytes: usize) -> Result<(), Limit> {
        match self.commit_faults.is_due() || range.commit(offset, bytes).is_err() {
            true => Err(Limit::Machine),
            false => Ok(()),
        }
    }
}

/// Binds a tier's memory to its NUMA nodes, if it has any.
fn bind(
    tier: TierId,
    nodes: &[u32],
    memory: &Reservation,
    offset: usize,
    bytes: usize,
) -> Result<(), ArenasError> {
    if nodes.is_empty() || bytes == 0 {
        return Ok(());
    }
    let bound = memory.bind(offset, bytes, nodes);
    bound.map_err(|error| ArenasError::Bind(tier, nodes.to_vec(), error))
}

/// A panic while holding one of these locks leaves slots lost at worst, never given out twice.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

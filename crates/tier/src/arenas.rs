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
mod supply;
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
}

impl Drop for Arenas {
    fn drop(&mut self) {
        // The next mapping at these addresses knows nothing of slots.
        poison::show(self.span.start, self.span.len());
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

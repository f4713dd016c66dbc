//! The memory of one tree: an arena for each tier, side by side in one reserved address range.
//!
//! The tier of a node is a range check on its address. Memory is committed in chunks of slots of
//! one size class. A chunk is charged to its tier's [`Budget`] before it is committed, and
//! decommitted when its last slot is freed. Threads cache free slots. Freed memory stays mapped
//! (and reads as old content or zero), so a reader that lost a race never faults. Budgets count
//! committed bytes, not requested ones. Metadata of chunks grows with the highest address ever
//! used.
//!
//! A size class without free slots needs a new chunk. Free slots of other classes do not help it,
//! but empty chunks do, as they are decommitted at once.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

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
use poison::Hidden;
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

/// The least bytes of addresses of a tier: at least what a page of a side table covers, so that
/// tiers share none.
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
    /// Notified when a chunk that was on its way was added or given up.
    chunk_came: Condvar,
    caches: ThreadCaches,
    /// A bit for each class of which some slots bypass the thread caches.
    bypass: [AtomicU64; 2],
    /// Bytes of side tables charged to this tier.
    tables: AtomicUsize,
    /// Bytes that side tables have not yet, and may grow by.
    set_aside: AtomicUsize,
    /// Injected failures of allocations.
    faults: Faults,
    /// Injected failures of commits, as if the machine were out of memory.
    commit_faults: Faults,
    hidden: Hidden,
}

/// The memory of one tree: an arena for each tier, side by side in one reserved address range.
/// Committed bytes never exceed a tier's limit, unless that is lowered. Freed memory stays mapped,
/// so a stale read never faults.
pub struct Arenas {
    span: Range<usize>,
    /// The size of the chunks that use huge pages, if any do.
    huge_chunk: Option<usize>,
    tiers: Vec<Tier>,
    slowest: TierId,
    /// The side table, with an entry for each slot, if there is one.
    side: OnceLock<Arc<Cover>>,
    /// Goes last: the next mapping at these addresses knows nothing of slots.
    range: Addresses,
}

impl Arenas {
    /// Reserves the address ranges and binds them. Commits nothing.
    ///
    /// # Errors
    /// Too few addresses, or a NUMA node that does not exist.
    pub fn new(config: &ArenasConfig) -> Result<Arenas, ArenasError> {
        assert!(!config.tiers.is_empty(), "a tree needs a tier");
        let chunk = config.chunk_bytes;
        assert!(
            chunk.is_power_of_two() && (PAGE..=1 << 30).contains(&chunk),
            "chunks of {chunk} bytes"
        );
        // A block holds any slot, so slots of a power of two are aligned to their size within the
        // whole range, and tiers share no page of a side table.
        let block = chunk.max(BLOCK);
        let range = Addresses::reserve(config, block)?;
        let span = range.span();
        // A huge page commits all of its addresses at once, so only whole chunks may use them.
        range.use_huge_pages(0, span.len(), false);

        let mut tiers = Vec::new();
        for (index, (tier, part)) in config.tiers.iter().zip(&range.parts).enumerate() {
            let (offset, id) = (part.start - span.start, TierId(index as u8));
            bind(id, &tier.nodes, &range, offset, part.len())?;
            tiers.push(Tier {
                span: part.clone(),
                nodes: tier.nodes.clone(),
                budget: Budget::new(tier.limit),
                chunks: Mutex::new(Chunks::new(chunk, block, part.len())),
                chunk_came: Condvar::new(),
                caches: ThreadCaches::default(),
                bypass: Default::default(),
                tables: AtomicUsize::new(0),
                set_aside: AtomicUsize::new(0),
                faults: Faults::default(),
                commit_faults: Faults::default(),
                hidden: Hidden::new(part.clone()),
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

    /// Allocates a slot of [`slot_size`]`(size)` bytes, for a `size` from 1 to [`MAX_SLOT`]. It is
    /// aligned to the largest power of two that divides the slot size, at most a page. If the slot
    /// size is a power of two, the slot is aligned to it within [`Arenas::range`]. Its content is
    /// initialised but arbitrary: zero, or the old content of a slot of this size.
    ///
    /// # Errors
    /// The tier is full.
    ///
    /// # Panics
    /// On a size of 0 or above [`MAX_SLOT`].
    // Inlined, as most callers know the size, and so the class.
    #[inline(always)]
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

    /// As [`Arenas::allocate`]; the slot is freed when dropped, unless it is [kept](Slot::keep).
    ///
    /// # Errors
    /// The tier is full.
    ///
    /// # Panics
    /// On a size of 0 or above [`MAX_SLOT`].
    #[inline(always)]
    pub fn slot(&self, tier: TierId, size: usize) -> Result<Slot<'_>, OutOfMemory> {
        let start = self.allocate(tier, size)?;
        // SAFETY: it was just allocated for this size, and nothing else knows it.
        #[allow(unsafe_code)]
        let slot = unsafe { Slot::new(self, start, size) };
        Ok(slot)
    }

    /// Frees a slot.
    ///
    /// # Safety
    /// These arenas allocated the slot for this size (or another of the same [`slot_size`]), it was
    /// not freed since, and it is no longer used.
    #[allow(unsafe_code)]
    pub unsafe fn free(&self, slot: NonNull<u8>, size: usize) {
        let address = slot.as_ptr() as usize;
        let tier = self.tier_of(address);
        let this = &self.tiers[tier.index()];
        let class = class_of(size);
        this.hidden.hide(address..address + slot_size(size));
        let offset = address - this.span.start;
        if this.bypasses(class) {
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
            self.drain_if_sparse(tier, class);
        }
    }

    /// Whether slots like this one, which is allocated, are so few that they keep chunks committed
    /// of which almost nothing is in use: freeing the last of a chunk returns its memory.
    #[inline(always)]
    pub fn is_straggler(&self, slot: NonNull<u8>, size: usize) -> bool {
        let tier = &self.tiers[self.tier_of(slot.as_ptr() as usize).index()];
        let class = class_of(size);
        tier.bypasses(class) && lock(&tier.chunks).is_all_but_empty(class)
    }

    /// The tier that an address is in.
    #[inline(always)]
    pub fn tier_of(&self, address: usize) -> TierId {
        debug_assert!(self.span.contains(&address), "{address:#x} is in no arena");
        match &self.tiers[..] {
            [_] => TierId(0),
            tiers => {
                let later = |tier: &&Tier| address >= tier.span.end;
                let slower = tiers[..tiers.len() - 1].iter().take_while(later);
                TierId(slower.count() as u8)
            }
        }
    }

    /// The addresses of all tiers together.
    pub fn range(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The addresses of one tier.
    pub fn range_of(&self, tier: TierId) -> Range<usize> {
        self.tiers[tier.index()].span.clone()
    }

    /// Permits reads of up to [`MAX_SLOT`] bytes from `address`, at most to the end of the arenas,
    /// by a caller that does not know whether a slot is allocated there. (Under AddressSanitizer,
    /// up to the first byte that is not allocated.)
    #[inline(always)]
    pub fn look(&self, address: usize) -> Look {
        Look::at(address..self.span.end.min(address + MAX_SLOT))
    }

    /// The number of tiers.
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

    /// Bytes of a tier in allocated slots, by their [`slot_size`]. Exact while no thread allocates
    /// or frees; otherwise approximate, and at most the committed bytes. Sums the counts of all
    /// thread caches.
    pub fn used(&self, tier: TierId) -> usize {
        let this = &self.tiers[tier.index()];
        this.caches.used().min(this.budget.used())
    }

    /// Bytes of a tier that slots can use: its limit without its current side tables, and what is
    /// left to those that grow.
    pub fn usable(&self, tier: TierId) -> usize {
        let this = &self.tiers[tier.index()];
        let tables = this.tables.load(Relaxed) + this.left_to_tables();
        this.budget.limit().saturating_sub(tables)
    }

    /// Sets the limit of a tier. While more than that is committed, no more is charged, and
    /// [`Arenas::evacuate`] chooses the chunks to empty.
    ///
    /// # Errors
    /// Too few addresses are reserved: those for [`TierConfig::most`] bytes, or all there were.
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

    /// Removes the NUMA binding of all tiers. Pages stay where they are until the kernel moves
    /// them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn unbind(&self) -> io::Result<()> {
        self.range.unbind(0, self.span.len())
    }

    /// Locks the committed pages of a tier in memory (`mlock`).
    ///
    /// # Errors
    /// It is more than this process may lock.
    pub fn lock(&self, tier: TierId) -> io::Result<()> {
        let mut chunks = self.committed(tier).into_iter();
        chunks.try_for_each(|chunk| self.range.lock(chunk.start - self.span.start, chunk.len()))
    }

    /// The committed chunks of a tier, in the order of commits unless some were decommitted since.
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

/// A panic while one of these locks is held can lose slots, but never allocates one twice.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

//! The memory of one tree: an arena for each tier, side by side in one reserved address range.
//!
//! The tier of a node is a range check on its address. Memory is committed in chunks of slots of
//! one size, each charged to its tier's [`Budget`] before it is there and given back when its last
//! slot is; slots are cached per thread. Freed memory stays mapped (and reads as old content or
//! zero), so a reader that lost a race never faults. Budgets count committed bytes, not
//! requested ones.
//!
//! A class of slots that has run out of them needs a new chunk: free slots of other classes do not
//! help it, but the memory of empty chunks does: it is given back at once.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::TierId;
use crate::budget::Budget;
use crate::os::{self, PAGE, Reservation};

use chunks::Chunks;
use classes::class_of;
use faults::Faults;
use thread_caches::ThreadCaches;

pub use classes::{MAX_SLOT, slot_size};
pub use compaction::CompactionCandidates;
pub use config::{ArenasConfig, ArenasError, OutOfMemory, TierConfig};
pub use poison::Look;

mod bits;
mod chunks;
mod classes;
mod compaction;
mod config;
mod faults;
mod poison;
mod thread_caches;
mod vacant;

/// A tier with less free memory than this, beyond as much again as is used, keeps it.
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
    faults: Faults,
}

/// The memory of one tree: an arena for each tier, side by side in one reserved address range.
/// Committed bytes never exceed a tier's limit; freed memory stays mapped, so a stale read never
/// faults.
pub struct Arenas {
    range: Reservation,
    span: Range<usize>,
    /// The bytes that a chunk must have to be in huge pages; none: no chunk is.
    huge_chunk: Option<usize>,
    tiers: Vec<Tier>,
    slowest: TierId,
    /// Bytes of the fast tier in tables beside the arenas.
    tables: AtomicUsize,
}

/// Where the kernel put a tier's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageCensus {
    /// Committed pages.
    pub pages: usize,
    /// Of these, pages on another NUMA node than the tier is bound to.
    pub misplaced: usize,
    /// Of these, pages without memory behind them (yet).
    pub absent: usize,
}

impl Arenas {
    /// Reserves the address ranges and binds them. Commits nothing.
    ///
    /// # Errors
    /// No addresses, or a NUMA node that is not there.
    pub fn new(config: &ArenasConfig) -> Result<Arenas, ArenasError> {
        assert!(!config.tiers.is_empty(), "a tree needs a tier");
        let chunk = config.chunk_bytes;
        assert!(
            chunk.is_power_of_two() && (PAGE..=1 << 30).contains(&chunk),
            "chunks of {chunk} bytes"
        );
        // Blocks of addresses that fit any slot, so that slots of a power of two are aligned to
        // their size within the whole range. Spare ones make up for small chunks that lie apart
        // and leave no room for a large one in between.
        let block = chunk.max(MAX_SLOT);
        const SPARE: usize = 2;
        let counts = config
            .tiers
            .iter()
            .map(|tier| tier.limit.div_ceil(block) + SPARE);
        let counts: Vec<usize> = counts.collect();
        let sum = counts
            .iter()
            .try_fold(0usize, |sum, &count| sum.checked_add(count));
        let total = sum
            .and_then(|sum| sum.checked_mul(block))
            .filter(|total| total / PAGE <= u32::MAX as usize)
            .ok_or_else(|| ArenasError::Reserve(usize::MAX, io::ErrorKind::OutOfMemory.into()))?;
        let range = Reservation::new(total, block).map_err(|e| ArenasError::Reserve(total, e))?;
        let span = range.base()..range.base() + total;
        // A huge page commits all of its addresses at once: only whole chunks may have any.
        range.use_huge_pages(0, total, false);
        poison::hide(span.clone());

        let mut start = span.start;
        let mut tiers = Vec::new();
        for (index, (tier, &count)) in config.tiers.iter().zip(&counts).enumerate() {
            let bytes = count * block;
            if !tier.nodes.is_empty() {
                let bound = range.bind(start - span.start, bytes, &tier.nodes);
                bound.map_err(|e| ArenasError::Bind(TierId(index as u8), tier.nodes.clone(), e))?;
            }
            tiers.push(Tier {
                span: start..start + bytes,
                nodes: tier.nodes.clone(),
                budget: Budget::new(tier.limit),
                chunks: Mutex::new(Chunks::new(chunk, block, bytes)),
                caches: ThreadCaches::default(),
                bypass: AtomicBool::new(false),
                faults: Faults::default(),
            });
            start += bytes;
        }

        let has_memory = |tier: &Tier| tier.budget.limit() > 0;
        let slowest = tiers.iter().rposition(has_memory);
        let slowest = TierId(slowest.unwrap_or(tiers.len().saturating_sub(1)) as u8);
        let huge = config.huge_pages && chunk >= os::HUGE_PAGE;
        Ok(Arenas {
            range,
            span,
            huge_chunk: huge.then_some(chunk),
            tiers,
            slowest,
            tables: AtomicUsize::new(0),
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
        if !this.faults.is_due() {
            let slot = this.caches.pop(class).or_else(|| self.fetch(this, class));
            if let Some(slot) = slot.and_then(|slot| NonNull::new(slot as *mut u8)) {
                poison::show(slot.as_ptr() as usize, size);
                return Ok(slot);
            }
        }
        Err(OutOfMemory {
            tier,
            limit: this.budget.limit(),
        })
    }

    /// Gives a slot back.
    ///
    /// # Safety
    /// The slot was handed out by these arenas, for this size (or another of the same
    /// [`slot_size`]), was not given back since, and is no longer used.
    #[allow(unsafe_code)]
    pub unsafe fn free(&self, slot: NonNull<u8>, size: usize) {
        let address = slot.as_ptr() as usize;
        let this = &self.tiers[self.tier_of(address).index()];
        let class = class_of(size);
        poison::hide(address..address + slot_size(size));
        let offset = address - this.span.start;
        if this.bypass.load(Relaxed) && lock(&this.chunks).bypasses(offset) {
            this.caches.pass(class);
            self.put(this, class, &[address]);
        } else if this.caches.push(class, address) {
            self.put(this, class, &this.caches.shed(class));
            self.drain_if_slack(this);
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

    /// Bytes of a tier that slots can use: its limit without tables.
    pub fn usable(&self, tier: TierId) -> usize {
        self.budget(tier).limit()
            - if tier.is_fast() {
                self.tables.load(Relaxed)
            } else {
                0
            }
    }

    /// Charges a table beside the arenas to the fast tier, for good, and binds it there.
    pub(crate) fn reserve_table(
        &self,
        table: &Reservation,
        bytes: usize,
    ) -> Result<(), ArenasError> {
        let fast = &self.tiers[0];
        if !fast.nodes.is_empty() {
            let bound = table.bind(0, bytes, &fast.nodes);
            bound.map_err(|e| ArenasError::Bind(TierId::FAST, fast.nodes.clone(), e))?;
        }
        if !fast.budget.charge(bytes) {
            return Err(ArenasError::Table(bytes, fast.budget.limit()));
        }
        self.tables.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Returns cached slots to their chunks, and empty chunks to the system.
    pub fn trim(&self) {
        for tier in &self.tiers {
            self.flush(tier);
        }
    }

    /// Chooses the chunks of a tier that are worth being emptied, because other chunks have room
    /// for what lies in them. From now on, slots come from other chunks first. The choice holds
    /// until the next one.
    pub fn compaction_candidates(&self, tier: TierId) -> CompactionCandidates {
        let this = &self.tiers[tier.index()];
        // Free slots that threads keep look like used ones.
        self.flush(this);
        let mut chunks = lock(&this.chunks);
        let chosen = chunks.choose_candidates();
        this.bypass.store(chunks.any_bypass(), Relaxed);
        drop(chunks);
        let range = |(offset, bytes)| this.span.start + offset..this.span.start + offset + bytes;
        CompactionCandidates::new(chosen.into_iter().map(range))
    }

    /// Asks the kernel where a tier's committed pages are.
    ///
    /// # Errors
    /// The kernel does not say (no `move_pages`).
    pub fn census(&self, tier: TierId) -> io::Result<PageCensus> {
        let this = &self.tiers[tier.index()];
        let mut census = PageCensus::default();
        for nodes in self.nodes_of_chunks(tier, 1)? {
            census.pages += nodes.len();
            census.absent += nodes.iter().filter(|&&node| node < 0).count();
            let elsewhere = |&&node: &&i32| node >= 0 && !this.nodes.contains(&(node as u32));
            if !this.nodes.is_empty() {
                census.misplaced += nodes.iter().filter(elsewhere).count();
            }
        }
        Ok(census)
    }

    /// Bytes of a tier that the kernel has on one of `nodes` now, estimated from one page in
    /// `one_in`, at least one of each chunk.
    ///
    /// # Errors
    /// The kernel does not say (no `move_pages`).
    pub fn bytes_on(&self, tier: TierId, nodes: &[u32], one_in: usize) -> io::Result<usize> {
        let is_there = |&&node: &&i32| u32::try_from(node).is_ok_and(|node| nodes.contains(&node));
        let asked = self.nodes_of_chunks(tier, one_in)?.concat();
        let there = asked.iter().filter(is_there).count();
        let committed: usize = self.committed(tier).iter().map(Range::len).sum();
        Ok(there * (committed / PAGE) / asked.len().max(1) * PAGE)
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

    /// The NUMA node of one page in `one_in` of each chunk of a tier; a negative number where there
    /// is none.
    fn nodes_of_chunks(&self, tier: TierId, one_in: usize) -> io::Result<Vec<Vec<i32>>> {
        let chunks = self.committed(tier).into_iter();
        let nodes = chunks.map(|chunk| {
            let pages: Vec<usize> = chunk.step_by(PAGE * one_in.max(1)).collect();
            os::nodes_of_pages(&pages)
        });
        nodes.collect()
    }

    /// Makes the `nth` allocation in `tier` from now on fail (1 is the next), once. For tests of
    /// what a full tier does to an operation at every step.
    pub fn fail_nth(&self, tier: TierId, nth: u64) {
        self.tiers[tier.index()].faults.plan(nth, false);
    }

    /// The same for all allocations from the `nth` on, until [`Arenas::fail_nth`] is called: a map
    /// that can reclaim memory tries again.
    pub fn fail_from(&self, tier: TierId, nth: u64) {
        self.tiers[tier.index()].faults.plan(nth, true);
    }

    /// How many allocations in `tier` were made to fail since the last call of [`Arenas::fail_nth`]
    /// or [`Arenas::fail_from`].
    pub fn failed(&self, tier: TierId) -> u64 {
        self.tiers[tier.index()].faults.made()
    }

    /// A slot from the chunks, and more for later.
    #[cold]
    #[inline(never)]
    fn fetch(&self, tier: &Tier, class: usize) -> Option<usize> {
        self.refill(tier, class).or_else(|| {
            // What other threads keep for later is needed now.
            self.flush(tier);
            self.refill(tier, class)
        })
    }

    fn refill(&self, tier: &Tier, class: usize) -> Option<usize> {
        let mut chunks = lock(&tier.chunks);
        let mut slots = chunks.take(class, thread_caches::batch(class));
        if slots.is_empty() {
            self.commit(tier, &mut chunks, class)?;
            slots = chunks.take(class, thread_caches::batch(class));
        }
        drop(chunks);
        for slot in &mut slots {
            *slot += tier.span.start;
        }
        tier.caches.stock(class, &slots)
    }

    /// Makes a new chunk: the largest that is wanted, affordable, and has addresses.
    fn commit(&self, tier: &Tier, chunks: &mut Chunks, class: usize) -> Option<()> {
        for bytes in chunks.sizes(class) {
            if !tier.budget.charge(bytes) {
                continue;
            }
            let Some(offset) = chunks.reserve(bytes) else {
                tier.budget.release(bytes);
                continue;
            };
            let start = tier.span.start - self.span.start + offset;
            if self.huge_chunk == Some(bytes) {
                self.range.use_huge_pages(start, bytes, true);
            }
            if self.range.commit(start, bytes).is_err() {
                chunks.vacate(offset, bytes);
                self.give_back(tier, offset, bytes);
                return None;
            }
            chunks.add(class, offset, bytes);
            tier.bypass.store(chunks.any_bypass(), Relaxed);
            return Some(());
        }
        None
    }

    /// Returns the memory of a chunk that is gone. Its addresses are vacant, but its tier's chunks
    /// still locked.
    fn give_back(&self, tier: &Tier, offset: usize, bytes: usize) {
        let start = tier.span.start - self.span.start + offset;
        self.range.decommit(start, bytes);
        if self.huge_chunk == Some(bytes) {
            self.range.use_huge_pages(start, bytes, false);
        }
        tier.budget.release(bytes);
    }

    fn put(&self, tier: &Tier, class: usize, slots: &[usize]) {
        let mut chunks = lock(&tier.chunks);
        for slot in slots {
            if let Some((offset, bytes)) = chunks.put(class, slot - tier.span.start) {
                self.give_back(tier, offset, bytes);
            }
        }
        tier.bypass.store(chunks.any_bypass(), Relaxed);
    }

    /// Where most of what is committed is free, empties the thread caches and lets slots bypass
    /// them: a cached slot keeps its whole chunk committed.
    #[cold]
    fn drain_if_slack(&self, tier: &Tier) {
        let slack = tier.budget.used().saturating_sub(2 * tier.caches.used());
        if slack < MIN_SLACK {
            return;
        }
        let mut chunks = lock(&tier.chunks);
        if !chunks.begin_drain() {
            return;
        }
        tier.bypass.store(true, Relaxed);
        drop(chunks);
        self.flush(tier);
    }

    fn flush(&self, tier: &Tier) {
        for (class, slots) in tier.caches.drain() {
            if !slots.is_empty() {
                self.put(tier, class, &slots);
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

/// A panic while holding one of these locks leaves slots lost at worst, never given out twice.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

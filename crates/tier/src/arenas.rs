//! The memory of one tree: an arena for each tier, side by side in one reserved address range.
//!
//! The tier of a node is a range check on its address. Memory is committed in chunks, each charged
//! to its tier's [`Budget`] before it is there and given back when its last slot is; slots are
//! cached per thread. Freed memory stays mapped (and reads as old content or zero), so a reader
//! that lost a race never faults. What is counted is what is committed, not what was asked for.

use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::TierId;
use crate::budget::Budget;
use crate::chunks::{CLASSES, Chunks, class_of, size_of_class};
use crate::lane::PerLane;
use crate::os::{self, PAGE, Reservation};

/// How to make an [`Arenas`].
#[derive(Clone, Debug)]
pub struct ArenasConfig {
    /// The tiers, fastest first; at least one.
    pub tiers: Vec<TierConfig>,
    /// Bytes committed at once: a power of two, at least a page. 2 MiB unless tests want less.
    pub chunk_bytes: usize,
    /// Whether to ask the kernel for 2 MiB pages.
    pub huge_pages: bool,
}

/// One tier's share of an [`ArenasConfig`].
#[derive(Clone, Debug)]
pub struct TierConfig {
    /// The most bytes to commit.
    pub limit: usize,
    /// The NUMA nodes to take memory from; empty: wherever the kernel likes.
    pub nodes: Vec<u32>,
}

impl ArenasConfig {
    /// Fast and slow memory of this many bytes, bound to no NUMA node.
    pub fn two_tiers(fast: usize, slow: usize) -> Self {
        let tier = |limit| TierConfig {
            limit,
            nodes: Vec::new(),
        };
        ArenasConfig {
            tiers: vec![tier(fast), tier(slow)],
            chunk_bytes: 2 << 20,
            huge_pages: true,
        }
    }

    /// Fast memory only.
    pub fn one_tier(bytes: usize) -> Self {
        let mut config = Self::two_tiers(bytes, 0);
        config.tiers.truncate(1);
        config
    }
}

/// A tier is full: its budget is used up, or the machine has no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Which tier.
    pub tier: TierId,
    /// Its limit, in bytes.
    pub limit: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "tier {} is full: its limit is {} bytes",
            self.tier.0, self.limit
        )
    }
}

impl std::error::Error for OutOfMemory {}

/// Why arenas could not be made.
#[derive(Debug)]
pub enum ArenasError {
    /// The address range could not be reserved.
    Reserve(usize, io::Error),
    /// A tier could not be bound to its NUMA nodes.
    Bind(TierId, Vec<u32>, io::Error),
    /// A table beside the arenas does not fit into fast memory: its bytes, and the fast limit.
    Table(usize, usize),
}

impl fmt::Display for ArenasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArenasError::Reserve(bytes, error) => {
                write!(f, "can't reserve {bytes} bytes of addresses: {error}")
            }
            ArenasError::Bind(tier, nodes, error) => {
                write!(
                    f,
                    "can't bind tier {} to NUMA nodes {nodes:?}: {error}",
                    tier.0
                )
            }
            ArenasError::Table(bytes, limit) => write!(
                f,
                "the heat table of {bytes} bytes does not fit into the fast budget of {limit} \
                 bytes: raise the budget or lower the slow limit"
            ),
        }
    }
}

impl std::error::Error for ArenasError {}

/// Slots a thread takes from the chunks at once, and twice the most it keeps.
const BATCH: usize = 16;

/// Free slots that a lane's threads keep for themselves, by class.
type Cache = Mutex<[Vec<usize>; CLASSES]>;

struct Tier {
    span: Range<usize>,
    /// The NUMA nodes its memory comes from; empty: any.
    nodes: Vec<u32>,
    budget: Budget,
    /// Bytes in slots that are handed out.
    used: AtomicUsize,
    chunks: Mutex<Chunks>,
    caches: PerLane<Cache>,
    /// Allocations until the one that is made to fail; 0: none.
    fails_in: AtomicU64,
}

/// The memory of one tree: an arena for each tier, side by side in one reserved address range. Committed bytes
/// never exceed a tier's limit; freed memory stays mapped, so a stale read never faults.
pub struct Arenas {
    range: Reservation,
    span: Range<usize>,
    chunk_bytes: usize,
    huge_pages: bool,
    tiers: Vec<Tier>,
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
            chunk.is_power_of_two() && chunk >= PAGE,
            "chunks of {chunk} bytes"
        );
        // Where a budget ends within a chunk, that chunk is partly committed; once it is given
        // back, the next may be smaller still. Spare addresses keep room for that.
        const SPARE: usize = 2;
        let counts = config
            .tiers
            .iter()
            .map(|tier| tier.limit.div_ceil(chunk) + SPARE);
        let counts: Vec<usize> = counts.collect();
        let sum = counts
            .iter()
            .try_fold(0usize, |sum, &count| sum.checked_add(count));
        let total = sum
            .and_then(|sum| sum.checked_mul(chunk))
            .ok_or_else(|| ArenasError::Reserve(usize::MAX, io::ErrorKind::OutOfMemory.into()))?;
        let range = Reservation::new(total, chunk).map_err(|e| ArenasError::Reserve(total, e))?;
        let span = range.base()..range.base() + total;

        let mut start = span.start;
        let mut tiers = Vec::new();
        for (index, (tier, &count)) in config.tiers.iter().zip(&counts).enumerate() {
            let bytes = count * chunk;
            if !tier.nodes.is_empty() {
                let bound = range.bind(start - span.start, bytes, &tier.nodes);
                bound.map_err(|e| ArenasError::Bind(TierId(index as u8), tier.nodes.clone(), e))?;
            }
            tiers.push(Tier {
                span: start..start + bytes,
                nodes: tier.nodes.clone(),
                budget: Budget::new(tier.limit),
                used: AtomicUsize::new(0),
                chunks: Mutex::new(Chunks::new(chunk, count)),
                caches: PerLane::default(),
                fails_in: AtomicU64::new(0),
            });
            start += bytes;
        }

        let (chunk_bytes, huge_pages) = (chunk, config.huge_pages);
        Ok(Arenas {
            range,
            span,
            chunk_bytes,
            huge_pages,
            tiers,
            tables: AtomicUsize::new(0),
        })
    }

    /// A slot of `size` bytes (a power of two from 64 to 65,536, no larger than a chunk), aligned to its size up
    /// to a page. Its content is undefined but initialised.
    ///
    /// # Errors
    /// The tier is full.
    pub fn allocate(&self, tier: TierId, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
        let class = class_of(size);
        assert!(
            size <= self.chunk_bytes,
            "slots of {size} bytes in chunks of {}",
            self.chunk_bytes
        );
        let this = &self.tiers[tier.index()];
        let full = OutOfMemory {
            tier,
            limit: this.budget.limit(),
        };
        if this.must_fail() {
            return Err(full);
        }
        let offset = this
            .take_cached(class)
            .or_else(|| self.refill(this, class))
            .or_else(|| {
                // What other threads keep for later is needed now.
                self.flush(this);
                self.refill(this, class)
            })
            .ok_or(full)?;
        this.used.fetch_add(size, Relaxed);
        Ok(NonNull::new((this.span.start + offset) as *mut u8).expect("arenas are not at 0"))
    }

    /// Gives a slot back.
    ///
    /// # Safety
    /// The slot was handed out by these arenas, for this size, was not given back since, and nobody uses it any more.
    #[allow(unsafe_code)]
    pub unsafe fn free(&self, slot: NonNull<u8>, size: usize) {
        let address = slot.as_ptr() as usize;
        let this = &self.tiers[self.tier_of(address).index()];
        this.used.fetch_sub(size, Relaxed);
        let class = class_of(size);
        let mut cache = lock(this.caches.assigned());
        cache[class].push(address - this.span.start);
        if cache[class].len() > 2 * BATCH {
            let returned: Vec<usize> = cache[class].drain(..BATCH).collect();
            drop(cache);
            self.put(this, returned);
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

    /// How many tiers there are.
    pub fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// The slowest tier.
    pub fn slowest(&self) -> TierId {
        TierId((self.tiers.len() - 1) as u8)
    }

    /// A tier's budget: limit, committed bytes, their peak.
    pub fn budget(&self, tier: TierId) -> &Budget {
        &self.tiers[tier.index()].budget
    }

    /// Bytes of a tier in slots that are handed out.
    pub fn used(&self, tier: TierId) -> usize {
        self.tiers[tier.index()].used.load(Relaxed)
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

    /// Asks the kernel where a tier's committed pages are.
    ///
    /// # Errors
    /// The kernel does not say (no `move_pages`).
    pub fn census(&self, tier: TierId) -> io::Result<PageCensus> {
        let this = &self.tiers[tier.index()];
        let committed: Vec<(usize, usize)> = lock(&this.chunks).committed().collect();
        let mut census = PageCensus::default();
        for (offset, bytes) in committed {
            let pages = (0..bytes)
                .step_by(PAGE)
                .map(|at| this.span.start + offset + at);
            let nodes = os::nodes_of_pages(&pages.collect::<Vec<_>>())?;
            census.pages += nodes.len();
            census.absent += nodes.iter().filter(|&&node| node < 0).count();
            let elsewhere = |&&node: &&i32| node >= 0 && !this.nodes.contains(&(node as u32));
            if !this.nodes.is_empty() {
                census.misplaced += nodes.iter().filter(elsewhere).count();
            }
        }
        Ok(census)
    }

    /// Makes the `nth` allocation in `tier` from now on fail (1 is the next), once. For tests of
    /// what a full tier does to an operation at every step.
    pub fn fail_nth(&self, tier: TierId, nth: u64) {
        self.tiers[tier.index()].fails_in.store(nth, Relaxed);
    }

    fn refill(&self, tier: &Tier, class: usize) -> Option<usize> {
        let mut chunks = lock(&tier.chunks);
        let first = match chunks.take(class) {
            Some(slot) => slot,
            None => {
                self.commit(tier, &mut chunks, class)?;
                chunks.take(class)?
            }
        };
        let more: Vec<usize> = (1..BATCH).map_while(|_| chunks.take(class)).collect();
        drop(chunks);
        lock(tier.caches.assigned())[class].extend(more.into_iter().rev());
        Some(first)
    }

    fn commit(&self, tier: &Tier, chunks: &mut Chunks, class: usize) -> Option<()> {
        let offset = chunks.next_vacant()?;
        let unit = size_of_class(class).max(PAGE);
        let bytes = tier.budget.charge_up_to(self.chunk_bytes, unit);
        if bytes == 0 {
            return None;
        }
        let start = tier.span.start - self.span.start + offset;
        let huge = self.huge_pages && bytes == self.chunk_bytes;
        self.range.use_huge_pages(start, self.chunk_bytes, huge);
        if self.range.commit(start, bytes).is_err() {
            self.range.decommit(start, bytes);
            tier.budget.release(bytes);
            return None;
        }
        chunks.add(class, bytes);
        Some(())
    }

    fn put(&self, tier: &Tier, offsets: Vec<usize>) {
        let mut chunks = lock(&tier.chunks);
        for offset in offsets {
            if let Some((start, bytes)) = chunks.put(offset) {
                self.range
                    .decommit(tier.span.start - self.span.start + start, bytes);
                tier.budget.release(bytes);
            }
        }
    }

    fn flush(&self, tier: &Tier) {
        for cache in tier.caches.iter() {
            let cached = std::mem::take(&mut *lock(cache));
            self.put(tier, cached.into_iter().flatten().collect());
        }
    }
}

impl Tier {
    fn take_cached(&self, class: usize) -> Option<usize> {
        lock(self.caches.assigned())[class].pop()
    }

    fn must_fail(&self) -> bool {
        self.fails_in.load(Relaxed) > 0 && self.fails_in.fetch_sub(1, Relaxed) == 1
    }
}

/// A panic while holding one of these locks leaves slots lost at worst, never given out twice.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

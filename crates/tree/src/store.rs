//! The state of a map beside its nodes: their memory, the placement, retired memory, and counters
//! that are striped by thread, so that writers share no cache line.
//!
//! The memory is in [`SharedState`]. Each retired node holds a reference to it until it is freed:
//! arenas stay mapped until the last node is gone.

mod capacity;
mod inside;
mod shared_state;

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use timberline_placement::{Access, Fill, LeafRef, NewNode, Placement};
use timberline_sync::Restart;
use timberline_sync::epoch::{Domain, Guard, Pinned};
use timberline_sync::shim::pause;
use timberline_tier::Striped;
use timberline_tier::{Memory, OutOfMemory, Slot, TierId};

use self::capacity::EffectiveCapacity;
use self::shared_state::{RetiredCount, SharedState};
use crate::Error;
use crate::error::Refused;
use crate::seeded::{self, Bug};
use crate::stats::Stats;
use crate::value::{Change, Dispose, Represent};

/// The memory and the placement of a map's nodes, and its counters.
pub struct Store<M> {
    state: Arc<SharedState<M>>,
    /// Not part of the state, which waits in it.
    domain: Domain,
    /// Frees a value whose word was taken out of its leaf; `None` if words own nothing.
    dispose: Option<Dispose>,
    /// Whether such values are in the arenas.
    in_arenas: bool,
    /// Whether there is a choice of tiers.
    has_tiers: bool,
    /// Of each tier.
    capacities: Box<[EffectiveCapacity]>,
    stripes: Striped<Stripe<M>>,
    /// Nodes moved to faster and to slower memory.
    promoted: AtomicU64,
    demoted: AtomicU64,
}

/// Counters of the threads of one stripe.
struct Stripe<M> {
    /// Lookups that come to a bucket of copies until one is counted.
    to_count: AtomicU32,
    /// Records inserted less records removed by threads of this stripe.
    records: AtomicI64,
    /// The same for leaves, where a map counts them.
    leaves: AtomicI64,
    /// Nodes that these threads retired and that are not freed yet.
    retired: RetiredCount<M>,
}

impl<M> Deref for Store<M> {
    type Target = SharedState<M>;

    #[inline(always)]
    fn deref(&self) -> &SharedState<M> {
        &self.state
    }
}

impl<M: Memory> Store<M> {
    /// A store without nodes, for values of a representation. What is retired waits in `domain`.
    pub fn new<H: Represent>(memory: M, placement: Arc<dyn Placement>, domain: Domain) -> Self {
        let stripe = || Stripe {
            to_count: AtomicU32::new(1),
            records: AtomicI64::new(0),
            leaves: AtomicI64::new(0),
            retired: RetiredCount::default(),
        };
        let tiers = memory.arenas().tiers();
        Store {
            state: Arc::new(SharedState { memory, placement }),
            domain,
            dispose: H::DISPOSE,
            in_arenas: H::IN_BLOCKS,
            has_tiers: tiers > 1,
            capacities: (0..tiers).map(|_| EffectiveCapacity::default()).collect(),
            stripes: Striped::new(stripe),
            promoted: AtomicU64::new(0),
            demoted: AtomicU64::new(0),
        }
    }

    /// The domain in which retired nodes wait.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Calls a user's closure, which must not use the map: in debug builds it panics if it does.
    #[inline(always)]
    pub fn call<R>(&self, closure: impl FnOnce() -> R) -> R {
        inside::call(self.address(), closure)
    }

    /// Pins the calling thread: as long as it has the guard, no node that it can reach is freed.
    #[inline(always)]
    pub fn pin(&self) -> Guard<'_> {
        inside::check(self.address());
        self.domain.pin()
    }

    /// The proof that a guard lives, which has to be one of this map's.
    #[inline(always)]
    pub fn pinned<'g>(&self, guard: &'g Guard<'_>) -> Pinned<'g> {
        debug_assert!(guard.is_of(&self.domain), "a guard of this map");
        guard.pinned()
    }

    /// Memory for a node where the placement wants it, or in the next slower tier with room. Never
    /// in a faster one: the placement keeps free fast memory for inner nodes and promotions. Where
    /// there is no choice, it is not asked.
    #[inline(always)]
    pub fn allocate(&self, new: NewNode, bytes: usize) -> Result<Slot<'_>, OutOfMemory> {
        match self.has_tiers {
            true => self.allocate_from(self.placement.place(new), bytes),
            false => self.allocate_in(TierId::FAST, bytes),
        }
    }

    /// Memory in this tier, or in the next slower one with room.
    #[inline(always)]
    pub fn allocate_from(&self, tier: TierId, bytes: usize) -> Result<Slot<'_>, OutOfMemory> {
        let tier = tier.min(self.arenas().slowest());
        self.allocate_in(tier, bytes)
            .or_else(|full| self.allocate_below(tier, bytes, full))
    }

    /// Memory in the next slower tier with room: this one is full.
    #[cold]
    fn allocate_below(
        &self,
        tier: TierId,
        bytes: usize,
        full: OutOfMemory,
    ) -> Result<Slot<'_>, OutOfMemory> {
        match tier == self.arenas().slowest() {
            true => Err(full),
            false => self.allocate_from(TierId(tier.0 + 1), bytes),
        }
    }

    /// Memory for a node in this tier.
    #[inline(always)]
    pub fn allocate_in(&self, tier: TierId, bytes: usize) -> Result<Slot<'_>, OutOfMemory> {
        let arenas = self.arenas();
        match arenas.slot(tier, bytes) {
            Ok(slot) => Ok(slot),
            Err(full) => {
                self.ran_out(tier);
                Err(full)
            }
        }
    }

    /// Remembers what a tier holds while it is full.
    #[cold]
    fn ran_out(&self, tier: TierId) {
        let used = self.arenas().used(tier);
        self.capacities[tier.index()].ran_out(used);
    }

    /// Runs `free`, which frees about `bytes` bytes, once no thread can reach a node any more that
    /// is unlinked and retired.
    pub fn reclaim(
        &self,
        guard: &Guard,
        bytes: usize,
        free: impl FnOnce(&SharedState<M>) + Send + 'static,
    ) {
        debug_assert!(guard.is_of(&self.domain), "a guard of this map");
        if seeded::has(Bug::FreedAtOnce) {
            return free(self);
        }
        self.stripes
            .assigned()
            .retired
            .add(&self.state, guard, bytes, free);
        // A full bag is flushed only when its thread fills the next one. If memory is short, other
        // threads need it earlier. Not here, though: the caller holds locks that deferred calls
        // may need.
        if self.is_short() {
            guard.flush_at_end();
        }
    }

    /// The function that releases a retired value, if values own anything.
    #[inline(always)]
    pub fn dispose(&self) -> Option<Dispose> {
        self.dispose
    }

    /// Whether values' words refer to blocks in the arenas.
    #[inline(always)]
    pub fn has_blocks(&self) -> bool {
        self.in_arenas
    }

    /// The function that releases the values of a map when it ends, if they own anything outside
    /// its arenas.
    pub fn dispose_at_end(&self) -> Option<Dispose> {
        self.dispose.filter(|_| !self.in_arenas)
    }

    /// Whether the slowest tier is nearly full.
    fn is_short(&self) -> bool {
        let arenas = self.arenas();
        let slowest = arenas.slowest();
        let many = arenas.usable(slowest) / 16 * 15;
        // Used bytes are at most the committed ones, which are one counter and so cheap to read.
        arenas.budget(slowest).used() > many && arenas.used(slowest) > many
    }

    /// The number of nodes that are retired and not freed yet.
    pub fn retired(&self) -> usize {
        let retired = self.stripes.iter().map(|stripe| stripe.retired.count());
        retired.sum()
    }

    /// Reclaims retired nodes after memory ran out. Returns whether that freed any. The calling
    /// thread must not be pinned, or it would wait for itself. Other threads may be pinned and
    /// descheduled, so this waits a little.
    #[cold]
    pub fn reclaimed(&self) -> bool {
        let before = self.retired();
        before > 0
            && (0..64).any(|attempt| {
                self.domain.collect_all();
                let freed = self.retired() < before;
                if !freed {
                    pause(attempt);
                }
                freed
            })
    }

    /// Calls `attempt`, and again each time that it runs out of memory and some can be reclaimed.
    #[inline(always)]
    pub fn reclaiming<C: Change, R>(
        &self,
        change: &mut C,
        mut attempt: impl FnMut(&mut C) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        loop {
            let outcome = attempt(change);
            let Err(Refused::OutOfMemory(..)) = outcome else {
                return outcome;
            };
            change.forget();
            if !self.reclaimed() {
                return outcome;
            }
        }
    }

    /// The user's error for a refusal.
    #[cold]
    pub fn error(&self, refused: Refused) -> Error {
        match refused {
            Refused::OutOfMemory(tier, of) => Error::OutOfMemory(self.arenas().out_of(tier, of)),
            Refused::KeyTooLong(bytes) => Error::KeyTooLong(bytes as usize),
            Refused::ValueTooLong(bytes) => Error::ValueTooLong(bytes as usize),
        }
    }

    /// Bytes in nodes and beside them, in all tiers.
    pub fn used(&self) -> usize {
        let arenas = self.arenas();
        let used = (0..arenas.tiers()).map(|tier| arenas.used(TierId(tier as u8)));
        used.sum()
    }

    /// Whether the placement samples this access to a leaf. If so, call [`Store::report`] next.
    #[inline(always)]
    pub fn report_is_due(&self, guard: &Guard) -> bool {
        debug_assert!(guard.is_of(&self.domain), "a guard of this map");
        guard.count_down()
    }

    /// Whether this lookup is sampled (one in `every` is) to count that a record's copy served it,
    /// or would have served it.
    #[inline(always)]
    pub fn counts_use(&self, every: u32) -> bool {
        let to_count = &self.stripes.mine().to_count;
        // Threads that share a stripe may take it below zero.
        let left = to_count.load(Relaxed).wrapping_sub(1) as i32;
        let is_due = left <= 0;
        to_count.store(if is_due { every } else { left as u32 }, Relaxed);
        is_due
    }

    /// Reports a sampled access to the placement: `with_leaf` passes the leaf to its argument. The
    /// placement's answer is the distance to the next sample. If `with_leaf` fails, the next access
    /// is sampled.
    #[cold]
    #[inline(never)]
    pub fn report(
        &self,
        access: Access,
        guard: &Guard,
        with_leaf: impl FnOnce(&dyn Fn(LeafRef<'_>) -> u32) -> Result<u32, Restart>,
    ) {
        // Also where the placement panics.
        guard.set_countdown(1);
        let pass = with_leaf(&|leaf| self.placement.on_access(leaf, access));
        guard.set_countdown(pass.unwrap_or(1));
    }

    /// Reports a sampled access to a record's copy, in the page of this number, to the placement.
    #[cold]
    #[inline(never)]
    pub fn report_copy(&self, page: usize, guard: &Guard) {
        guard.set_countdown(1);
        guard.set_countdown(self.placement.on_copy_access(page));
    }

    /// Adds to the count of records; negative for removed ones.
    #[inline(always)]
    pub fn count(&self, change: i64) {
        self.stripes.assigned().records.fetch_add(change, Relaxed);
    }

    /// The number of records; exact while no thread writes.
    pub fn records(&self) -> usize {
        let records = self
            .stripes
            .iter()
            .map(|stripe| stripe.records.load(Relaxed));
        records.sum::<i64>().max(0) as usize
    }

    /// Adds to the count of leaves, if a placement may need it; negative for removed ones.
    #[inline(always)]
    pub fn count_leaves(&self, change: i64) {
        if self.has_tiers {
            self.stripes.assigned().leaves.fetch_add(change, Relaxed);
        }
    }

    /// The number of leaves, for a map that counts them; exact while no thread writes.
    pub fn leaves(&self) -> usize {
        let leaves = self
            .stripes
            .iter()
            .map(|stripe| stripe.leaves.load(Relaxed));
        leaves.sum::<i64>().max(0) as usize
    }

    /// Counts a node of this many bytes that moved from one tier to another.
    pub fn count_move(&self, from: TierId, to: TierId, bytes: usize) {
        let moves = match to.cmp(&from) {
            Ordering::Less => &self.promoted,
            Ordering::Equal => return,
            Ordering::Greater => &self.demoted,
        };
        moves.fetch_add(1, Relaxed);
        self.capacities[from.index()].left(bytes);
    }

    /// The numbers of nodes promoted and demoted so far.
    pub fn moves(&self) -> (u64, u64) {
        (self.promoted.load(Relaxed), self.demoted.load(Relaxed))
    }

    /// The fill of a tier, relative to its [`EffectiveCapacity`].
    pub fn fill(&self, tier: TierId) -> Fill {
        let arenas = self.arenas();
        if tier > arenas.slowest() {
            return Fill::default();
        }
        let (used, budget) = (arenas.used(tier), arenas.budget(tier));
        let vacant = budget.limit().saturating_sub(budget.used());
        let limit = self.capacities[tier.index()].limit(used, arenas.usable(tier), vacant);
        Fill { used, limit }
    }

    /// Bytes committed in the fast tier (tables included) and in slower ones.
    pub fn committed(&self) -> (usize, usize) {
        let arenas = self.arenas();
        let committed = |tier: usize| arenas.budget(TierId(tier as u8)).used();
        (committed(0), (1..arenas.tiers()).map(committed).sum())
    }

    /// The statistics that need no walk; all others are 0.
    pub fn stats(&self) -> Stats {
        let (fast_bytes, slow_bytes) = self.committed();
        let (promoted, demoted) = self.moves();
        Stats {
            records: self.records(),
            fast_bytes,
            slow_bytes,
            promoted,
            demoted,
            stuck_threads: self.domain.stuck(),
            live_futures: self.domain.owned_guards(),
            ..Stats::default()
        }
    }
}

impl<M> Drop for Store<M> {
    /// The rest is freed when the domain ends. If other maps share the domain, this frees the nodes
    /// that can be freed by now.
    fn drop(&mut self) {
        self.domain.collect();
    }
}

/// The caller of a lookup: a pinned thread, or a future that may continue in another thread.
pub(crate) trait Caller: Copy {
    /// Calls `work` with a guard of the thread that runs now.
    fn with_guard<M: Memory>(self, store: &Store<M>, work: impl FnOnce(&Guard<'_>));
}

impl Caller for &Guard<'_> {
    #[inline(always)]
    fn with_guard<M: Memory>(self, _: &Store<M>, work: impl FnOnce(&Guard<'_>)) {
        work(self);
    }
}

/// A future.
#[derive(Clone, Copy)]
pub(crate) struct AnyThread;

impl Caller for AnyThread {
    fn with_guard<M: Memory>(self, store: &Store<M>, work: impl FnOnce(&Guard<'_>)) {
        work(&store.pin());
    }
}

/// Repeats an optimistic attempt until no writer interferes.
#[inline(always)]
pub(crate) fn retry<R>(mut attempt: impl FnMut() -> Result<R, Restart>) -> R {
    for tries in 0.. {
        if let Ok(result) = attempt() {
            return result;
        }
        pause(tries);
    }
    unreachable!("retried forever")
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use crate::btree::find::NodeName;
    use crate::{Art, BTree, Masstree};

    #[test]
    #[should_panic(expected = "a guard of this map")]
    fn a_btree_is_not_entered_under_another_maps_guard() {
        let [map, other] = [(); 2].map(|()| BTree::<u64, u64>::new());
        map.tree.words().leaf(7, &other.tree.words().store.pin());
    }

    #[test]
    #[should_panic(expected = "a guard of this map")]
    fn no_node_is_found_under_another_maps_guard() {
        let [map, other] = [(); 2].map(|()| Masstree::<str, u64>::new());
        let guard = other.tree.store.pin();
        let _found = map.tree.find(NodeName::leaf(7), &guard);
    }

    #[test]
    #[should_panic(expected = "a guard of this map")]
    fn an_art_is_not_entered_under_another_maps_guard() {
        let [map, other] = [(); 2].map(|()| Art::<str, u64>::new());
        map.tree.terminal_of(b"key", &other.tree.store.pin());
    }
}

//! `timberline`: our placement. It keeps the structure of SIDLE (§4), and replaces the parts that
//! measurement showed to cost or to lose something:
//!
//! - *Tracking.* SIDLE increments a counter in the leaf at every access. Here one access in 4–64 is
//!   sampled and raises a counter, which for B+trees is in a table in fast memory ([`heat`]): a
//!   read dirties no line that others read, and writes nothing to slow memory.
//! - *Candidates.* SIDLE's trigger scans all leaves. Here promotion candidates come from samples,
//!   and only counters of the fast tier are swept: the cost grows with fast memory, not with the
//!   data.
//! - *Thresholds.* SIDLE derives them from a histogram and two target percentages. Here a hot slow
//!   leaf replaces the coldest fast one if it is clearly hotter ([`exchange`]): nothing to tune,
//!   and fast memory is always full of the hottest leaves seen.
//! - *Watermarks.* SIDLE keeps 5–15 % of fast memory free. Here a reserve of about 1 % is for new
//!   inner nodes.
//! - *Cooling.* SIDLE halves heat every 2 s. Here cooling follows the number of samples for each
//!   fast leaf ([`pace`]): where accesses are slow, they are not forgotten faster than they come.
//!
//! The single boundary is kept as in SIDLE: ancestors are promoted before their leaf, and an inner
//! node is demoted only when none of its children is fast.
//!
//! With more than two tiers the worker does the same at the boundary below each tier but the
//! slowest ([`faster`]), from the fast tier on.

mod allowance;
mod backoff;
mod chance;
mod clock;
mod compaction;
mod copies;
mod estimates;
mod exchange;
mod faster;
mod heat;
mod mover;
mod pace;
mod sampling;
mod scale;
mod search;
mod victims;

use std::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};
use std::sync::{Arc, Mutex};

use timberline_tier::Striped;
use timberline_tier::{Arenas, ArenasError, TierId};

use crate::queue::{NodeQueue, heap_of_broken_paths, heap_of_candidates};
use crate::workers::Worker;
use crate::{Access, KeyBytes, LeafRef, MAX_SAMPLE_INTERVAL, NewNode, NodeKey, Placement, View};
use allowance::Allowance;
use chance::Reached;
use estimates::Estimates;
use heat::{Heat, SAMPLE};
use mover::Mover;
use sampling::{Draws, Sampling};
use scale::Scale;

pub use heat::HeatIn;

/// Settings. The defaults are measured (`docs/design/placement.md`).
#[derive(Clone, Debug)]
pub struct TimberlineConfig {
    /// Accesses of a thread from one sample to the next while heat is little known; a quarter of it
    /// where heat is in leaves.
    pub densest: u32,
    /// The same once heat is well known; at most [`MAX_SAMPLE_INTERVAL`].
    pub sparsest: u32,
    /// Samples for each fast leaf between two coolings; a sixth of it where leaves hold some
    /// records.
    pub samples_per_cooling: u32,
    /// The fraction of fast memory kept free for new inner nodes.
    pub reserve: f64,
    /// The largest fraction of fast memory for the record cache, 0 (no copies) to 1, in trees that
    /// have one. Its actual size adapts.
    pub copies: f64,
}

impl Default for TimberlineConfig {
    fn default() -> Self {
        TimberlineConfig {
            densest: 4,
            sparsest: 64,
            samples_per_cooling: 64,
            reserve: 0.005,
            copies: 0.75,
        }
    }
}

/// What the threads of one stripe saw since the worker's last round. Samples are counted by their
/// heat, in eighths.
#[derive(Default)]
struct Seen {
    /// Of reports, whether or not they are samples.
    draws: Draws,
    /// Sampled accesses.
    samples: AtomicU64,
    /// Of these, accesses to slow leaves.
    slow: AtomicU64,
    /// Slow leaves by samples, where leaves are records.
    reached: Reached,
    /// Of these, accesses served by a warm page of the record cache.
    copied: AtomicU64,
    /// Slow leaves that seem hot: promotion candidates.
    candidates: Mutex<Vec<Candidate>>,
}

/// A promotion candidate with its heat.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Candidate {
    what: Promotable,
    heat: u16,
    /// Its tier when it was sampled; the slowest for what is in none.
    from: TierId,
}

/// What is known at the boundary below a tier.
struct Boundary {
    /// A leaf of the next slower tier below this heat is no candidate.
    floor: AtomicU16,
    /// How many more leaves may be made in the tier before the worker's next round.
    allowance: Allowance,
    /// Nodes of slower tiers above children in this one.
    broken: NodeQueue,
}

impl Boundary {
    /// Below a tier in which `usable` bytes are for nodes.
    fn new(usable: usize, home: HeatIn, scale: &Scale, reserve: f64) -> Boundary {
        let slot_bytes = home.slot_bytes();
        let allowance = scale.leaves_at_first(usable / slot_bytes, slot_bytes, reserve);
        Boundary {
            floor: AtomicU16::new(SAMPLE),
            allowance: Allowance::new(allowance as i64),
            broken: NodeQueue::within(heap_of_broken_paths(usable)),
        }
    }
}

impl Candidate {
    /// Bytes that it takes while it waits, with its key.
    fn bytes(&self) -> usize {
        let key = match &self.what {
            Promotable::Leaf(fence) => fence.heap_bytes(),
            Promotable::Page => 0,
        };
        size_of::<Self>() + key
    }
}

/// The subject of a promotion.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Promotable {
    /// A slow leaf that was accessed.
    Leaf(KeyBytes),
    /// One more page of the record cache.
    Page,
}

/// The placement `timberline`: heat is sampled, and hot slow leaves change places with cold fast
/// ones. `docs/design/placement.md` explains how and why.
pub struct Timberline {
    config: TimberlineConfig,
    home: HeatIn,
    scale: Scale,
    heat: Heat,
    /// Accesses between two samples, now.
    interval: AtomicU32,
    /// By the faster tier.
    boundaries: Box<[Boundary]>,
    seen: Striped<Seen>,
    /// Bytes of the candidates that wait for the worker, and the most that may wait.
    waiting: AtomicUsize,
    most_waiting: usize,
    /// How many pages of the record cache are warm: the first ones.
    mature: AtomicUsize,
    /// Of the mover's last round, once [`Timberline::estimates`] was called.
    estimates: Mutex<Estimates>,
    is_viewed: AtomicBool,
}

impl Timberline {
    /// A placement for one tree in `arenas`, which the tree is then given.
    ///
    /// # Errors
    /// There are too few addresses for the heat table.
    ///
    /// # Panics
    /// If the heat is in a table, and these arenas are in use or have another one.
    pub fn new(
        arenas: &Arenas,
        home: HeatIn,
        config: TimberlineConfig,
    ) -> Result<Arc<Self>, ArenasError> {
        let heat = Heat::new(arenas, home)?;
        let scale = Scale::of(home);
        let usable = arenas.usable(TierId::FAST);
        // In one tier nothing moves, but what is reported has a place.
        let faster = 0..arenas.tiers().saturating_sub(1).max(1);
        let boundary = |tier| {
            let usable = arenas.usable(TierId(tier as u8));
            Boundary::new(usable, home, &scale, config.reserve)
        };
        Ok(Arc::new(Timberline {
            heat,
            interval: AtomicU32::new((config.densest / scale.denser).max(1)),
            boundaries: faster.map(boundary).collect(),
            seen: Striped::default(),
            waiting: AtomicUsize::new(0),
            most_waiting: heap_of_candidates(usable),
            mature: AtomicUsize::new(0),
            estimates: Mutex::default(),
            is_viewed: AtomicBool::new(false),
            home,
            scale,
            config,
        }))
    }

    /// The one worker: it exchanges leaves, keeps the reserve, restores the boundary, cools.
    pub fn workers(self: &Arc<Self>) -> Vec<Box<dyn Worker>> {
        vec![Box::new(Mover::new(self.clone()))]
    }

    /// Samples for each fast leaf between two coolings.
    fn samples_per_cooling(&self) -> u64 {
        u64::from((self.config.samples_per_cooling / self.scale.cooling).max(1))
    }

    fn sampling(&self) -> Sampling {
        Sampling::new(self.interval(), self.boundaries.len() + 1)
    }

    /// The heat from which on a leaf of this tier, which is not the fast one, is a candidate.
    fn floor_below(&self, tier: TierId) -> u16 {
        self.boundaries[tier.index() - 1].floor.load(Relaxed)
    }

    /// Whether a page of the record cache is warm: its samples tell the value of pages.
    fn is_mature(&self, page: usize) -> bool {
        page < self.mature.load(Relaxed)
    }

    /// Accesses of a thread from one sample to the next, now.
    pub fn interval(&self) -> u32 {
        self.interval.load(Relaxed)
    }
}

/// Counts a sample of this heat. Threads of one stripe may lose one, and so may the worker's reset:
/// an atomic add would cost more than the count is worth.
fn count(samples: &AtomicU64, heat: u16) {
    samples.store(samples.load(Relaxed) + u64::from(heat), Relaxed);
}

impl Placement for Timberline {
    fn place(&self, node: NewNode) -> TierId {
        let beside = node.parent.max(node.split_from);
        if node.height > 0 {
            // They may use the reserve. Where they take half of all memory: only above what is as
            // fast. Paths come with leaves.
            return match self.scale.records {
                true => beside,
                false => node.parent,
            };
        }
        // Both halves of a leaf are equally hot.
        let mut tier = beside;
        while let Some(boundary) = self.boundaries.get(tier.index())
            && !boundary.allowance.take()
        {
            tier = TierId(tier.0 + 1);
        }
        tier
    }

    fn on_access(&self, leaf: LeafRef<'_>, access: Access) -> u32 {
        if access == Access::Insert {
            // Inserts do not tell what will be read.
            let pass = self.interval.load(Relaxed).max(self.config.densest);
            return pass.min(MAX_SAMPLE_INTERVAL);
        }
        let (sampling, seen) = (self.sampling(), self.seen.assigned());
        let more = sampling.heat(leaf.tier, &seen.draws);
        if more == 0 {
            return sampling.pass(&seen.draws);
        }
        let heat = self.heat.warm(leaf, more);
        count(&seen.samples, more);
        if !leaf.tier.is_fast() {
            count(&seen.slow, more);
            if self.scale.margin.by_chance {
                seen.reached.add(heat, more);
            }
            // The worker, or a thread of the same stripe, may hold the buffer: then skip this one.
            if heat >= self.floor_below(leaf.tier)
                && self.waiting.load(Relaxed) < self.most_waiting
                && let Ok(mut candidates) = seen.candidates.try_lock()
                && candidates.len() < self.scale.candidates
            {
                let what = Promotable::Leaf(leaf.fence.to_bytes());
                let from = leaf.tier;
                let candidate = Candidate { what, heat, from };
                // The worker takes the candidates under the same lock, so it subtracts what was
                // added.
                self.waiting.fetch_add(candidate.bytes(), Relaxed);
                candidates.push(candidate);
            }
        }
        sampling.pass(&seen.draws)
    }

    fn leaf_split(&self, left: LeafRef<'_>, right: LeafRef<'_>) {
        let half = self.heat.get(left) / 2;
        self.heat.set(left, half);
        self.heat.set(right, half);
    }

    fn leaf_moved(&self, from: LeafRef<'_>, to: LeafRef<'_>) {
        self.heat.set(to, self.heat.get(from));
    }

    fn leaf_freed(&self, address: usize) {
        self.heat.forget(address);
    }

    fn record_pages(&self, nodes: usize) -> usize {
        (nodes as f64 * self.config.copies.clamp(0.0, 1.0)) as usize
    }

    fn on_copy_access(&self, page: usize) -> u32 {
        let (sampling, seen) = (self.sampling(), self.seen.assigned());
        let heat = sampling.heat(TierId::FAST, &seen.draws);
        count(&seen.samples, heat);
        let warm = if self.is_mature(page) { heat } else { 0 };
        count(&seen.copied, warm);
        sampling.pass(&seen.draws)
    }

    fn boundary_broken(&self, node: NodeKey, fastest: TierId) {
        if let Some(boundary) = self.boundaries.get(fastest.index()) {
            boundary.broken.push(node);
        }
    }

    fn view(&self) -> Option<View> {
        Some(self.estimates())
    }
}

#[cfg(test)]
mod tests {
    mod heap;
    mod simulation;

    use super::*;

    #[test]
    fn what_is_done_by_turns_is_all_seen() {
        let arenas = timberline_tier::ArenasConfig::two_tiers(1 << 20, 1 << 20);
        let arenas = Arenas::new(&arenas).unwrap();
        let home = HeatIn::Table { node_bytes: 1024 };
        let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
        for interval in [1, 2, 4, 6, 63, 64, MAX_SAMPLE_INTERVAL] {
            policy.interval.store(interval, Relaxed);
            let (mut access, mut seen) = (0u64, [0; 2]);
            for _ in 0..10_000 {
                let pass = policy.on_copy_access(0);
                assert!((1..=MAX_SAMPLE_INTERVAL).contains(&pass));
                access += u64::from(pass);
                seen[access as usize % 2] += 1;
            }
            let pass = access as f64 / 10_000.0;
            let most = f64::from(interval).max(1.2);
            assert!(
                pass > 0.85 * f64::from(interval) && pass < 1.05 * most,
                "{pass} for {interval}"
            );
            assert!(
                seen[0] > 4_000 && seen[1] > 4_000,
                "{seen:?} of every {interval}"
            );
        }
    }

    #[test]
    fn new_inner_nodes_are_fast_where_they_belong() {
        let arenas = timberline_tier::ArenasConfig::two_tiers(1 << 20, 1 << 20);
        let arenas = Arenas::new(&arenas).unwrap();
        let (fast, slow) = (TierId::FAST, TierId::SLOW);
        for (home, under_fast_beside_slow) in [
            (HeatIn::Table { node_bytes: 1024 }, fast),
            (HeatIn::Leaf { leaf_bytes: 24 }, slow),
        ] {
            let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
            let place = |height, parent, split_from| {
                let level = 3 - height;
                policy.place(NewNode {
                    height,
                    level,
                    parent,
                    split_from,
                })
            };
            assert_eq!(place(1, fast, slow), under_fast_beside_slow, "{home:?}");
            assert_eq!(place(1, fast, fast), fast);
            assert_eq!(place(1, slow, fast), slow);
            assert_eq!(place(0, fast, slow), slow);
            assert_eq!(place(0, fast, fast), fast);
        }
    }
}

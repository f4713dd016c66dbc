//! The worker of `timberline`: exchanges leaves, keeps the reserve, restores the single boundary.
//!
//! A round reads the heat of fast leaves ([`victims`](super::victims)) and makes the moves it
//! decides on. Of slow leaves it reads promotion candidates only.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timberline_tier::TierId;

use super::copies::Copies;
use super::estimates::Estimates;
use super::exchange::{Margin, Pages, Plan};
use super::faster::{FasterTier, Rest};
use super::pace::{BRISK, Pace};
use super::victims::Victim;
use super::{Candidate, Promotable, SAMPLE, Seen, Timberline};
use crate::workers::{Next, Worker, lock};
use crate::{MAX_SAMPLE_INTERVAL, Move, Placed};

/// Moves before the memory of demoted nodes is reclaimed: small enough for the reserve to last.
pub const BATCH: usize = 64;
/// A record of two words takes about so many bytes of a leaf.
const BYTES_OF_RECORD: usize = 20;
/// Below this fill of fast memory the heat of its leaves is of no use yet.
const ROOM: f64 = 0.75;

pub struct Mover {
    policy: Arc<Timberline>,
    fast: FasterTier,
    /// The tiers between the fast and the slowest one.
    lower: Vec<FasterTier>,
    pace: Pace,
    uncooled: u64,
    copies: Copies,
    /// A sequence of draws, to choose inner nodes where no leaf is left to demote.
    draw: u64,
}

impl Mover {
    pub(super) fn new(policy: Arc<Timberline>) -> Self {
        let faster = |tier: usize| FasterTier::new(policy.clone(), TierId(tier as u8));
        let (fast, lower) = (
            faster(0),
            (1..policy.boundaries.len()).map(faster).collect(),
        );
        let (config, scale) = (&policy.config, &policy.scale);
        let densest = config.densest / scale.denser;
        let pace = Pace::new(densest, config.sparsest, scale.thinning);
        Mover {
            policy,
            fast,
            lower,
            pace,
            uncooled: 0,
            copies: Copies::default(),
            draw: 0,
        }
    }

    /// Promotion candidates since the last round, each leaf once.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let mut all = Vec::new();
        for seen in self.policy.seen.iter() {
            // The vector is freed too, or it would keep the capacity of its largest round.
            let mut taken = std::mem::take(&mut *lock(&seen.candidates));
            let bytes = taken.iter().map(Candidate::bytes).sum();
            self.policy.waiting.fetch_sub(bytes, Relaxed);
            match all.is_empty() {
                true => all = taken,
                false => all.append(&mut taken),
            }
        }
        all.sort_unstable_by(|one, two| one.what.cmp(&two.what).then(two.heat.cmp(&one.heat)));
        all.dedup_by(|later, kept| later.what == kept.what);
        all
    }

    /// Exchanges leaves and pages at all boundaries. Returns how many leaves change places at the
    /// fast tier.
    fn exchange(&mut self, tree: &dyn Placed, now: Duration) -> usize {
        let policy = self.policy.clone();
        let mut candidates = self.candidates();
        let fill = tree.fill(TierId::FAST);
        let slot_bytes = self.fast.bytes_of_leaf(tree, fill);
        let slots = fill.limit / slot_bytes;
        let kept = policy
            .scale
            .reserve(slots, slot_bytes, policy.config.reserve) as isize;
        let free = slots as isize - (fill.used / slot_bytes) as isize - kept;
        // Within the slack nothing is promoted into free memory, and there is no victim.
        let mut free = free.max((free + policy.scale.slack(kept)).min(0));
        if self.fast.stranded {
            // Leaves can still change places.
            free = free.min(0);
        }
        if policy.scale.records && fill.used <= self.fast.used {
            // Where a promotion found no slot of its size, the limit is what was in use then. New
            // nodes may need the reserve below it; without any, to demote leaves for it frees slots
            // of other sizes, and the limit sinks with each failure.
            free = free.max(0);
        }

        let mut pages = self.pages(tree);
        let margin = self.margin(tree);
        let histogram = self.fast.victims.histogram(tree);
        let fast_leaves = histogram.total();
        let (_, most_pages) = useful_pages(tree);
        let room = free.max(0) as usize + histogram.up_to(pages.heat);
        if !self.copies.pay((pages.count + room).min(most_pages), now) {
            Self::give_back(tree, pages.count);
            free += pages.count as isize;
            pages = Pages::default();
        }
        let coldest = histogram.nth_coldest(1 + fast_leaves / 100);
        let among_coldest = margin.worth_it(coldest);
        let (more, heat) = self
            .copies
            .candidates(useful_pages(tree), among_coldest, now);
        let what = Promotable::Page;
        let from = TierId(tree.tiers().saturating_sub(1));
        candidates.extend(std::iter::repeat_n(Candidate { what, heat, from }, more));
        // Not a stable sort, which takes memory; equally hot ones stay in the order of their keys.
        candidates.sort_unstable_by(|one, two| {
            let by_heat = two.heat.cmp(&one.heat);
            by_heat.then_with(|| one.what.cmp(&two.what))
        });
        let plan = histogram.plan(pages, &candidates, free, margin);
        // The next candidate must beat the coldest hundredth of the fast leaves after this plan.
        let mut then_coldest = histogram.nth_coldest(1 + plan.demote + fast_leaves / 100);
        if pages.count > plan.pages {
            then_coldest = then_coldest.min(pages.heat);
        }
        let is_viewed = policy.is_viewed.load(Relaxed);
        let estimates = is_viewed.then(|| Estimates::of(histogram, &candidates));

        let room = free - (plan.promote as isize - (plan.demote + plan.pages) as isize);
        let floor = match room > 0 || plan.demote == fast_leaves {
            // Without a fast leaf to beat, every sampled leaf is a candidate.
            true => SAMPLE,
            false => margin.worth_it(then_coldest),
        };
        let mut rest = Rest {
            coming: plan.demote as isize - from_second(&candidates[..plan.promote]),
            candidates: match self.lower.is_empty() {
                true => Vec::new(),
                false => candidates[plan.promote..].to_vec(),
            },
            floor,
        };
        // They make room first for what leaves the fast tier.
        for faster in &mut self.lower {
            rest = faster.exchange(tree, rest);
        }
        let (exchanged, failed) =
            self.move_both_ways(tree, &plan, &candidates, free.max(0) as usize);
        self.fast.found_full(tree, failed);
        // There are candidates but no fast leaf to demote: cold inner nodes fill fast memory.
        let stuck = match plan.demote == fast_leaves {
            true => candidates.len() - plan.promote,
            false => 0,
        };
        let mut short = ((-free).max(0) as usize).saturating_sub(plan.demote + plan.pages);
        if policy.scale.records {
            // An inner node takes as much memory as several leaves.
            short = short.min(BATCH);
        }
        if short > 0 || stuck > 0 {
            self.demote_inner(tree, short.max(stuck.min(BATCH)));
        }
        policy.boundaries[0].floor.store(floor, Relaxed);
        if let Some(estimates) = estimates {
            *lock(&policy.estimates) = Estimates {
                coldest: then_coldest,
                floor,
                filled: 1.0 - kept as f64 / slots.max(1) as f64,
                pages: tree.record_pages().0,
                ..estimates
            };
        }
        self.fast.used = tree.fill(TierId::FAST).used;
        // A new leaf is fast only below a fast node, so it needs room for little more than itself.
        let room = room.max(0) as usize * slot_bytes / tree.node_bytes();
        let leaves = policy.scale.leaves_in(room);
        policy.boundaries[0].allowance.renew(leaves as i64);
        exchanged
    }

    /// The margin of an exchange at the fast tier, now.
    fn margin(&mut self, tree: &dyn Placed) -> Margin {
        let margin = self.policy.scale.margin;
        if !margin.by_chance {
            return margin;
        }
        for seen in self.policy.seen.iter() {
            self.fast.chance.take(&seen.reached);
        }
        let slow = (1..tree.tiers()).map(|tier| tree.fill(TierId(tier)).used);
        let slow = slow.sum::<usize>() / tree.node_bytes();
        let least = self.fast.chance.least(slow, self.fast.victims.leaves(tree));
        Margin {
            least: least.into(),
            ..margin
        }
    }

    /// The pages of the record cache, with their heat.
    fn pages(&self, tree: &dyn Placed) -> Pages {
        match self.copies.heat_as_victims(useful_pages(tree)) {
            Some(heat) => Pages {
                count: tree.record_pages().0,
                heat,
            },
            // Their value is not known yet.
            None => Pages::default(),
        }
    }

    /// Drops pages of the record cache, and reclaims their memory.
    fn give_back(tree: &dyn Placed, pages: usize) {
        if (0..pages).filter(|_| tree.drop_record_page()).count() > 0 {
            tree.reclaim();
        }
    }

    /// Demotes the plan's victims and promotes its candidates. Returns how many leaves were
    /// promoted or demoted, whichever is more, and how many promotions found fast memory full.
    /// (Where those find no room, the victims tell as well that the hot set moves.)
    fn move_both_ways(
        &mut self,
        tree: &dyn Placed,
        plan: &Plan,
        candidates: &[Candidate],
        free: usize,
    ) -> (usize, usize) {
        Self::give_back(tree, plan.pages);
        let mut hot = candidates[..plan.promote].iter();
        let mut victims = self.fast.victims.victims(tree, plan).into_iter();
        let (mut promoted, mut demoted, mut failed) = (0, 0, 0);
        // Batches alternate: demotions make room for promotions.
        loop {
            let cold: Vec<Victim> = victims.by_ref().take(BATCH).collect();
            demoted += self.fast.demote_all(tree, &cold);
            let mut full = self.is_short(tree);
            let (mut batch, mut refused) = (0, 0);
            while !full && batch < BATCH.max(free) && refused < self.policy.scale.patience {
                let Some(candidate) = hot.next() else { break };
                batch += 1;
                let Promotable::Leaf(fence) = &candidate.what else {
                    refused += usize::from(!tree.add_record_page());
                    continue;
                };
                match tree.promote_path(fence.clone()) {
                    Move::Moved(nodes) => {
                        promoted += 1;
                        self.fast.promoted(fence, candidate.heat);
                        // Victims make room for leaves, but not for inner nodes.
                        full = nodes > 1 && self.is_short(tree);
                    }
                    Move::Full => refused += 1,
                    Move::AlreadyThere | Move::Stale | Move::Blocked => {}
                }
            }
            failed += refused;
            full |= refused == self.policy.scale.patience;
            if cold.is_empty() && (full || batch == 0) {
                return (promoted.max(demoted), failed);
            }
        }
    }

    /// Whether inner nodes that were promoted with leaves have used up their part of the reserve.
    fn is_short(&self, tree: &dyn Placed) -> bool {
        let (fill, scale) = (tree.fill(TierId::FAST), &self.policy.scale);
        let slot_bytes = tree.node_bytes();
        let slots = fill.limit / slot_bytes;
        let kept = scale.reserve(slots, slot_bytes, self.policy.config.reserve) as isize;
        let slack = scale.slack(kept);
        slack > 0 && slots as isize - (fill.used / slot_bytes) as isize <= kept - slack
    }

    /// Fast memory is full of inner nodes: demotes some of the lowest ones without fast children.
    /// Those that are needed come back with their hot leaves.
    fn demote_inner(&mut self, tree: &dyn Placed, wanted: usize) {
        let mut demoted = 0;
        for _ in 0..4 * wanted {
            if demoted == wanted {
                break;
            }
            // Weyl's sequence: equidistributed, no state but a word.
            self.draw = self.draw.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let Some(inner) = tree.lowest_fast_inner(self.draw) else {
                continue;
            };
            if let Move::Moved(_) = tree.demote(&inner) {
                demoted += 1;
            }
        }
        tree.reclaim();
    }

    /// Restores the boundary below each tier, from the fast one on.
    fn restore_boundaries(&mut self, tree: &dyn Placed) {
        let pages = self.pages(tree);
        let drop_pages = |pages| Self::give_back(tree, pages);
        self.fast.restore_boundary(tree, pages, drop_pages);
        for faster in &mut self.lower {
            faster.restore_boundary(tree, Pages::default(), |_| {});
        }
    }

    /// All tiers but the slowest.
    fn tiers(&mut self) -> impl Iterator<Item = &mut FasterTier> {
        std::iter::once(&mut self.fast).chain(&mut self.lower)
    }

    /// Halves all heat.
    fn cool(&mut self) {
        self.policy.heat.cool();
        for tier in self.tiers() {
            tier.cooled();
        }
        self.copies.cooled();
    }
}

impl Worker for Mover {
    fn name(&self) -> &'static str {
        "tl-mover"
    }

    fn step(&mut self, tree: &dyn Placed, now: Duration) -> Next {
        self.restore_boundaries(tree);
        let exchanged = self.exchange(tree, now);
        let mut tidies = false;
        for tier in self.tiers() {
            tidies |= tier.compact(tree, now);
        }
        let policy = self.policy.clone();
        let taken = |counter: fn(&Seen) -> &AtomicU64| -> u64 {
            policy
                .seen
                .iter()
                .map(|seen| counter(seen).swap(0, Relaxed))
                .sum()
        };
        let each = u64::from(SAMPLE);
        let samples = taken(|seen| &seen.samples) / each;
        let slow = taken(|seen| &seen.slow) / each;
        let saved = taken(|seen| &seen.copied) as f64 / f64::from(SAMPLE);
        let pages = tree.record_pages().0;
        let mature = self.copies.observe(samples, saved, pages, now);
        let bytes: usize = (1..tree.tiers())
            .map(|tier| tree.fill(TierId(tier)).used)
            .sum();
        let accesses = samples * u64::from(policy.interval());
        self.copies.learn(accesses, pages, bytes / BYTES_OF_RECORD);
        policy.mature.store(mature, Relaxed);
        let fast = self.fast.victims.leaves(tree);
        self.uncooled += samples;
        let enough = policy.samples_per_cooling() * fast.max(64) as u64;
        if self.uncooled >= enough {
            self.cool();
            self.uncooled = 0;
        }
        let halvings = self.pace.observe(samples, slow, exchanged, fast);
        if halvings > 0 {
            self.copies.moved();
            for tier in self.tiers() {
                tier.hot_set_moved();
            }
        }
        for _ in 0..halvings {
            self.cool();
        }
        let hurries = tidies || self.pace.is_in_motion();
        for tier in self.tiers() {
            tier.victims.hurry(hurries);
        }
        let interval = match all_fast_with_room(tree) {
            true => MAX_SAMPLE_INTERVAL,
            false => self.pace.interval(),
        };
        policy.interval.store(interval, Relaxed);
        // Chunks that compaction empties are of no use until they are empty, and it waits for the
        // search for broken paths.
        Next::After(match tidies {
            true => BRISK,
            false => self.pace.round(),
        })
    }
}

/// How many of these are in the second tier.
fn from_second(candidates: &[Candidate]) -> isize {
    let is_second = |it: &&Candidate| it.from == TierId::SLOW && it.what != Promotable::Page;
    candidates.iter().filter(is_second).count() as isize
}

/// Whether nothing is in slower memory, and fast memory has room: no heat is needed until then. If
/// what is left fills within a round, placement begins without heat, as after a load.
fn all_fast_with_room(tree: &dyn Placed) -> bool {
    let is_empty = |tier| tree.fill(TierId(tier)).used == 0;
    tree.fill(TierId::FAST).ratio() < ROOM && (1..tree.tiers()).all(is_empty)
}

/// How many pages the record cache has, and how many it may have: copies are of records in slow
/// memory, so it takes no more memory than is used there.
fn useful_pages(tree: &dyn Placed) -> (usize, usize) {
    let (pages, most) = tree.record_pages();
    let slow = (1..tree.tiers()).map(|tier| tree.fill(TierId(tier)).used);
    let slow = slow.sum::<usize>() / tree.node_bytes();
    (pages, most.min(slow).max(pages))
}

//! The worker of `timberline`: looks at heat, exchanges leaves, keeps the reserve, restores the
//! boundary.
//!
//! One round costs a look at the heat of fast leaves ([`Watch`]) and the moves it decides on. It
//! never looks at slow leaves but those that samples suggested.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use timberline_tier::TierId;

use super::clock::Clock;
use super::compaction::Compaction;
use super::copies::Copies;
use super::exchange::{Pages, Plan, worth_it};
use super::look::Look;
use super::pace::{BRISK, Pace};
use super::watch::{Found, Sweep, Victim, Watch};
use super::{Asker, HeatIn, Seen, Suggestion, Timberline};
use crate::boundary::{self, demote_idle};
use crate::workers::{Next, Worker, lock};
use crate::{KeyBytes, Move, NodeKey, Placed};

/// Moves before the memory of demoted nodes is asked back: small enough for the reserve to last.
pub const BATCH: usize = 64;

/// See the [module's text](self).
pub struct Mover {
    policy: Arc<Timberline>,
    watch: Box<dyn Watch>,
    pace: Pace,
    uncooled: u64,
    /// Room that is free on paper is of no use: it is in slots of other sizes.
    stranded: bool,
    compaction: Compaction,
    copies: Copies,
    /// A sequence of draws, for picking inner nodes where no leaf is left to demote.
    draw: u64,
}

impl Mover {
    pub(super) fn new(policy: Arc<Timberline>) -> Self {
        let watch: Box<dyn Watch> = match policy.home {
            HeatIn::Table { .. } => Box::new(Sweep::new(policy.clone())),
            HeatIn::Leaf { .. } => Box::new(Clock::new(policy.clone())),
        };
        let (config, scale) = (&policy.config, &policy.scale);
        let densest = config.densest / scale.denser;
        let pace = Pace::new(densest, config.sparsest, scale.thinning);
        Mover {
            policy,
            watch,
            pace,
            uncooled: 0,
            stranded: false,
            compaction: Compaction::default(),
            copies: Copies::default(),
            draw: 0,
        }
    }

    /// Suggestions since the last round, each leaf once.
    fn suggestions(&self) -> Vec<Suggestion> {
        let mut all = Vec::new();
        for seen in self.policy.seen.iter() {
            all.append(&mut lock(&seen.suggestions));
        }
        all.sort_unstable_by(|one, two| one.what.cmp(&two.what).then(two.heat.cmp(&one.heat)));
        all.dedup_by(|later, kept| later.what == kept.what);
        all
    }

    fn exchange(&mut self, tree: &dyn Placed, now: Duration) -> usize {
        let policy = self.policy.clone();
        let mut asking = self.suggestions();
        let fill = tree.fill(TierId::FAST);
        let slot_bytes = tree.node_bytes();
        let slots = fill.limit / slot_bytes;
        let kept = policy
            .scale
            .reserve(slots, slot_bytes, policy.config.reserve) as isize;
        let free = slots as isize - (fill.used / slot_bytes) as isize - kept;
        // Within the slack nothing is given away, and nobody has to go.
        let mut free = free.max((free + policy.scale.slack(kept)).min(0));
        if self.stranded {
            // Leaves can still change places.
            free = free.min(0);
        }

        let pages = self.pages(tree);
        let census = self.watch.census(tree);
        let fast_leaves = census.total();
        let among_coldest = worth_it(census.nth_coldest(1 + fast_leaves / 100));
        let (more, heat) = self.copies.asking(tree.record_pages(), among_coldest, now);
        let what = Asker::Page;
        asking.extend(std::iter::repeat_n(Suggestion { what, heat }, more));
        asking.sort_by_key(|suggestion| std::cmp::Reverse(suggestion.heat));
        let plan = census.plan(pages, &asking, free);
        // The next suggestion must beat what will then be among the coldest hundredth.
        let mut then_coldest = census.nth_coldest(1 + plan.demote + fast_leaves / 100);
        if pages.count > plan.pages {
            then_coldest = then_coldest.min(pages.heat);
        }
        let is_looked_at = policy.is_looked_at.load(Relaxed);
        let look = is_looked_at.then(|| Look::of(census, &asking));

        let (promoted, failed) = self.move_both_ways(tree, &plan, &asking, free.max(0) as usize);
        self.stranded = policy.scale.records && failed > 0;
        // Leaves ask, but fast memory holds no leaf to exchange: cold inner nodes are in the way.
        let stuck = match plan.demote == fast_leaves {
            true => asking.len() - plan.promote,
            false => 0,
        };
        let mut short = ((-free).max(0) as usize).saturating_sub(plan.demote + plan.pages);
        if policy.scale.records {
            // Each takes the room of several leaves.
            short = short.min(BATCH);
        }
        if short > 0 || stuck > 0 {
            self.demote_inner(tree, short.max(stuck.min(BATCH)));
        }
        let room = free - (plan.promote as isize - (plan.demote + plan.pages) as isize);
        let floor = match room > 0 || plan.demote == fast_leaves {
            // With no fast leaf to beat, any may ask.
            true => super::SAMPLE,
            false => worth_it(then_coldest),
        };
        policy.floor.store(floor, Relaxed);
        if let Some(look) = look {
            *lock(&policy.look) = Look {
                coldest: then_coldest,
                floor,
                filled: 1.0 - kept as f64 / slots.max(1) as f64,
                pages: tree.record_pages().0,
                ..look
            };
        }
        let leaves = policy.scale.leaves_in(room.max(0) as usize);
        policy.allowance.store(leaves as i64, Relaxed);
        promoted
    }

    /// Pages of copies, with their heat.
    fn pages(&self, tree: &dyn Placed) -> Pages {
        match self.copies.heat() {
            Some(heat) => Pages {
                count: tree.record_pages().0,
                heat,
            },
            // They have yet to show what they are worth.
            None => Pages::default(),
        }
    }

    /// Gives back pages of copies, and asks their memory back.
    fn give_back(&self, tree: &dyn Placed, pages: usize) {
        if (0..pages).filter(|_| tree.drop_record_page()).count() > 0 {
            tree.reclaim();
        }
    }

    /// Demotes the plan's victims and promotes those it lets in. Returns how many leaves were
    /// promoted, and how many found no room.
    fn move_both_ways(
        &mut self,
        tree: &dyn Placed,
        plan: &Plan,
        asking: &[Suggestion],
        free: usize,
    ) -> (usize, usize) {
        self.give_back(tree, plan.pages);
        let mut hot = asking[..plan.promote].iter();
        let mut victims = self.watch.victims(tree, plan).into_iter();
        let (mut promoted, mut failed) = (0, 0);
        // Alternating in batches: what was demoted makes room for what is promoted.
        loop {
            let cold: Vec<Victim> = victims.by_ref().take(BATCH).collect();
            self.demote_all(tree, &cold);
            let mut full = self.is_short(tree);
            let (mut batch, mut in_vain) = (0, 0);
            while !full && batch < BATCH.max(free) && in_vain < self.policy.scale.patience {
                let Some(suggestion) = hot.next() else { break };
                batch += 1;
                let Asker::Leaf(fence) = &suggestion.what else {
                    in_vain += usize::from(!tree.add_record_page());
                    continue;
                };
                match tree.promote_path(fence.clone()) {
                    Move::Moved(nodes) => {
                        promoted += 1;
                        self.watch.promoted(fence, suggestion.heat);
                        // Leaves are paid for by victims, inner nodes are not.
                        full = nodes > 1 && self.is_short(tree);
                    }
                    Move::Full => in_vain += 1,
                    Move::AlreadyThere | Move::Stale | Move::Blocked => {}
                }
            }
            failed += in_vain;
            full |= in_vain == self.policy.scale.patience;
            if cold.is_empty() && (full || batch == 0) {
                return (promoted, failed);
            }
        }
    }

    /// Whether inner nodes that came with leaves have used up what they may.
    fn is_short(&self, tree: &dyn Placed) -> bool {
        let (fill, scale) = (tree.fill(TierId::FAST), &self.policy.scale);
        let slot_bytes = tree.node_bytes();
        let slots = fill.limit / slot_bytes;
        let kept = scale.reserve(slots, slot_bytes, self.policy.config.reserve) as isize;
        let slack = scale.slack(kept);
        slack > 0 && (slots - fill.used / slot_bytes) as isize <= kept - slack
    }

    /// Demotes what is still there of these leaves, and asks their memory back.
    fn demote_all(&mut self, tree: &dyn Placed, cold: &[Victim]) {
        let mut demoted = Vec::new();
        for victim in cold {
            demoted.extend(self.demote(tree, victim));
        }
        if demoted.is_empty() {
            return;
        }
        if self.policy.scale.records {
            let mut parents: Vec<NodeKey> = demoted
                .into_iter()
                .filter_map(|leaf| tree.parent_of(&NodeKey::leaf(leaf)))
                .collect();
            // They come in the order of their keys, or nearly.
            parents.dedup();
            for parent in parents {
                demote_idle(tree, parent);
            }
        }
        tree.reclaim();
    }

    /// Demotes a leaf. Returns its name if it is slow now.
    fn demote(&mut self, tree: &dyn Placed, victim: &Victim) -> Option<KeyBytes> {
        let name = match &victim.leaf {
            Found::At(address) => tree.fence_at(*address),
            Found::Named(name) => Some(name.clone()),
        };
        let outcome = name
            .clone()
            .map(|name| tree.demote(&NodeKey::leaf(name)))
            .unwrap_or(Move::Stale);
        match outcome {
            Move::Moved(_) => {
                self.watch.demoted(victim);
                name
            }
            Move::Full | Move::Blocked => None,
            Move::AlreadyThere | Move::Stale => {
                self.watch.demoted(victim);
                // The table said leaf, the tree says no: a sample came in while the slot was freed.
                // Or the leaf has another fence since; then it is still there.
                if let Found::At(address) = victim.leaf
                    && tree.fence_at(address) == name
                {
                    self.policy.heat.forget(address);
                }
                None
            }
        }
    }

    /// Fast memory is short and holds inner nodes only: demotes some of the lowest, wherever none
    /// of their children is fast. Those that are needed come back with their hot leaves.
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

    /// Makes fast again what has fast children; where fast memory has no room even after the
    /// coldest leaves left it, makes those children slow.
    fn restore_boundary(&mut self, tree: &dyn Placed) {
        let policy = self.policy.clone();
        boundary::mend(&policy.broken, tree, || {
            let relief = policy.scale.relief(tree.node_bytes()) as isize;
            let pages = self.pages(tree);
            let plan = self.watch.census(tree).plan(pages, &[], -relief);
            self.give_back(tree, plan.pages);
            let victims = self.watch.victims(tree, &plan);
            self.demote_all(tree, &victims);
            tree.reclaim();
            true
        });
    }

    /// Halves all heat.
    fn cool(&mut self) {
        self.policy.heat.cool();
        self.watch.cooled();
        self.copies.cooled();
    }
}

impl Worker for Mover {
    fn name(&self) -> &'static str {
        "tl-mover"
    }

    fn step(&mut self, tree: &dyn Placed, now: Duration) -> Next {
        self.restore_boundary(tree);
        let promoted = self.exchange(tree, now);
        self.compaction.step(tree, self.stranded, now);
        let policy = self.policy.clone();
        let taken = |counter: fn(&Seen) -> &AtomicU64| -> u64 {
            policy
                .seen
                .iter()
                .map(|seen| counter(seen).swap(0, Relaxed))
                .sum()
        };
        let samples = taken(|seen| &seen.samples);
        let slow = taken(|seen| &seen.slow);
        let saved = taken(|seen| &seen.copied) as f64 - taken(|seen| &seen.rewritten) as f64;
        let pages = tree.record_pages().0;
        let mature = self.copies.observe(samples, saved, pages, now);
        policy.mature.store(mature, Relaxed);
        let fast = self.watch.fast_leaves(tree);
        self.uncooled += samples;
        let enough = u64::from(policy.config.samples_per_cooling) * fast.max(64) as u64;
        if self.uncooled >= enough {
            self.cool();
            self.uncooled = 0;
        }
        for _ in 0..self.pace.observe(samples, slow, promoted, fast) {
            self.cool();
        }
        policy.interval.store(self.pace.interval(), Relaxed);
        // What is being emptied is of no use to anybody until it is empty.
        Next::After(match self.compaction.is_active() {
            true => BRISK,
            false => self.pace.round(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fence;
    use crate::fake::{Clockwork, FakeTree};
    use crate::timberline::TimberlineConfig;
    use crate::{Access, LeafRef, Placement};
    use crate::{RecordCache, Relocate, Walk};
    use std::sync::atomic::AtomicU16;
    use timberline_tier::{Arenas, ArenasConfig};

    const IN_TABLE: HeatIn = HeatIn::Table { node_bytes: 1024 };

    /// The placement of a tree that is not there: what it believes of leaves is up to the test.
    fn policy(home: HeatIn) -> (Arenas, Arc<Timberline>) {
        let arenas = Arenas::new(&ArenasConfig::two_tiers(1 << 20, 1 << 20)).unwrap();
        let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
        (arenas, policy)
    }

    fn ask(policy: &Timberline, arenas: &Arenas, n: usize, samples: usize) {
        touch(policy, arenas, n, samples, Access::Reuse);
    }

    fn touch(policy: &Timberline, arenas: &Arenas, n: usize, samples: usize, access: Access) {
        let heat = AtomicU16::new(0);
        let leaf = LeafRef {
            address: arenas.range_of(TierId::SLOW).start + 1024 * n,
            tier: TierId::SLOW,
            fence: Fence::of_word(FakeTree::leaf(n).key.word()),
            heat: &heat,
        };
        for _ in 0..samples {
            policy.on_access(leaf, access);
        }
    }

    fn run(policy: &Arc<Timberline>, tree: &FakeTree) {
        Clockwork::new(policy.workers()).run_for(tree, Duration::ZERO);
    }

    #[test]
    fn hot_leaves_come_with_their_paths_and_leave_the_reserve() {
        let (arenas, policy) = policy(IN_TABLE);
        // Room for 16 of 1 + 4 + 16 + 64 nodes; a quarter is kept.
        let tree = FakeTree::uniform(4, 4, 16);
        for n in 0..64 {
            ask(&policy, &arenas, n, 4);
        }
        ask(&policy, &arenas, 40, 40);
        run(&policy, &tree);
        assert!(tree.tier(&FakeTree::leaf(40)).is_fast(), "the hottest");
        assert!(tree.has_single_boundary());
        assert!(tree.fill(TierId::FAST).used <= tree.fill(TierId::FAST).limit);
    }

    #[test]
    fn a_round_can_be_looked_at() {
        let (arenas, policy) = policy(IN_TABLE);
        let tree = FakeTree::uniform(4, 4, 16);
        let before = policy.view().unwrap();
        assert_eq!(
            (&before.counts[1].1[..], before.thresholds.len()),
            (&[0; 11][..], 0)
        );
        ask(&policy, &arenas, 7, 4);
        run(&policy, &tree);
        let view = policy.view().unwrap();
        let (asking, bin) = (&view.counts[1].1, 5);
        assert_eq!(view.bins[bin], 32);
        assert_eq!((asking[bin], asking.iter().sum()), (1, 1), "4 samples");
        let (_, filled) = view.watermarks[0];
        assert!(filled > 0.7 && filled < 1.0, "{filled}");
    }

    #[test]
    fn an_entry_without_a_leaf_is_cleared() {
        let (arenas, policy) = policy(IN_TABLE);
        let header = AtomicU16::new(0);
        let leaf = LeafRef {
            address: arenas.range_of(TierId::FAST).start,
            tier: TierId::FAST,
            fence: Fence::of_word(0),
            heat: &header,
        };
        policy.heat.set(leaf, 8);
        // Fast memory is over its reserve, so the coldest entry is to go; the tree knows no such
        // leaf.
        let tree = FakeTree::uniform(2, 4, 5);
        tree.set_all(TierId::FAST);
        run(&policy, &tree);
        assert_eq!(policy.heat.get(leaf), 0);
    }

    #[test]
    fn a_broken_boundary_is_mended_upwards_or_downwards() {
        for home in [IN_TABLE, HeatIn::Leaf { leaf_bytes: 24 }] {
            for (limit, root_is_fast) in [(16, true), (4, false)] {
                let (_arenas, policy) = policy(home);
                let tree = FakeTree::uniform(2, 4, limit);
                let root = NodeKey::of_word(0, 1);
                tree.set_all(TierId::FAST);
                tree.set_tier(&root, TierId::SLOW);
                policy.boundary_broken(root.clone());
                run(&policy, &tree);
                assert!(tree.has_single_boundary());
                assert_eq!(tree.tier(&root).is_fast(), root_is_fast, "room for {limit}");
            }
        }
    }

    #[test]
    fn copies_get_as_much_of_fast_memory_as_they_are_worth() {
        let (arenas, policy) = policy(IN_TABLE);
        let tree = FakeTree::uniform(4, 4, 60).with_pages(40);
        let mut clockwork = Clockwork::new(policy.workers());
        let mut round = |samples_of_a_page: usize, samples_of_a_leaf: usize| {
            for _ in 0..samples_of_a_page * tree.record_pages().0 {
                policy.on_copy_access(0);
            }
            for leaf in 0..64 {
                ask(&policy, &arenas, leaf, samples_of_a_leaf);
            }
            clockwork.run_for(&tree, Duration::from_millis(200));
            assert!(tree.fill(TierId::FAST).used <= tree.fill(TierId::FAST).limit);
            tree.record_pages().0
        };
        assert_eq!(round(0, 0), 1, "one tells what they are worth");
        let grown = (0..40).map(|_| round(50, 0)).last();
        assert_eq!(grown, Some(40), "nothing else asks");
        let kept = (0..10).map(|_| round(50, 1)).last();
        assert!(
            kept > Some(30),
            "{kept:?}: they are hotter than leaves, whose paths take room"
        );
        let after: Vec<usize> = (0..60).map(|_| round(0, 10)).collect();
        assert!(*after.last().unwrap() < 10, "leaves are hotter: {after:?}");
        assert!(tree.has_single_boundary());
    }

    #[test]
    fn copies_that_are_read_to_be_changed_are_worth_nothing() {
        let (arenas, policy) = policy(IN_TABLE);
        let tree = FakeTree::uniform(4, 4, 60).with_pages(40);
        let mut clockwork = Clockwork::new(policy.workers());
        let mut most = 0;
        for round in 0..80 {
            for _ in 0..50 * tree.record_pages().0 {
                policy.on_copy_access(0);
                touch(&policy, &arenas, 0, 1, Access::Rewrite { page: 0 });
            }
            ask(&policy, &arenas, round % 64, 50);
            clockwork.run_for(&tree, Duration::from_millis(200));
            most = most.max(tree.record_pages().0);
        }
        assert_eq!(most, 1, "the one that tells what they are worth");
    }

    #[test]
    fn a_path_goes_with_its_last_fast_leaf_but_for_the_root() {
        let (_arenas, policy) = policy(HeatIn::Leaf { leaf_bytes: 24 });
        let tree = FakeTree::uniform(4, 4, 100);
        for leaf in [0, 4, 5, 63] {
            tree.promote_path(FakeTree::leaf(leaf).key);
        }
        let mut mover = Mover::new(policy);
        let mut demote = |leaves: &[usize]| {
            let victim = |&leaf: &usize| Victim {
                leaf: Found::Named(FakeTree::leaf(leaf).key),
                heat: 1,
            };
            mover.demote_all(&tree, &leaves.iter().map(victim).collect::<Vec<_>>());
            tree.fill(TierId::FAST).used / tree.node_bytes()
        };
        assert_eq!(demote(&[]), 10);
        assert_eq!(demote(&[0]), 8, "with its parent");
        assert_eq!(demote(&[4]), 7, "another child of its parent is fast");
        assert_eq!(demote(&[5]), 4, "with its parent and the next");
        assert_eq!(demote(&[63]), 1);
        assert!(
            tree.tier(&NodeKey::of_word(0, 3)).is_fast(),
            "the root stays"
        );
    }
}

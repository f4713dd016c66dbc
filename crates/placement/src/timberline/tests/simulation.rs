//! Simulations: does fast memory come to hold the right leaves, where a leaf is one record?
//!
//! A tree of records without contents, accesses drawn from a known distribution, time that passes
//! with the accesses: the result can be compared with the best that fits.

use std::sync::Arc;
use std::time::Duration;

use timberline_tier::{Arenas, ArenasConfig, MAX_SLOT, TierId};

use crate::draws::Draws;
use crate::fake::FakeRecords;
use crate::timberline::{HeatIn, Timberline, TimberlineConfig};
use crate::workers::{Next, Worker};
use crate::{Access, Move, Placement, Relocate, Walk};

/// Which leaf is accessed how often.
struct Popularity {
    /// Of each leaf, in key order; their sum is 1.
    shares: Vec<f64>,
    /// The sums of `shares` up to each leaf.
    sums: Vec<f64>,
}

impl Popularity {
    fn new(weights: Vec<f64>) -> Self {
        let total: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let sum = |sum: &mut f64, share: &f64| {
            *sum += share;
            Some(*sum)
        };
        let sums = shares.iter().scan(0.0, sum).collect();
        Popularity { shares, sums }
    }

    /// 90 % of the accesses on a twentieth of the keys, side by side, from this share of all on.
    fn hotspot(from: f64) -> Self {
        let hot = LEAVES / 20;
        let first = (LEAVES as f64 * from) as usize;
        let weight = |n| match (first..first + hot).contains(&n) {
            true => 0.9 / hot as f64,
            false => 0.1 / (LEAVES - hot) as f64,
        };
        Popularity::new((0..LEAVES).map(weight).collect())
    }

    /// Zipf's law, ranks scattered over the keys.
    fn zipf(theta: f64, random: &mut Draws) -> Self {
        let weight = |rank: usize| (1.0 + rank as f64).powf(-theta);
        let mut weights: Vec<f64> = (0..LEAVES).map(weight).collect();
        random.shuffle(&mut weights);
        Popularity::new(weights)
    }

    fn draw(&self, random: &mut Draws) -> usize {
        let at = random.unit();
        let leaf = self.sums.partition_point(|&sum| sum <= at);
        leaf.min(self.sums.len() - 1)
    }

    /// Leaves, hottest first.
    fn ranked(&self) -> Vec<usize> {
        let mut leaves: Vec<usize> = (0..self.shares.len()).collect();
        leaves.sort_by(|&one, &two| self.shares[two].total_cmp(&self.shares[one]));
        leaves
    }

    /// The share of accesses whose leaf is fast, and of the nodes visited that are.
    fn fast(&self, tree: &FakeRecords) -> (f64, f64) {
        let (mut leaves, mut nodes) = (0.0, 0.0);
        for (n, share) in self.shares.iter().enumerate() {
            let (is_fast, fast, path) = tree.fast_on_path(n);
            leaves += if is_fast { *share } else { 0.0 };
            nodes += share * fast as f64 / path as f64;
        }
        (leaves, nodes)
    }
}

/// A tree, its placement, and one thread that accesses it a million times a second.
struct Simulation {
    policy: Arc<Timberline>,
    tree: FakeRecords,
    worker: Box<dyn Worker>,
    random: Draws,
    now: Duration,
    /// Accesses until the next sample.
    pass: u32,
    accesses: usize,
    _arenas: Arenas,
}

const LEAVES: usize = 100_000;
const SPEED: f64 = 1e6;
const IN_LEAF: HeatIn = HeatIn::Leaf { leaf_bytes: 24 };

impl Simulation {
    /// A tree that is all slow. Fast memory is a fifth of it; a heat table takes its part of that.
    fn new(home: HeatIn) -> Self {
        let span = FakeRecords::addresses(LEAVES).next_multiple_of(2 << 20) + (4 << 20);
        let arenas = Arenas::new(&ArenasConfig::two_tiers(2 * span, 2 * span)).unwrap();
        let policy = Timberline::new(&arenas, home, TimberlineConfig::default()).unwrap();
        // The table has memory for the heat of leaves that have some.
        let mut committed = 0;
        while committed < span {
            arenas.allocate(TierId::FAST, MAX_SLOT).unwrap();
            committed += MAX_SLOT;
        }
        // The arenas are larger than the tree; what the table takes for the difference is not its
        // fault.
        let table = match home {
            HeatIn::Table { node_bytes } => 2 * 2 * FakeRecords::addresses(LEAVES) / node_bytes,
            HeatIn::Leaf { .. } => 0,
        };
        let limit = FakeRecords::bytes(LEAVES) / 5 - table;
        let ranges = [TierId::FAST, TierId::SLOW].map(|tier| arenas.range_of(tier));
        Simulation {
            tree: FakeRecords::new(LEAVES, limit, policy.clone(), ranges),
            worker: policy.workers().remove(0),
            policy,
            random: Draws(1),
            now: Duration::ZERO,
            pass: 1,
            accesses: 0,
            _arenas: arenas,
        }
    }

    /// A tree whose fast memory is full of whatever came first.
    fn loaded(home: HeatIn) -> Self {
        let mut it = Simulation::new(home);
        let mut order: Vec<usize> = (0..LEAVES).collect();
        it.random.shuffle(&mut order);
        it.promote(order);
        it.tree.moves();
        it
    }

    /// Promotes these leaves until fast memory is full.
    fn promote(&self, leaves: Vec<usize>) {
        let promote = |leaf| self.tree.promote_path(FakeRecords::leaf(leaf));
        let full = leaves.into_iter().map(promote).find(|&it| it == Move::Full);
        assert_eq!(full, Some(Move::Full));
    }

    /// Lets each leaf be accessed this many times on average.
    fn run(&mut self, popularity: &Popularity, per_leaf: usize) {
        let end = self.accesses + per_leaf * LEAVES;
        while self.accesses < end {
            let Next::After(round) = self.worker.step(&self.tree, self.now) else {
                panic!("the mover sleeps for ever");
            };
            self.now += round;
            for _ in 0..(round.as_secs_f64() * SPEED) as usize {
                self.access(popularity);
            }
        }
    }

    fn access(&mut self, popularity: &Popularity) {
        self.accesses += 1;
        let leaf = popularity.draw(&mut self.random);
        self.pass -= 1;
        if self.pass == 0 {
            let policy = &self.policy;
            let tree = &self.tree;
            self.pass = tree.with_leaf(leaf, |leaf| policy.on_access(leaf, Access::Reuse));
        }
    }

    /// The share of accesses that find their leaf fast, over the best there is: leaves promoted
    /// hottest first until fast memory is full. With it the same for all nodes on the way.
    fn achieved(&self, popularity: &Popularity) -> (f64, f64) {
        let ideal = Simulation::new(IN_LEAF);
        ideal.promote(popularity.ranked());
        let (best, have) = (popularity.fast(&ideal.tree), popularity.fast(&self.tree));
        (have.0 / best.0, have.1 / best.1)
    }
}

#[test]
fn a_hot_set_of_records_is_found_and_followed() {
    let (here, there) = (Popularity::hotspot(0.3), Popularity::hotspot(0.7));
    let mut it = Simulation::loaded(IN_LEAF);
    it.run(&here, 2);
    let (leaves, nodes) = it.achieved(&here);
    assert!(leaves > 0.97 && nodes > 1.0, "{leaves:.3} {nodes:.3}");
    it.tree.moves();
    it.run(&here, 8);
    let moves = it.tree.moves();
    assert!(moves < LEAVES / 50, "at rest little moves: {moves}");
    it.run(&there, 3);
    let (leaves, nodes) = it.achieved(&there);
    assert!(leaves > 0.97 && nodes > 1.0, "{leaves:.3} {nodes:.3}");
}

#[test]
fn hot_records_are_found_wherever_they_are() {
    let zipf = Popularity::zipf(0.99, &mut Draws(7));
    let mut it = Simulation::loaded(IN_LEAF);
    it.run(&zipf, 8);
    let (leaves, nodes) = it.achieved(&zipf);
    assert!(leaves > 0.96 && nodes > 0.98, "{leaves:.3} {nodes:.3}");
    let fill = it.tree.fill(TierId::FAST).ratio();
    assert!(
        (0.97..=1.0).contains(&fill),
        "fast memory is in use: {fill:.3}"
    );
}

#[test]
fn records_change_places_where_free_memory_fits_neither_them_nor_their_paths() {
    let hotspot = Popularity::hotspot(0.3);
    let mut it = Simulation::loaded(IN_LEAF);
    it.tree.divide();
    it.run(&hotspot, 3);
    let (leaves, nodes) = it.achieved(&hotspot);
    assert!(leaves > 0.95 && nodes > 1.0, "{leaves:.3} {nodes:.3}");
}

#[test]
fn a_table_for_records_costs_more_than_it_is_worth() {
    let zipf = Popularity::zipf(0.99, &mut Draws(7));
    let mut it = Simulation::loaded(HeatIn::Table { node_bytes: 32 });
    let limit = it.tree.fill(TierId::FAST).limit;
    assert!(limit < FakeRecords::bytes(LEAVES) / 5 / 2);
    it.run(&zipf, 8);
    let (leaves, _) = it.achieved(&zipf);
    assert!((0.1..0.8).contains(&leaves), "{leaves:.3}");
}

//! A paused placement, to count the instructions of the emulator itself: `cargo xtask callgrind`.
//!
//! The instrument must not distort the result: for the same lines, the emulator must execute the
//! same instructions under every placement. This module loads a small map under a placement, reads
//! it for a while on this thread beside the placement's workers, and then pauses them. Scans then
//! read the same lines under every placement, because record copies do not serve scans, and all of
//! these lines are in the modelled cache.

use std::hint::black_box;
use std::time::{Duration, Instant};

use timberline_tier::emulator::{
    Base, CacheSize, Emulated, Profile, set_thread_cache, thread_counts,
};
use timberline_tier::{Memory, TierId};
use timberline_tree::BTree;

use super::index::{Index, PlacedIndex};
use super::indexes::MeasuredMap;
use super::plan::{Budget, Plan, placements};
use super::record_format::RecordFormat;
use super::subject::{Sizes, Subject};
use super::table::{self, Grain, TABLE};
use super::{Load, PageCosts};
use crate::substrate::Substrate;
use crate::workload::{KeySpace, Rng, Workload, Zipf};

const RECORDS: u64 = 20_000;
const SEED: u64 = 1;
/// Scans of a measured pass, and records per scan.
const SCANS: usize = 2_000;
const SCANNED: usize = 8;
/// How long the placement works beside reads: long enough for nodes to move.
const WORKS_FOR: Duration = Duration::from_millis(1_500);
/// Size of the modelled cache: several times the map.
const CACHE: usize = 8 << 20;

type Map = MeasuredMap<BTree<u64, u64, Emulated>>;

/// A map with a paused placement; see the [module](self).
pub struct Instrument {
    subject: Subject<Map>,
    keys: Vec<u64>,
}

/// All placements for emulated memory.
pub fn emulated_placements() -> impl Iterator<Item = &'static str> {
    let is_emulated = |row: &table::Row| row.grain() != Grain::Kernel;
    TABLE.into_iter().filter(is_emulated).map(|row| row.name)
}

impl Instrument {
    /// A map under the placement of this name, with paused workers. This thread's modelled cache
    /// has all lines that scans read.
    ///
    /// # Errors
    /// One line: the placement is unknown, or memory cannot be allocated.
    pub fn new(placement: &str) -> Result<Instrument, String> {
        let name = placements(&[placement.to_owned()]).map_err(|unknown| unknown.to_string())?[0];
        let space = KeySpace::new(RECORDS).map_err(|error| error.to_string())?;
        let plan = plan(&space)?;
        let guess = RECORDS as usize * 96 + (4 << 20);
        let sizes = |tree: usize, fast, slow| Sizes {
            tree,
            fast,
            middle: Vec::new(),
            slow,
            chunk: plan.chunk_bytes(&plan.loads[0]),
            levels: 2,
        };
        let all_fast = loaded("all-fast", &sizes(guess, guess, 0), &plan, &space)?;
        let tree = all_fast.committed().0;
        let fast = plan.budget.bytes(tree);
        let mut subject = loaded(name, &sizes(tree, fast, 2 * tree), &plan, &space)?;
        let mut random = Rng::new(SEED, 0);
        let zipf = Zipf::new(RECORDS, 0.99);
        let mut read = |map: &Map| {
            black_box(map.get(space.key(zipf.rank(&mut random))));
        };
        if subject.is_oracle() {
            subject.arrange(|map| {
                (0..RECORDS).for_each(|_| read(map));
                Ok(())
            })?;
        }
        set_thread_cache(CacheSize::new(CACHE).map_err(|error| error.to_string())?);
        subject.map.memory().charge(true);
        subject.resume(false);
        let start = Instant::now();
        while start.elapsed() < WORKS_FOR {
            (0..64).for_each(|_| read(&subject.map));
            subject.did(64);
        }
        subject.pause();
        let mut random = Rng::new(SEED, 1);
        let keys = (0..SCANS).map(|_| space.key(random.below(RECORDS)));
        let keys = keys.collect();
        let instrument = Instrument { subject, keys };
        instrument.scan_all();
        Ok(instrument)
    }

    /// Fills the list of prefetches in flight with nodes that no scan reads, like lookups that
    /// restart. Later reads must not cost more for it.
    pub fn leave_prefetches(&self) {
        let memory = self.subject.map.memory();
        let end = memory.arenas().range_of(TierId::SLOW).end;
        (1..=16).for_each(|node| memory.prefetch(end - node * 1024, 1024));
    }

    /// Makes the scans with charging on. Returns the number of charged lines.
    #[inline(never)]
    pub fn scan_charged(&self) -> u64 {
        self.subject.map.memory().charge(true);
        self.charged_lines()
    }

    /// Makes the scans with charging off. Returns the number of charged lines: none.
    #[inline(never)]
    pub fn scan_uncharged(&self) -> u64 {
        self.subject.map.memory().charge(false);
        self.charged_lines()
    }

    fn charged_lines(&self) -> u64 {
        let before = thread_counts();
        self.scan_all();
        let counts = thread_counts() - before;
        counts.fast + counts.slow + counts.cached
    }

    fn scan_all(&self) {
        for &key in &self.keys {
            black_box(self.subject.map.scan(key, SCANNED));
        }
    }
}

/// A map of all records under this placement, with paused workers.
fn loaded(
    name: &'static str,
    sizes: &Sizes,
    plan: &Plan,
    space: &KeySpace,
) -> Result<Subject<Map>, String> {
    // Slow memory with the latency of fast memory: no read has to wait.
    let base = Base {
        latency_ns: 0.0,
        line_ns: 0.0,
        shared_line_ns: 0.0,
    };
    let memory = |arenas| Emulated::new(arenas, Profile::free(), base);
    let row = table::row(name).ok_or_else(|| format!("unknown placement `{name}`"))?;
    let subject = Subject::<Map>::new(row, sizes, plan, memory, &RecordFormat::default(), None)?;
    subject.map.memory().charge(false);
    // Loaded in order, so that nodes are the same under every placement. In random order a full
    // leaf would share records with the neighbour in its own tier.
    let mut keys: Vec<u64> = (0..RECORDS).map(|id| space.key(id)).collect();
    keys.sort_unstable();
    for key in keys {
        subject.map.insert(key, key)?;
    }
    subject.settle();
    Ok(subject)
}

fn plan(space: &KeySpace) -> Result<Plan, String> {
    let workload = Workload::parse("ycsb-c").map_err(|error| error.to_string())?;
    Ok(Plan {
        loads: vec![Load::stream(
            workload,
            space.clone(),
            RecordFormat::default(),
        )],
        indexes: vec!["btree"],
        placements: Vec::new(),
        threads: 1,
        slice: WORKS_FOR,
        static_slice: None,
        rounds: 1,
        warmup: WORKS_FOR,
        budget: Budget::Ratio(0.2),
        middle: Vec::new(),
        shift_every: None,
        interval: None,
        watermarks: None,
        seed: SEED,
        nodes: Vec::new(),
        cpu_cache: CacheSize::new(CACHE).map_err(|error| error.to_string())?,
        worker_cores: None,
        overlap: 0,
        page_costs: PageCosts::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines are equal, so instructions are comparable.
    #[test]
    fn scans_read_the_same_lines_under_every_placement() {
        let charged = |name| {
            let instrument = Instrument::new(name).unwrap();
            instrument.leave_prefetches();
            (instrument.scan_charged(), instrument.scan_uncharged())
        };
        let expected = charged("interleave");
        assert!(expected.0 > (SCANS * SCANNED) as u64, "{expected:?}");
        assert_eq!(expected.1, 0);
        for name in ["timberline", "sidle", "tpp"] {
            assert_eq!(charged(name), expected, "{name}");
        }
        let unknown = Instrument::new("nowhere").err().unwrap();
        assert!(unknown.contains("nowhere") && unknown.contains("interleave"));
    }
}

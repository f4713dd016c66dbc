//! A pointer chase: the time of dependent reads in a tier.
//!
//! Each step reads the address of the next one, so steps do not overlap: the time of a step is the
//! latency of memory. The chain is one random cycle through all of its memory, so each line is read
//! once a cycle, and no hardware prefetcher can predict it. A step that reads several lines
//! prefetches all of them first, as a tree does with a node.
#![allow(unsafe_code)]

use std::mem;
use std::ptr::NonNull;
use std::time::Instant;

use super::random::SplitMix64;
use crate::hint::{self, LINE};
use crate::{Memory, OutOfMemory, TierId};

/// Bytes of the slots that the chain is made of.
const SLOT: usize = 64 << 10;

/// The offset of the next step's number in a step's first line, after its address.
const INDEX: usize = size_of::<usize>();

/// A position in a chain. A chain has any number of walkers, which step in any order.
#[derive(Clone, Copy, Debug)]
pub struct Walker(u32);

/// A chain of pointers through memory of one tier, and a position in it.
pub struct Chase<'m, M: Memory> {
    memory: &'m M,
    slots: Vec<NonNull<u8>>,
    /// Lines that each step reads.
    lines: usize,
    at: usize,
}

impl<'m, M: Memory> Chase<'m, M> {
    /// A chain through `bytes` bytes of `tier` (rounded up to 64 KiB), whose steps read `lines`
    /// lines each: a power of two up to a page's 64. Equal seeds make equal chains.
    ///
    /// # Errors
    /// The tier is full.
    pub fn new(
        memory: &'m M,
        tier: TierId,
        bytes: usize,
        lines: usize,
        seed: u64,
    ) -> Result<Self, OutOfMemory> {
        Chase::through(memory, &[(tier, bytes)], lines, seed)
    }

    /// The same through memory of several tiers, so many bytes of each: in a cycle, steps in one of
    /// them are as many as it has lines.
    ///
    /// # Errors
    /// A tier is full.
    pub fn through(
        memory: &'m M,
        parts: &[(TierId, usize)],
        lines: usize,
        seed: u64,
    ) -> Result<Self, OutOfMemory> {
        assert!(
            lines.is_power_of_two() && lines * LINE <= 4096,
            "steps of {lines} lines"
        );
        let mut chase = Chase {
            memory,
            slots: Vec::new(),
            lines,
            at: 0,
        };
        for &(tier, bytes) in parts {
            for _ in 0..bytes.div_ceil(SLOT) {
                let slot = memory.arenas().allocate(tier, SLOT)?;
                chase.slots.push(slot);
            }
        }
        if chase.slots.is_empty()
            && let Some(&(tier, _)) = parts.first()
        {
            chase.slots.push(memory.arenas().allocate(tier, SLOT)?);
        }
        chase.link(seed);
        Ok(chase)
    }

    /// The number of steps in the cycle.
    pub fn cycle(&self) -> usize {
        self.slots.len() * (SLOT / (self.lines * LINE))
    }

    /// Takes `steps` steps.
    pub fn run(&mut self, steps: u64) {
        let bytes = self.lines * LINE;
        let mut at = self.at;
        for _ in 0..steps {
            hint::prefetch(at, bytes);
            let next = self.read(at);
            self.memory.charge_access(at, bytes);
            // The further lines hold zeros. Adding them makes the next step wait for them.
            let zeros = (LINE..bytes).step_by(LINE);
            at = next + zeros.map(|line| self.read(at + line)).sum::<usize>();
        }
        self.at = at;
    }

    /// Takes `steps` steps. Returns the mean time of one, in nanoseconds.
    pub fn time(&mut self, steps: u64) -> f64 {
        let start = Instant::now();
        self.run(steps);
        start.elapsed().as_nanos() as f64 / steps as f64
    }

    /// A walker that starts at the `nth` step of the chain, counted around it.
    pub fn walker(&self, nth: usize) -> Walker {
        Walker((nth % self.cycle()) as u32)
    }

    /// Prefetches the lines of the walker's next step.
    #[inline(always)]
    pub fn prefetch(&self, walker: &Walker) {
        self.memory
            .prefetch(self.address(walker.0 as usize), self.lines * LINE);
    }

    /// Moves a walker by one step.
    ///
    /// # Panics
    /// If it belongs to another, longer chain.
    #[inline(always)]
    pub fn step(&self, walker: &mut Walker) {
        let at = self.address(walker.0 as usize);
        self.memory.charge_access(at, self.lines * LINE);
        walker.0 = self.read(at + INDEX) as u32;
    }

    /// Ends the borrow of the memory, and keeps the chain.
    pub(super) fn pause(mut self) -> Paused {
        Paused {
            slots: mem::take(&mut self.slots),
            lines: self.lines,
            at: self.at,
        }
    }

    /// The address of a step, by its number in memory.
    fn address(&self, index: usize) -> usize {
        let per_slot = SLOT / (self.lines * LINE);
        self.slots[index / per_slot].as_ptr() as usize + (index % per_slot) * self.lines * LINE
    }

    fn link(&mut self, seed: u64) {
        let mut order: Vec<u32> = (0..self.cycle() as u32).collect();
        let mut random = SplitMix64(seed);
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        let nexts = order.iter().cycle().skip(1);
        for (&from, &to) in order.iter().zip(nexts) {
            let from = self.address(from as usize);
            self.write(from, self.address(to as usize));
            self.write(from + INDEX, to as usize);
            (1..self.lines).for_each(|line| self.write(from + line * LINE, 0));
        }
        self.at = self.address(order[0] as usize);
    }

    #[inline(always)]
    fn read(&self, at: usize) -> usize {
        debug_assert_eq!(at % size_of::<usize>(), 0);
        // SAFETY: `at` is a word in one of the chain's slots, as `link` and `address` return
        // nothing else. The chain owns its slots, which stay mapped. Volatile, as the read itself
        // is measured.
        unsafe { (at as *const usize).read_volatile() }
    }

    fn write(&self, at: usize, word: usize) {
        // SAFETY: as in `read`; there is no reference to the slots' memory.
        unsafe { (at as *mut usize).write(word) }
    }
}

impl<M: Memory> Drop for Chase<'_, M> {
    fn drop(&mut self) {
        for slot in self.slots.drain(..) {
            // SAFETY: allocated by `new` with this size, and freed only here.
            unsafe { self.memory.arenas().free(slot, SLOT) };
        }
        self.memory.arenas().trim();
    }
}

/// A chase without its memory's borrow, so that the memory can be changed. The chain stays on the
/// same pages, whose mapping has much influence on the time of a step. If this is dropped, its
/// slots stay allocated as long as the arenas live.
pub(super) struct Paused {
    slots: Vec<NonNull<u8>>,
    lines: usize,
    at: usize,
}

impl Paused {
    /// The paused chase, on the memory that it was made for.
    ///
    /// # Panics
    /// If it is another memory.
    pub fn resume<M: Memory>(self, memory: &M) -> Chase<'_, M> {
        let range = memory.arenas().range();
        assert!(range.contains(&self.at), "a chase of another memory");
        Chase {
            memory,
            slots: self.slots,
            lines: self.lines,
            at: self.at,
        }
    }
}

/// Nanoseconds per step, or a ratio of them, over several rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The median round.
    pub median: f64,
    /// The fastest round.
    pub min: f64,
    /// The slowest round.
    pub max: f64,
}

/// The longest turn of a [`race`], in nanoseconds: short against a time slice of the scheduler.
const TURN_NS: f64 = 250_000.0;

/// Steps of each chase before a [`race`].
const WARM_UP: u64 = 2_000;

/// Times several chases against each other. In each of `rounds`, the chases alternate in `turns`
/// short turns each, so that noise of the machine affects them alike. All turns have the same
/// number of steps: with fewer, a chase would find less of its page tables in the real cache. The
/// result of a round is the median of its turns, so interrupted turns do not count. Warm-up steps
/// before the first round are not measured.
pub fn race<M: Memory>(chases: &mut [Chase<'_, M>], rounds: usize, turns: usize) -> Race {
    let slowest = chases.iter_mut().map(|chase| chase.time(WARM_UP));
    let slowest = slowest.fold(1.0, f64::max);
    let steps = ((TURN_NS / slowest) as u64).max(1);
    let mut figures = vec![Vec::with_capacity(rounds); chases.len()];
    for _ in 0..rounds {
        let mut times = vec![Vec::with_capacity(turns); chases.len()];
        for _ in 0..turns {
            for (chase, times) in chases.iter_mut().zip(&mut times) {
                times.push(chase.time(steps));
            }
        }
        for (figures, times) in figures.iter_mut().zip(times) {
            figures.push(Spread::of(times).median);
        }
    }
    Race(figures)
}

/// The result of a [`race`]: for each chase and round, nanoseconds per step.
#[derive(Clone, PartialEq, Debug)]
pub struct Race(Vec<Vec<f64>>);

impl Race {
    /// Nanoseconds per step of one chase.
    ///
    /// # Panics
    /// If the race had fewer chases.
    pub fn of(&self, chase: usize) -> Spread {
        Spread::of(self.0[chase].clone())
    }

    /// The spread of `figure`, which is computed in each round from the nanoseconds per step of
    /// `one` and of `other`. As it pairs them by round, noise that slows down both in some rounds
    /// drops out of the median.
    ///
    /// # Panics
    /// If the race had fewer chases.
    pub fn paired(&self, one: usize, other: usize, figure: impl Fn(f64, f64) -> f64) -> Spread {
        let rounds = self.0[one].iter().zip(&self.0[other]);
        Spread::of(rounds.map(|(&one, &other)| figure(one, other)).collect())
    }
}

impl Spread {
    fn of(mut times: Vec<f64>) -> Spread {
        times.sort_by(f64::total_cmp);
        let at = |index: usize| times.get(index).copied().unwrap_or(f64::NAN);
        Spread {
            median: at(times.len() / 2),
            min: at(0),
            max: at(times.len().saturating_sub(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::{self, Base, CacheSize, Emulated, Extra, LineCounts, Profile};
    use crate::{Arenas, ArenasConfig, Native};

    fn arenas() -> Arenas {
        Arenas::new(&ArenasConfig::two_tiers(4 << 20, 4 << 20)).unwrap()
    }

    #[test]
    fn a_cycle_visits_every_line_once_and_ends_where_it_began() {
        let memory = Native(arenas());
        let mut chase = Chase::new(&memory, TierId::SLOW, 1 << 20, 4, 9).unwrap();
        let start = chase.at;
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..chase.cycle() {
            assert!(seen.insert(chase.at));
            chase.run(1);
        }
        assert_eq!((chase.at, seen.len()), (start, (1 << 20) / 256));
        drop(chase);
        assert_eq!(memory.0.used(TierId::SLOW), 0, "the memory is given back");
    }

    #[test]
    fn a_walker_takes_the_same_steps_as_the_chase() {
        let memory = Native(arenas());
        let mut chase = Chase::new(&memory, TierId::SLOW, 1 << 20, 1, 9).unwrap();
        let place = |at| (0..chase.cycle()).find(|&index| chase.address(index) == at);
        let mut walker = chase.walker(place(chase.at).unwrap() + chase.cycle());
        for _ in 0..100 {
            chase.prefetch(&walker);
            chase.step(&mut walker);
            chase.run(1);
            assert_eq!(chase.address(walker.0 as usize), chase.at);
        }
    }

    #[test]
    #[should_panic]
    fn a_walker_of_a_longer_chain_is_refused() {
        let memory = Native(arenas());
        let long = Chase::new(&memory, TierId::SLOW, 1 << 20, 1, 9).unwrap();
        let short = Chase::new(&memory, TierId::SLOW, 64 << 10, 1, 9).unwrap();
        short.step(&mut long.walker(long.cycle() - 1));
    }

    #[test]
    fn a_step_is_charged_what_the_profile_says() {
        for (name, latency_ns, line_ns) in [
            ("cxl", 110, 4),
            ("cxl-fpga", 350, 33),
            ("us1", 900, 0),
            ("rdma", 1900, 0),
        ] {
            let profile = Profile::parse(name).unwrap();
            let memory = Emulated::new(arenas(), profile, Base::default());
            for (tier, lines) in [(0, 1), (0, 16), (1, 1), (1, 16)] {
                let mut chase = Chase::new(&memory, TierId(tier), 2 << 20, lines, 5).unwrap();
                emulator::set_thread_cache(CacheSize::default());
                let before = emulator::thread_counts();
                let steps = chase.cycle() as u64 / 8;
                chase.run(steps);
                let counts = emulator::thread_counts() - before;
                let read = steps * lines as u64;
                let (fast, slow) = if tier == 0 { (read, 0) } else { (0, read) };
                let step_ns = latency_ns + line_ns * (lines as u64 - 1);
                let charged_ps = if tier == 0 { 0 } else { steps * step_ns * 1000 };
                let cached = 0;
                assert_eq!(
                    counts,
                    LineCounts {
                        fast,
                        slow,
                        cached,
                        charged_ps,
                        waited_ps: 0,
                        unvisited: 0,
                    }
                );
                let Extra {
                    latency_ps,
                    line_ps,
                } = memory.extra(TierId(1));
                assert_eq!((latency_ps, line_ps), (latency_ns * 1000, line_ns * 1000));
            }
        }
    }

    #[test]
    fn a_race_goes_all_rounds_and_gives_its_middle() {
        let memory = Emulated::new(arenas(), Profile::parse("cxl").unwrap(), Base::default());
        let chain = |tier| Chase::new(&memory, tier, 64 << 10, 1, 5).unwrap();
        let before = emulator::thread_counts();
        let raced = race(&mut [chain(TierId::FAST), chain(TierId::SLOW)], 3, 5);
        let counts = emulator::thread_counts() - before;
        let steps = counts.fast + counts.slow + counts.cached;
        assert!(steps >= 2 * (WARM_UP + 3 * 5), "{steps}");
        assert_eq!(raced.0.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
        let of = |times: &[f64]| Spread::of(times.to_vec());
        let expected = Spread {
            median: 2.0,
            min: 1.0,
            max: 9.0,
        };
        assert_eq!(of(&[9.0, 1.0, 2.0]), expected);
        assert!(of(&[]).median.is_nan());
    }

    /// The machine is half as fast in the second round.
    #[test]
    fn noise_that_slows_down_both_drops_out_of_a_ratio() {
        let race = Race(vec![vec![100.0, 200.0, 101.0], vec![210.0, 420.0, 210.0]]);
        let ratio = race.paired(1, 0, |slow, fast| slow / fast);
        assert_eq!((ratio.median, ratio.max), (2.1, 2.1));
        assert_eq!(race.of(0).median, 101.0);
    }

    #[test]
    fn a_paused_chase_goes_on_where_it_was() {
        let memory = Native(arenas());
        let mut chase = Chase::new(&memory, TierId::FAST, 64 << 10, 1, 5).unwrap();
        chase.run(7);
        let at = chase.at;
        let mut chase = chase.pause().resume(&memory);
        assert_eq!(chase.at, at);
        chase.run(chase.cycle() as u64);
        assert_eq!(chase.at, at, "the chain is whole");
        drop(chase);
        assert_eq!(memory.0.used(TierId::FAST), 0, "the memory is given back");
    }

    #[test]
    fn a_chain_within_the_cache_is_free_from_the_second_cycle_on() {
        let memory = Emulated::new(arenas(), Profile::parse("us10").unwrap(), Base::default());
        emulator::set_thread_cache(CacheSize::default());
        let mut chase = Chase::new(&memory, TierId::SLOW, 64 << 10, 1, 5).unwrap();
        let steps = chase.cycle() as u64;
        chase.run(steps);
        let before = emulator::thread_counts();
        chase.run(steps);
        let counts = emulator::thread_counts() - before;
        assert_eq!(
            counts,
            LineCounts {
                cached: steps,
                ..LineCounts::default()
            }
        );
    }
}

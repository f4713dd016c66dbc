//! Rounds on one map: three threads that ask, and one that looks at what is left.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::call::{Call, perform};
use super::cell::Op;
use super::gate::{Gate, wait_until};
use super::history::{History, Log};
use super::keys::Keys;
use super::{Perform, THREADS};
use crate::suite::TestMap;
use crate::suite::draw::Draw;

/// Calls of a thread in a round.
const CALLS: u64 = 8;
/// Rounds on the same map.
pub const ROUNDS: u64 = 25;
/// Neighbouring keys that two calls in three go to.
const HOT: usize = 3;

/// Rounds on one map.
pub struct Group<'a> {
    keys: &'a Keys,
    seed: u64,
    number: u64,
    /// Whether nodes move meanwhile.
    moving: bool,
    /// The round that is being played.
    round: AtomicU64,
    /// Moves tried so far.
    tried: AtomicU64,
}

impl<'a> Group<'a> {
    pub fn new(keys: &'a Keys, seed: u64, number: u64, moving: bool) -> Group<'a> {
        Group {
            keys,
            seed,
            number,
            moving,
            round: AtomicU64::new(0),
            tried: AtomicU64::new(0),
        }
    }

    pub fn draw(&self, round: u64, thread: usize) -> Draw {
        Draw::new(self.seed, (self.number << 16 | round) << 8 | thread as u64)
    }

    /// The keys that most calls of a round go to.
    fn hot(&self, round: u64) -> &[u64] {
        let mut draw = self.draw(round, THREADS + 1);
        self.keys.neighbours(HOT, &mut draw)
    }

    /// Where to move nodes: every other time at the keys that the threads are at.
    pub fn next_move(&self, draw: &mut Draw) -> u64 {
        self.tried.fetch_add(1, Relaxed);
        if draw.once_in(8) {
            // Where there are fewer cores than threads, the others would wait for milliseconds.
            std::thread::yield_now();
        }
        match draw.once_in(2) {
            true => self.keys.any(draw),
            false => self.hot(self.round.load(Relaxed))[draw.below(HOT as u64) as usize],
        }
    }

    /// Waits until nodes move: on a busy machine the thread that moves them might sleep through a
    /// whole group.
    fn wait_for_a_move(&self) {
        let (tried, mut looks) = (self.tried.load(Relaxed), 0);
        wait_until(|| {
            looks += 1;
            assert!(looks < 200_000, "nothing moves");
            self.tried.load(Relaxed) > tried
        });
    }

    /// One thread's part of a round.
    pub fn take_part<'c, T>(
        &self,
        (map, round, thread): (&T, u64, usize),
        clock: &'c AtomicU64,
        call: &impl Perform<T>,
    ) -> Log<'c> {
        let hot = self.hot(round);
        // Waves of growth and shrinkage.
        let growing = (round / 6 + self.number / 2).is_multiple_of(2);
        let mut log = Log::new(thread, clock, self.draw(round, thread));
        for number in 0..CALLS {
            let value = (round * 10 + thread as u64) * 100 + number;
            let wanted = Call::draw(log.draw(), self.keys, hot, value, growing);
            call(map, self.keys, wanted, &mut log);
        }
        log
    }

    /// Puts some records into a map.
    pub fn fill(&self, map: &impl TestMap) {
        let mut draw = self.draw(ROUNDS, THREADS);
        let records = self.keys.all().len() as u64 / 4;
        for _ in 0..records + draw.below(2 * records) {
            let key = self.keys.any(&mut draw);
            map.insert(key, 99).unwrap();
        }
    }

    /// Has copies made of every other record or so, if this map makes any. The others' are up to
    /// the threads.
    pub fn have_copied(&self, map: &impl TestMap) {
        let (placed, mut draw) = (map.placed(), self.draw(ROUNDS, THREADS + 1));
        while placed.add_record_page() {}
        for &key in self.keys.all().iter().filter(|_| draw.once_in(2)) {
            // In a row: of keys that take turns, some might never be counted.
            (0..3).for_each(|_| _ = map.get(key));
        }
    }

    /// Has the leaves of a round's keys be stale, where these have copies. No value changes, and no
    /// thread plays meanwhile.
    pub fn have_stale(&self, map: &impl TestMap, round: u64) {
        for &key in self.hot(round) {
            if let Some(value) = map.get(key) {
                // Where a bug is planted, the record may have another value.
                let _ = map.compare_and_set(key, value, value);
            }
        }
    }

    /// Reads of all keys, one by one and by a scan.
    pub fn look_at_all<'c, T: TestMap>(
        &self,
        map: &T,
        round: u64,
        clock: &'c AtomicU64,
    ) -> Log<'c> {
        let mut log = Log::new(THREADS, clock, self.draw(round, THREADS));
        for &key in self.keys.all() {
            perform(map, self.keys, Call::Point(key, Op::Get), &mut log);
        }
        let (from, limit) = (0, usize::MAX);
        perform(map, self.keys, Call::Scan { from, limit }, &mut log);
        log
    }

    /// Plays all rounds. The thread that calls plays, too.
    pub fn play<T: TestMap>(&self, map: &T, call: impl Perform<T>) -> Vec<History> {
        let (clock, gate) = (AtomicU64::new(0), Gate::new(THREADS));
        let logs: [Mutex<Option<Log<'_>>>; THREADS] = Default::default();
        let mut before = map.all().collect();
        let play = |round, thread: usize| {
            gate.pass();
            let log = self.take_part((map, round, thread), &clock, &call);
            *logs[thread].lock().unwrap() = Some(log);
            gate.pass();
        };
        std::thread::scope(|scope| {
            let (gate, play) = (&gate, &play);
            let _held = gate.held();
            for thread in 1..THREADS {
                scope.spawn(move || {
                    let _held = gate.held();
                    (0..ROUNDS).for_each(|round| play(round, thread));
                });
            }
            let mut histories = Vec::new();
            for round in 0..ROUNDS {
                self.round.store(round, Relaxed);
                self.have_stale(map, round);
                if self.moving {
                    self.wait_for_a_move();
                }
                play(round, 0);
                let last = self.look_at_all(map, round, &clock);
                let after = last.found();
                let played = logs.iter().map(|log| log.lock().unwrap().take());
                let before = std::mem::replace(&mut before, after);
                histories.push(History::of(before, played.flatten().chain([last])));
            }
            histories
        })
    }
}

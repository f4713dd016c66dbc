//! The first and the last record, beside those who put others there: pops in histories, judged as a
//! whole, and `clear`.
//!
//! A pop is about all keys at once, so here a history cannot be judged key by key, as those of
//! [`linear`](super::linear) are: the object is the map. Histories are so short that the tester
//! gets through their orders all the same: three threads, four calls each, on a handful of keys at
//! either end of records that stay.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use super::draw::{Draw, seed};
use super::linear::THREADS;
use super::linear::gate::Gate;
use super::map::as_model;
use super::{TestMap, arenas, check, effort, migrator, placing};

/// Calls of a thread in a round.
const CALLS: u64 = 4;
const ROUNDS: u64 = 20;
/// Maps, one or more for each placement.
const MAPS: u64 = placing::ALL.len() as u64 * effort::times(2);
/// Keys at either end that come and go.
const EDGE: u64 = 3;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Call {
    Insert(u64, u64),
    Remove(u64),
    First,
    PopFirst,
    PopLast,
}

/// What a call found: a record's key and value.
type Answer = Option<(u64, u64)>;

impl Call {
    /// Of a key below those that stay, or above these.
    fn draw(draw: &mut Draw, above: u64, value: u64) -> Call {
        let key = match draw.below(2 * EDGE) {
            low @ 0..EDGE => low,
            high => above + high,
        };
        match draw.below(10) {
            0..4 => Call::Insert(key, value),
            4 => Call::Remove(key),
            5 => Call::First,
            6..9 => Call::PopFirst,
            _ => Call::PopLast,
        }
    }

    fn perform(self, map: &impl TestMap) -> Answer {
        match self {
            Call::Insert(key, value) => {
                let before = map.insert(key, value).expect("there is room");
                before.map(|before| (key, before))
            }
            Call::Remove(key) => map.remove(key).map(|value| (key, value)),
            Call::First => map.all().next(),
            Call::PopFirst => map.pop_first(),
            Call::PopLast => map.pop_last(),
        }
    }
}

/// The records of a map, for the checker.
#[derive(Clone, Debug)]
struct Records(BTreeMap<u64, u64>);

impl SequentialSpec for Records {
    type Op = Call;
    type Ret = Answer;

    fn invoke(&mut self, call: &Call) -> Answer {
        let Records(all) = self;
        match *call {
            Call::Insert(key, value) => all.insert(key, value).map(|before| (key, before)),
            Call::Remove(key) => all.remove(&key).map(|value| (key, value)),
            Call::First => all.iter().next().map(|(&key, &value)| (key, value)),
            Call::PopFirst => all.pop_first(),
            Call::PopLast => all.pop_last(),
        }
    }
}

/// A call of a thread, what it found, and when it was made and answered.
#[derive(Clone, Copy, Debug)]
struct Event {
    thread: usize,
    call: Call,
    answer: Answer,
    times: (u64, u64),
}

/// Whether some order explains what was answered, and what is left.
fn is_linearizable(
    before: &BTreeMap<u64, u64>,
    events: &[Event],
    after: &BTreeMap<u64, u64>,
) -> bool {
    let mut moments: Vec<_> = events
        .iter()
        .flat_map(|event| [(event.times.0, true, event), (event.times.1, false, event)])
        .collect();
    moments.sort_by_key(|&(when, ..)| when);
    let mut tester = LinearizabilityTester::new(Records(before.clone()));
    for (_, asked, event) in moments {
        let noted = match asked {
            true => tester.on_invoke(event.thread, event.call),
            false => tester.on_return(event.thread, event.answer),
        };
        noted.expect("a thread asks one thing at a time");
    }
    // What is left comes out in order, each of it by a call of its own.
    for (&key, &value) in after {
        let noted = tester.on_invoke(THREADS, Call::PopFirst);
        noted.expect("all others have their answers");
        let noted = tester.on_return(THREADS, Some((key, value)));
        noted.expect("it was asked");
    }
    tester.is_consistent()
}

/// Plays rounds on one map. The error is a round that no order explains.
fn play<T: TestMap>(number: u64, seed: u64, first: fn()) -> Result<(), String> {
    let make = placing::ALL[number as usize % placing::ALL.len()];
    let (map, _) = placing::map::<T>(make, seed, 8 * arenas::CHUNK, arenas::AMPLE);
    // None, or several leaves of them; all of these are gone after some rounds.
    let standing = number % 3 * 4;
    let above = EDGE + 40 * standing;
    for key in 0..standing {
        map.insert(EDGE + 40 * key, key).unwrap();
    }
    let (clock, gate) = (AtomicU64::new(0), Gate::new(THREADS));
    let logs: [Mutex<Vec<Event>>; THREADS] = Default::default();
    let take_part = |round: u64, thread: usize| {
        let mut draw = Draw::new(seed, (number << 16 | round) << 8 | thread as u64);
        gate.pass();
        for call in 0..CALLS {
            let value = (round * 10 + thread as u64) * 10 + call;
            let call = Call::draw(&mut draw, above, value);
            let asked = clock.fetch_add(1, SeqCst);
            let answer = call.perform(&map);
            let times = (asked, clock.fetch_add(1, SeqCst));
            logs[thread].lock().unwrap().push(Event {
                thread,
                call,
                answer,
                times,
            });
        }
        gate.pass();
    };
    let (keys, moving) = (above + EDGE, Draw::new(seed, number << 8 | 99));
    migrator::beside(&map, moving, keys, || {
        std::thread::scope(|scope| {
            let _held = gate.held();
            for thread in 1..THREADS {
                let (take_part, gate) = (&take_part, &gate);
                scope.spawn(move || {
                    let _held = gate.held();
                    first();
                    (0..ROUNDS).for_each(|round| take_part(round, thread));
                });
            }
            first();
            let mut before = as_model(map.all());
            let mut outcome = Ok(());
            for round in 0..ROUNDS {
                take_part(round, 0);
                let take = |log: &Mutex<Vec<Event>>| std::mem::take(&mut *log.lock().unwrap());
                let events: Vec<_> = logs.iter().flat_map(take).collect();
                let after = as_model(map.all());
                if outcome.is_ok() && !is_linearizable(&before, &events, &after) {
                    let lines: Vec<_> = events.iter().map(|event| format!("{event:?}")).collect();
                    outcome = Err(format!(
                        "TIMBERLINE_SEED={seed}, map {number}, round {round}: no order explains\n{}\nfrom {before:?}\nto {after:?}",
                        lines.join("\n")
                    ));
                }
                before = after;
            }
            outcome
        })
    })
}

pub fn pops_are_linearizable<T: TestMap>() {
    let seed = seed();
    for number in 0..MAPS {
        play::<T>(number, seed, || {}).unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Plays until pops that threads make after `first` cannot be explained, on this many maps at most.
/// Returns why.
#[allow(dead_code, reason = "for those who plant mistakes")]
pub fn find_mistake<T: TestMap>(maps: u64, first: fn()) -> Option<String> {
    let seed = seed();
    (0..maps).find_map(|number| play::<T>(number, seed, first).err())
}

/// Inserters that are never done, behind and ahead: what was there is gone, and `clear` returns.
pub fn a_map_is_cleared_beside_inserters<T: TestMap>() {
    const RECORDS: u64 = 400;
    let seed = seed();
    let placing = placing::shuffle(seed);
    let arenas = arenas::two(8 * arenas::CHUNK, arenas::AMPLE);
    let map = T::make(arenas, placing.placement.clone()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let inserting = [(1, 7 * RECORDS), (7 * RECORDS, 40 * RECORDS)].map(|(from, to)| {
            let (map, stop) = (&map, &stop);
            scope.spawn(move || {
                // Ever greater keys, and again from the beginning. None of them is one of those
                // that stand.
                let keys = || (from..to).filter(|key| key % 7 > 0);
                while !stop.load(Relaxed) {
                    for key in keys().take_while(|_| !stop.load(Relaxed)) {
                        map.insert(key, key).unwrap();
                    }
                }
            })
        });
        for _ in 0..effort::times(4) {
            for key in 0..RECORDS {
                map.insert(7 * key, key).unwrap();
            }
            map.clear();
            let mut left = 0;
            map.scan(0, usize::MAX, |key, _| {
                left += u64::from(key % 7 == 0);
                ControlFlow::Continue(())
            });
            assert_eq!(left, 0, "records were there throughout");
        }
        stop.store(true, Relaxed);
        for inserter in inserting {
            inserter.join().unwrap();
        }
    });
    let model = as_model(map.all());
    check::at_rest(&map, &model, &placing);
    check::comes_back(&map);
}

//! What many ask for at the same time of the same keys, as histories.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use timberline_remote::fabric::Simulation;
use timberline_remote::{Error, Member};

use crate::asked;
use crate::linear::{Answer, Event, Op, is_contended, judge};
use crate::requests::Known;
use crate::world::{KEYS, STRIDE};

/// Keys that all ask for. Others, in the same leaves, come and go meanwhile.
pub const HOT: u64 = 32;
/// Of these, so many are asked for most at a time.
const AT_A_TIME: u64 = 6;
/// For so long. They are asked for again later, when others may have them.
const TURN_NS: u64 = 200_000;
/// Operations on a key, and those of them that may still be done: what the checker can take.
const MOST: usize = 70;
const MOST_OPEN: usize = 8;

/// Operations so far.
#[derive(Default)]
pub struct History {
    /// `None`: it was not done.
    events: RefCell<Vec<Option<Event>>>,
    values: Cell<u64>,
}

/// A key that all ask for.
pub fn key_of(hot: u64) -> u64 {
    hot * (KEYS / HOT) * STRIDE + 1
}

impl History {
    /// Whether there were enough operations on a key.
    fn is_full(&self, key: u64) -> bool {
        let events = self.events.borrow();
        let of_key = events.iter().flatten().filter(|it| it.key == key);
        let (all, open) = of_key.fold((0, 0), |(all, open), it| {
            (all + 1, open + usize::from(it.answer.is_none()))
        });
        all >= MOST || open >= MOST_OPEN
    }

    /// Begins an operation.
    pub fn begin(&self, key: u64, op: Op, begin: u64) -> usize {
        let mut events = self.events.borrow_mut();
        events.push(Some(Event {
            key,
            op,
            begin,
            end: u64::MAX,
            answer: None,
        }));
        events.len() - 1
    }

    /// Ends one.
    pub fn end(&self, at: usize, was: Option<u64>, end: u64) {
        if let Some(event) = &mut self.events.borrow_mut()[at] {
            (event.end, event.answer) = (end, Some(Answer::Was(was)));
        }
    }

    /// It was refused.
    fn undo(&self, at: usize) {
        self.events.borrow_mut()[at] = None;
    }

    /// Decides whether the histories of all keys are linearizable. Returns how many operations
    /// there were, and whether some on one key overlapped.
    pub fn judge(&self, seed: u64) -> (usize, bool) {
        let events = self.events.borrow();
        let events = events.iter().flatten();
        // A read without an answer says nothing.
        let says = |it: &&Event| it.op != Op::Get || it.answer.is_some();
        let events: Vec<Event> = events.filter(says).copied().collect();
        judge(&events).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        (events.len(), is_contended(&events))
    }
}

/// Operations of a member on keys that all members ask for; those that it does not have are
/// refused.
pub async fn work(
    simulation: &Simulation,
    member: Arc<Member>,
    known: Rc<Known>,
    history: Rc<History>,
    mut draws: fastrand::Rng,
) {
    let tree = member.tree();
    while !known.is_over.get() {
        simulation.sleep(draws.u64(0..16_000)).await;
        let turn = simulation.now_ns() / TURN_NS;
        let hot = match draws.u8(0..4) {
            0 => draws.u64(0..HOT),
            _ => (turn * AT_A_TIME + draws.u64(0..AT_A_TIME)) % HOT,
        };
        let key = key_of(hot);
        let began_ns = simulation.now_ns();
        if draws.u8(0..4) == 0 {
            // So that leaves are split and merged.
            let other = key + 1 + draws.u64(0..150);
            let is_growing = (turn / 4).is_multiple_of(2);
            let changed = match draws.u8(0..8) < [2, 6][usize::from(is_growing)] {
                true => tree.insert(other, began_ns).await,
                false => tree.remove(other).await,
            };
            let _ = known.may_fail(changed, began_ns, simulation.now_ns());
            continue;
        }
        if history.is_full(key) {
            continue;
        }
        history.values.set(history.values.get() + 1);
        let value = history.values.get();
        let op = asked::draw(&mut draws, value);
        let at = history.begin(key, op, began_ns);
        let result = asked::ask(tree, key, op).await;
        match known.may_fail(result, began_ns, simulation.now_ns()) {
            Ok(was) => history.end(at, was, simulation.now_ns()),
            Err(Error::NotOwned(refused)) => {
                assert_eq!(refused, key);
                history.undo(at);
            }
            // It may have been done.
            Err(_) => simulation.sleep(50_000).await,
        }
    }
}

//! What those who use a cluster ask for, and what answers they may get.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use timberline_remote::fabric::Simulation;
use timberline_remote::{Error, Member, Result, ServerId};

use super::world::{KEYS, STRIDE};

/// The longest that an operation may take when a memory server is dead, ns. What splits a node
/// tries to write it until the server has been silent for five seconds, and others wait for it.
pub const LONGEST_NS: u64 = 6_000_000_000;

/// What is known of a cluster's keys, and of its end.
#[derive(Default)]
pub struct Known {
    pub keys: RefCell<Vec<Key>>,
    /// No operation begins any more.
    pub is_over: Cell<bool>,
    /// A memory server that died.
    pub dead: Cell<Option<ServerId>>,
    /// Operations that were carried out since it died, and those that failed because of it.
    pub carried_out: Cell<u64>,
    pub failed: Cell<u64>,
    /// The longest of them, ns.
    pub longest_ns: Cell<u64>,
}

impl Known {
    /// A result that may be one of these errors, and no other. `began_ns`: when it was asked for.
    pub fn may_fail<T>(&self, result: Result<T>, began_ns: u64, now_ns: u64) -> Result<T> {
        let expected = match (&result, self.dead.get()) {
            (Ok(_), _) | (Err(Error::NotOwned(_) | Error::LeaseExpired | Error::Fenced), _) => true,
            (Err(Error::TimedOut(server)), Some(dead)) => *server == dead,
            (Err(error), _) => matches!(error, Error::TimedOut(_)),
        };
        if let Err(error) = &result {
            assert!(expected, "{error}");
        }
        if self.dead.get().is_some() {
            let took = now_ns - began_ns;
            assert!(took <= LONGEST_NS, "an operation took {took} ns");
            self.longest_ns.set(took.max(self.longest_ns.get()));
            let count = match &result {
                Ok(_) => &self.carried_out,
                Err(_) => &self.failed,
            };
            count.set(count.get() + 1);
        }
        result
    }
}

/// A key, as those see it who use the cluster.
#[derive(Default)]
pub struct Key {
    /// The values that it may have; `None` is a key that is not there. More than one if an
    /// operation ended without saying whether it was carried out.
    pub possible: BTreeSet<Option<u64>>,
    /// All values that it ever had.
    pub past: BTreeSet<Option<u64>>,
    /// An operation is under way, of this member.
    pub busy: Option<usize>,
}

/// Operations of a member on keys that it has.
pub async fn work(
    simulation: &Simulation,
    member: Arc<Member>,
    number: usize,
    known: Rc<Known>,
    mut draws: fastrand::Rng,
    seed: u64,
) {
    let keys = &known.keys;
    for step in 1.. {
        if known.is_over.get() {
            return;
        }
        simulation.sleep(draws.u64(0..4_000)).await;
        // In some clusters most records go for a while, so leaves are merged, and come again.
        let comes_and_goes = seed % 3 == 2 || seed % 8 == 3;
        // In leaves that get full, and in others.
        let hot = draws.usize(0..4) * (KEYS as usize / 4);
        let index = match draws.bool() && !comes_and_goes {
            true => draws.usize(0..KEYS as usize),
            false => hot + draws.usize(0..700),
        };
        let key = index as u64 * STRIDE;
        if keys.borrow()[index].busy.is_some() {
            continue;
        }
        let before = keys.borrow()[index].possible.clone();
        let shrinks = comes_and_goes && (simulation.now_ns() / 2_000_000).is_multiple_of(2);
        let is_update = draws.bool() && !comes_and_goes;
        let drawn = draws.u8(0..4);
        let value = match if shrinks && drawn > 1 { 1 } else { drawn } {
            0 => {
                keys.borrow_mut()[index].busy = Some(number);
                let began_ns = simulation.now_ns();
                let found = member.tree().get(key).await;
                let found = known.may_fail(found, began_ns, simulation.now_ns());
                let key = &mut keys.borrow_mut()[index];
                key.busy = None;
                if let Ok(value) = found {
                    let possible = &key.possible;
                    assert!(
                        possible.contains(&value),
                        "seed {seed}: {index} {value:?}: {possible:?}"
                    );
                    key.possible = [value].into();
                }
                continue;
            }
            1 => None,
            _ => Some((number as u64) << 48 | step << 16 | draws.u64(0..1 << 16)),
        };
        {
            let key = &mut keys.borrow_mut()[index];
            key.busy = Some(number);
            key.possible.insert(value);
            key.past.insert(value);
        }
        let began_ns = simulation.now_ns();
        let result = match value {
            Some(value) if is_update => member.tree().update(key, value).await,
            Some(value) => member.tree().insert(key, value).await,
            None => member.tree().remove(key).await,
        };
        let result = known.may_fail(result, began_ns, simulation.now_ns());
        let key = &mut keys.borrow_mut()[index];
        key.busy = None;
        match result {
            Ok(found) => {
                assert!(
                    before.contains(&found),
                    "seed {seed}: {index} {found:?}: {before:?}"
                );
                // An update of a record that is not there makes none.
                let is_nothing = is_update && value.is_some() && found.is_none();
                key.possible = [value.filter(|_| !is_nothing)].into();
            }
            Err(Error::NotOwned(refused)) => {
                assert_eq!(refused, index as u64 * STRIDE, "seed {seed}");
                key.possible = before;
            }
            Err(_) => {}
        }
    }
}

//! What those who use a cluster ask for, and what answers they may get.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use timberline_remote::fabric::Simulation;
use timberline_remote::{Error, Member, Result};

use super::{KEYS, STRIDE};

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
    keys: Rc<RefCell<Vec<Key>>>,
    mut draws: fastrand::Rng,
    seed: u64,
    is_over: Rc<Cell<bool>>,
) {
    for step in 1.. {
        if is_over.get() {
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
                let found = member.tree().get(key).await;
                let key = &mut keys.borrow_mut()[index];
                key.busy = None;
                if let Ok(value) = may_fail(found) {
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
        let result = match value {
            Some(value) if is_update => member.tree().update(key, value).await,
            Some(value) => member.tree().insert(key, value).await,
            None => member.tree().remove(key).await,
        };
        let key = &mut keys.borrow_mut()[index];
        key.busy = None;
        match may_fail(result) {
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

/// A result that may be one of these errors, and no other.
fn may_fail<T>(result: Result<T>) -> Result<T> {
    if let Err(error) = &result {
        let expected = matches!(
            error,
            Error::NotOwned(_) | Error::TimedOut(_) | Error::LeaseExpired | Error::Fenced
        );
        assert!(expected, "{error}");
    }
    result
}

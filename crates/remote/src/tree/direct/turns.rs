//! Operations of one compute server on the same leaf: what one leaves to the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::change::Outcome;
use crate::address::Address;
use crate::error::Result;
use crate::pool::PoolLock;
use crate::tree::leaf::Write;

/// How often in a row a lock is handed over. Others wait meanwhile.
const HANDED_OVER: u8 = 8;

/// A change that any operation on the leaf may do.
#[derive(Clone)]
pub(super) struct Wish {
    pub key: u64,
    pub write: Write,
    pub outcome: Arc<OnceLock<Result<Outcome>>>,
}

/// A leaf's lock, and how often it was handed over.
pub(super) struct HeldLock {
    pub lock: PoolLock,
    times: u8,
}

impl HeldLock {
    /// A lock that was just taken.
    pub fn new(lock: PoolLock) -> HeldLock {
        HeldLock { lock, times: 0 }
    }

    /// Whether the next one may have it.
    pub fn may_go_on(&self) -> bool {
        self.times < HANDED_OVER
    }
}

/// What was left at leaves, by their addresses.
#[derive(Default)]
pub(in crate::tree) struct LeafTurns {
    wishes: Mutex<HashMap<Address, Vec<Wish>>>,
    locks: Mutex<HashMap<Address, HeldLock>>,
}

impl LeafTurns {
    /// Leaves a change for whoever is the next at the leaf.
    pub(super) fn leave(&self, at: Address, wish: Wish) {
        lock(&self.wishes).entry(at).or_default().push(wish);
    }

    /// All changes that were left at a leaf.
    pub(super) fn take_wishes(&self, at: Address) -> Vec<Wish> {
        lock(&self.wishes).remove(&at).unwrap_or_default()
    }

    /// Hands a leaf's lock to the next one that has its flight.
    pub(super) fn hand_over(&self, at: Address, held: HeldLock) {
        let times = held.times + 1;
        lock(&self.locks).insert(at, HeldLock { times, ..held });
    }

    /// The leaf's lock, if it was handed over.
    pub(super) fn take_lock(&self, at: Address) -> Option<HeldLock> {
        lock(&self.locks).remove(&at)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

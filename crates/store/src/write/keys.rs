//! The keys of a batch.

use std::collections::HashSet;
use std::sync::MutexGuard;

use smallvec::SmallVec;

use crate::log::NewRecord;
use crate::store::{Inner, stripe_of};

/// The locks of keys.
type Locks<'i> = SmallVec<[MutexGuard<'i, ()>; 4]>;

impl Inner {
    /// The locks of all keys; and whether there is a key twice.
    pub(super) fn lock_keys(&self, entries: &[NewRecord]) -> (Locks<'_>, bool) {
        let mut locks = SmallVec::new();
        if let [entry] = entries {
            locks.push(self.stripe(entry.key));
            return (locks, false);
        }
        // In ascending order, so that no two batches wait for one another.
        let keys = entries.iter().map(|it| (stripe_of(it.key), it.key));
        let mut keys: SmallVec<[(usize, &[u8]); 16]> = keys.collect();
        keys.sort_unstable();
        let is_twice = keys.windows(2).any(|it| it[0] == it[1]);
        keys.dedup_by_key(|it| it.0);
        locks.extend(keys.into_iter().map(|it| self.lock_stripe(it.0)));
        (locks, is_twice)
    }
}

/// Of each key the last record: as they take effect together, nobody would see the others.
pub(super) fn last_of_each<'a>(entries: &[NewRecord<'a>]) -> Vec<NewRecord<'a>> {
    let mut later = HashSet::new();
    let last = entries.iter().rev().filter(|it| later.insert(it.key));
    let mut last: Vec<_> = last.copied().collect();
    last.reverse();
    last
}

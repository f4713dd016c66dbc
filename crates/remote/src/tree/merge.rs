//! Merges: a leaf that was emptied joins its neighbour, and its node goes back to the pool.
//!
//! As a split, a merge is done in the cache at once and then written: first the left leaf with what
//! both have, then the parent that leads to the right one no more. If the compute server dies in
//! between, the parent still says where the left leaf ends, and what is above that is cut off when
//! it is fetched. So the tree in the pool is whole at every moment.
//!
//! **When the right leaf's node may be used again.** At once, by anyone: nobody reads or writes it.
//! - Only the owner of a leaf's keys goes to it. Others may have old copies of the parent that lead
//!   there, but they use none before they own the keys, and then they have fetched it again.
//! - Operations of this compute server that are on their way to the leaf look whether its parent
//!   still leads there once they have its flight, which the merge has until it is over.
//! - A memory server that looks for a key may have gone the old way. Its answer is not used, since
//!   the merge counts as a write to the leaf (`offload.rs`).
//! - Writes to the leaf that got no answer were sent before the node is given back, on the same
//!   connection. What a dead compute server sent is done or refused before others own its keys.

use std::sync::atomic::Ordering::Relaxed;

use timberline_sync::Restart;
use timberline_tree::btree::page::{Page, PageBody};

use super::RemoteTree;
use super::structure::{Place, Unwritten};
use super::walk::{At, Found};
use crate::cache::State;
use crate::child::Child;
use crate::error::Result;
use crate::image::Lines;
use crate::pool::SUPERBLOCK;

/// A removal that leaves so many records looks whether the leaf can be merged. Each look may read a
/// neighbour, so there are few.
const LOOKS: [usize; 3] = [0, Page::CAPACITY / 8, Page::CAPACITY / 4];

/// Leaves are merged that have so many records together, at most: room for as many more.
const MOST: usize = Page::CAPACITY / 2;

/// How often a merge is tried again when something else is under way.
const ATTEMPTS: usize = 8;

/// Two neighbours below one node.
#[derive(Clone, Copy)]
struct Pair {
    above: Place,
    left: Place,
    right: Place,
    /// The first key of the right one.
    separator: u64,
}

/// Whether a leaf with so many records left may be merged.
pub(super) fn is_worth_a_look(records: usize) -> bool {
    LOOKS.contains(&records)
}

impl RemoteTree {
    /// How many leaves were merged with their neighbours. Their nodes are used again.
    pub fn merges(&self) -> u64 {
        self.merges.load(Relaxed)
    }

    /// Merges the leaf of a key with a neighbour below the same node, if both together are small
    /// and this server's, and if nothing else is under way there.
    ///
    /// # Errors
    /// A memory server does not answer. If it did not when the merge was written, nothing can be
    /// written any more.
    pub(super) async fn merge(&self, key: u64) -> Result<()> {
        let _structure = self.cache.flights.begin(SUPERBLOCK).await;
        self.check_whole()?;
        // As in `fetch`: a merge brings leaves to the cache.
        self.check_owned(key)?;
        for _ in 0..ATTEMPTS {
            let Some(pair) = self.next_merge(key).await? else {
                return Ok(());
            };
            if self.merge_pair(pair).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The leaf of a key and a neighbour, both in the cache, that can be merged.
    async fn next_merge(&self, key: u64) -> Result<Option<Pair>> {
        'again: for _ in 0..ATTEMPTS {
            let Some(above) = self.bring(key, 1).await? else {
                continue;
            };
            let Ok(candidates) = above.view.get(|body| self.neighbours(body, key)) else {
                continue;
            };
            let candidates = candidates.into_iter().flatten();
            for [first, separator, last] in candidates {
                if !self.owned.read().covers(&(first..=last)) {
                    continue;
                }
                let Some(left) = self.bring(first, 0).await? else {
                    continue 'again;
                };
                let Some(right) = self.bring(separator, 0).await? else {
                    continue 'again;
                };
                let counts = [left, right].map(|leaf| leaf.view.get(|body| body.count()));
                let [Ok(one), Ok(other)] = counts else {
                    continue 'again;
                };
                if one + other <= MOST {
                    let [above, left, right] = [above, left, right].map(Place::of);
                    return Ok(Some(Pair {
                        above,
                        left,
                        right,
                        separator,
                    }));
                }
            }
            return Ok(None);
        }
        Ok(None)
    }

    /// The leaf of a key with the one before it, and with the one after it: their first key, that
    /// of the right one, and their last.
    fn neighbours(&self, above: &PageBody, key: u64) -> [Option<[u64; 3]>; 2] {
        let at = above.child_for(self.search, key);
        [at.checked_sub(1), Some(at)].map(|left| {
            let left = left.filter(|left| left + 1 < above.count())?;
            let (separator, last) = above.range_of(left + 1);
            Some([above.range_of(left).0, separator, last])
        })
    }

    /// Merges two leaves, and writes what came of it. Says whether it did.
    async fn merge_pair(&self, pair: Pair) -> Result<bool> {
        // Not worth waiting for.
        let begin = |place: Place| self.cache.flights.try_begin(place.address);
        let Some(_above) = begin(pair.above) else {
            return Ok(false);
        };
        let (Some(_left), Some(_right)) = (begin(pair.left), begin(pair.right)) else {
            return Ok(false);
        };
        let Some(locks) = self.lock_shared(None, &[pair.above]).await? else {
            return Ok(false);
        };
        let is_done = loop {
            if let Ok(is_done) = self.merge_cached(pair) {
                break is_done;
            }
        };
        if is_done {
            self.cache.give_back(pair.right.id);
            Unwritten::until(self, async {
                self.write_node(pair.left).await?;
                self.write_node(pair.above).await
            })
            .await?;
            drop(self.offloading.note(pair.right.address));
            self.merges.fetch_add(1, Relaxed);
        }
        self.unlock_shared(locks).await?;
        if is_done {
            self.space.free(&self.connection, pair.right.address).await;
        }
        Ok(is_done)
    }

    /// Merges in the cache, if everything is still as it was.
    fn merge_cached(&self, pair: Pair) -> std::result::Result<bool, Restart> {
        let Found::Here(above) = self.walk(pair.separator, 1)? else {
            return Ok(false);
        };
        let (left, right) = (self.at(pair.left.id), self.at(pair.right.id));
        let index = above.view.get(|body| {
            let index = body.child_for(self.search, pair.separator);
            let leads_to =
                |index, at: At<'_>| Child::of_word(body.word(index)) == Child::Cached(at.id);
            let is_same = index > 0
                && body.range_of(index).0 == pair.separator
                && leads_to(index - 1, left)
                && leads_to(index, right);
            is_same.then_some(index)
        })?;
        let are_same = [above, left, right].map(Place::of) == [pair.above, pair.left, pair.right];
        let records = left.view.get(|body| body.count())? + right.view.get(|body| body.count())?;
        let Some(index) = index.filter(|_| are_same && records <= MOST) else {
            return Ok(false);
        };
        let above_lock = above.view.upgrade()?;
        let Ok(left_lock) = left.view.upgrade() else {
            above_lock.unchanged();
            return Err(Restart);
        };
        let Ok(right_lock) = right.view.upgrade() else {
            above_lock.unchanged();
            left_lock.unchanged();
            return Err(Restart);
        };
        right_lock.merge_to(&left_lock);
        above_lock.remove(index);
        above.frame.mark(Lines::ALL, &above_lock);
        left.frame.mark(Lines::ALL, &left_lock);
        right.frame.mark_clean(&right_lock);
        right.frame.set_state(State::Free, &right_lock);
        Ok(true)
    }
}

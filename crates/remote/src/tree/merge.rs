//! Merges: a node that was emptied joins its neighbour, and its memory goes back to the pool.
//!
//! As a split, a merge is done in the cache at once and then written: first the left node with what
//! both have, then the parent that leads to the right one no more. If the compute server dies in
//! between, the parent still says where the left node ends, and what is above that is cut off when
//! it is fetched. So the tree in the pool is whole at every moment.
//!
//! A merge of leaves may leave a parent with few children, which is merged in turn. Then leaves are
//! neighbours that were below different nodes, and they are looked at, too. A root with one child
//! gives way to it.
//!
//! **When a right leaf's memory may be used again.** At once, by anyone: nobody reads or writes it.
//! - Only the owner of a leaf's keys goes to it. Others may have old copies of the parent that lead
//!   there, but they use none before they own the keys, and then they have fetched it again.
//! - Operations of this compute server that are on their way to the leaf look whether its parent
//!   still leads there once they have its flight, which the merge has until it is over.
//! - A memory server that looks for a key may have gone the old way. Its answer is not used, since
//!   the merge counts as a write to the leaf (`offload.rs`). The way by an inner node that was
//!   merged leads to the same leaves as the new one, as long as they are not written.
//! - Writes to the leaf that got no answer were sent before the node is given back, on the same
//!   connection. What a dead compute server sent is done or refused before others own its keys.
//!
//! **The same for an inner node**, or an old root, if all of its keys are this server's and it was
//! never locked. Another compute server may have an old copy of it, and would lock it to change
//! what is below. It does so only on the way to keys of its own. It has keys there by its old copy
//! and none in the pool only if somebody changed the node's fences meanwhile; that one did not own
//! all of its keys, and so had its lock. A lock counts how often it was released, so its word is
//! not 0 then. Such a node stays: a right one is not merged, and an old root is left.

use std::sync::atomic::Ordering::Relaxed;

use timberline_sync::Restart;
use timberline_tree::btree::page::{Page, PageBody};

use super::RemoteTree;
use super::structure::{Place, Unwritten};
use super::walk::{At, Found};
use crate::address::Address;
use crate::cache::{FrameId, State};
use crate::child::Child;
use crate::error::Result;
use crate::image::Lines;
use crate::pool::{SUPERBLOCK, Superblock};

/// A removal that leaves so many records looks whether the leaf can be merged. Each look may read a
/// neighbour, so there are few.
const LOOKS: [usize; 3] = [0, Page::CAPACITY / 8, Page::CAPACITY / 4];

/// The same for the children of an inner node; it has one at least.
const INNER_LOOKS: [usize; 3] = [1, Page::CAPACITY / 8, Page::CAPACITY / 4];

/// Nodes are merged that have so many entries together, at most: room for as many more.
const MOST: usize = Page::CAPACITY / 2;

/// How often a merge is tried again when something else is under way.
const ATTEMPTS: usize = 8;

/// Two neighbours below one node.
#[derive(Clone, Copy)]
struct Pair {
    above: Place,
    left: Place,
    right: Place,
    /// Of both.
    height: u8,
    /// The first key of the right one.
    separator: u64,
}

/// Whether a leaf with so many records left may be merged.
pub(super) fn is_worth_a_look(records: usize) -> bool {
    LOOKS.contains(&records)
}

impl RemoteTree {
    /// How many leaves were merged with their neighbours. Their memory is used again.
    pub fn merges(&self) -> u64 {
        self.merges[0].load(Relaxed)
    }

    /// How many inner nodes were, and roots that gave way to their only child.
    pub fn inner_merges(&self) -> u64 {
        self.merges[1].load(Relaxed)
    }

    /// Merges the leaf of a key with a neighbour below the same node, if both together are small
    /// and this server's, and if nothing else is under way there; then nodes above, likewise.
    ///
    /// # Errors
    /// A memory server does not answer. If it did not when the merge was written, nothing can be
    /// written any more.
    pub(super) async fn merge(&self, key: u64) -> Result<()> {
        let _structure = self.cache.flights.begin(SUPERBLOCK).await;
        self.check_whole()?;
        // As in `fetch`: a merge brings nodes to the cache.
        self.check_owned(key)?;
        let mut due = vec![(0, key)];
        let mut any = false;
        // It ends, as each merge leaves one node less.
        while let Some((height, key)) = due.pop() {
            let Some(pair) = self.merge_at(height, key).await? else {
                continue;
            };
            any = true;
            let children = self.read_page(pair.above.id, |body| body.count());
            if INNER_LOOKS.contains(&children) {
                due.push((height + 1, pair.separator));
            }
            if height > 0 {
                due.push((height - 1, pair.separator));
            }
        }
        match any {
            true => self.lower_root(key).await,
            false => Ok(()),
        }
    }

    /// Merges the node of a height and a key. Returns what was merged.
    async fn merge_at(&self, height: u8, key: u64) -> Result<Option<Pair>> {
        for _ in 0..ATTEMPTS {
            let Some(pair) = self.next_merge(height, key).await? else {
                return Ok(None);
            };
            if self.merge_pair(pair).await? {
                return Ok(Some(pair));
            }
        }
        Ok(None)
    }

    /// The node of a height and a key, and a neighbour, both in the cache, that can be merged.
    async fn next_merge(&self, height: u8, key: u64) -> Result<Option<Pair>> {
        'again: for _ in 0..ATTEMPTS {
            if self.read_page(self.cache.root(), |root| root.height()) <= height {
                return Ok(None);
            }
            let Some(above) = self.bring(key, height + 1).await? else {
                continue;
            };
            let Ok(candidates) = above.view.get(|body| self.neighbours(body, key)) else {
                continue;
            };
            let candidates = candidates.into_iter().flatten();
            for [first, separator, last] in candidates {
                if !self.may_merge(height, [first, separator, last]) {
                    continue;
                }
                let Some(left) = self.bring(separator - 1, height).await? else {
                    continue 'again;
                };
                let Some(right) = self.bring(separator, height).await? else {
                    continue 'again;
                };
                let counts = [left, right].map(|node| node.view.get(|body| body.count()));
                let [Ok(one), Ok(other)] = counts else {
                    continue 'again;
                };
                if one + other <= MOST {
                    let [above, left, right] = [above, left, right].map(Place::of);
                    return Ok(Some(Pair {
                        above,
                        left,
                        right,
                        height,
                        separator,
                    }));
                }
            }
            return Ok(None);
        }
        Ok(None)
    }

    /// The node of a key with the one before it, and with the one after it: their first key, that
    /// of the right one, and their last.
    fn neighbours(&self, above: &PageBody, key: u64) -> [Option<[u64; 3]>; 2] {
        let at = above.child_for(self.search, key);
        [at.checked_sub(1), Some(at)].map(|left| {
            let left = left.filter(|left| left + 1 < above.count())?;
            let (separator, last) = above.range_of(left + 1);
            Some([above.range_of(left).0, separator, last])
        })
    }

    /// Whether neighbours are this server's: leaves have to be; of inner nodes the right one, and a
    /// key of the left one, so that nobody else removes that one meanwhile.
    fn may_merge(&self, height: u8, [first, separator, last]: [u64; 3]) -> bool {
        let owned = self.owned.read();
        match height {
            0 => owned.covers(&(first..=last)),
            _ => owned.covers(&(separator - 1..=last)),
        }
    }

    /// Merges two nodes, and writes what came of it. Says whether it did.
    async fn merge_pair(&self, pair: Pair) -> Result<bool> {
        // Not worth waiting for.
        let begin = |place: Place| self.cache.flights.try_begin(place.address);
        let Some(_above) = begin(pair.above) else {
            return Ok(false);
        };
        let (Some(_left), Some(_right)) = (begin(pair.left), begin(pair.right)) else {
            return Ok(false);
        };
        if pair.height > 0 && self.was_locked(pair.right.address).await? {
            return Ok(false);
        }
        let Some(locks) = self.lock_shared(None, &[pair.above, pair.left]).await? else {
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
            self.merges[usize::from(pair.height.min(1))].fetch_add(1, Relaxed);
        }
        self.unlock_shared(locks).await?;
        if is_done {
            self.space.free(&self.connection, pair.right.address).await;
        }
        Ok(is_done)
    }

    /// Whether an inner node was ever locked.
    async fn was_locked(&self, at: Address) -> Result<bool> {
        Ok(self.connection.read(at, 1).await? != [0])
    }

    /// Merges in the cache, if everything is still as it was.
    fn merge_cached(&self, pair: Pair) -> std::result::Result<bool, Restart> {
        let Found::Here(above) = self.walk(pair.separator, pair.height + 1)? else {
            return Ok(false);
        };
        let (left, right) = (self.at(pair.left.id), self.at(pair.right.id));
        let index = above.view.get(|body| {
            let index = body.child_for(self.search, pair.separator);
            let leads_to =
                |index, at: At<'_>| Child::of_word(body.word(index)) == Child::Cached(at.id);
            let is_same = index > 0
                && body.height() == pair.height + 1
                && body.range_of(index).0 == pair.separator
                && leads_to(index - 1, left)
                && leads_to(index, right);
            is_same.then_some(index)
        })?;
        let are_same = [above, left, right].map(Place::of) == [pair.above, pair.left, pair.right];
        let entries = left.view.get(|body| body.count())? + right.view.get(|body| body.count())?;
        let Some(index) = index.filter(|_| are_same && entries <= MOST) else {
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

    /// As long as the root has a single child that is an inner node, that becomes the root. `key`
    /// is this server's.
    async fn lower_root(&self, key: u64) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let root = self.cache.root();
            let lowered = |body: &PageBody| body.height().checked_sub(1);
            let Some(height) = self.read_page(root, lowered).filter(|&below| below > 0) else {
                return Ok(());
            };
            if self.read_page(root, |body| body.count()) > 1 {
                return Ok(());
            }
            if let Some(child) = self.bring(key, height).await? {
                self.replace_root(root, Place::of(child)).await?;
            }
        }
        Ok(())
    }

    /// Makes the only child of the root the root, if everything is still as it was.
    async fn replace_root(&self, root: FrameId, child: Place) -> Result<()> {
        let root = Place {
            id: root,
            address: self.cache.frame(root).address(),
        };
        let flights = &self.cache.flights;
        let (Some(_root), Some(_child)) = (
            flights.try_begin(root.address),
            flights.try_begin(child.address),
        ) else {
            return Ok(());
        };
        let is_shared = self.is_shared(0, u64::MAX);
        let stays = is_shared || self.was_locked(root.address).await?;
        let Some(locks) = self.lock_shared(Some(root.address), &[root]).await? else {
            return Ok(());
        };
        let is_done = loop {
            if let Ok(is_done) = self.replace_root_cached(root, child) {
                break is_done;
            }
        };
        if is_done {
            self.cache.give_back(root.id);
            let attempt = async || Superblock::set_root(&self.connection, child.address).await;
            Unwritten::until(self, self.connection.insist(attempt)).await?;
            self.merges[1].fetch_add(1, Relaxed);
        }
        self.unlock_shared(locks).await?;
        if is_done && !stays {
            self.space.free(&self.connection, root.address).await;
        }
        Ok(())
    }

    fn replace_root_cached(&self, root: Place, child: Place) -> std::result::Result<bool, Restart> {
        let (above, below) = (self.at(root.id), self.at(child.id));
        let leads_to = above.view.get(|body| {
            let is_only = body.height() > 1 && body.count() == 1;
            is_only && Child::of_word(body.word(0)) == Child::Cached(child.id)
        })?;
        let are_same = [above, below].map(Place::of) == [root, child];
        if !leads_to || !are_same || self.cache.root() != root.id {
            return Ok(false);
        }
        let lock = above.view.upgrade()?;
        self.cache.set_root(child.id);
        above.frame.mark_clean(&lock);
        above.frame.set_state(State::Free, &lock);
        Ok(true)
    }
}

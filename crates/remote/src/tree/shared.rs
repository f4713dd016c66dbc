//! Inner nodes that several compute servers write: those whose keys are of several partitions.
//!
//! Such a node is written under a lock in the pool, after what others wrote of it was fetched.
//! Readers take no lock. A cached copy that is older than the node in the pool still leads right:
//! others change it where their own keys are. After partitions have changed it may lead to a leaf
//! that was split: that is seen at the leaf's fences, and the way is fetched again from the root.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use timberline_tree::btree::page::{Page, PageBody};

use super::RemoteTree;
use super::structure::Place;
use super::walk::Found;
use crate::address::Address;
use crate::cache::{FrameId, State};
use crate::child::{Child, address_in};
use crate::error::Result;
use crate::image::{Lines, trim};
use crate::pool::{PoolLock, SUPERBLOCK, Superblock};

/// A cached node that has other keys in the pool.
struct Outdated {
    keys: RangeInclusive<u64>,
    height: u8,
}

impl RemoteTree {
    /// Locks those of these nodes that are shared, and fetches what others wrote of them; and the
    /// superblock, if the root is to be replaced, which is at this address. `None`: one of them is
    /// not what this server thought, so that the change has to be planned again.
    pub(super) async fn lock_shared(
        &self,
        root: Option<Address>,
        places: &[Place],
    ) -> Result<Option<Vec<PoolLock>>> {
        let mut locks = Vec::new();
        let are_fresh = self.lock_fresh(root, places, &mut locks).await;
        if are_fresh == Ok(true) {
            return Ok(Some(locks));
        }
        let released = self.unlock_shared(locks).await;
        are_fresh?;
        released.map(|()| None)
    }

    /// Locks as long as all is as this server thought. Says whether it is.
    async fn lock_fresh(
        &self,
        root: Option<Address>,
        places: &[Place],
        locks: &mut Vec<PoolLock>,
    ) -> Result<bool> {
        if let Some(root) = root {
            locks.push(PoolLock::take(&self.connection, SUPERBLOCK).await?);
            if root != Superblock::read(&self.connection).await?.root {
                return Ok(false);
            }
        }
        for &place in places {
            let (lower, upper, height) =
                self.read_page(place.id, |body| (body.lower(), body.upper(), body.height()));
            if height > 0 && self.is_shared(lower, upper) {
                locks.push(PoolLock::take(&self.connection, place.address).await?);
                // Another one may have made the only child of this root the root.
                let is_root = root.is_none() && place.id == self.cache.root();
                if is_root && place.address != Superblock::read(&self.connection).await?.root {
                    return Ok(false);
                }
                let fresh = self.read_node(place.address, height).await?;
                let is_longer = fresh.lock().upper() > upper;
                if is_longer && !self.ends_at(place, (lower, upper, height)).await? {
                    return Ok(false);
                }
                if self.reconcile(place, &fresh).is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether a node ends where its copy in the cache does, though its image does not: somebody
    /// died who split it. If it was merged with the next one, its parent says so; merging takes its
    /// lock, which the caller has.
    async fn ends_at(&self, node: Place, (lower, upper, height): (u64, u64, u8)) -> Result<bool> {
        let Ok(Found::Here(parent)) = self.walk(lower, height + 1) else {
            return Ok(false);
        };
        let fresh = self.read_node(parent.frame.address(), height + 1).await?;
        let parent = fresh.lock();
        if parent.height() != height + 1 || !parent.covers(lower) {
            return Ok(false);
        }
        let index = parent.child_for(self.search, lower);
        let is_it = address_in(parent.word(index)) == node.address;
        Ok(is_it && parent.range_of(index) == (lower, upper))
    }

    /// Releases locks.
    pub(super) async fn unlock_shared(&self, locks: Vec<PoolLock>) -> Result<()> {
        for lock in locks.into_iter().rev() {
            lock.release(&self.connection).await?;
        }
        Ok(())
    }

    /// Fetches the way to a key again: it led to a node that it should not lead to.
    pub(super) async fn refresh(&self, key: u64) -> Result<()> {
        let _structure = self.cache.flights.begin(SUPERBLOCK).await;
        self.refresh_locked(key).await
    }

    /// The same, by the operation that may change the structure.
    pub(super) async fn refresh_locked(&self, key: u64) -> Result<()> {
        while let Some(outdated) = self.refresh_way(key).await? {
            let (lower, upper) = outdated.keys.into_inner();
            self.expel(lower, upper, outdated.height).await?;
        }
        Ok(())
    }

    /// Makes the cached nodes on the way to a key what the pool has, from the root down to the
    /// first that has to leave the cache before.
    async fn refresh_way(&self, key: u64) -> Result<Option<Outdated>> {
        let root = Superblock::read(&self.connection).await?.root;
        if root != self.cache.frame(self.cache.root()).address() {
            self.take_new_root(root).await?;
            return Ok(None);
        }
        let Ok(Ok(height)) = self.at_root().map(|at| at.view.get(|body| body.height())) else {
            return Ok(None);
        };
        for height in (1..=height).rev() {
            // A node that is missing is fetched as it is now.
            let Ok(Found::Here(at)) = self.walk(key, height) else {
                return Ok(None);
            };
            let place = Place::of(at);
            let fresh = self.read_node(place.address, height).await?;
            match self.reconcile(place, &fresh) {
                // A root that was left; its memory is that of the root again.
                Err(outdated) if place.id == self.cache.root() && outdated.height == height => {
                    self.take_new_root(root).await?;
                    return Ok(None);
                }
                Err(outdated) => return Ok(Some(outdated)),
                Ok(()) => {}
            }
        }
        Ok(None)
    }

    /// Makes a cached node what the pool has.
    ///
    /// # Errors
    /// It, or one of its cached children, has other keys there. It is unchanged: what is outdated
    /// has to leave the cache first, while the way there is still the old one.
    fn reconcile(&self, node: Place, fresh: &Page) -> std::result::Result<(), Outdated> {
        let frame = self.cache.frame(node.id);
        let lock = frame.page().lock();
        trim(fresh, lock.upper());
        let new = fresh.lock();
        let cached: HashMap<_, _> = lock
            .records()
            .filter_map(|(_, word)| match Child::of_word(word) {
                Child::Cached(id) => Some((self.cache.frame(id).address(), (word, id))),
                Child::Remote(_) => None,
            })
            .collect();
        let fences = |body: &PageBody| (body.lower(), body.upper(), body.height());
        let outdated = if frame.address() != node.address || fences(&new) != fences(&lock) {
            Some(fences(&lock))
        } else {
            let height = lock.height().saturating_sub(1);
            let expected: HashMap<_, _> = (0..new.count())
                .map(|index| (address_in(new.word(index)), new.range_of(index)))
                .collect();
            let mut children = cached.iter().map(|(address, (_, id))| {
                let (lower, upper, _) = self.read_page(*id, fences);
                (expected.get(address) != Some(&(lower, upper))).then_some((lower, upper, height))
            });
            children.find_map(|outdated| outdated)
        };
        if let Some((lower, upper, height)) = outdated {
            lock.unchanged();
            let keys = lower..=upper;
            return Err(Outdated { keys, height });
        }
        let cached = |word| {
            cached
                .get(&address_in(word))
                .map_or(word, |(cached, _)| *cached)
        };
        let image = new.image(cached);
        lock.load(&image).expect("it is a page's");
        Ok(())
    }

    /// Computes something from a cached page, at one moment.
    pub(super) fn read_page<R>(&self, id: FrameId, compute: impl Fn(&PageBody) -> R) -> R {
        loop {
            if let Ok(result) = self.at(id).view.get(&compute) {
                return result;
            }
        }
    }

    /// Begins again at another root: what is below the old one leaves the cache.
    async fn take_new_root(&self, root: Address) -> Result<()> {
        let old = self.cache.root();
        let frame = self.cache.frame(old);
        loop {
            let height = frame.page().lock().height();
            self.expel(0, u64::MAX, height).await?;
            let page = self.read_node(root, 1).await?;
            let new = self.take_frame().await?;
            let lock = frame.page().lock();
            // Another operation may have fetched a node meanwhile.
            if self.cached_child(&lock).is_some() {
                lock.unchanged();
                self.cache.give_back(new);
                continue;
            }
            self.fill(new, root, &page, Lines::NONE);
            self.cache.set_root(new);
            frame.set_state(State::Free, &lock);
            break;
        }
        self.cache.give_back(old);
        Ok(())
    }

    /// Fetches the first root into a frame.
    pub(super) async fn fetch_root(&self, root: Address) -> Result<()> {
        let page = self.read_node(root, 1).await?;
        let id = self.take_frame().await?;
        self.fill(id, root, &page, Lines::NONE);
        self.cache.set_root(id);
        Ok(())
    }
}

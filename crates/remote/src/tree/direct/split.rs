//! Splits of leaves that stay in the pool. Inner nodes are split in the cache, as those of others.

use timberline_sync::Restart;
use timberline_tree::btree::page::Page;

use super::Direct;
use super::read::place_in;
use super::turns::HeldLock;
use crate::address::Address;
use crate::child::{Child, word_with};
use crate::error::Result;
use crate::image::{LOCK_BYTES, Lines, trim, written};
use crate::pool::{PoolLock, SUPERBLOCK, Writes};
use crate::tree::RemoteTree;
use crate::tree::structure::{Place, Unwritten};
use crate::tree::walk::{Found, Missing};

/// What came of an attempt to split a leaf.
#[derive(PartialEq, Eq)]
enum Attempt {
    /// The leaf of the key has room.
    Done,
    /// Something was not as the cache had it.
    Stale,
}

impl RemoteTree {
    /// Splits the leaf of a key if it is full, and before it the nodes above that are full.
    ///
    /// # Errors
    /// The pool is full, or a memory server does not answer.
    pub(super) async fn make_room_direct(&self, direct: Direct, key: u64) -> Result<()> {
        let _structure = self.cache.flights.begin(SUPERBLOCK).await;
        self.check_whole()?;
        loop {
            self.make_room_above(key).await?;
            let Some(parent) = self.bring(key, 1).await? else {
                continue;
            };
            let above = Place::of(parent);
            let Ok(place) = parent.view.get(|body| place_in(body, self.search, key)) else {
                continue;
            };
            let _leaf = self.cache.flights.begin(place.address).await;
            let held = self.lock_leaf(direct, place.address).await?;
            match self.split_locked(key, above, place, held).await? {
                Attempt::Done => return Ok(()),
                Attempt::Stale => self.refresh_locked(key).await?,
            }
        }
    }

    /// Splits a leaf whose flight and lock this operation has.
    async fn split_locked(
        &self,
        key: u64,
        above: Place,
        place: Missing,
        held: Option<HeldLock>,
    ) -> Result<Attempt> {
        let planned = self.plan_split(key, place).await;
        let (left, right, right_at) = match planned {
            Ok(Ok(planned)) => planned,
            other => {
                let released = self.release_leaf(held, Writes::new()).await;
                return match other {
                    Ok(Err(attempt)) => released.map(|()| attempt),
                    Err(error) => Err(error),
                    Ok(Ok(_)) => unreachable!("it is above"),
                };
            }
        };
        let _above = self.cache.flights.begin(above.address).await;
        let _right = self.cache.flights.begin(right_at).await;
        let locks = match self.lock_shared(None, &[above]).await {
            Ok(Some(locks)) => locks,
            other => {
                self.space.give_back(right_at);
                self.release_leaf(held, Writes::new()).await?;
                return other.map(|_| Attempt::Stale);
            }
        };
        let is_done = loop {
            if let Ok(is_done) = self.enter(key, above, place, &right, right_at) {
                break is_done;
            }
        };
        if !is_done {
            self.space.give_back(right_at);
            self.unlock_shared(locks).await?;
            self.release_leaf(held, Writes::new()).await?;
            return Ok(Attempt::Stale);
        }
        Unwritten::until(self, async {
            let right_lock = held
                .is_some()
                .then(|| PoolLock::of_new(&self.connection, right_at));
            let mut words = self.image_of(&right.lock()).to_vec();
            words[0] = right_lock.as_ref().map_or(0, PoolLock::word);
            let write = async || self.connection.write(right_at, words.clone()).await;
            self.connection.insist(write).await?;
            self.write_node(above).await?;
            let left = written(&self.image_of(&left.lock()));
            let left = vec![(place.address.add(LOCK_BYTES), left)];
            self.release_leaf(held, left).await?;
            match right_lock {
                Some(lock) => lock.release_after(&self.connection, Writes::new()).await,
                None => Ok(()),
            }
        })
        .await?;
        self.unlock_shared(locks).await?;
        Ok(Attempt::Done)
    }

    /// The two parts of a full leaf, and a place for the right one.
    async fn plan_split(
        &self,
        key: u64,
        place: Missing,
    ) -> Result<std::result::Result<(Page, Page, Address), Attempt>> {
        let left = self.read_locked(place.address).await?;
        trim(&left, place.upper);
        {
            let lock = left.lock();
            if !lock.covers(key) || lock.upper() != place.upper {
                return Ok(Err(Attempt::Stale));
            }
            if lock.count() < Page::CAPACITY {
                return Ok(Err(Attempt::Done));
            }
        }
        let right_at = self.new_address(place.address.server()).await?;
        let right = Page::new();
        {
            let lock = left.lock();
            let (from, separator) = lock.split_point(key);
            lock.split_to(from, separator, &right.lock());
        }
        Ok(Ok((left, right, right_at)))
    }

    /// Has the cached parent lead to the right leaf, if it is as it was.
    fn enter(
        &self,
        key: u64,
        above: Place,
        place: Missing,
        right: &Page,
        right_at: Address,
    ) -> std::result::Result<bool, Restart> {
        let Found::Here(parent) = self.walk(key, 1)? else {
            return Ok(false);
        };
        let (index, is_same) = parent.view.get(|body| {
            let index = body.child_for(self.search, key);
            let is_same = Child::of_word(body.word(index)) == Child::Remote(place.address)
                && body.range_of(index) == (place.lower, place.upper)
                && body.count() < Page::CAPACITY;
            (index, is_same)
        })?;
        if !is_same || Place::of(parent) != above {
            return Ok(false);
        }
        let lock = parent.view.upgrade()?;
        let (separator, entries) = {
            let right = right.lock();
            (right.lower(), right.count())
        };
        lock.insert(index + 1, separator, word_with(right_at, entries));
        parent.frame.mark(Lines::ALL, &lock);
        Ok(true)
    }
}

//! Splits: making room in a full leaf. Merges are in `merge.rs`.
//!
//! A compute server changes the structure in one place at a time. A split is done in the cache at
//! once. Then it is written: the new node first, then the parent that leads to it, then the old
//! node without what was moved. So the tree in the pool is whole at every moment, whoever dies: all
//! that a reader finds there is what was last written of it.

use timberline_sync::Restart;
use timberline_tree::btree::page::{Page, PageBody};

use super::RemoteTree;
use super::fetch::{Admission, Fetched};
use super::walk::{At, Found};
use crate::address::{Address, ServerId};
use crate::cache::{FrameId, State};
use crate::child::Child;
use crate::error::{Error, Result};
use crate::image::{LOCK_BYTES, Lines, written};
use crate::pool::{SUPERBLOCK, Superblock};

/// A node in a frame, or a frame and an address for a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub id: FrameId,
    pub address: Address,
}

impl Place {
    /// Of a cached node.
    pub fn of(at: At<'_>) -> Place {
        Place {
            id: at.id,
            address: at.frame.address(),
        }
    }
}

/// A node to split, and the one above it; a root has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Split {
    key: u64,
    why: Why,
    pub above: Option<Place>,
    pub node: Place,
    height: u8,
}

/// Why the leaf of a key is split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// It is full.
    Full,
    /// The key is to be its first.
    First,
}

/// What a split needs: a node to the right, and if a root is split, one above both.
#[derive(Clone, Copy)]
struct New {
    right: Place,
    top: Option<Place>,
}

impl RemoteTree {
    /// Splits the leaf of a key if it is full, and before it the nodes above that are full.
    ///
    /// # Errors
    /// The pool is full, or a memory server does not answer.
    pub(super) async fn make_room(&self, key: u64) -> Result<()> {
        let _structure = self.cache.flights.begin(SUPERBLOCK).await;
        self.split_leaf(key, Why::Full).await
    }

    /// Splits the leaf of a key, unless it begins with that key. The caller's operation is the one
    /// that may change the structure.
    ///
    /// # Errors
    /// As [`make_room`](Self::make_room).
    pub(super) async fn cut(&self, key: u64) -> Result<()> {
        self.split_leaf(key, Why::First).await
    }

    async fn split_leaf(&self, key: u64, why: Why) -> Result<()> {
        self.check_whole()?;
        // As in `fetch`: a split brings a leaf to the cache.
        self.check_owned(key)?;
        self.split_from(0, key, why).await
    }

    /// Splits the node of a key above its leaf if it is full, and before it those above it.
    ///
    /// # Errors
    /// As [`make_room`](Self::make_room).
    pub(super) async fn make_room_above(&self, key: u64) -> Result<()> {
        self.split_from(1, key, Why::Full).await
    }

    async fn split_from(&self, height: u8, key: u64, why: Why) -> Result<()> {
        while let Some(split) = self.next_split(height, key, why).await? {
            self.split(split).await?;
        }
        Ok(())
    }

    /// The node to split next for a key: of the full nodes above one of this height that has to be
    /// split, the uppermost in an unbroken row.
    async fn next_split(&self, lowest: u8, key: u64, why: Why) -> Result<Option<Split>> {
        let mut split: Option<Split> = None;
        loop {
            let height = split.map_or(lowest, |below| below.height + 1);
            let Some(at) = self.bring(key, height).await? else {
                continue;
            };
            let node = Place::of(at);
            let Ok(is_due) = at.view.get(|body| is_due(body, key, why)) else {
                continue;
            };
            if !is_due {
                return Ok(split.map(|below| Split {
                    above: Some(node),
                    ..below
                }));
            }
            split = Some(Split {
                key,
                why,
                above: None,
                node,
                height,
            });
            if at.id == self.cache.root() {
                return Ok(split);
            }
        }
    }

    /// The node of a height on the way to a key, for the operation that may change the structure.
    /// `None`: something was not as the cache had it, so it has to be asked for again.
    pub(super) async fn bring(&self, key: u64, height: u8) -> Result<Option<At<'_>>> {
        match self.walk(key, height) {
            Ok(Found::Here(at)) => return Ok(Some(at)),
            Ok(Found::Missing(missing)) => {
                match self.fetch(key, missing, Admission::Always).await? {
                    Fetched::Again | Fetched::Seen(_) => {}
                    Fetched::Loose(_) => unreachable!("it was to stay in the cache"),
                    Fetched::Stale => self.refresh_locked(key).await?,
                }
            }
            Ok(Found::Stale) => self.refresh_locked(key).await?,
            Err(Restart) => {}
        }
        Ok(None)
    }

    async fn split(&self, split: Split) -> Result<()> {
        let server = split.node.address.server();
        let right = self.new_place(server).await?;
        let mut unused = vec![right];
        let mut new = New { right, top: None };
        if split.above.is_none() {
            match self.new_place(server).await {
                Ok(top) => new.top = Some(top),
                Err(error) => {
                    self.give_back(unused);
                    return Err(error);
                }
            }
        }
        unused.extend(new.top);
        let result = self.split_with(split, new, &mut unused).await;
        self.give_back(unused);
        if let Ok(false) = result {
            // Something changed meanwhile; it is looked at again.
            self.refresh_locked(split.key).await?;
        }
        result.map(|_| ())
    }

    /// Gives back places that no node was put at.
    fn give_back(&self, unused: Vec<Place>) {
        for place in unused {
            self.cache.give_back(place.id);
            self.space.give_back(place.address);
        }
    }

    /// A place for a new node: on this server if it has memory, so that subtrees stay on one.
    async fn new_place(&self, server: ServerId) -> Result<Place> {
        let address = self.new_address(server).await?;
        match self.take_frame().await {
            Ok(id) => Ok(Place { id, address }),
            Err(error) => {
                self.space.give_back(address);
                Err(error)
            }
        }
    }

    /// An address for a new node, on this server if it has memory.
    pub(super) async fn new_address(&self, server: ServerId) -> Result<Address> {
        let servers = self.connection.servers();
        let mut tried = 0;
        loop {
            let address = self.space.take(&self.connection, server + tried).await;
            tried += 1;
            match address {
                Err(Error::PoolFull(_)) if tried < servers => {}
                result => return result,
            }
        }
    }

    /// Splits, and writes what came of it. Says whether it did. Then the new places are unused no
    /// more, also if writing fails; and another operation may have evicted their nodes already.
    async fn split_with(&self, split: Split, new: New, unused: &mut Vec<Place>) -> Result<bool> {
        // Nobody else on this server writes these nodes meanwhile, and nobody on others after.
        let flights = &self.cache.flights;
        let _node = flights.begin(split.node.address).await;
        let _above = match split.above {
            Some(above) => Some(flights.begin(above.address).await),
            None => None,
        };
        // The new nodes must not leave the cache, and their frames for others, before they are
        // written.
        let _right = flights.begin(new.right.address).await;
        let _top = match new.top {
            Some(top) => Some(flights.begin(top.address).await),
            None => None,
        };
        let root = split.above.is_none().then_some(split.node.address);
        let places: Vec<_> = split.above.into_iter().chain([split.node]).collect();
        let Some(locks) = self.lock_shared(root, &places).await? else {
            return Ok(false);
        };
        let is_done = loop {
            if let Ok(is_done) = self.split_cached(split, new) {
                break is_done;
            }
        };
        if is_done {
            unused.clear();
            Unwritten::until(self, self.write_split(split, new)).await?;
        }
        self.unlock_shared(locks).await?;
        Ok(is_done)
    }

    /// Splits in the cache, if everything is still as it was.
    fn split_cached(&self, split: Split, new: New) -> std::result::Result<bool, Restart> {
        let node = self.at(split.node.id);
        let above = match (split.above, new.top) {
            (Some(above), _) => {
                let Found::Here(at) = self.walk(split.key, split.height + 1)? else {
                    return Ok(false);
                };
                if at.id != above.id || at.frame.address() != above.address {
                    return Ok(false);
                }
                at
            }
            (None, Some(top)) if self.cache.root() == split.node.id => self.at(top.id),
            _ => return Ok(false),
        };
        let below = |body: &PageBody| {
            let index = body.child_for(self.search, split.key);
            (index, Child::of_word(body.word(index)))
        };
        let (index, child) = match new.top {
            Some(_) => (0, Child::Cached(split.node.id)),
            None => above.view.get(below)?,
        };
        let is_same = child == Child::Cached(split.node.id)
            && node.frame.address() == split.node.address
            && node.view.get(|body| is_due(body, split.key, split.why))?
            && (new.top.is_some() || !above.view.get(is_full)?);
        if !is_same {
            return Ok(false);
        }
        let above_lock = above.view.upgrade()?;
        let Ok(lock) = node.view.upgrade() else {
            above_lock.unchanged();
            return Err(Restart);
        };
        if let Some(top) = new.top {
            above_lock.reset(split.height + 1, 0, u64::MAX);
            above_lock.insert(0, 0, child.word());
            above.frame.set_address(top.address, &above_lock);
            above.frame.set_state(State::Hot, &above_lock);
        }
        let right = self.at(new.right.id);
        let right_lock = right.frame.page().lock();
        let (from, separator) = match (split.why, split.height) {
            (Why::First, 0) => {
                let before = lock.find(self.search, split.key);
                (
                    before.map_or_else(|place| place, |hit| hit.index()),
                    split.key,
                )
            }
            _ => lock.split_point(split.key),
        };
        lock.split_to(from, separator, &right_lock);
        right.frame.set_address(new.right.address, &right_lock);
        right.frame.set_state(State::Hot, &right_lock);
        above_lock.insert(index + 1, separator, Child::Cached(right.id).word());
        let changed: [(At<'_>, _); 3] = [(above, &above_lock), (node, &lock), (right, &right_lock)];
        for (at, lock) in changed {
            at.frame.mark(Lines::ALL, lock);
        }
        if let Some(top) = new.top {
            self.cache.set_root(top.id);
        }
        Ok(true)
    }

    async fn write_split(&self, split: Split, new: New) -> Result<()> {
        self.write_node(new.right).await?;
        for above in split.above.into_iter().chain(new.top) {
            self.write_node(above).await?;
        }
        if let Some(top) = new.top {
            let attempt = async || Superblock::set_root(&self.connection, top.address).await;
            self.connection.insist(attempt).await?;
        }
        self.write_node(split.node).await
    }

    /// Writes a node that nobody else writes.
    pub(super) async fn write_node(&self, node: Place) -> Result<()> {
        let frame = self.cache.frame(node.id);
        let (image, before) = {
            let lock = frame.page().lock();
            (self.image_of(&lock), self.without_hints(&lock))
        };
        let at = node.address.add(LOCK_BYTES);
        let _noted = self.offloading.note(at);
        let attempt = async || self.connection.write(at, written(&image)).await;
        self.connection.insist(attempt).await?;
        let lock = frame.page().lock();
        // It may have been changed meanwhile, or have left the cache. What it knows of its leaves'
        // entries changes at any time, and is no reason to write an inner node without its lock.
        if frame.address() == node.address && self.without_hints(&lock) == before {
            frame.mark_clean(&lock);
        }
        Ok(())
    }
}

/// A split or merge that is only in the cache. What the pool has is whole, but not what the cache
/// takes it for: a node that is written now could lose what was moved out of it.
pub(super) struct Unwritten<'a>(&'a RemoteTree);

impl Unwritten<'_> {
    /// Writes it. If that fails, or is abandoned, nothing is written any more.
    ///
    /// # Errors
    /// As `write`.
    pub async fn until(tree: &RemoteTree, write: impl Future<Output = Result<()>>) -> Result<()> {
        let unwritten = Unwritten(tree);
        let result = write.await;
        std::mem::forget(unwritten);
        result.inspect_err(|error| {
            let _ = tree.broken.set(error.clone());
        })
    }
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        let _ = self.0.broken.set(Error::Abandoned);
    }
}

/// Whether a node on the way to a key has to be split.
fn is_due(body: &PageBody, key: u64, why: Why) -> bool {
    match (why, body.height()) {
        (Why::First, 0) => body.lower() < key,
        _ => is_full(body),
    }
}

fn is_full(body: &PageBody) -> bool {
    body.count() == Page::CAPACITY
}

//! Operations on one record.

use futures_util::future::try_join_all;
use timberline_sync::Restart;
use timberline_tree::btree::page::{Page, PageBody, PageLock};
use timberline_tree::btree::{Lanes, Search, Work};

use super::RemoteTree;
use super::fetch::{Admission, Fetched, Loose};
use super::merge::is_worth_a_look;
use super::offload::Located;
use super::walk::{Found, Missing};
use crate::cache::Frame;
use crate::error::Result;
use crate::image::{LOCK_BYTES, Lines, written};

/// A change of one record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Write {
    Insert(u64),
    Update(u64),
    Remove,
}

/// What a change did to a leaf.
pub(super) enum Changed {
    Nothing,
    /// The payload of one entry.
    Word(usize),
    /// More of it.
    Page,
}

impl Changed {
    fn lines(&self) -> Lines {
        match self {
            Changed::Nothing => Lines::NONE,
            Changed::Word(index) => Lines::of_entry(*index),
            Changed::Page => Lines::ALL,
        }
    }
}

/// The leaf has no room for the record.
pub(super) struct Full;

/// What came of an attempt in the cache.
enum Attempt<T> {
    Done(T),
    Missing(Missing),
    Stale,
    Full,
}

impl Write {
    /// The value that the record has then, if there is one.
    pub(super) fn value(self) -> Option<u64> {
        match self {
            Write::Insert(value) | Write::Update(value) => Some(value),
            Write::Remove => None,
        }
    }

    /// Changes a leaf. Returns the value before, too.
    pub(super) fn apply(
        self,
        search: Search,
        leaf: &PageLock<'_>,
        key: u64,
    ) -> std::result::Result<(Option<u64>, Changed), Full> {
        let place = leaf.find(search, key).map(|hit| hit.index());
        Ok(match (place, self) {
            (Ok(index), Write::Insert(value) | Write::Update(value)) => {
                (Some(leaf.replace(index, value)), Changed::Word(index))
            }
            (Ok(index), Write::Remove) => (Some(leaf.remove(index)), Changed::Page),
            (Err(_), Write::Insert(_)) if leaf.count() == Page::CAPACITY => return Err(Full),
            (Err(index), Write::Insert(value)) => {
                leaf.insert(index, key, value);
                (None, Changed::Page)
            }
            (Err(_), Write::Update(_) | Write::Remove) => (None, Changed::Nothing),
        })
    }
}

struct GetCached<'a> {
    tree: &'a RemoteTree,
    key: u64,
}

/// What a cached leaf has of a key.
struct Cached {
    value: Option<u64>,
    /// See [`RemoteTree::is_ahead`].
    is_ahead: bool,
}

/// What came of a lookup in the cache.
type Looked = std::result::Result<Attempt<Cached>, Restart>;

impl Work for GetCached<'_> {
    type Output = Looked;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        Ok(match self.tree.walk_by(lanes, self.key, 0)? {
            Found::Here(leaf) => {
                let cached = leaf.view.get(|body| Cached {
                    value: value_by(lanes, body, self.key),
                    is_ahead: self.tree.is_ahead(leaf.frame),
                })?;
                Attempt::Done(cached)
            }
            Found::Missing(missing) => Attempt::Missing(missing),
            Found::Stale => Attempt::Stale,
        })
    }
}

#[inline(always)]
fn value_by(lanes: impl Lanes, leaf: &PageBody, key: u64) -> Option<u64> {
    let hit = leaf.find(lanes, key).ok()?;
    Some(leaf.word(hit.index()))
}

impl RemoteTree {
    /// The value of a key.
    ///
    /// # Errors
    /// The key is not this server's, or a memory server does not answer.
    pub async fn get(&self, key: u64) -> Result<Option<u64>> {
        // The common case, without the state that waiting takes.
        let attempt = self.get_cached(key);
        let found = match attempt {
            Ok(Attempt::Done(Cached {
                value,
                is_ahead: false,
            })) => self.check_lease().map(|()| value)?,
            _ => self.look_up(key, attempt).await?,
        };
        self.demand.count(key);
        Ok(found)
    }

    /// The same after the first attempt.
    async fn look_up(&self, key: u64, attempt: Looked) -> Result<Option<u64>> {
        let mut first = Some(attempt);
        loop {
            let attempt = first.take().unwrap_or_else(|| self.get_cached(key));
            // A leaf in the cache is this server's.
            let missing = match attempt {
                Ok(Attempt::Done(Cached { value, is_ahead })) => {
                    self.check_lease()?;
                    if is_ahead {
                        self.write_leaf(key).await?;
                    }
                    return Ok(value);
                }
                Ok(Attempt::Missing(missing)) => {
                    self.check_owned(key)?;
                    if let Some(value) = self.cache.copies.get(key) {
                        return self.check_lease().map(|()| Some(value));
                    }
                    if let Some(direct) = self.options.direct {
                        return self.get_direct(direct, key).await;
                    }
                    missing
                }
                Ok(Attempt::Stale | Attempt::Full) => {
                    self.refresh(key).await?;
                    continue;
                }
                Err(Restart) => continue,
            };
            if let Some(leaf) = self.locate(key, missing).await? {
                let value = self.located_value(key, &leaf)?;
                let kept = value.and_then(|value| self.keep_copy(key, value, &leaf.flight));
                drop(leaf);
                self.make_way(kept).await?;
                return Ok(value);
            }
            match self.fetch(key, missing, Admission::ByOptions).await? {
                Fetched::Again => {}
                Fetched::Seen(page) => return Ok(self.value_in(&page.lock(), key)),
                Fetched::Loose(leaf) => {
                    let value = self.value_in(&leaf.page.lock(), key);
                    leaf.share();
                    let kept = value.and_then(|value| self.keep_copy(key, value, &leaf.flight));
                    drop(leaf);
                    self.make_way(kept).await?;
                    return Ok(value);
                }
                Fetched::Stale => self.refresh(key).await?,
            }
        }
    }

    /// The values of several keys, whose leaves are read at the same time.
    ///
    /// # Errors
    /// As [`get`](Self::get), of any of them.
    pub async fn get_many(&self, keys: &[u64]) -> Result<Vec<Option<u64>>> {
        try_join_all(keys.iter().map(|&key| self.get(key))).await
    }

    /// Sets the value of a key, and returns the one before.
    ///
    /// # Errors
    /// The key is not this server's, and nothing was changed; the pool is full; or a memory server
    /// does not answer. In the last case the value may have been set or not.
    pub async fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.write(key, Write::Insert(value)).await
    }

    /// Sets the value of a key that is there, and returns the one before.
    ///
    /// # Errors
    /// The key is not this server's, and nothing was changed; or a memory server does not answer,
    /// and the value may have been set or not.
    pub async fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.write(key, Write::Update(value)).await
    }

    /// Removes a key, and returns its value.
    ///
    /// # Errors
    /// The key is not this server's, and nothing was changed; or a memory server does not answer,
    /// and it may have been removed or not.
    pub async fn remove(&self, key: u64) -> Result<Option<u64>> {
        self.write(key, Write::Remove).await
    }

    #[inline(always)]
    fn get_cached(&self, key: u64) -> Looked {
        self.search.run(GetCached { tree: self, key })
    }

    pub(super) fn value_in(&self, leaf: &PageBody, key: u64) -> Option<u64> {
        value_by(self.search, leaf, key)
    }

    async fn write(&self, key: u64, write: Write) -> Result<Option<u64>> {
        let before = self.change(key, write).await?;
        self.demand.count(key);
        Ok(before)
    }

    async fn change(&self, key: u64, write: Write) -> Result<Option<u64>> {
        let mut admission = Admission::ByOptions;
        loop {
            let missing = match self.write_cached(key, write) {
                Ok(Attempt::Done(before)) => {
                    if self.options.write_through {
                        self.write_leaf(key).await?;
                    }
                    self.check_lease()?;
                    if before.is_some() && matches!(write, Write::Remove) {
                        self.merge_if_small(key).await;
                    }
                    return Ok(before);
                }
                Ok(Attempt::Missing(missing)) => {
                    self.check_owned(key)?;
                    if let Some(before) = self.write_copy(key, write, missing) {
                        return self.check_lease().map(|()| Some(before));
                    }
                    if let Some(direct) = self.options.direct {
                        return self.change_direct(direct, key, write).await;
                    }
                    missing
                }
                Ok(Attempt::Stale) => {
                    self.refresh(key).await?;
                    continue;
                }
                Ok(Attempt::Full) => {
                    self.make_room(key).await?;
                    continue;
                }
                Err(Restart) => continue,
            };
            if let Write::Update(value) = write
                && let Some(leaf) = self.locate(key, missing).await?
            {
                let before = self.update_located(key, value, &leaf).await?;
                let value = before.map(|_| value);
                let kept = value.and_then(|value| self.keep_copy(key, value, &leaf.flight));
                drop(leaf);
                self.make_way(kept).await?;
                return Ok(before);
            }
            let leaf = match self.fetch(key, missing, admission).await? {
                Fetched::Again | Fetched::Seen(_) => continue,
                Fetched::Loose(leaf) => leaf,
                Fetched::Stale => {
                    self.refresh(key).await?;
                    continue;
                }
            };
            match self.write_loose(key, write, &leaf).await? {
                Ok(before) => {
                    leaf.share();
                    // An update of a record that is not there makes none.
                    let is_there = before.is_some() || matches!(write, Write::Insert(_));
                    let value = write.value().filter(|_| is_there);
                    let kept = value.and_then(|value| self.keep_copy(key, value, &leaf.flight));
                    let left = leaf.page.lock().count();
                    drop(leaf);
                    self.make_way(kept).await?;
                    if before.is_some() && matches!(write, Write::Remove) && is_worth_a_look(left) {
                        self.merge_small(key).await;
                    }
                    return Ok(before);
                }
                // It is split in the cache.
                Err(Full) => admission = Admission::Always,
            }
        }
    }

    /// After a removal: merges the leaf of a key that is in the cache, if it may be worth it.
    async fn merge_if_small(&self, key: u64) {
        if let Ok(Found::Here(leaf)) = self.walk(key, 0)
            && leaf.view.get(|body| is_worth_a_look(body.count())) == Ok(true)
        {
            self.merge_small(key).await;
        }
    }

    /// Merges the leaf of a key, if that is possible. The removal is done, whatever comes of it.
    async fn merge_small(&self, key: u64) {
        let _ = self.merge(key).await;
    }

    /// The value of a key in a leaf that a memory server found.
    fn located_value(&self, key: u64, leaf: &Located<'_>) -> Result<Option<u64>> {
        match self.cache.copies.get(key) {
            Some(value) => self.check_lease().map(|()| Some(value)),
            None => Ok(leaf.entry.map(|(_, value)| value)),
        }
    }

    /// Sets the value of a key in a leaf that a memory server found, if the key is there.
    async fn update_located(
        &self,
        key: u64,
        value: u64,
        leaf: &Located<'_>,
    ) -> Result<Option<u64>> {
        if !self.options.write_through
            && let Some(before) = self.cache.copies.update(key, value)
        {
            return self.check_lease().map(|()| Some(before));
        }
        let Some((index, before)) = leaf.entry else {
            return Ok(None);
        };
        let at = leaf.address.add(word_at(index));
        self.write_words(at, vec![value]).await?;
        self.cache.copies.follow(key, Some(value));
        Ok(Some(before))
    }

    /// Whether a cached leaf has a change that the pool may not have yet, though every change is to
    /// be there when its operation ends. The change is not acknowledged, and could be lost with
    /// this server: whoever is told of it must find it again, so the leaf is written first.
    #[inline(always)]
    pub(super) fn is_ahead(&self, leaf: &Frame) -> bool {
        self.options.write_through && leaf.is_dirty()
    }

    /// Writes the leaf of a key to the pool, if it is in the cache and was changed.
    pub(super) async fn write_leaf(&self, key: u64) -> Result<()> {
        loop {
            match self.walk(key, 0) {
                Ok(Found::Here(leaf)) => return self.write_back(leaf.id).await,
                // It was written when it left the cache.
                Ok(Found::Missing(_)) => return Ok(()),
                Ok(Found::Stale) => self.refresh(key).await?,
                Err(Restart) => {}
            }
        }
    }

    fn write_cached(
        &self,
        key: u64,
        write: Write,
    ) -> std::result::Result<Attempt<Option<u64>>, Restart> {
        let leaf = match self.walk(key, 0)? {
            Found::Here(leaf) => leaf,
            Found::Missing(missing) => return Ok(Attempt::Missing(missing)),
            Found::Stale => return Ok(Attempt::Stale),
        };
        let lock = leaf.view.upgrade()?;
        let Ok((before, changed)) = write.apply(self.search, &lock, key) else {
            lock.unchanged();
            return Ok(Attempt::Full);
        };
        match changed {
            Changed::Nothing => lock.unchanged(),
            Changed::Word(_) | Changed::Page => {
                self.cache.copies.follow(key, write.value());
                leaf.frame.mark(changed.lines(), &lock);
            }
        }
        Ok(Attempt::Done(before))
    }

    /// Changes a leaf that does not stay, and writes what was changed.
    async fn write_loose(
        &self,
        key: u64,
        write: Write,
        leaf: &Loose<'_>,
    ) -> Result<std::result::Result<Option<u64>, Full>> {
        let (before, at, words) = {
            let lock = leaf.page.lock();
            let (before, changed) = match write.apply(self.search, &lock, key) {
                Ok(done) => done,
                Err(Full) => return Ok(Err(Full)),
            };
            let (at, words) = match changed {
                Changed::Nothing => return Ok(Ok(before)),
                Changed::Word(index) => (word_at(index), vec![lock.word(index)]),
                Changed::Page => (LOCK_BYTES, written(&self.image_of(&lock))),
            };
            (before, at, words)
        };
        let at = leaf.address.add(at);
        self.write_words(at, words).await?;
        let entries = leaf.page.lock().count();
        self.learn_entries(key, leaf.address, entries);
        self.cache.copies.follow(key, write.value());
        Ok(Ok(before))
    }
}

/// Where a leaf's image has the value of an entry, in bytes.
pub(super) fn word_at(index: usize) -> u64 {
    8 * PageBody::image_index(index) as u64 + 8
}

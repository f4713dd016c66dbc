//! The way to a leaf, and reading it.

use std::sync::Arc;

use timberline_sync::Restart;
use timberline_tree::btree::Search;
use timberline_tree::btree::page::{Page, PageBody};

use super::{Check, Direct, Turns};
use crate::address::Address;
use crate::child::{address_in, entries_in};
use crate::error::{Error, Result};
use crate::image::{COUNTS_AT, page_of, trim};
use crate::pool::Superblock;
use crate::tree::RemoteTree;
use crate::tree::fetch::{Admission, Fetched};
use crate::tree::walk::{Found, Missing};

impl RemoteTree {
    /// The value of a key.
    pub(in crate::tree) async fn get_direct(
        &self,
        direct: Direct,
        key: u64,
    ) -> Result<Option<u64>> {
        let leaf = self.leaf_direct(direct, key).await?;
        Ok(self.value_in(&leaf.lock(), key))
    }

    /// The leaf of a key as it was at some moment since this began.
    pub(in crate::tree) async fn leaf_direct(&self, direct: Direct, key: u64) -> Result<Arc<Page>> {
        loop {
            let place = self.leaf_place(direct, key).await?;
            let page = match (direct.check, direct.turns) {
                (Check::Owner, _) | (_, Turns::Together) => {
                    self.read_together(direct, key, place).await?
                }
                _ => Arc::new(self.read_leaf(place).await?),
            };
            if page.lock().covers(key) {
                return Ok(page);
            }
            self.refresh(key).await?;
        }
    }

    /// Where the leaf of a key is, as far as this compute server knows.
    pub(super) async fn leaf_place(&self, direct: Direct, key: u64) -> Result<Missing> {
        loop {
            if !direct.cached_ways {
                let root = self.cache.frame(self.cache.root()).address();
                match self.read_way(root, key).await? {
                    Some(place) => return Ok(place),
                    None => self.refresh(key).await?,
                }
                continue;
            }
            match self.walk(key, 0) {
                Ok(Found::Missing(missing)) if missing.height == 0 => return Ok(missing),
                Ok(Found::Missing(missing)) => {
                    match self.fetch(key, missing, Admission::Always).await? {
                        Fetched::Stale => self.refresh(key).await?,
                        Fetched::Again | Fetched::Seen(_) => {}
                        Fetched::Loose(_) => unreachable!("it was to stay in the cache"),
                    }
                }
                Ok(Found::Here(_)) => unreachable!("no leaf is in the cache"),
                Ok(Found::Stale) => self.refresh(key).await?,
                Err(Restart) => {}
            }
        }
    }

    /// Where the leaf of a key is, as the pool has it below this root. `None`: the way has changed
    /// meanwhile, or the root has.
    async fn read_way(&self, root: Address, key: u64) -> Result<Option<Missing>> {
        let mut at = root;
        // The height is not known: the first node tells, and has to be an inner one.
        let mut page = self.read_node(at, 1).await?;
        loop {
            let (height, covers, below) = {
                let body = page.lock();
                let covers = body.height() > 0 && body.covers(key);
                let below = covers.then(|| place_in(&body, self.search, key));
                (body.height(), covers, below)
            };
            let Some(below) = below.filter(|_| covers) else {
                return Ok(None);
            };
            if height == 1 {
                return Ok(Some(below));
            }
            at = below.address;
            page = self.read_node(at, below.height).await?;
            trim(&page, below.upper);
            if page.lock().height() != below.height {
                return Ok(None);
            }
        }
    }

    /// The same from the root that the pool has now, until it is found.
    pub(super) async fn latest_place(&self, key: u64) -> Result<Missing> {
        loop {
            let root = Superblock::read(&self.connection).await?.root;
            if let Some(place) = self.read_way(root, key).await? {
                return Ok(place);
            }
        }
    }

    async fn read_leaf(&self, place: Missing) -> Result<Page> {
        let page = self.read_node(place.address, 0).await?;
        trim(&page, place.upper);
        Ok(page)
    }

    /// Reads a leaf, or waits for another operation of this server that reads or writes it.
    async fn read_together(&self, direct: Direct, key: u64, place: Missing) -> Result<Arc<Page>> {
        let flights = &self.cache.flights;
        // What is under way now may have read the leaf before this operation began, and another
        // server may have changed it since. What begins after that has not.
        let mut is_late_enough = direct.check == Check::Owner;
        loop {
            if let Some(flight) = flights.try_begin(place.address) {
                let page = Arc::new(self.read_leaf(place).await?);
                flight.share(&page);
                return Ok(page);
            }
            let seen = flights.end_of(place.address).await;
            if let Some(page) = seen.filter(|page| is_late_enough && page.lock().covers(key)) {
                return Ok(page);
            }
            is_late_enough = true;
        }
    }

    /// Reads the words of a node.
    ///
    /// # Errors
    /// [`Error::NotANode`]: another server was writing it, as far as versions tell.
    pub(in crate::tree) async fn read_words(&self, at: Address) -> Result<Vec<u64>> {
        let direct = self.options.direct;
        if direct.is_none_or(|it| it.check != Check::Versions) {
            return self.connection.read(at, Page::WORDS).await;
        }
        // The checksum is the version: it is another one after every change. The lock need not be
        // free: what is written meanwhile changes the checksum, or has not begun.
        let version = || self.connection.read(at.add(COUNTS_AT), 1);
        let before = version().await?;
        let words = self.connection.read(at, Page::WORDS).await?;
        match before == version().await? {
            true => Ok(words),
            false => Err(Error::NotANode(at)),
        }
    }

    /// Reads a leaf whose lock this server has: nobody else writes it.
    pub(super) async fn read_locked(&self, at: Address) -> Result<Page> {
        let words = self.connection.read(at, Page::WORDS).await?;
        page_of(&words, self.sums(), at)
    }
}

/// The child on the way to a key, as its parent describes it.
pub(super) fn place_in(above: &PageBody, search: Search, key: u64) -> Missing {
    let index = above.child_for(search, key);
    let (lower, upper) = above.range_of(index);
    Missing {
        address: address_in(above.word(index)),
        height: above.height() - 1,
        lower,
        upper,
        entries: entries_in(above.word(index)),
    }
}

//! Bringing a node into the cache.

use std::sync::Arc;

use timberline_sync::Restart;
use timberline_tree::btree::page::Page;

use super::RemoteTree;
use super::offload::Way;
use super::part::{Read, Wanted};
use super::walk::{At, Found, Missing};
use crate::address::Address;
use crate::cache::{Flight, FrameId, State};
use crate::child::{Child, word_with};
use crate::error::{Error, Result};
use crate::image::{Lines, page_of, trim};
use crate::pool::Patience;

/// A leaf that was fetched and does not stay: it is worked on as long as this lives, by this
/// operation alone.
pub(super) struct Loose<'a> {
    pub page: Arc<Page>,
    pub address: Address,
    pub flight: Flight<'a>,
}

impl Loose<'_> {
    /// Lets operations that wait for this leaf read it as it is now. The pool must have the same,
    /// but for dirty copies of records.
    pub fn share(&self) {
        self.flight.share(&self.page);
    }
}

/// What came of fetching a node.
pub(super) enum Fetched<'a> {
    /// Walk again: the cache has it, or something has changed.
    Again,
    /// A leaf that does not stay.
    Loose(Loose<'a>),
    /// The leaf as it was when another operation on it ended, after this one had begun. Only to
    /// read; it covers the key.
    Seen(Arc<Page>),
    /// It is not the node that its parent promises.
    Stale,
}

/// The leaf that covers a key.
pub(super) enum Leaf<'a> {
    /// In the cache.
    Cached(At<'a>),
    /// As [`Fetched::Loose`].
    Loose(Loose<'a>),
    /// As [`Fetched::Seen`].
    Seen(Arc<Page>),
}

/// Whether a leaf that is fetched has to stay in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// As the options say.
    ByOptions,
    /// For certain.
    Always,
    /// It does not, and may be of keys that this server is giving away.
    Never,
}

impl RemoteTree {
    /// The leaf that covers a key.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub(super) async fn leaf(&self, key: u64, admission: Admission) -> Result<Leaf<'_>> {
        self.leaf_for(key, admission, None).await
    }

    /// The same; if the leaf has to be fetched and does not stay, it may be a part with narrower
    /// fences that has the key, and as much as is wanted, as far as one can tell.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub(super) async fn leaf_for(
        &self,
        key: u64,
        admission: Admission,
        wanted: Option<&Wanted>,
    ) -> Result<Leaf<'_>> {
        loop {
            let missing = match self.walk(key, 0) {
                Ok(Found::Here(leaf)) => return Ok(Leaf::Cached(leaf)),
                Ok(Found::Missing(missing)) => missing,
                Ok(Found::Stale) => {
                    self.refresh(key).await?;
                    continue;
                }
                Err(Restart) => continue,
            };
            match self.fetch_for(key, missing, admission, wanted).await? {
                Fetched::Again => {}
                Fetched::Loose(leaf) => return Ok(Leaf::Loose(leaf)),
                Fetched::Seen(page) => return Ok(Leaf::Seen(page)),
                Fetched::Stale => self.refresh(key).await?,
            }
        }
    }

    /// Fetches a node that a walk for `key` missed.
    ///
    /// # Errors
    /// The key is not this server's, the memory server does not answer, or there is no frame.
    pub(super) async fn fetch(
        &self,
        key: u64,
        missing: Missing,
        admission: Admission,
    ) -> Result<Fetched<'_>> {
        self.fetch_for(key, missing, admission, None).await
    }

    async fn fetch_for(
        &self,
        key: u64,
        missing: Missing,
        admission: Admission,
        wanted: Option<&Wanted>,
    ) -> Result<Fetched<'_>> {
        let flights = &self.cache.flights;
        let Some(flight) = flights.try_begin(missing.address) else {
            let seen = flights.end_of(missing.address).await;
            let seen = seen.filter(|page| page.lock().covers(key));
            return Ok(seen.map_or(Fetched::Again, Fetched::Seen));
        };
        // The flight of another operation may have ended after the walk. From here on nobody else
        // fetches the node, so if it is still missing, its image in the pool is the latest.
        match self.walk(key, missing.height) {
            Ok(Found::Missing(still)) if still == missing => {}
            _ => return Ok(Fetched::Again),
        }
        if admission != Admission::Never {
            // Who gives keys away waits for all flights that began before: of those keys nothing
            // comes to the cache after that.
            self.check_owned(key)?;
        }
        let is_leaf = missing.height == 0;
        let stays = !is_leaf || self.admits(missing.address, admission);
        let wanted = wanted.filter(|_| !stays);
        let Read { page, entries } = self.read_missing(&missing, wanted).await?;
        trim(&page, missing.upper);
        let fits = {
            let body = page.lock();
            body.height() == missing.height && body.covers(key)
        };
        if !fits {
            return Ok(Fetched::Stale);
        }
        let merged = match is_leaf {
            true => self.merge_copies(&page),
            false => Vec::new(),
        };
        if !stays {
            self.learn_entries(key, missing.address, entries);
            return Ok(Fetched::Loose(Loose {
                page: Arc::new(page),
                address: missing.address,
                flight,
            }));
        }
        let id = self.take_frame().await?;
        if self.install(key, &missing, &page, id, &merged).is_err() {
            self.cache.give_back(id);
        }
        Ok(Fetched::Again)
    }

    /// Reads a node. One that several servers write may be mixed of two images while another
    /// server writes it; then it is read again.
    pub(super) async fn read_node(&self, address: Address, height: u8) -> Result<Page> {
        let may_be_mixed = height > 0 || self.shares_leaves();
        let mut patience = Patience::default();
        loop {
            let read = self.read_words(address);
            let words = self
                .offloading
                .timed(Way::Read, address, &self.connection, read)
                .await;
            match words.and_then(|words| page_of(&words, self.sums(), address)) {
                Err(Error::NotANode(at)) if may_be_mixed => {
                    if patience.is_over(&self.connection).await {
                        return Err(Error::NotANode(at));
                    }
                }
                result => return result,
            }
        }
    }

    /// Has the parent tell how many entries a leaf has that is not in the cache.
    pub(super) fn learn_entries(&self, key: u64, address: Address, entries: usize) {
        let told = word_with(address, entries);
        loop {
            let Ok(Found::Here(parent)) = self.walk(key, 1) else {
                return;
            };
            let word = parent.view.get(|body| {
                let index = body.child_for(self.search, key);
                (index, body.word(index))
            });
            let Ok((index, word)) = word else { continue };
            if word == told || Child::of_word(word) != Child::Remote(address) {
                return;
            }
            if let Ok(lock) = parent.view.upgrade() {
                lock.replace(index, told);
                return;
            }
        }
    }

    fn admits(&self, leaf: Address, admission: Admission) -> bool {
        match admission {
            Admission::Always => true,
            Admission::ByOptions => self.cache.admits(leaf, self.options.leaf_admission),
            Admission::Never => false,
        }
    }

    /// Puts a node that was fetched into a frame, below its parent. It has the values of dirty
    /// copies, which are dirty no more then.
    ///
    /// # Errors
    /// The parent is not in the cache any more, or has another child there. The frame is unused.
    fn install(
        &self,
        key: u64,
        missing: &Missing,
        page: &Page,
        id: FrameId,
        merged: &[(usize, u64, u64)],
    ) -> std::result::Result<(), Restart> {
        loop {
            let Ok(found) = self.walk(key, missing.height + 1) else {
                continue;
            };
            let Found::Here(parent) = found else {
                return Err(Restart);
            };
            let child = parent.view.get(|body| {
                let index = body.child_for(self.search, key);
                (index, body.height(), Child::of_word(body.word(index)))
            });
            let Ok((index, height, child)) = child else {
                continue;
            };
            if height != missing.height + 1 || child != Child::Remote(missing.address) {
                return Err(Restart);
            }
            let Ok(above) = parent.view.upgrade() else {
                continue;
            };
            let changed = Lines::of_entries(merged.iter().map(|it| it.0));
            self.fill(id, missing.address, page, changed);
            for &(_, key, value) in merged {
                self.cache.copies.follow(key, Some(value));
            }
            above.replace(index, Child::Cached(id).word());
            return Ok(());
        }
    }

    /// Puts into a leaf that was fetched what its dirty copies have. Returns these records,
    /// each after its place.
    fn merge_copies(&self, page: &Page) -> Vec<(usize, u64, u64)> {
        let copies = &self.cache.copies;
        if !copies.any_dirty() {
            return Vec::new();
        }
        let lock = page.lock();
        let mut merged = Vec::new();
        for index in 0..lock.count() {
            let key = lock.key(index);
            if let Some(value) = copies.dirty_value(key) {
                lock.replace(index, value);
                merged.push((index, key, value));
            }
        }
        merged
    }

    /// Makes a free frame a hot one, with what was fetched. The pool has something else in these
    /// lines.
    pub(super) fn fill(&self, id: FrameId, address: Address, page: &Page, changed: Lines) {
        let frame = self.cache.frame(id);
        let lock = frame.page().lock();
        let image = page.lock().image(|word| word);
        lock.load(&image).expect("it was a page's");
        frame.set_address(address, &lock);
        frame.mark_clean(&lock);
        frame.mark(changed, &lock);
        frame.set_state(State::Hot, &lock);
    }
}

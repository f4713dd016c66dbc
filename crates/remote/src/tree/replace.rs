//! Making room in the cache: nodes cool, and go.
//!
//! When there is no free frame, two frames drawn by chance cool, and the oldest node of a queue
//! drawn by chance goes. An inner node with cached children has one of them cool in its place, and
//! that one of its own, so the way to a hot node stays hot. A cooling node that is visited becomes
//! hot again (Lu et al.: "DEX", VLDB 2024, sections 5.1 to 5.3).

use timberline_sync::Restart;
use timberline_tree::btree::page::PageBody;

use super::RemoteTree;
use super::together::together;
use super::walk::{At, Found};
use crate::cache::{Frame, FrameId, State};
use crate::child::{Child, word_with};
use crate::error::{Error, Result};
use crate::image::written_lines;

/// Frames that cool when one is needed.
const SAMPLES: usize = 2;

/// What came of a wish to cool a node.
enum Cooled {
    Done,
    /// It is the root, or no hot node, or is just changing.
    NotNow,
    /// Its queue is full. This is the oldest there.
    After(FrameId),
}

impl RemoteTree {
    /// A free frame, for which another node may have to go.
    ///
    /// # Errors
    /// A memory server does not answer, so that a changed node cannot go; or all frames are taken
    /// by operations under way.
    pub(super) async fn take_frame(&self) -> Result<FrameId> {
        let frames = self.cache.ids().len();
        for _ in 0..16 * frames {
            if let Some(id) = self.cache.take_free() {
                return Ok(id);
            }
            for _ in 0..SAMPLES {
                if let Cooled::After(oldest) = self.cool(self.cache.draw_frame()) {
                    self.evict(oldest).await?;
                }
            }
            let queue = self.cache.draw(self.cache.cooling.queues());
            if let Some(oldest) = self.cache.cooling.oldest(queue) {
                self.evict(oldest).await?;
            }
        }
        Err(Error::CacheTooSmall {
            bytes: self.options.cache_bytes,
            least: 2 * self.options.cache_bytes,
        })
    }

    /// Takes the word that leads to a node away, or to one of those below it.
    fn cool(&self, mut id: FrameId) -> Cooled {
        loop {
            let at = self.at(id);
            if at.frame.state() != State::Hot {
                return Cooled::NotNow;
            }
            match at.view.get(|body| self.cached_child(body)) {
                Ok(Some(child)) => id = child,
                Ok(None) => return self.unlink(at).unwrap_or(Cooled::NotNow),
                Err(Restart) => return Cooled::NotNow,
            }
        }
    }

    /// A cached child of an inner node, if it has one; the first from a place drawn by chance.
    pub(super) fn cached_child(&self, body: &PageBody) -> Option<FrameId> {
        if body.height() == 0 {
            return None;
        }
        let count = body.count();
        let first = self.cache.draw(count.max(1));
        let children = (first..count).chain(0..first).map(|index| body.word(index));
        children.map(Child::of_word).find_map(|child| match child {
            Child::Cached(id) => Some(id),
            Child::Remote(_) => None,
        })
    }

    /// Makes a hot node without cached children a cooling one.
    fn unlink(&self, at: At<'_>) -> std::result::Result<Cooled, Restart> {
        let (height, lower) = at.view.get(|body| (body.height(), body.lower()))?;
        if at.id == self.cache.root() {
            return Ok(Cooled::NotNow);
        }
        let Found::Here(parent) = self.walk(lower, height + 1)? else {
            return Err(Restart);
        };
        let (index, child) = parent.view.get(|body| {
            let index = body.child_for(self.search, lower);
            (index, Child::of_word(body.word(index)))
        })?;
        if child != Child::Cached(at.id) {
            return Err(Restart);
        }
        let above = parent.view.upgrade()?;
        let Ok(lock) = at.view.upgrade() else {
            above.unchanged();
            return Err(Restart);
        };
        let address = at.frame.address();
        if let Err(oldest) = self.cache.cooling.push(address, at.id) {
            above.unchanged();
            lock.unchanged();
            return Ok(Cooled::After(oldest));
        }
        above.replace(index, word_with(address, lock.count()));
        at.frame.set_state(State::Cooling, &lock);
        Ok(Cooled::Done)
    }

    /// Frees the frame of a cooling node, after it was written if it was changed. It stays if it
    /// is visited or changed meanwhile.
    ///
    /// # Errors
    /// The memory server does not answer. The node is still in the cache.
    async fn evict(&self, id: FrameId) -> Result<()> {
        let address = self.cache.frame(id).address();
        let flight = self.cache.flights.begin(address).await;
        let at = self.at(id);
        if at.frame.state() != State::Cooling || at.frame.address() != address {
            return Ok(());
        }
        if at.frame.is_dirty() {
            let Ok((at, words)) = at.view.get(|body| self.changed_words(at.frame, body)) else {
                return Ok(());
            };
            self.write_words(address.add(at), words).await?;
        }
        if let Ok(lock) = at.view.upgrade() {
            at.frame.mark_clean(&lock);
            at.frame.set_state(State::Free, &lock);
            self.cache.cooling.remove(address, id);
            drop(lock);
            self.cache.give_back(id);
        }
        drop(flight);
        Ok(())
    }

    /// Writes a node to the pool if it was changed. It may be changed again meanwhile.
    ///
    /// # Errors
    /// The memory server does not answer. The node is still in the cache.
    pub(super) async fn write_back(&self, id: FrameId) -> Result<()> {
        loop {
            let address = self.cache.frame(id).address();
            let _flight = self.cache.flights.begin(address).await;
            let at = self.at(id);
            if at.frame.state() == State::Free || !at.frame.is_dirty() {
                return Ok(());
            }
            let is_there = at.frame.address() == address;
            // What was read of the frame is of this view if the image is.
            let words = at.view.get(|body| self.changed_words(at.frame, body));
            let (true, Ok((from, words))) = (is_there, words) else {
                continue;
            };
            self.write_words(address.add(from), words).await?;
            if let Ok(lock) = at.view.upgrade() {
                at.frame.mark_clean(&lock);
            }
            return Ok(());
        }
    }

    /// What has to be written of a cached node that was changed, and where in the node.
    fn changed_words(&self, frame: &Frame, body: &PageBody) -> (u64, Vec<u64>) {
        written_lines(&self.image_of(body), self.sums(), frame.changed())
    }

    /// Removes from the cache all nodes up to a height, but the root, whose keys are within these
    /// bounds, and writes those that were changed.
    ///
    /// # Errors
    /// The memory server does not answer. Some of the nodes are still in the cache.
    pub(super) async fn expel(&self, lower: u64, upper: u64, height: u8) -> Result<()> {
        let root = self.read_page(self.cache.root(), |body| body.height());
        for height in 0..=height.min(root) {
            let meant = |body: &PageBody| is_within(body, lower, upper, height);
            let ids = self.cache.ids();
            let meant = ids.filter(|&id| self.read_page(id, meant));
            together(meant, |id| self.expel_frame(id, lower, upper, height)).await?;
        }
        Ok(())
    }

    async fn expel_frame(&self, id: FrameId, lower: u64, upper: u64, height: u8) -> Result<()> {
        loop {
            let at = self.at(id);
            let is_meant = at.view.get(|body| is_within(body, lower, upper, height));
            match (is_meant, at.frame.state()) {
                (Err(Restart), _) => continue,
                (Ok(false), _) | (_, State::Free) => return Ok(()),
                (Ok(true), _) if id == self.cache.root() => return Ok(()),
                (Ok(true), State::Cooling) => self.evict(id).await?,
                (Ok(true), State::Hot) => match self.cool(id) {
                    Cooled::After(oldest) => self.evict(oldest).await?,
                    Cooled::Done | Cooled::NotNow => {}
                },
            }
        }
    }
}

fn is_within(body: &PageBody, lower: u64, upper: u64, height: u8) -> bool {
    body.height() == height && body.lower() >= lower && body.upper() <= upper
}

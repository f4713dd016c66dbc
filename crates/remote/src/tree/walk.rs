//! The way from the root to a node, through the cache.

use timberline_sync::Restart;
use timberline_tree::btree::page::{PageBody, PageView};
use timberline_tree::btree::{Lanes, Work};

use super::RemoteTree;
use crate::address::Address;
use crate::cache::{Frame, FrameId, State};
use crate::child::{Child, entries_in};

/// Where a walk ended.
pub(super) enum Found<'a> {
    /// At a node of the height that was asked for.
    Here(At<'a>),
    /// Above a node that is not in the cache.
    Missing(Missing),
    /// At a node that cannot be below its parent: an inner node that several servers write has
    /// changed since it was fetched.
    Stale,
}

/// A cached node.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub id: FrameId,
    pub frame: &'a Frame,
    pub view: PageView<'a>,
}

/// A node that has to be fetched, as its parent describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Missing {
    pub address: Address,
    pub height: u8,
    pub lower: u64,
    pub upper: u64,
    /// How many it has, as far as the parent knows.
    pub entries: Option<usize>,
}

/// What to do at a node on the way.
enum Step {
    Here,
    Outside,
    Down(usize, u64),
}

struct Walk<'a> {
    tree: &'a RemoteTree,
    key: u64,
    height: u8,
}

impl<'a> Work for Walk<'a> {
    type Output = Result<Found<'a>, Restart>;

    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> Self::Output {
        self.tree.walk_by(lanes, self.key, self.height)
    }
}

#[inline(always)]
fn step(lanes: impl Lanes, body: &PageBody, key: u64, height: u8) -> Step {
    if body.height() > height {
        let index = body.child_for(lanes, key);
        return Step::Down(index, body.word(index));
    }
    // A way that led wrong ends at a node without the key.
    match body.covers(key) {
        true => Step::Here,
        false => Step::Outside,
    }
}

impl RemoteTree {
    /// Walks to the node of this height that covers `key`.
    ///
    /// # Errors
    /// A node changed meanwhile.
    pub(super) fn walk(&self, key: u64, height: u8) -> Result<Found<'_>, Restart> {
        self.search.run(Walk {
            tree: self,
            key,
            height,
        })
    }

    /// The same, within a [`Work`].
    #[inline(always)]
    pub(super) fn walk_by(
        &self,
        lanes: impl Lanes,
        key: u64,
        height: u8,
    ) -> Result<Found<'_>, Restart> {
        let mut at = self.at_root()?;
        loop {
            let step = at.view.get(|body| step(lanes, body, key, height))?;
            let (index, word) = match step {
                Step::Here => return Ok(Found::Here(at)),
                Step::Outside => return Ok(Found::Stale),
                Step::Down(index, word) => (index, word),
            };
            match Child::of_word(word) {
                Child::Cached(id) => {
                    let child = self.at(id);
                    // It was the parent's child when its view was taken.
                    at.view.validate()?;
                    at = child;
                }
                Child::Remote(address) => return self.at_remote(at, index, address),
            }
        }
    }

    /// A frame, from now on.
    #[inline(always)]
    pub(super) fn at(&self, id: FrameId) -> At<'_> {
        let frame = self.cache.frame(id);
        At {
            id,
            frame,
            view: frame.page().read(),
        }
    }

    /// The root.
    #[inline(always)]
    pub(super) fn at_root(&self) -> Result<At<'_>, Restart> {
        let id = self.cache.root();
        let at = self.at(id);
        // It was the root when its view was taken.
        if self.cache.root() == id {
            Ok(at)
        } else {
            Err(Restart)
        }
    }

    /// The cooling node of an address, if it is in the cache.
    pub(super) fn cooling(&self, address: Address) -> Option<FrameId> {
        let is_it = |id| self.is_cooling_at(id, address);
        self.cache.cooling.find(address, is_it)
    }

    fn is_cooling_at(&self, id: FrameId, address: Address) -> bool {
        let frame = self.cache.frame(id);
        frame.address() == address && frame.state() == State::Cooling
    }

    /// Above a node that no word leads to: it may be cooling. Then it becomes hot again, and the
    /// walk starts over.
    #[cold]
    fn at_remote(
        &self,
        parent: At<'_>,
        index: usize,
        address: Address,
    ) -> Result<Found<'_>, Restart> {
        let Some(id) = self.cooling(address) else {
            let missing = parent.view.get(|body| {
                let (lower, upper) = body.range_of(index);
                Missing {
                    address,
                    height: body.height().wrapping_sub(1),
                    lower,
                    upper,
                    entries: entries_in(body.word(index)),
                }
            })?;
            return Ok(Found::Missing(missing));
        };
        let above = parent.view.upgrade()?;
        let lock = self.cache.frame(id).page().lock();
        if self.is_cooling_at(id, address) {
            self.cache.frame(id).set_state(State::Hot, &lock);
            above.replace(index, Child::Cached(id).word());
            self.cache.cooling.remove(address, id);
        } else {
            above.unchanged();
            lock.unchanged();
        }
        Err(Restart)
    }
}

//! Memory for nodes that are not linked yet.

use timberline_placement::NewNode;
use timberline_tier::{Memory, OutOfMemory, TierId};

use super::node::{Body, Link};
use crate::store::Store;

/// Memory for a node that is not linked yet; freed if it never is.
pub struct Fresh<'t, M: Memory, const WORDS: usize> {
    store: &'t Store<M>,
    link: Option<Link>,
}

impl<'t, M: Memory, const WORDS: usize> Fresh<'t, M, WORDS> {
    pub fn new(store: &'t Store<M>, new: NewNode) -> Result<Self, OutOfMemory> {
        let slot = store.allocate(new, Body::<WORDS>::BYTES)?.keep();
        let link = Some(Link::to_slot(slot));
        Ok(Fresh { store, link })
    }

    /// In exactly this tier.
    pub fn new_in(store: &'t Store<M>, tier: TierId) -> Result<Self, OutOfMemory> {
        let slot = store.allocate_in(tier, Body::<WORDS>::BYTES)?.keep();
        let link = Some(Link::to_slot(slot));
        Ok(Fresh { store, link })
    }

    /// Where it is going to be.
    pub fn tier(&self) -> Option<TierId> {
        let address = self.link?.address();
        Some(self.store.arenas().tier_of(address))
    }

    /// What is going to lead there.
    pub fn link(&self) -> Link {
        self.link.expect("not linked yet")
    }

    /// It is about to be linked.
    pub fn keep(mut self) -> Link {
        self.link.take().expect("linked once")
    }
}

impl<M: Memory, const WORDS: usize> Drop for Fresh<'_, M, WORDS> {
    fn drop(&mut self) {
        if let Some(link) = self.link {
            link.free::<WORDS>(self.store.arenas());
        }
    }
}

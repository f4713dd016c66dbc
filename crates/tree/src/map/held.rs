//! A thread that is pinned as long as it needs places of a map.

use timberline_sync::epoch::Guard;
use timberline_tier::Memory;

use super::{Core, Map};
use crate::store::Store;
use crate::{Key, Value};

/// What `find_many` of an [`Art`](crate::Art) or a [`BTree`](crate::BTree) finds stays where it is,
/// or is known to be gone, as long as this lives. It belongs to its thread, and the map reclaims no
/// memory meanwhile: it should be brief.
#[must_use = "what is found under it is lost with it"]
pub struct Held<'m>(Guard<'m>);

impl<'m> Held<'m> {
    /// The guard.
    ///
    /// # Panics
    /// If it is another map's.
    pub(crate) fn guard(&self, store: &Store<impl Memory>) -> &Guard<'m> {
        assert!(self.0.is_of(store.domain()), "it holds this map");
        &self.0
    }
}

impl<T: Core<K, V>, K: Key + ?Sized, V: Value> Map<T, K, V> {
    /// Keeps what is found from now on.
    pub fn hold(&self) -> Held<'_> {
        Held(self.tree.store().pin())
    }
}

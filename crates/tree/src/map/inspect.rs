//! Sizes, limits and parts of a map.

use std::sync::Arc;

use timberline_placement::Placed;
use timberline_sync::epoch::Domain;
use timberline_tier::{Memory, TierId};

use super::{Core, Map};
use crate::{Key, Stats, Value};

impl<T: Core<K, V>, K: Key + ?Sized, V: Value> Map<T, K, V> {
    /// The number of records, exact while no thread writes. Adds up per-thread counts: O(1) in the
    /// number of records.
    pub fn len(&self) -> usize {
        self.tree.store().records()
    }

    /// Whether [`len`](Self::len) is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nodes by level and tier, bytes by tier, moves so far. Visits all inner nodes, and in maps
    /// whose leaves differ in size also all leaves.
    ///
    /// ```
    /// let map: timberline::BTree<u64, u64> = (0..1_000).map(|key| (key, key)).collect();
    /// let stats = map.stats();
    /// assert_eq!((stats.records, stats.promoted), (1_000, 0));
    /// ```
    pub fn stats(&self) -> Stats {
        self.tree.stats()
    }

    /// The numbers of nodes promoted and demoted so far.
    pub fn moves(&self) -> (u64, u64) {
        self.tree.store().moves()
    }

    /// Whether the map is in two tiers or more. A map in plain memory has one.
    ///
    /// ```
    /// let map = timberline::BTree::<u64, u64>::new();
    /// assert!(!map.is_tiered());
    /// assert_eq!(map.memory_limits(), (usize::MAX, 0));
    /// ```
    pub fn is_tiered(&self) -> bool {
        self.memory().arenas().tiers() > 1
    }

    /// Committed bytes of fast memory, tables included, and of all slower memory. Memory is
    /// committed in chunks of up to 2 MiB.
    ///
    /// ```
    /// let map = timberline::BTree::<u64, u64>::builder()
    ///     .fast_memory(4 << 20)
    ///     .slow_memory(64 << 20)
    ///     .build()?;
    /// let (fast, slow) = map.committed();
    /// assert!(fast <= 4 << 20 && slow <= 64 << 20);
    /// assert_eq!(map.memory_limits(), (4 << 20, 64 << 20));
    /// # Ok::<(), timberline::Error>(())
    /// ```
    pub fn committed(&self) -> (usize, usize) {
        self.tree.store().committed()
    }

    /// The limits of fast and of slow memory in bytes; [`usize::MAX`] means no limit.
    pub fn memory_limits(&self) -> (usize, usize) {
        let arenas = self.memory().arenas();
        let limit = |tier| arenas.budget(TierId(tier as u8)).limit();
        let slow = (1..arenas.tiers()).map(limit);
        (limit(0), slow.fold(0, usize::saturating_add))
    }

    /// The memory that the nodes live in.
    pub fn memory(&self) -> &T::Memory {
        &self.tree.store().memory
    }

    /// The epoch domain of the map. Memory of removed records and moved nodes is reclaimed once all
    /// threads that were [pinned](Domain::pin) in it at that time have unpinned. Operations pin by
    /// themselves. Each map has a domain of its own unless
    /// [`Builder::domain`](crate::Builder::domain) set a shared one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// let map: timberline::BTree<u64, Arc<String>> = [(7, Arc::default())].into();
    /// let removed = map.remove(&7).unwrap();
    /// // The map drops its own count once no thread reads the record: now, or some time later.
    /// map.domain().collect();
    /// assert_eq!(Arc::strong_count(&removed), 1);
    /// ```
    pub fn domain(&self) -> &Domain {
        self.tree.store().domain()
    }

    /// The tree as a placement's workers see it.
    pub fn placed(&self) -> Arc<dyn Placed> {
        self.tree.tree()
    }
}

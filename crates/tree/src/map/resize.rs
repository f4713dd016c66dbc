//! Changing the limit of fast memory while the map is in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

use timberline_placement::evacuation::{Reach, evacuate};
use timberline_tier::{Arenas, Limit, Memory, TierId};

use super::Map;
use super::core::Core;
use crate::{Error, Key, Value};

const FAST: TierId = TierId::FAST;

/// The length of a pause that waits for readers of moved nodes, and the most pauses in a row.
const PAUSE: Duration = Duration::from_millis(1);
const PATIENCE: usize = 2000;

/// The most evacuations in a row that demote nodes and yet free no memory.
const ATTEMPTS: usize = 8;

impl<T: Core<K, V>, K: Key + ?Sized, V: Value> Map<T, K, V> {
    /// Sets the limit of fast memory, tables included, of a map in tiers.
    ///
    /// After a higher limit, the placement's worker promotes into the new memory. A lower limit
    /// holds when this returns: nodes have been relocated or demoted until at most `bytes` bytes
    /// are committed. Other threads may use the map meanwhile. Lowering takes O(fast nodes) time.
    ///
    /// # Errors
    /// [`Error::Configuration`]: the map is in plain memory. [`Error::OutOfMemory`]: no addresses
    /// for so much fast memory, or no slow memory for the nodes to be demoted; the limit is
    /// unchanged. [`Error::InUse`]: for two seconds, readers (open iterators, long closures) have
    /// kept the memory of moved nodes from being reclaimed. New allocations keep to the new limit;
    /// call this again when these readers have ended to give back the rest.
    ///
    /// ```
    /// use timberline::BTree;
    ///
    /// let builder = BTree::builder().fast_memory(8 << 20).slow_memory(64 << 20);
    /// let map: BTree<u64, u64> = builder.build()?;
    /// for key in 0..500_000 {
    ///     map.insert(&key, key)?;
    /// }
    /// map.set_fast_memory(2 << 20)?;
    /// assert!(map.committed().0 <= 2 << 20);
    /// map.set_fast_memory(32 << 20)?;
    /// assert_eq!(map.memory_limits().0, 32 << 20);
    /// # Ok::<(), timberline::Error>(())
    /// ```
    pub fn set_fast_memory(&self, bytes: usize) -> Result<(), Error> {
        if !self.is_tiered() {
            let line = "a map in plain memory has no limit of fast memory";
            return Err(Error::Configuration(line.into()));
        }
        let arenas = self.memory().arenas();
        let before = arenas.budget(FAST).limit();
        arenas.set_limit(FAST, bytes)?;
        let evacuated = self.evacuate(arenas).or_else(|full| match full {
            Error::OutOfMemory(_) => {
                arenas.set_limit(FAST, before)?;
                arenas.evacuate(FAST);
                Err(full)
            }
            other => Err(other),
        });
        self.tree.refit_record_pages();
        evacuated
    }

    /// Empties chunks of fast memory until it is within its limit, and goes further as long as that
    /// frees nothing.
    fn evacuate(&self, arenas: &Arenas) -> Result<(), Error> {
        let tree = &*self.tree;
        let committed = || arenas.budget(FAST).used();
        let mut fruitless = 0;
        while fruitless < ATTEMPTS {
            let before = committed();
            let chunks = arenas.evacuate(FAST);
            if chunks.is_empty() {
                return Ok(());
            }
            // They lose nothing but copies.
            while tree.drop_record_page() {}
            let reach = match fruitless {
                0 => Reach::FastPaths,
                1 => Reach::AllPaths,
                2 => Reach::Idle,
                _ => Reach::All,
            };
            if !evacuate(tree, &chunks, reach) {
                let slow = arenas.out_of(arenas.slowest(), Limit::Budget);
                return Err(slow.into());
            }
            if !self.outlasts_readers() {
                break;
            }
            fruitless = match committed() < before {
                true => 0,
                false => fruitless + 1,
            };
        }
        let budget = arenas.budget(FAST);
        match budget.used().saturating_sub(budget.limit()) {
            0 => Ok(()),
            beyond => Err(Error::InUse(beyond)),
        }
    }

    /// Waits until all threads that are pinned now have unpinned, so that nodes moved before are
    /// freed. Returns `false` if some have not unpinned in time.
    fn outlasts_readers(&self) -> bool {
        let done = Arc::new(AtomicBool::new(false));
        let call = done.clone();
        self.domain().pin().defer(move || call.store(true, Relaxed));
        (0..PATIENCE).any(|_| {
            self.domain().collect_all();
            let is_done = done.load(Relaxed);
            if !is_done {
                sleep(PAUSE);
            }
            is_done
        })
    }
}

//! What requests are run against: a map, seen through the few operations that workloads are made of.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{Placed, Placement};
use timberline_tree::{BTree, Stats};

use crate::substrate::Substrate;

/// An ordered map that requests can be run against. Keys are those of the requests; a map of byte strings looks up what
/// they stand for.
pub trait Index: Send + Sync {
    /// The value of a record.
    fn get(&self, key: u64) -> Option<u64>;

    /// Replaces the value of a present record; false where there is none.
    fn update(&self, key: u64, value: u64) -> bool;

    /// Inserts a record, or replaces its value.
    ///
    /// # Errors
    /// One line: memory is used up.
    fn insert(&self, key: u64, value: u64) -> Result<(), String>;

    /// Reads up to `records` records from `from` on. Returns how many there were and the sum of their values, so
    /// that they are looked at.
    fn scan(&self, from: u64, records: usize) -> (usize, u64);
}

/// An index whose nodes are placed.
pub trait PlacedIndex: Index + Sized {
    /// The memory it lives in.
    type Memory: Substrate;

    /// What the report calls it.
    const NAME: &'static str;

    /// Bytes of a node, for placements with tables by node.
    const NODE_BYTES: usize;

    /// An empty map.
    ///
    /// # Errors
    /// One line: there is no memory for it.
    fn new(memory: Self::Memory, placement: Arc<dyn Placement>) -> Result<Self, String>;

    /// The memory it lives in.
    fn memory(&self) -> &Self::Memory;

    /// The map as a placement's workers see it.
    fn placed(&self) -> Arc<dyn Placed>;

    /// What it consists of.
    fn stats(&self) -> Stats;

    /// Nodes moved to faster and to slower memory so far.
    fn moves(&self) -> (u64, u64);
}

impl<M: Substrate> Index for BTree<u64, u64, M> {
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(key)
    }

    #[inline(always)]
    fn update(&self, key: u64, value: u64) -> bool {
        self.update(key, value).is_some()
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> Result<(), String> {
        match self.insert(key, value) {
            Ok(_) => Ok(()),
            Err(full) => Err(full.to_string()),
        }
    }

    #[inline(always)]
    fn scan(&self, from: u64, records: usize) -> (usize, u64) {
        let mut sum = 0u64;
        let seen = self.scan(from, records, |_, value| {
            sum = sum.wrapping_add(value);
            ControlFlow::Continue(())
        });
        (seen, sum)
    }
}

impl<M: Substrate> PlacedIndex for BTree<u64, u64, M> {
    type Memory = M;

    const NAME: &'static str = "btree";
    const NODE_BYTES: usize = BTree::<u64, u64, M>::NODE_BYTES;

    fn new(memory: M, placement: Arc<dyn Placement>) -> Result<Self, String> {
        BTree::new(memory, placement).map_err(|full| full.to_string())
    }

    fn memory(&self) -> &M {
        self.memory()
    }

    fn placed(&self) -> Arc<dyn Placed> {
        self.placed()
    }

    fn stats(&self) -> Stats {
        self.stats()
    }

    fn moves(&self) -> (u64, u64) {
        self.moves()
    }
}

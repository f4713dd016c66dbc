//! `btree`: the B+tree of words.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{HeatIn, Placed, Placement};
use timberline_tree::{BTree, Stats};

use crate::run::index::{Index, Keys, PlacedIndex};
use crate::substrate::Substrate;

impl<M: Substrate> Index for BTree<u64, u64, M> {
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.get(key)
    }

    #[inline(always)]
    fn update(&self, key: u64, value: u64) -> bool {
        matches!(self.update(key, value), Ok(Some(_)))
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

    const HEAT: HeatIn = HeatIn::Table {
        node_bytes: BTree::<u64, u64, M>::NODE_BYTES,
    };

    fn new(memory: M, placement: Arc<dyn Placement>, keys: &Keys) -> Result<Self, String> {
        match keys {
            Keys::Words => BTree::new(memory, placement).map_err(|full| full.to_string()),
            Keys::Lines(_) => Err("btree takes keys of eight bytes".into()),
        }
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

//! `btree`: the B+tree of words.

use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{HeatIn, Placed, Placement};
use timberline_tree::{BTree, Stats};

use super::value::Stored;
use crate::run::form::Form;
use crate::run::index::{Index, PlacedIndex};
use crate::substrate::Substrate;

/// The map, and the length of its values.
pub struct Words<T> {
    map: T,
    value_bytes: usize,
}

impl<V: Stored, M: Substrate> Index for Words<BTree<u64, V, M>> {
    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.map.get_with(&key, |value| V::word(value))
    }

    #[inline(always)]
    fn update(&self, key: u64, value: u64) -> Result<bool, String> {
        let updated = V::lend_word(value, self.value_bytes, |value| {
            self.map.update(&key, value)
        });
        match updated {
            Ok(before) => Ok(before.is_some()),
            Err(full) => Err(full.to_string()),
        }
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> Result<(), String> {
        let inserted = V::lend_word(value, self.value_bytes, |value| {
            self.map.insert(&key, value)
        });
        match inserted {
            Ok(_) => Ok(()),
            Err(full) => Err(full.to_string()),
        }
    }

    #[inline(always)]
    fn scan(&self, from: u64, records: usize) -> (usize, u64) {
        let mut sum = 0u64;
        let seen = self.map.scan(&from, records, |_, value| {
            sum = sum.wrapping_add(V::word(value));
            ControlFlow::Continue(())
        });
        (seen, sum)
    }
}

impl<V: Stored, M: Substrate> PlacedIndex for Words<BTree<u64, V, M>> {
    type Memory = M;

    const NAME: &'static str = "btree";

    fn heat(_: &Form) -> HeatIn {
        HeatIn::Table {
            node_bytes: BTree::<u64, V, M>::NODE_BYTES,
        }
    }

    fn new(memory: M, placement: Arc<dyn Placement>, form: &Form) -> Result<Self, String> {
        if !form.has_word_keys() {
            return Err("btree takes keys of eight bytes".into());
        }
        match BTree::in_memory(memory, placement) {
            Ok(map) => Ok(Words {
                map,
                value_bytes: form.value_bytes,
            }),
            Err(full) => Err(full.to_string()),
        }
    }

    fn memory(&self) -> &M {
        self.map.memory()
    }

    fn placed(&self) -> Arc<dyn Placed> {
        self.map.placed()
    }

    fn stats(&self) -> Stats {
        self.map.stats()
    }

    fn moves(&self) -> (u64, u64) {
        self.map.moves()
    }
}

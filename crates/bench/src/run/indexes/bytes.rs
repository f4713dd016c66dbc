//! `art`, `masstree`: the maps over byte strings.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{HeatIn, Placed, Placement};
use timberline_tree::{Art, Masstree, Stats};

use super::value::Stored;
use crate::run::form::{Form, Keys};
use crate::run::index::{Index, PlacedIndex};
use crate::substrate::Substrate;

/// A map over byte strings, with the form of its records.
pub struct Bytes<T> {
    map: T,
    form: Form,
}

impl<T> Bytes<T> {
    /// Calls `work` with the byte string of a request's key.
    #[inline(always)]
    fn with<R>(&self, key: u64, work: impl FnOnce(&T, &[u8]) -> R) -> R {
        thread_local! {
            static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        match &self.form.keys {
            Keys::Words => work(&self.map, &key.to_be_bytes()),
            keys => KEY.with_borrow_mut(|bytes| {
                keys.write(key, bytes);
                work(&self.map, bytes)
            }),
        }
    }
}

macro_rules! index {
    ($map:ident, $name:literal, $leaf_bytes:literal bytes a leaf, $records:literal records) => {
        impl<V: Stored, M: Substrate> Index for Bytes<$map<[u8], V, M>> {
            fn get(&self, key: u64) -> Option<u64> {
                self.with(key, |map, key| map.get_with(key, |value| V::word(value)))
            }

            fn update(&self, key: u64, value: u64) -> Result<bool, String> {
                let update = |map: &$map<[u8], V, M>, key: &[u8]| {
                    V::lend_word(value, self.form.value_bytes, |value| map.update(key, value))
                };
                match self.with(key, update) {
                    Ok(before) => Ok(before.is_some()),
                    Err(error) => Err(error.to_string()),
                }
            }

            fn insert(&self, key: u64, value: u64) -> Result<(), String> {
                let insert = |map: &$map<[u8], V, M>, key: &[u8]| {
                    V::lend_word(value, self.form.value_bytes, |value| map.insert(key, value))
                };
                match self.with(key, insert) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            }

            fn scan(&self, from: u64, records: usize) -> (usize, u64) {
                let mut sum = 0u64;
                let seen = self.with(from, |map, from| {
                    map.scan_bytes(from, records, |_, value| {
                        sum = sum.wrapping_add(V::word(value));
                        ControlFlow::Continue(())
                    })
                });
                (seen, sum)
            }
        }

        impl<V: Stored, M: Substrate> PlacedIndex for Bytes<$map<[u8], V, M>> {
            type Memory = M;

            const NAME: &'static str = $name;

            fn heat(form: &Form) -> HeatIn {
                HeatIn::Leaf {
                    leaf_bytes: $leaf_bytes + $records * form.block_bytes(),
                }
            }

            fn new(memory: M, placement: Arc<dyn Placement>, form: &Form) -> Result<Self, String> {
                let form = form.clone();
                match $map::in_memory(memory, placement) {
                    Ok(map) => Ok(Bytes { map, form }),
                    Err(error) => Err(error.to_string()),
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
    };
}

index!(Art, "art", 40 bytes a leaf, 1 records);
index!(Masstree, "masstree", 256 bytes a leaf, 10 records);

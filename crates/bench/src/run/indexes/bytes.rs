//! `art`, `masstree`: the maps over byte strings.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{HeatIn, Placed, Placement};
use timberline_tree::{Art, Masstree, Stats};

use crate::run::index::{Index, Keys, PlacedIndex};
use crate::substrate::Substrate;

/// A map over byte strings, with what the keys of requests stand for.
pub struct Bytes<T> {
    map: T,
    keys: Keys,
}

impl<T> Bytes<T> {
    /// Calls `work` with the byte string of a request's key.
    #[inline(always)]
    fn with<R>(&self, key: u64, work: impl FnOnce(&T, &[u8]) -> R) -> R {
        thread_local! {
            static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        match &self.keys {
            Keys::Words => work(&self.map, &key.to_be_bytes()),
            Keys::Lines(lines) => LINE.with_borrow_mut(|line| {
                line.clear();
                lines.push_key(key, line);
                work(&self.map, line)
            }),
        }
    }
}

macro_rules! index {
    ($map:ident, $name:literal, $leaf_bytes:literal) => {
        impl<M: Substrate> Index for Bytes<$map<[u8], u64, M>> {
            fn get(&self, key: u64) -> Option<u64> {
                self.with(key, |map, key| map.get(key))
            }

            fn update(&self, key: u64, value: u64) -> bool {
                let before = self.with(key, |map, key| map.update(key, value));
                matches!(before, Ok(Some(_)))
            }

            fn insert(&self, key: u64, value: u64) -> Result<(), String> {
                match self.with(key, |map, key| map.insert(key, value)) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            }

            fn scan(&self, from: u64, records: usize) -> (usize, u64) {
                let mut sum = 0u64;
                let add = |_: &[u8], value| {
                    sum = sum.wrapping_add(value);
                    ControlFlow::Continue(())
                };
                let seen = self.with(from, |map, from| map.scan_bytes(from, records, add));
                (seen, sum)
            }
        }

        impl<M: Substrate> PlacedIndex for Bytes<$map<[u8], u64, M>> {
            type Memory = M;

            const NAME: &'static str = $name;

            const HEAT: HeatIn = HeatIn::Leaf {
                leaf_bytes: $leaf_bytes,
            };

            fn new(memory: M, placement: Arc<dyn Placement>, keys: &Keys) -> Result<Self, String> {
                let keys = keys.clone();
                match $map::new(memory, placement) {
                    Ok(map) => Ok(Bytes { map, keys }),
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

index!(Art, "art", 40);
index!(Masstree, "masstree", 256);

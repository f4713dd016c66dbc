//! The maps that can be measured: `btree` over words, `art` and `masstree` over byte strings.

mod value;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use timberline_placement::{HeatIn, Placed, Placement};
use timberline_tree::{Art, BTree, Masstree, Representation, Stats};

use super::index::{Index, PlacedIndex};
use super::record_format::{Keys, RecordFormat};
use crate::substrate::Substrate;
use value::Stored;

/// A map with the format of its records.
pub struct MeasuredMap<T> {
    map: T,
    format: RecordFormat,
}

/// A key type of maps, which a request's key stands for.
trait RequestKey {
    fn lend<R>(key: u64, keys: &Keys, work: impl FnOnce(&Self) -> R) -> R;
}

impl RequestKey for u64 {
    #[inline(always)]
    fn lend<R>(key: u64, _: &Keys, work: impl FnOnce(&u64) -> R) -> R {
        work(&key)
    }
}

impl RequestKey for [u8] {
    #[inline(always)]
    fn lend<R>(key: u64, keys: &Keys, work: impl FnOnce(&[u8]) -> R) -> R {
        thread_local! {
            static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        match keys {
            Keys::Words => work(&key.to_be_bytes()),
            keys => KEY.with_borrow_mut(|bytes| {
                keys.write(key, bytes);
                work(bytes)
            }),
        }
    }
}

fn tree_heat(node_bytes: usize) -> HeatIn {
    HeatIn::Table { node_bytes }
}

fn leaf_heat(format: &RecordFormat, leaf_bytes: usize, records: usize) -> HeatIn {
    HeatIn::Leaf {
        leaf_bytes: leaf_bytes + records * format.block_bytes(),
    }
}

/// Makes a map measurable: its name, the method that scans it, and where its heat is.
macro_rules! index {
    ($map:ident<$key:ty>, $name:literal, $scan:ident, |$format:ident| $heat:expr) => {
        impl<V: Stored, M: Substrate> Index for MeasuredMap<$map<$key, V, M>> {
            #[inline(always)]
            fn get(&self, key: u64) -> Option<u64> {
                <$key>::lend(key, &self.format.keys, |key| {
                    self.map.get_with(key, V::word)
                })
            }

            #[inline(always)]
            fn update(&self, key: u64, value: u64) -> Result<bool, String> {
                let updated = <$key>::lend(key, &self.format.keys, |key| {
                    V::lend_word(value, self.format.value_bytes, |it| {
                        self.map.update(key, it)
                    })
                });
                match V::Representation::result(updated) {
                    Ok(before) => Ok(before.is_some()),
                    Err(error) => Err(error.to_string()),
                }
            }

            #[inline(always)]
            fn insert(&self, key: u64, value: u64) -> Result<(), String> {
                let inserted = <$key>::lend(key, &self.format.keys, |key| {
                    V::lend_word(value, self.format.value_bytes, |it| {
                        self.map.insert(key, it)
                    })
                });
                match inserted {
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.to_string()),
                }
            }

            #[inline(always)]
            fn scan(&self, from: u64, records: usize) -> (usize, u64) {
                let mut sum = 0u64;
                let seen = <$key>::lend(from, &self.format.keys, |from| {
                    self.map.$scan(from, records, |_, value| {
                        sum = sum.wrapping_add(V::word(value));
                        ControlFlow::Continue(())
                    })
                });
                (seen, sum)
            }
        }

        impl<V: Stored, M: Substrate> PlacedIndex for MeasuredMap<$map<$key, V, M>> {
            type Memory = M;

            const NAME: &'static str = $name;

            fn heat($format: &RecordFormat) -> HeatIn {
                $heat
            }

            fn new(
                memory: M,
                placement: Arc<dyn Placement>,
                format: &RecordFormat,
            ) -> Result<Self, String> {
                let format = format.clone();
                match $map::in_memory(memory, placement) {
                    Ok(map) => Ok(MeasuredMap { map, format }),
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

index!(BTree<u64>, "btree", scan, |_form| tree_heat(
    BTree::<u64, V, M>::NODE_BYTES
));
index!(Art<[u8]>, "art", scan_bytes, |format| leaf_heat(
    format, 40, 1
));
index!(Masstree<[u8]>, "masstree", scan_bytes, |format| leaf_heat(
    format, 256, 10
));

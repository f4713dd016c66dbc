//! The operations that workloads need of a map.

use std::sync::Arc;

use timberline_placement::{HeatIn, Placed, Placement};
use timberline_tree::Stats;

use super::record_format::RecordFormat;
use crate::substrate::Substrate;

/// An ordered map for requests. Keys and values are those of the requests; a map of byte strings
/// stores the strings that they stand for.
pub trait Index: Send + Sync {
    /// The value of a record.
    fn get(&self, key: u64) -> Option<u64>;

    /// Replaces the value of an existing record; false if it does not exist.
    ///
    /// # Errors
    /// One line: memory is full.
    fn update(&self, key: u64, value: u64) -> Result<bool, String>;

    /// Inserts a record, or replaces its value.
    ///
    /// # Errors
    /// One line: memory is full.
    fn insert(&self, key: u64, value: u64) -> Result<(), String>;

    /// Reads up to `records` records from `from` on. Returns their number and the sum of their
    /// values, so that the reads are not optimized away.
    fn scan(&self, from: u64, records: usize) -> (usize, u64);
}

/// An index whose nodes are placed.
pub trait PlacedIndex: Index + Sized {
    /// The memory of the map.
    type Memory: Substrate;

    /// Its name in the report.
    const NAME: &'static str;

    /// The unit in which the placement `timberline` tracks heat for records of this format.
    fn heat(format: &RecordFormat) -> HeatIn;

    /// An empty map for records of this format.
    ///
    /// # Errors
    /// One line: memory cannot be allocated, or the map does not support such keys.
    fn new(
        memory: Self::Memory,
        placement: Arc<dyn Placement>,
        format: &RecordFormat,
    ) -> Result<Self, String>;

    /// The map's memory.
    fn memory(&self) -> &Self::Memory;

    /// The map, as the workers of a placement see it.
    fn placed(&self) -> Arc<dyn Placed>;

    /// Its size and contents.
    fn stats(&self) -> Stats;

    /// Nodes moved to faster and to slower memory so far.
    fn moves(&self) -> (u64, u64);
}

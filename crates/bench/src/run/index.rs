//! What requests are run against: a map, seen through the few operations that workloads are made
//! of.

use std::sync::Arc;

use timberline_placement::{HeatIn, Placed, Placement};
use timberline_tree::Stats;

use super::form::Form;
use crate::substrate::Substrate;

/// An ordered map that requests can be run against. Keys and values are those of the requests; a
/// map of byte strings keeps what they stand for.
pub trait Index: Send + Sync {
    /// The value of a record.
    fn get(&self, key: u64) -> Option<u64>;

    /// Replaces the value of a present record; false where there is none.
    ///
    /// # Errors
    /// One line: memory is used up.
    fn update(&self, key: u64, value: u64) -> Result<bool, String>;

    /// Inserts a record, or replaces its value.
    ///
    /// # Errors
    /// One line: memory is used up.
    fn insert(&self, key: u64, value: u64) -> Result<(), String>;

    /// Reads up to `records` records from `from` on. Returns how many there were and the sum of
    /// their values, so that they are looked at.
    fn scan(&self, from: u64, records: usize) -> (usize, u64);
}

/// An index whose nodes are placed.
pub trait PlacedIndex: Index + Sized {
    /// The memory it lives in.
    type Memory: Substrate;

    /// What the report calls it.
    const NAME: &'static str;

    /// Where the placement `timberline` keeps its heat for records of this form.
    fn heat(form: &Form) -> HeatIn;

    /// An empty map for records of this form.
    ///
    /// # Errors
    /// One line: there is no memory for it, or it takes no such keys.
    fn new(
        memory: Self::Memory,
        placement: Arc<dyn Placement>,
        form: &Form,
    ) -> Result<Self, String>;

    /// The memory it lives in.
    fn memory(&self) -> &Self::Memory;

    /// The map as a placement's workers see it.
    fn placed(&self) -> Arc<dyn Placed>;

    /// What it consists of.
    fn stats(&self) -> Stats;

    /// Nodes moved to faster and to slower memory so far.
    fn moves(&self) -> (u64, u64);
}

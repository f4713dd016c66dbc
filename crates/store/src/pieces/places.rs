//! Where pieces lie, as opening finds them.

use std::collections::HashMap;

use super::{Descriptor, MAX_PIECES};
use crate::store::PENDING;

/// Words of locations, by the id of the value and the number of the piece.
#[derive(Default)]
pub(crate) struct Places(HashMap<u64, Vec<u64>>);

impl Places {
    /// A piece was found there. Of a piece and its copy that cleaning moved, either will do.
    pub fn add(&mut self, (id, number): (u64, u32), word: u64) {
        if number >= MAX_PIECES {
            return;
        }
        let (words, at) = (self.0.entry(id).or_default(), number as usize);
        if words.len() <= at {
            words.resize(at + 1, PENDING);
        }
        words[at] = word;
    }

    /// Those of a value; [`PENDING`] for each piece that was not found.
    pub fn take(&mut self, about: Descriptor) -> Vec<u64> {
        let mut words = self.0.remove(&about.id).unwrap_or_default();
        words.resize(about.count(), PENDING);
        words
    }
}

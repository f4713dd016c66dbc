//! The blocks that a node's words refer to: long keys and fences, and values. They go along when
//! the node moves to another tier.

use timberline_sync::Restart;

use super::{LockedNode, LongKeys, Page, View};
use crate::value::{Loan, RetiredValue};

/// The place of a word in a node that refers to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Value(usize),
    Key(usize),
    Lower,
    Upper,
}

impl<const WORDS: usize> Page<WORDS> {
    /// The places of blocks' words; of values only if these are in blocks.
    fn places_of_blocks(&self, values: bool) -> Vec<(Place, u64)> {
        let fences = self.fences();
        let mut places = Vec::new();
        let ends = [(Place::Lower, fences.lower), (Place::Upper, fences.upper)];
        for (place, at) in ends {
            let block = self.block_at(at);
            if block != 0 {
                places.push((place, block));
            }
        }
        for index in 0..self.count() {
            let block = self.block_of(index);
            if block != 0 {
                places.push((Place::Key(index), block));
            }
            if values && self.height() == 0 {
                places.push((Place::Value(index), self.payload(index)));
            }
        }
        places
    }

    fn block_in(&self, place: Place) -> u64 {
        match place {
            Place::Value(index) => self.payload(index),
            Place::Key(index) => self.block_of(index),
            Place::Lower => self.block_at(self.fences().lower),
            Place::Upper => self.block_at(self.fences().upper),
        }
    }

    fn set_block(&self, place: Place, word: u64) {
        let at = match place {
            Place::Value(index) => return self.set_payload(index, word),
            Place::Key(index) => self.offset(self.shape().cap, index),
            Place::Lower => self.fences().lower,
            Place::Upper => self.fences().upper,
        };
        self.write(at + 1, &word.to_le_bytes());
    }
}

impl<'g, const WORDS: usize> View<'g, WORDS> {
    /// The blocks that a node refers to: keys, fences, and values if these are in blocks.
    pub fn blocks(&self, values: bool) -> Result<Vec<(Place, Loan<'g>)>, Restart> {
        let places = self.get(|page| page.places_of_blocks(values))?;
        // SAFETY: validated, so that the node has these words.
        let loan = |(place, word)| (place, unsafe { Loan::new(word) });
        Ok(places.into_iter().map(loan).collect())
    }
}

/// Blocks of locked nodes.
impl<const WORDS: usize> Page<WORDS> {
    /// The block in a place. A key may have left it.
    pub fn block<'g>(node: &LockedNode<'g, WORDS>, place: Place) -> Option<Loan<'g>> {
        let word = node.block_in(place);
        // SAFETY: the node has the word.
        (word != 0).then(|| unsafe { Loan::new(word) })
    }

    /// Replaces it by a copy of it. Returns the value that was there, if it is one; a key is
    /// retired.
    pub fn move_block<'g>(
        node: &LockedNode<'g, WORDS>,
        place: Place,
        before: Loan<'g>,
        copy: u64,
        keys: &mut LongKeys<'_>,
    ) -> Option<RetiredValue<'g>> {
        assert_eq!(
            node.block_in(place),
            before.word(),
            "another block was here"
        );
        node.set_block(place, copy);
        match place {
            // SAFETY: this entry had it, which has another; and if the node is a copy, so did that
            // of the one that it replaces.
            Place::Value(_) => Some(unsafe { RetiredValue::new(before) }),
            _ => {
                keys.drop_block(before.word());
                None
            }
        }
    }
}

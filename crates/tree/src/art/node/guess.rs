//! A look at memory of which nothing is known, to learn which node seems to lie there.

use std::marker::PhantomData;

use timberline_tier::{Arenas, Look};

/// Memory of the arenas from an address on, which may be read, whatever lies there.
pub struct Guess<'a> {
    pub(super) address: usize,
    look: Look,
    arenas: PhantomData<&'a Arenas>,
}

impl<'a> Guess<'a> {
    /// At an address, if it is one of these arenas.
    pub fn at(arenas: &'a Arenas, address: usize) -> Option<Self> {
        let is_there = arenas.range().contains(&address);
        is_there.then(|| Guess {
            address,
            look: arenas.look(address),
            arenas: PhantomData,
        })
    }

    /// Of memory that lives on.
    #[cfg(test)]
    pub(super) fn of(range: std::ops::Range<usize>) -> Self {
        Guess {
            address: range.start,
            look: Look::at(range),
            arenas: PhantomData,
        }
    }

    /// Whether this many bytes may be read.
    pub(super) fn has(&self, bytes: usize) -> bool {
        self.address + bytes <= self.look.end
    }
}

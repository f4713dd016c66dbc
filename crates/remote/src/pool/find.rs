//! Looking for a leaf on the memory server that has it.

use super::MemoryServer;
use crate::child::address_in;
use crate::error::Result;
use crate::fabric::{Find, Found};
use crate::image::{Sums, WORDS, view_of};

impl MemoryServer {
    /// The leaf that has a key, below a node of this server. `None`: the way there is not on this
    /// server alone, or is just being written.
    ///
    /// # Errors
    /// The node is not within this memory.
    pub(super) fn find(&self, find: Find) -> Result<Option<Found>> {
        let mut at = find.from;
        let mut image = [0; WORDS];
        self.read_image(at, &mut image)?;
        for height in (0..=find.height).rev() {
            let node = view_of(&image, Sums::Inner).filter(|it| it.height() == height);
            let Some(node) = node.filter(|it| (it.lower()..=it.upper()).contains(&find.key)) else {
                return Ok(None);
            };
            if height == 0 {
                let entry = node.find(find.key).map(|index| (index, node.word(index)));
                return Ok(Some(Found { leaf: at, entry }));
            }
            let below = address_in(node.word(node.child_for(find.key)));
            // What is in a node that is just written need not be within the memory.
            if below.server() != at.server() || self.read_image(below, &mut image).is_err() {
                return Ok(None);
            }
            at = below;
        }
        Ok(None)
    }
}

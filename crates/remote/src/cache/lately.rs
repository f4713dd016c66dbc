//! Leaves that were fetched lately and did not stay.

use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use super::{GOLDEN, below, boxed, mixed};
use crate::address::Address;
use crate::error::Result;

/// A table of what was fetched lately, by a hash. A leaf is in it until another one of the same
/// slot comes, so for about as many leaves as there are slots.
pub(crate) struct Lately {
    slots: Box<[AtomicU16]>,
}

impl Lately {
    /// So many slots.
    ///
    /// # Errors
    /// The system refuses so much memory.
    pub fn new(slots: usize) -> Result<Lately> {
        Ok(Lately {
            slots: boxed(slots, AtomicU16::default)?,
        })
    }

    /// Bytes of so many slots.
    pub fn bytes(slots: usize) -> usize {
        slots * size_of::<AtomicU16>()
    }

    /// Notes that a leaf was fetched. Says whether it was before, lately; of one in 65,536 that
    /// were not, too.
    pub fn again(&self, leaf: Address) -> bool {
        let hash = mixed(leaf.word().wrapping_mul(GOLDEN));
        let Some(slot) = self.slots.get(below(self.slots.len(), hash)) else {
            return false;
        };
        // The slot is chosen by the high bits.
        let mark = hash as u16;
        slot.swap(mark, Relaxed) == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(number: u64) -> Address {
        Address::new(1, number << 10)
    }

    #[test]
    fn a_leaf_is_known_until_others_come() {
        let lately = Lately::new(1_000).unwrap();
        assert!(!lately.again(leaf(1)));
        assert!(lately.again(leaf(1)));
        // Of a hundred others, one in ten takes the place of one before.
        let first = (2..102).filter(|&it| lately.again(leaf(it))).count();
        let second = (2..102).filter(|&it| lately.again(leaf(it))).count();
        assert_eq!(first, 0);
        assert!((80..100).contains(&second), "{second}");
        for other in 1_000..11_000 {
            lately.again(leaf(other));
        }
        let third = (2..102).filter(|&it| lately.again(leaf(it))).count();
        assert_eq!(third, 0);
    }
}

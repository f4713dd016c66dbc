//! What a word of an inner node leads to.
//!
//! In the pool it is the address of a node, and how many entries a leaf had when somebody looked
//! last: who fetches it reads no more than these. Nothing but the number of bytes depends on that.

use timberline_tree::btree::page::Page;

use crate::address::Address;
use crate::cache::FrameId;

/// What a word of an inner node in the cache leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Child {
    /// A node in the cache: the word is swizzled.
    Cached(FrameId),
    /// A node in the pool, of which the cache may have a cooling copy.
    Remote(Address),
}

/// The bits of a word that are no address's, as nodes' addresses are multiples of 1 KiB: the
/// lowest is set if the word is a frame.
const OTHER: u64 = Page::BYTES as u64 - 1;

/// Those of them with one more than the number of entries, 0 if it is not known.
const ENTRIES_AT: u32 = 1;
const ENTRIES: u64 = 63;

const _: () = assert!(Page::CAPACITY < ENTRIES as usize && ENTRIES << ENTRIES_AT <= OTHER);

impl Child {
    /// What a word stands for.
    #[inline(always)]
    pub fn of_word(word: u64) -> Child {
        if word & 1 == 1 {
            Child::Cached(FrameId((word >> 1) as u32))
        } else {
            Child::Remote(address_in(word))
        }
    }

    /// The word.
    pub fn word(self) -> u64 {
        match self {
            Child::Cached(FrameId(number)) => u64::from(number) << 1 | 1,
            Child::Remote(address) => address.word(),
        }
    }
}

/// The node that a word of an inner node in the pool leads to.
pub(crate) fn address_in(word: u64) -> Address {
    Address::of_word(word & !OTHER)
}

/// How many entries the node had that such a word leads to, as far as it tells.
pub(crate) fn entries_in(word: u64) -> Option<usize> {
    let entries = word >> ENTRIES_AT & ENTRIES;
    (word & 1 == 0)
        .then(|| entries.checked_sub(1))
        .flatten()
        .map(|it| it as usize)
}

/// The word that leads to a node in the pool, and tells how many entries it has.
pub(crate) fn word_with(address: Address, entries: usize) -> u64 {
    address.word() | (entries as u64 + 1) << ENTRIES_AT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_the_node_and_its_entries() {
        let address = Address::new(3, 7 << 10);
        for entries in 0..=Page::CAPACITY {
            let word = word_with(address, entries);
            assert_eq!(Child::of_word(word), Child::Remote(address));
            assert_eq!(
                (address_in(word), entries_in(word)),
                (address, Some(entries))
            );
        }
        assert_eq!(entries_in(Child::Remote(address).word()), None);
        let cached = Child::Cached(FrameId(u32::MAX));
        assert_eq!(Child::of_word(cached.word()), cached);
        assert_eq!(entries_in(cached.word()), None);
    }
}

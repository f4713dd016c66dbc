//! What was asked for lately, and is asked for again.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// The most slots, of two bytes each.
const MOST: u64 = 1 << 24;
/// Multiplied by this, numbers are spread over all of their range (Knuth's golden ratio).
pub(super) const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Tells words that it has seen lately from those that it has not. One in 65,536 that it has not
/// seen passes for one that it has.
///
/// A full cache that takes in all that is read once evicts for each of them another record, which
/// may well be wanted sooner. TinyLFU has a doorkeeper against that, a Bloom filter that is cleared
/// now and then. Here a slot holds a word's fingerprint until another word takes it, so old ones go
/// by themselves.
pub(super) struct Doorkeeper {
    /// A power of two.
    len: usize,
    /// Made when they are needed: a cache that has room for all takes no memory for them.
    slots: OnceLock<Box<[AtomicU16]>>,
}

impl Doorkeeper {
    /// One that remembers about so many words.
    pub fn new(words: u64) -> Doorkeeper {
        Doorkeeper {
            len: words.clamp(1, MOST).next_power_of_two() as usize,
            slots: OnceLock::new(),
        }
    }

    /// Whether it has seen a word lately. It has now.
    pub fn has_seen(&self, word: u64) -> bool {
        let make = || (0..self.len).map(|_| AtomicU16::new(0)).collect();
        let slots = self.slots.get_or_init(make);
        let hash = word.wrapping_mul(ODD);
        let slot = &slots[(hash >> 40) as usize & (slots.len() - 1)];
        // Other bits than those that name the slot.
        let fingerprint = (hash >> 24) as u16;
        let seen = slot.load(Relaxed) == fingerprint;
        if !seen {
            slot.store(fingerprint, Relaxed);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_seen_from_the_second_time_on() {
        let doorkeeper = Doorkeeper::new(1 << 16);
        let words = || (1..1_000u64).map(|it| it << 24);
        let first = words().filter(|&it| doorkeeper.has_seen(it)).count();
        assert!(first <= 3, "{first} were unknown");
        let again = words().filter(|&it| doorkeeper.has_seen(it)).count();
        assert!(again >= 970, "{again} were known");
    }

    #[test]
    fn it_forgets_what_was_seen_long_ago() {
        let doorkeeper = Doorkeeper::new(1_000);
        let seen = |from: u64, to: u64| (from..to).filter(|&it| doorkeeper.has_seen(it)).count();
        seen(0, 100);
        seen(100, 20_100);
        assert!(seen(0, 100) <= 3);
    }
}

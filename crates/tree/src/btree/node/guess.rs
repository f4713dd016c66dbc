//! Predicting where in a leaf a key is, before the leaf is accessed.
//!
//! A parent knows the key range of a child. If its keys are spread evenly (hashes, random numbers,
//! consecutive numbers), the key's relative position in the range predicts its slot. So three parts
//! of the leaf are prefetched at once: the header, the lines around the key, and the lines around
//! the value. That is one wait instead of two, for half of the lines. This is one step of
//! interpolation search (Peterson, IBM J. Res. Dev. 1(2), 1957). If the prediction misses, the
//! search scans all keys: a bad prediction costs time, never the answer.

use super::{Body, HEADER};
use crate::btree::node::search::WINDOW;

/// Bytes of a line.
const LINE: usize = 64;
/// Words of a line.
const LINE_WORDS: usize = LINE / 8;
const HEADER_WORDS: usize = HEADER / 8;

/// A key's relative position in a key range, in units of 2⁻³².
#[derive(Clone, Copy, Debug)]
pub struct Share(u32);

impl Share {
    /// For an unknown range.
    pub const NONE: Share = Share(0);

    /// The fraction of `lower..=upper` that lies below `key`. For a key outside, anything.
    #[inline(always)]
    pub fn of(key: u64, lower: u64, upper: u64) -> Share {
        // As many bits as a range of 32 bits needs, the top one set.
        let range = upper.wrapping_sub(lower);
        let shift = (range | 1).leading_zeros();
        let range = (range << shift) >> 32;
        let below = (key.wrapping_sub(lower) << shift) >> 32;
        Share(((below << 32) / (range + 1)) as u32)
    }

    /// The slot of the key among `count` evenly spread keys; less than `count`, or 0.
    #[inline(always)]
    pub fn slot(self, count: usize) -> usize {
        ((u64::from(self.0) * count as u64) >> 32) as usize
    }
}

/// The lines of a leaf to prefetch: a first line and a number of lines, for keys and for payloads.
/// The header's line is always included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lines {
    pub keys: usize,
    pub payloads: usize,
}

impl Lines {
    /// Lines of keys: those of the window, and one to each side, since leaves differ in how full
    /// they are.
    pub const KEYS: usize = 4;
    /// Lines of payloads.
    pub const PAYLOADS: usize = 3;

    /// All of them as bits, bit 0 being the header's line.
    #[inline(always)]
    pub fn bits(self) -> u64 {
        let keys = ((1 << Self::KEYS) - 1) << self.keys;
        1 | keys | self.payload_bits()
    }

    /// The lines of payloads, and those of all keys of a node.
    #[inline(always)]
    pub fn inner_bits<const WORDS: usize>(self) -> u64 {
        let keys = (HEADER + 8 * Body::<WORDS>::CAPACITY).div_ceil(LINE);
        ((1 << keys) - 1) | self.payload_bits()
    }

    #[inline(always)]
    fn payload_bits(self) -> u64 {
        ((1 << Self::PAYLOADS) - 1) << self.payloads
    }
}

impl<const WORDS: usize> Body<WORDS> {
    /// Whether prediction saves anything: smaller nodes are prefetched as a whole.
    pub const GUESSED: bool = Self::CAPACITY >= 2 * WINDOW - 2 && Self::BYTES <= 64 * LINE;

    /// Entries of a leaf as far as its parent knows. Ascending input leaves leaves full, random
    /// inserts with redistribution about 13/16 full: this is within a line of entries of both.
    const TYPICAL: usize = Self::CAPACITY * 7 / 8;

    /// The lines of a leaf of keys in `lower..=upper` that a search for the key at this position
    /// will likely read.
    #[inline(always)]
    pub fn guess(share: Share, lower: u64, upper: u64) -> Lines {
        // Consecutive keys: there are no more than fit in the range.
        let most = upper.wrapping_sub(lower).min(Self::TYPICAL as u64 - 1) + 1;
        let slot = share.slot(most as usize);
        let key_line = slot / LINE_WORDS;
        let payload_line = (HEADER_WORDS + Self::CAPACITY + slot) / LINE_WORDS;
        Lines {
            keys: key_line.saturating_sub(1),
            payloads: (payload_line - 1).min(Self::BYTES / LINE - Lines::PAYLOADS),
        }
    }

    /// Whether everything was prefetched that a search for the key will read of this leaf, now that
    /// its count is known.
    #[inline(always)]
    pub fn was_guessed(&self, share: Share) -> bool {
        let asked = Self::guess(share, self.lower(), self.upper());
        let slot = share.slot(self.count());
        let first = HEADER_WORDS + Self::window(slot);
        let keys = first / LINE_WORDS..=(first + WINDOW - 1) / LINE_WORDS;
        let payload = (HEADER_WORDS + Self::CAPACITY + slot) / LINE_WORDS;
        // The header's line, which has keys too, is always prefetched.
        asked.keys <= (*keys.start()).max(1)
            && *keys.end() < asked.keys + Lines::KEYS
            && (asked.payloads..asked.payloads + Lines::PAYLOADS).contains(&payload)
    }

    /// The first key of the window to search for a key expected at `slot`: it spans two lines, with
    /// at least half a line to each side of the key.
    #[inline(always)]
    pub fn window(slot: usize) -> usize {
        let line = slot / LINE_WORDS * LINE_WORDS;
        line.saturating_sub(LINE_WORDS - HEADER_WORDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::{NODE_1K, NODE_4K};

    #[test]
    fn keys_in_a_row_are_guessed_exactly() {
        for (lower, count) in [
            (0, 62),
            (1 << 40, 62),
            (u64::MAX - 39, 40),
            (7, 1),
            (100, 3),
        ] {
            for index in 0..count {
                let upper = lower + (count - 1);
                let share = Share::of(lower + index, lower, upper);
                assert_eq!(
                    share.slot(count as usize),
                    index as usize,
                    "{lower} {count}"
                );
            }
        }
    }

    #[test]
    fn shares_of_wide_ranges() {
        assert_eq!(Share::of(0, 0, u64::MAX).slot(62), 0);
        assert_eq!(Share::of(1 << 63, 0, u64::MAX).slot(62), 31);
        assert_eq!(Share::of(u64::MAX, 0, u64::MAX).slot(62), 61);
        assert_eq!(Share::of(750, 500, 1_499).slot(40), 10);
    }

    #[test]
    fn whatever_is_read_the_lines_and_the_window_are_in_the_node() {
        fn check<const WORDS: usize>() {
            let words = [
                0,
                1,
                77,
                1 << 31,
                u64::MAX / 3,
                1 << 63,
                u64::MAX - 1,
                u64::MAX,
            ];
            for (key, lower, upper) in words
                .iter()
                .flat_map(|&a| words.iter().map(move |&b| (a, b)))
                .flat_map(|(a, b)| words.iter().map(move |&c| (a, b, c)))
            {
                let share = Share::of(key, lower, upper);
                let lines = Body::<WORDS>::guess(share, lower, upper);
                let total = Body::<WORDS>::BYTES / LINE;
                assert!(lines.keys + Lines::KEYS <= total, "{lines:?}");
                assert!(lines.payloads + Lines::PAYLOADS <= total, "{lines:?}");
                for count in 0..=Body::<WORDS>::CAPACITY {
                    let slot = share.slot(count);
                    assert!(slot < count.max(1));
                    let window = Body::<WORDS>::window(slot);
                    assert!(window <= slot && window + WINDOW <= WORDS);
                    assert!(slot < window + WINDOW);
                }
            }
        }
        check::<NODE_1K>();
        check::<NODE_4K>();
    }
}

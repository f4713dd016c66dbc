//! The modelled CPU cache: decides which lines of an access miss.
//!
//! Set-associative, with [`WAYS`] ways; each thread has a cache. A line is identified by its offset
//! in the arenas' range, not by its address, so results do not depend on where the kernel maps an
//! arena. The set is that offset folded by exclusive or, as in a hashed last-level cache: with the
//! low bits alone, the headers of 1 KiB nodes would use only every sixteenth set. The tag includes
//! the memory's span of line numbers, so that two emulated memories can share the cache.
//!
//! *Replacement* is CLOCK (second chance): a hit sets the way's bit; the hand clears set bits until
//! it finds a way without one, the victim. Exact LRU would move 16 entries at each hit; CLOCK sets
//! one bit in a word that stays in the real L1, and hardware has no exact LRU either. A new line
//! has no bit until its first hit, so lines that are read once are evicted first, as under the
//! insertion policies of real caches.
//!
//! Invariants: a tag is in at most one way of its set; tag 0 marks an empty way.

use std::fmt;

use super::ways::{WAYS, ways_with};
use crate::hint::LINE;

/// The size of a thread's modelled cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheSize {
    set_bits: u32,
}

/// An impossible size; its `Display` names the possible ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadCacheSize(usize);

impl fmt::Display for BadCacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a modelled cache of {} bytes is not possible: give a power of two from {} to {}",
            self.0,
            CacheSize::MIN_BYTES,
            CacheSize::MAX_BYTES
        )
    }
}

impl std::error::Error for BadCacheSize {}

impl CacheSize {
    const MIN_BYTES: usize = WAYS * LINE;
    const MAX_BYTES: usize = Self::MIN_BYTES << Self::MAX_SET_BITS;
    /// Spans of line numbers are multiples of this many sets; see [`SPAN_LINES`].
    const MAX_SET_BITS: u32 = 16;

    /// A cache of `bytes` bytes: a power of two from 1 KiB (one set) to 64 MiB.
    ///
    /// # Errors
    /// Any other size.
    pub fn new(bytes: usize) -> Result<CacheSize, BadCacheSize> {
        if !bytes.is_power_of_two() || !(Self::MIN_BYTES..=Self::MAX_BYTES).contains(&bytes) {
            return Err(BadCacheSize(bytes));
        }
        Ok(CacheSize {
            set_bits: (bytes / Self::MIN_BYTES).trailing_zeros(),
        })
    }

    /// The size in bytes.
    pub fn bytes(self) -> usize {
        Self::MIN_BYTES << self.set_bits
    }
}

/// 1 MiB: a core's private L2.
impl Default for CacheSize {
    fn default() -> Self {
        CacheSize { set_bits: 10 }
    }
}

/// Each emulated memory's span of line numbers starts at a multiple of this, and none at 0, so
/// that no line has tag 0 in a cache of any size. Tags wrap after 2^32 × sets lines (256 TiB of
/// arenas for the default size); a line may then match a line of a memory that no longer exists.
pub const SPAN_LINES: u64 = 1 << CacheSize::MAX_SET_BITS;

/// One set's tags, in one line of the real cache.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Tags([u32; WAYS]);

/// The replacement state of one set, by the CLOCK algorithm.
#[derive(Clone, Copy, Default)]
struct Replacement {
    /// The ways with a hit since the hand last passed.
    second_chance: u16,
    /// The way that the next search for a victim starts at.
    hand: u16,
}

/// A thread's cache.
pub struct LineCache {
    tags: Box<[Tags]>,
    replacement: Box<[Replacement]>,
    size: CacheSize,
}

impl LineCache {
    /// An empty cache.
    pub fn new(size: CacheSize) -> LineCache {
        let sets = 1 << size.set_bits;
        LineCache {
            tags: vec![Tags::default(); sets].into_boxed_slice(),
            replacement: vec![Replacement::default(); sets].into_boxed_slice(),
            size,
        }
    }

    /// Reads a line of the memory whose lines start at `span`. Returns whether it hit.
    #[inline(always)]
    pub fn read(&mut self, span: u64, line: u64) -> bool {
        let (set, tag) = self.place(span, line);
        let found = ways_with(&self.tags[set].0, tag);
        self.replacement[set].second_chance |= found;
        if found == 0 {
            self.insert(set, tag);
        }
        found != 0
    }

    /// Fetches a line. Returns whether it was cached. Unlike a read, this does not count as a hit.
    #[inline(always)]
    pub fn fetch(&mut self, span: u64, line: u64) -> bool {
        let (set, tag) = self.place(span, line);
        let held = ways_with(&self.tags[set].0, tag) != 0;
        if !held {
            self.insert(set, tag);
        }
        held
    }

    #[inline(always)]
    fn insert(&mut self, set: usize, tag: u32) {
        let way = self.replacement[set].victim();
        self.tags[set].0[way] = tag;
    }

    /// Whether a line is cached. Changes nothing.
    pub fn holds(&self, span: u64, line: u64) -> bool {
        let (set, tag) = self.place(span, line);
        ways_with(&self.tags[set].0, tag) != 0
    }

    #[inline(always)]
    fn place(&self, span: u64, line: u64) -> (usize, u32) {
        let bits = self.size.set_bits;
        // With one set, every shift is by 0 and the mask is 0.
        let folded = line ^ (line >> bits) ^ (line >> (2 * bits));
        let set = folded as usize & (self.tags.len() - 1);
        (set, ((span + line) >> bits) as u32)
    }
}

impl Replacement {
    /// The victim: the first way from the hand on without a hit. The hand moves past it.
    #[inline(always)]
    fn victim(&mut self) -> usize {
        let from_hand = self.second_chance.rotate_right(u32::from(self.hand));
        // If all 16 have a second chance, the hand clears them all and takes the first.
        let passed = from_hand.trailing_ones() % WAYS as u32;
        let kept = if from_hand == u16::MAX {
            0
        } else {
            from_hand & (u16::MAX << passed)
        };
        self.second_chance = kept.rotate_left(u32::from(self.hand));
        let way = (self.hand + passed as u16) % WAYS as u16;
        self.hand = (way + 1) % WAYS as u16;
        usize::from(way)
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::SplitMix64;
    use super::*;

    /// CLOCK as in a textbook, one slot at a time.
    struct Naive {
        sets: Vec<NaiveSet>,
        bits: u32,
    }

    #[derive(Clone)]
    struct NaiveSet {
        /// Lines, and whether they had a hit.
        slots: [Option<(u64, bool)>; WAYS],
        hand: usize,
    }

    impl Naive {
        fn new(size: CacheSize) -> Self {
            let empty = NaiveSet {
                slots: [None; WAYS],
                hand: 0,
            };
            let sets = vec![empty; 1 << size.set_bits];
            Naive {
                sets,
                bits: size.set_bits,
            }
        }

        fn read(&mut self, span: u64, line: u64) -> bool {
            let mut set = 0;
            for part in 0..3 {
                set ^= (line >> (part * self.bits)) % (1 << self.bits);
            }
            let NaiveSet { slots, hand } = &mut self.sets[set as usize];
            let name = span + line;
            if let Some((_, hit)) = slots.iter_mut().flatten().find(|(held, _)| *held == name) {
                *hit = true;
                return true;
            }
            loop {
                let slot = &mut slots[*hand];
                *hand = (*hand + 1) % WAYS;
                match slot {
                    Some((_, hit)) if *hit => *hit = false,
                    _ => {
                        *slot = Some((name, false));
                        return false;
                    }
                }
            }
        }
    }

    #[test]
    fn it_agrees_with_the_textbook_algorithm() {
        for (bytes, lines) in [(1024, 20), (1024, 40), (8 << 10, 300), (64 << 10, 1500)] {
            let size = CacheSize::new(bytes).unwrap();
            let (mut cache, mut naive) = (LineCache::new(size), Naive::new(size));
            let mut random = SplitMix64(bytes as u64 + lines);
            let mut hits = 0;
            for step in 0..20_000 {
                let span = SPAN_LINES * (1 + random.below(2));
                // The lesser of two: some lines are read much more often.
                let line = random.below(lines).min(random.below(lines));
                let expected = naive.read(span, line);
                assert_eq!(
                    cache.holds(span, line),
                    expected,
                    "step {step}, {bytes} bytes"
                );
                assert_eq!(
                    cache.read(span, line),
                    expected,
                    "step {step}, {bytes} bytes"
                );
                hits += u64::from(expected);
            }
            assert!((1000..19_000).contains(&hits), "{hits} hits tell little");
        }
    }

    #[test]
    fn as_many_lines_as_it_has_ways_stay_in_a_set() {
        let mut cache = LineCache::new(CacheSize::new(1024).unwrap());
        for round in 0..3 {
            for line in 0..WAYS as u64 {
                assert_eq!(cache.read(SPAN_LINES, line), round > 0);
            }
        }
        // All lines had a hit, so the hand clears all bits and takes the first way.
        assert!(!cache.read(SPAN_LINES, 99));
        assert!(!cache.holds(SPAN_LINES, 0));
        assert!((1..16).all(|line| cache.holds(SPAN_LINES, line)));
    }

    #[test]
    fn a_scan_passes_by_lines_that_are_read_again() {
        let mut cache = LineCache::new(CacheSize::new(1024).unwrap());
        for line in 0..1000 {
            cache.read(SPAN_LINES, line);
            assert_eq!(cache.read(SPAN_LINES, 5000), line > 0);
        }
    }

    #[test]
    fn headers_of_aligned_nodes_use_all_sets() {
        let size = CacheSize::default();
        let mut cache = LineCache::new(size);
        let lines = (size.bytes() / LINE) as u64;
        for round in 0..2 {
            let hits = (0..lines)
                .filter(|node| cache.read(SPAN_LINES, 16 * node))
                .count() as u64;
            assert_eq!(hits, round * lines);
        }
    }

    #[test]
    fn memories_do_not_mistake_each_others_lines() {
        let mut cache = LineCache::new(CacheSize::default());
        assert!(!cache.read(SPAN_LINES, 3));
        assert!(!cache.read(2 * SPAN_LINES, 3));
        assert!(cache.holds(SPAN_LINES, 3) && cache.holds(2 * SPAN_LINES, 3));
    }

    #[test]
    fn impossible_sizes_are_answered_with_the_possible_ones() {
        for bytes in [0, 512, 1 << 20 | 1, 128 << 20] {
            let line = CacheSize::new(bytes).unwrap_err().to_string();
            assert!(line.contains("1024") && line.contains("67108864"), "{line}");
        }
        assert_eq!(CacheSize::new(1 << 20), Ok(CacheSize::default()));
        assert_eq!(CacheSize::default().bytes(), 1 << 20);
    }
}

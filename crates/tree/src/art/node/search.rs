//! Search among the keys of a node, and for links that are there.
//!
//! The vector load reads bytes that a writer may be changing by something else than an atomic load. On the CPUs in
//! question a byte of a vector load is not torn, and were it torn, the version check discards what came of it. ThreadSanitizer finds these
//! races; `xtask/src/sanitize/thread.supp` has it pass over them.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// The lanes (a bit each) of the keys that equal `byte`.
#[inline(always)]
pub fn lanes_of(keys: &[AtomicU8; 16], byte: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::*;
        // SAFETY: sixteen bytes; SSE2 is part of the architecture. See the module's text about racing with a writer.
        unsafe {
            let keys = _mm_loadu_si128(keys.as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(keys, _mm_set1_epi8(byte as i8))) as u32
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    naive(keys, byte)
}

/// The same for three keys; `behind` is what lies behind them, which is looked at and not told of.
#[inline(always)]
pub fn lanes_of_few(keys: &[AtomicU8; 3], behind: &AtomicU8, byte: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::*;
        debug_assert!(std::ptr::eq(keys.as_ptr_range().end, behind));
        // The address comes from an exposed one, so that the byte behind the keys may be read through it.
        let four = std::ptr::with_exposed_provenance::<i32>(keys.as_ptr().addr());
        // SAFETY: four bytes of the same node; as above.
        unsafe {
            let keys = _mm_cvtsi32_si128(four.read_unaligned());
            let equal = _mm_cmpeq_epi8(keys, _mm_set1_epi8(byte as i8));
            _mm_movemask_epi8(equal) as u32 & 0b111
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        let _ = behind;
        naive(keys, byte)
    }
}

/// The twin for other CPUs: also the oracle in tests, and for nodes of any size.
#[inline(always)]
#[cfg_attr(all(target_arch = "x86_64", not(miri), not(test)), allow(dead_code))]
pub fn naive(keys: &[AtomicU8], byte: u8) -> u32 {
    let equal = |key: &AtomicU8| u32::from(key.load(Relaxed) == byte);
    keys.iter()
        .enumerate()
        .fold(0, |lanes, (lane, key)| lanes | equal(key) << lane)
}

/// Which of sixteen words are not 0 (a bit each).
#[inline(always)]
pub fn occupied(words: &[AtomicU32; 16]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::*;
        let start = words.as_ptr().cast::<__m128i>();
        // SAFETY: sixteen words; as above.
        let empty = unsafe {
            let none = _mm_setzero_si128();
            let empty = |at| _mm_cmpeq_epi32(_mm_loadu_si128(start.add(at)), none);
            let low = _mm_packs_epi32(empty(0), empty(1));
            let high = _mm_packs_epi32(empty(2), empty(3));
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
        };
        !empty & 0xffff
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    naively_occupied(words)
}

/// Its twin.
#[inline(always)]
#[cfg_attr(all(target_arch = "x86_64", not(miri), not(test)), allow(dead_code))]
pub fn naively_occupied(words: &[AtomicU32; 16]) -> u32 {
    let there = |word: &AtomicU32| u32::from(word.load(Relaxed) != 0);
    words
        .iter()
        .enumerate()
        .fold(0, |bits, (at, word)| bits | there(word) << at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_there_are_seen() {
        for bits in 0..1u32 << 16 {
            let words = std::array::from_fn(|at| AtomicU32::new((bits >> at & 1) << (at * 2)));
            assert_eq!((occupied(&words), naively_occupied(&words)), (bits, bits));
        }
    }

    #[test]
    fn three_keys_are_searched_as_sixteen_are() {
        // As in a node: a byte of the prefix lies behind the keys.
        #[repr(C)]
        struct Few {
            keys: [AtomicU8; 3],
            behind: AtomicU8,
        }
        for byte in [0, 7, 200, 255u8] {
            for equal in 0..16u8 {
                let key = |lane: usize| AtomicU8::new(byte ^ u8::from(equal >> lane & 1 == 0));
                let few = Box::new(Few {
                    keys: std::array::from_fn(key),
                    behind: key(3),
                });
                std::ptr::from_ref(&*few).expose_provenance();
                let lanes = lanes_of_few(&few.keys, &few.behind, byte);
                assert_eq!(lanes, naive(&few.keys, byte));
                assert_eq!(lanes, u32::from(equal) & 7);
            }
        }
    }

    #[test]
    fn vectors_find_what_the_naive_twin_finds() {
        for seed in 0..2_000u32 {
            let key =
                |lane: u32| (seed.wrapping_mul(2_654_435_761).rotate_left(lane * 3) >> 7) as u8;
            let keys: [AtomicU8; 16] =
                std::array::from_fn(|lane| AtomicU8::new(key(lane as u32) % 32));
            for byte in [seed as u8 % 32, 0, 31, 255] {
                assert_eq!(lanes_of(&keys, byte), naive(&keys, byte), "{keys:?} {byte}");
            }
        }
    }
}

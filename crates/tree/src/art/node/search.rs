//! Search among the keys of a node, and for links that are there. A vector compares them all at
//! once; one by one is for other CPUs, Miri, and tests.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use core::arch::x86_64::*;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::node::racing;

/// The lanes (a bit each) of the keys that equal `byte`.
#[inline(always)]
pub fn lanes_of(keys: &[AtomicU8; 16], byte: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let keys = racing::bytes(keys);
        // SAFETY: SSE2 is part of the architecture.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(keys, _mm_set1_epi8(byte as i8))) as u32 }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    naive(keys, byte)
}

/// The same for three keys; `behind` is what lies behind them, which is looked at and not told of.
#[inline(always)]
pub fn lanes_of_few(keys: &[AtomicU8; 3], behind: &AtomicU8, byte: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let keys = racing::four_bytes(keys, behind);
        // SAFETY: SSE2 is part of the architecture.
        unsafe {
            let keys = _mm_cvtsi32_si128(keys as i32);
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

/// For other CPUs and for nodes of any size; tests compare with it.
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
        let fours = words.as_chunks::<4>().0;
        // SAFETY: SSE2 is part of the architecture.
        let empty = unsafe {
            let none = _mm_setzero_si128();
            // No `map` of an array: the compiler makes calls of it.
            let is_none = |at: usize| _mm_cmpeq_epi32(racing::four_halves(&fours[at]), none);
            let (a, b, c, d) = (is_none(0), is_none(1), is_none(2), is_none(3));
            let (low, high) = (_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32
        };
        !empty & 0xffff
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    naively_occupied(words)
}

/// The portable version of it.
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
        #[repr(C, align(4))]
        struct PackedRecords {
            keys: [AtomicU8; 3],
            behind: AtomicU8,
        }
        for byte in [0, 7, 200, 255u8] {
            for equal in 0..16u8 {
                let key = |lane: usize| AtomicU8::new(byte ^ u8::from(equal >> lane & 1 == 0));
                let few = Box::new(PackedRecords {
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

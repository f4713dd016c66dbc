//! Loads of memory that a writer may be changing at that moment, by something else than an atomic
//! load of the same size: the one place where the crate does that.
//!
//! Searches compare many keys at once, and Rust has no atomic vectors. To the language these loads
//! race with the writer's atomic stores; LLVM says of such a load that its value may be anything,
//! and of nothing else that it is undefined. On the CPUs in question (x86-64, which is all that
//! this compiles for) the value is right: an aligned lane of a vector load, of a byte to eight
//! bytes, is not torn, nor is a part of a word that was stored on its own. And were one torn,
//! nothing would come of it: what is found is an index that the caller clamps, and the version
//! check discards it. Everywhere else, and under Miri, searches load one by one.
//!
//! ThreadSanitizer finds these races; `xtask/src/sanitize/thread.supp` names this module, so that
//! it passes over them and no others.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]
#![cfg_attr(miri, allow(dead_code))]

use core::arch::x86_64::{__m128i, __m256i, _mm_loadu_si128, _mm256_loadu_si256};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Sixteen bytes.
#[inline(always)]
pub fn bytes(bytes: &[AtomicU8; 16]) -> __m128i {
    // SAFETY: as long as that, in memory that stays; SSE2 is part of the architecture. Racing: see
    // above.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Four bytes as a number, the first one lowest; the first is aligned to four.
#[inline(always)]
pub fn four_bytes(three: &[AtomicU8; 3], fourth: &AtomicU8) -> u32 {
    debug_assert!(std::ptr::eq(three.as_ptr_range().end, fourth));
    // The address comes from an exposed one, so that the byte behind the three may be read through
    // it.
    let word = std::ptr::with_exposed_provenance_mut::<u32>(three.as_ptr().addr());
    debug_assert!(word.is_aligned());
    // SAFETY: four aligned bytes of atomics that outlive the call. The writer stores them one by
    // one: see above.
    unsafe { AtomicU32::from_ptr(word) }.load(Relaxed)
}

/// Four words of 32 bits.
#[inline(always)]
pub fn four_halves(words: &[AtomicU32; 4]) -> __m128i {
    // SAFETY: as for `bytes`.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

/// Four words of 64 bits.
#[target_feature(enable = "avx2")]
#[inline]
pub fn four_words(words: &[AtomicU64; 4]) -> __m256i {
    // SAFETY: four words; see above.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

//! Racing loads: loads of memory that a writer may be changing, other than by an atomic load of the
//! same size. No other module of the crate has any.
//!
//! Searches compare many keys at once, and Rust has no atomic vectors. In Rust's memory model these
//! loads race with the writer's atomic stores; in LLVM's, such a load returns an undefined value
//! and has no other effect. On x86-64, the only CPUs that this compiles for, the value is right:
//! the hardware does not tear an aligned lane of one to eight bytes. A torn value would do no harm
//! either: a search returns an index that the caller clamps, and the version check discards it.
//! Elsewhere, and under Miri, searches load key by key, or a word of prints.
//!
//! ThreadSanitizer reports these races; `xtask/src/sanitize/thread.supp` suppresses this module's,
//! and no others.
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

/// Two words of 64 bits.
#[inline(always)]
pub fn two_words(words: &[AtomicU64; 2]) -> __m128i {
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

//! Which of a set's 16 ways hold a tag: the innermost step of the cache model.
//!
//! SSE2, which every x86-64 has, needs four compares, three packs and one mask for it. Wider
//! vectors would save some of these, at the price of a choice at run time that costs as much.
#![allow(unsafe_code)]

/// Ways of a set. Sixteen tags of four bytes are one cache line of the real machine.
pub const WAYS: usize = 16;

/// One bit for each way whose tag is `tag`, way 0 lowest.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ways_with(tags: &[u32; WAYS], tag: u32) -> u16 {
    use core::arch::x86_64::*;
    // SAFETY: SSE2 belongs to x86-64. The four loads of 16 bytes are the 64 bytes of `tags`, and
    // ask for no alignment.
    unsafe {
        let wanted = _mm_set1_epi32(tag as i32);
        let quarter = |at: usize| {
            let held = _mm_loadu_si128(tags.as_ptr().cast::<__m128i>().add(at));
            _mm_cmpeq_epi32(held, wanted)
        };
        // Packing keeps order and saturates: all ones stay all ones, 32 bits to 16 to 8.
        let low = _mm_packs_epi32(quarter(0), quarter(1));
        let high = _mm_packs_epi32(quarter(2), quarter(3));
        _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u16
    }
}

/// One bit for each way whose tag is `tag`, way 0 lowest.
#[cfg(not(target_arch = "x86_64"))]
pub use one_by_one as ways_with;

/// The same without vectors: for other machines, and to test against.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub fn one_by_one(tags: &[u32; WAYS], tag: u32) -> u16 {
    let equal = |(way, &held): (usize, &u32)| u16::from(held == tag) << way;
    tags.iter().enumerate().map(equal).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_agree_with_their_twin() {
        // Tags that differ in their low bits, their high bits or both.
        let few: Vec<u32> = (0..9).map(|i| (i / 3) << 30 | (i % 3)).collect();
        let mut state = 7u64;
        let mut a_tag = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            few[(state >> 33) as usize % few.len()]
        };
        for _ in 0..2000 {
            let tags = std::array::from_fn(|_| a_tag());
            let tag = a_tag();
            assert_eq!(
                ways_with(&tags, tag),
                one_by_one(&tags, tag),
                "{tag:#x} in {tags:x?}"
            );
        }
        for way in 0..WAYS {
            let mut tags = [0; WAYS];
            tags[way] = u32::MAX;
            assert_eq!(ways_with(&tags, u32::MAX), 1 << way);
        }
    }
}

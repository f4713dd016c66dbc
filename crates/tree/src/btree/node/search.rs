//! Search in a node: how many of its sorted keys are less than a key.
//!
//! The CPU's widest compare is chosen once, when a tree is made; a [`Search`] that names it cannot be
//! made on a CPU without it. Halving steps narrow the keys to a window that a few vectors cover. The naive
//! twin counts one by one: it is the oracle in tests, and what other CPUs, Miri and tiny nodes use.
//!
//! The vector loads here are the one place where words that a writer may be changing are read by
//! something else than an atomic load. On the CPUs in question an aligned 8-byte lane of a
//! vector load is not torn, and were it torn, the version check discards what came of it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Keys that the last step compares at once.
pub const WINDOW: usize = 16;

/// A way to search that this CPU has.
#[derive(Clone, Copy, Debug)]
pub struct Search(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Naive,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Search {
    /// The best way on this CPU.
    pub fn detect() -> Search {
        Self::all().last().copied().unwrap_or(Self::NAIVE)
    }

    /// One by one; any CPU can.
    pub const NAIVE: Search = Search(Kind::Naive);

    /// Every way that this CPU has, the best one last.
    pub fn all() -> Vec<Search> {
        let mut all = vec![Self::NAIVE];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            if is_x86_feature_detected!("avx2") {
                all.push(Search(Kind::Avx2));
            }
            if is_x86_feature_detected!("avx512f") {
                all.push(Search(Kind::Avx512));
            }
        }
        all
    }

    /// How many of the first `count` of these ascending keys are less than `key`; at most `count`,
    /// whatever they are.
    #[inline(always)]
    pub fn count_less(self, keys: &[AtomicU64], count: usize, key: u64) -> usize {
        let count = count.min(keys.len());
        if keys.len() < WINDOW {
            return naive(&keys[..count], key);
        }
        // Narrow to a window that surely holds the answer and lies within the slice.
        let (mut start, mut rest) = (0, count);
        while rest > WINDOW {
            let half = rest / 2;
            // SAFETY: start + half <= start + rest <= count <= keys.len().
            let middle = unsafe { keys.get_unchecked(start + half - 1) };
            let smaller = middle.load(Relaxed) < key;
            start += if smaller { half } else { 0 };
            rest -= half;
        }
        let first = start.min(keys.len() - WINDOW);
        let window = keys[first..].first_chunk::<WINDOW>().expect("cut to fit");
        // Lanes before `start` hold smaller keys and count.
        first + self.count_less_in(window, count - first, key)
    }

    /// How many of the first `count` of these ascending keys are less than `key`.
    #[inline(always)]
    pub fn count_less_in(self, window: &[AtomicU64; WINDOW], count: usize, key: u64) -> usize {
        let count = count.min(WINDOW);
        let less = match self.0 {
            Kind::Naive => return naive(&window[..count], key),
            // SAFETY: `detect` saw the feature.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { avx2(window, key) },
            // SAFETY: `detect` saw the feature.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { avx512(window, key) },
        };
        // Lanes from `count` on hold leftovers.
        (less & ((1 << count) - 1)).count_ones() as usize
    }
}

fn naive(keys: &[AtomicU64], key: u64) -> usize {
    keys.iter()
        .take_while(|other| other.load(Relaxed) < key)
        .count()
}

/// The lanes with a key less than `key`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
fn avx512(window: &[AtomicU64; WINDOW], key: u64) -> u32 {
    use core::arch::x86_64::*;
    let wanted = _mm512_set1_epi64(key as i64);
    let keys = window.as_ptr().cast::<__m512i>();
    // SAFETY: both halves of the window; see the module's text about racing with a writer.
    let (low, high) = unsafe { (_mm512_loadu_si512(keys), _mm512_loadu_si512(keys.add(1))) };
    let low = _mm512_cmplt_epu64_mask(low, wanted) as u32;
    low | (_mm512_cmplt_epu64_mask(high, wanted) as u32) << 8
}

/// The lanes with a key less than `key`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn avx2(window: &[AtomicU64; WINDOW], key: u64) -> u32 {
    use core::arch::x86_64::*;
    // AVX2 compares signed; flipping the sign bits makes that the unsigned order.
    let sign = _mm256_set1_epi64x(i64::MIN);
    let wanted = _mm256_xor_si256(_mm256_set1_epi64x(key as i64), sign);
    let keys = window.as_ptr().cast::<__m256i>();
    let mut lanes = 0;
    for part in 0..WINDOW / 4 {
        // SAFETY: a quarter of the window; see the module's text about racing with a writer.
        let loaded = unsafe { _mm256_loadu_si256(keys.add(part)) };
        let less = _mm256_cmpgt_epi64(wanted, _mm256_xor_si256(loaded, sign));
        lanes |= (_mm256_movemask_pd(_mm256_castsi256_pd(less)) as u32) << (4 * part);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_counts_like_the_naive_one() {
        for len in [4, 16, 17, 30, 62, 126, 254] {
            let keys: Vec<AtomicU64> = (0..len as u64)
                .map(|i| {
                    AtomicU64::new(if i % 7 == 6 {
                        u64::MAX - len as u64 + i
                    } else {
                        i * 3 + 5
                    })
                })
                .collect();
            for count in 0..=len {
                let mut sorted: Vec<u64> = keys[..count].iter().map(|k| k.load(Relaxed)).collect();
                sorted.sort_unstable();
                // Behind the sorted ones lie leftovers of any kind.
                let slots: Vec<AtomicU64> = (0..len)
                    .map(|i| AtomicU64::new(sorted.get(i).copied().unwrap_or(i as u64 % 3)))
                    .collect();
                for key in sorted
                    .iter()
                    .flat_map(|&k| [k - 1, k, k.saturating_add(1)])
                    .chain([0, u64::MAX])
                {
                    let expected = naive(&slots[..count], key);
                    for search in Search::all() {
                        assert_eq!(
                            search.count_less(&slots, count, key),
                            expected,
                            "{search:?} len {len} count {count} key {key}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn any_content_gives_an_index_in_range() {
        let torn: Vec<AtomicU64> = (0..62)
            .map(|i: u64| AtomicU64::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        for search in Search::all() {
            for count in 0..=70 {
                assert!(search.count_less(&torn, count, 1 << 63) <= count.min(62));
            }
        }
    }
}

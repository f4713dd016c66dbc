//! Search in a node: how many of its sorted keys are not greater than a key.
//!
//! The CPU's widest compare is chosen once, when a tree is made; a [`Search`] that names it cannot
//! be made on a CPU without it. The keys are narrowed (from more than 64 by halving, from 64 by
//! looking at seven at once, without a branch to guess wrong) to a group of eight that two vectors
//! cover. How many there are need not be known: behind them lies the greatest number. The naive
//! version compares one by one: other CPUs and Miri use it, and tests compare with it.
//!
//! Code for a CPU that has more is not inlined into code for any CPU. So code that searches
//! several nodes in a row does all of it as one [`Work`], which [`Search::run`] compiles for each
//! way and calls once.
//!
//! Vectors are loaded while a writer may be changing the keys: `node/racing.rs` tells why that is
//! right.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[cfg(target_arch = "x86_64")]
use crate::node::racing::four_words;

/// Keys that a search near a guess compares at once.
pub const WINDOW: usize = 16;

/// Keys that the last step of a search through all keys compares at once.
pub const GROUP: usize = 8;

/// Groups that are told apart at once.
const GROUPS: usize = 8;

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
    /// The best way on this CPU. In builds with debug assertions, `TIMBERLINE_SIMD` (`scalar` or
    /// `avx2`) rules out wider ones, so that tests can cover what other CPUs would run.
    pub fn detect() -> Search {
        let mut all = Self::all();
        if cfg!(debug_assertions) {
            all.truncate(match std::env::var("TIMBERLINE_SIMD").as_deref() {
                Ok("scalar") => 1,
                Ok("avx2") => 2,
                _ => all.len(),
            });
        }
        all.last().copied().unwrap_or(Self::NAIVE)
    }

    /// One by one; any CPU can.
    pub const NAIVE: Search = Search(Kind::Naive);

    /// Every way that this CPU has, the best one last.
    pub fn all() -> Vec<Search> {
        #[allow(unused_mut, reason = "other CPUs than x86-64 add none")]
        let mut all = vec![Self::NAIVE];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            // Every CPU with AVX2 has these too, but a virtual one may hide them.
            let bits = is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            if bits && is_x86_feature_detected!("avx2") {
                all.push(Search(Kind::Avx2));
            }
            if bits
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
            {
                all.push(Search(Kind::Avx512));
            }
        }
        all
    }

    /// Does all of `work` with the widest compare.
    #[inline(always)]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        match self.0 {
            Kind::Naive => work.run(Naive),
            // SAFETY: `detect` saw the features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { run_avx2(work) },
            // SAFETY: `detect` saw the features.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { run_avx512(work) },
        }
    }
}

/// Something that searches nodes. Its `run` is to be `#[inline(always)]`, and all that is hot in
/// it.
pub trait Work {
    /// What it comes to.
    type Output;
    /// Does it.
    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// A compare of many keys at once.
pub trait Lanes: Copy {
    /// Which of these keys are greater than `key`, the first one being bit 0.
    fn greater<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32;

    /// Which of these keys are `key`.
    fn equal<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32;

    /// How many of the ascending keys at the front of `words` are not greater than `key`. There are
    /// `slots`, a power of two and at least `GROUP`, less a few at the end that may be anything,
    /// and count or not.
    ///
    /// At most `slots`, whatever they are.
    #[inline(always)]
    fn count_to(self, words: &[AtomicU64], slots: usize, key: u64) -> usize {
        assert!(slots.is_power_of_two() && slots >= GROUP && slots <= words.len());
        let not_greater = |at: usize| {
            // SAFETY: `at` is the last of some of the slots, of which there are not more than
            // words.
            unsafe { words.get_unchecked(at) }.load(Relaxed) <= key
        };
        let (mut start, mut width) = (0, slots);
        while width > GROUPS * GROUP {
            width /= 2;
            start += usize::from(not_greater(start + width - 1)) * width;
        }
        // The last keys of all groups but the last tell the group, without a branch to guess wrong.
        let before = if width == GROUPS * GROUP {
            // SAFETY: start + width <= slots <= words.len().
            let words = unsafe { words.get_unchecked(start..start + width) };
            groups_to(words.first_chunk().expect("as long as that"), key)
        } else {
            let last = |group| start + group * GROUP - 1;
            let groups = 1..width / GROUP;
            groups
                .map(|group| usize::from(not_greater(last(group))))
                .sum()
        };
        let first = start + before * GROUP;
        // SAFETY: first + GROUP <= start + width <= slots <= words.len().
        let group = unsafe { words.get_unchecked(first..first + GROUP) };
        let group: &[_; GROUP] = group.first_chunk().expect("as long as that");
        first + leading_lanes(!self.greater(group, key), GROUP)
    }
}

/// How many lanes from the first on are set, of `lanes`.
#[inline(always)]
pub fn leading_lanes(set: u32, lanes: usize) -> usize {
    (!set | 1 << lanes).trailing_zeros() as usize
}

#[derive(Clone, Copy)]
struct Naive;

impl Lanes for Naive {
    #[inline(always)]
    fn greater<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32 {
        lanes(keys, |other| other > key)
    }

    #[inline(always)]
    fn equal<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32 {
        lanes(keys, |other| other == key)
    }
}

#[inline(always)]
fn lanes(keys: &[AtomicU64], is: impl Fn(u64) -> bool) -> u32 {
    let lane = |(at, key): (usize, &AtomicU64)| u32::from(is(key.load(Relaxed))) << at;
    keys.iter()
        .enumerate()
        .map(lane)
        .fold(0, |set, lane| set | lane)
}

/// Dispatches at each search, for code that is not worth compiling once for each instruction set.
impl Lanes for Search {
    #[inline(always)]
    fn greater<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32 {
        match self.0 {
            Kind::Naive => Naive.greater(keys, key),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => Avx2(()).greater(keys, key),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => Avx512(()).greater(keys, key),
        }
    }

    #[inline(always)]
    fn equal<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32 {
        match self.0 {
            Kind::Naive => Naive.equal(keys, key),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => Avx2(()).equal(keys, key),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => Avx512(()).equal(keys, key),
        }
    }
}

/// Made only where `detect` saw AVX2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    #[inline(always)]
    fn greater<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32 {
        // SAFETY: `self` is the proof.
        unsafe { avx2_greater(keys, key) }
    }

    #[inline(always)]
    fn equal<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32 {
        // SAFETY: `self` is the proof.
        unsafe { avx2_equal(keys, key) }
    }
}

/// Made only where `detect` saw AVX-512.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512 {
    #[inline(always)]
    fn greater<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32 {
        // SAFETY: `self` is the proof.
        unsafe { avx512_greater(keys, key) }
    }

    #[inline(always)]
    fn equal<const N: usize>(self, keys: &[AtomicU64; N], key: u64) -> u32 {
        // SAFETY: `self` is the proof.
        unsafe { avx512_equal(keys, key) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx2<W: Work>(work: W) -> W::Output {
    work.run(Avx2(()))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,bmi1,bmi2,lzcnt,popcnt")]
fn run_avx512<W: Work>(work: W) -> W::Output {
    work.run(Avx512(()))
}

/// How many of these groups but the last end with a key that is not greater than `key`.
#[cfg(any(not(target_arch = "x86_64"), miri))]
fn groups_to(words: &[AtomicU64; GROUPS * GROUP], key: u64) -> usize {
    let end = |group: usize| words[group * GROUP - 1].load(Relaxed);
    (1..GROUPS).filter(|&group| end(group) <= key).count()
}

/// How many of these groups but the last end with a key that is not greater than `key`. Two
/// instructions each, as it would be if the compiler folded atomic loads into compares.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn groups_to(words: &[AtomicU64; GROUPS * GROUP], key: u64) -> usize {
    const { assert!(GROUPS == 8) };
    let mut groups: usize = 0;
    // SAFETY: reads seven of the words, as atomic loads do: aligned, eight bytes each.
    unsafe {
        std::arch::asm!(
            "cmp {key}, [{words} + {step} - 8]",
            "sbb {groups}, -1",
            "cmp {key}, [{words} + 2 * {step} - 8]",
            "sbb {groups}, -1",
            "cmp {key}, [{words} + 3 * {step} - 8]",
            "sbb {groups}, -1",
            "cmp {key}, [{words} + 4 * {step} - 8]",
            "sbb {groups}, -1",
            "cmp {key}, [{words} + 5 * {step} - 8]",
            "sbb {groups}, -1",
            "cmp {key}, [{words} + 6 * {step} - 8]",
            "sbb {groups}, -1",
            "cmp {key}, [{words} + 7 * {step} - 8]",
            "sbb {groups}, -1",
            key = in(reg) key,
            words = in(reg) words.as_ptr(),
            step = const 8 * GROUP,
            groups = inout(reg) groups,
            options(nostack, readonly),
        );
    }
    groups
}

/// The key, but the compiler does not know that. It would otherwise make the vector once for all
/// nodes and keep it on the stack, where it lies in two lines as often as not: 12 ns a lookup.
/// Making it again takes one instruction.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn anew(mut key: u64) -> u64 {
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) key, options(nomem, nostack, preserves_flags));
    }
    key
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
fn avx512_greater<const N: usize>(keys: &[AtomicU64; N], key: u64) -> u32 {
    use core::arch::x86_64::*;
    let key = _mm256_set1_epi64x(anew(key) as i64);
    fours(keys, |keys| {
        _mm256_cmpgt_epu64_mask(four_words(keys), key).into()
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
fn avx512_equal<const N: usize>(keys: &[AtomicU64; N], key: u64) -> u32 {
    use core::arch::x86_64::*;
    let key = _mm256_set1_epi64x(anew(key) as i64);
    fours(keys, |keys| {
        _mm256_cmpeq_epu64_mask(four_words(keys), key).into()
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn avx2_greater<const N: usize>(keys: &[AtomicU64; N], key: u64) -> u32 {
    use core::arch::x86_64::*;
    // AVX2 compares signed; flipping the sign bits makes that the unsigned order.
    let sign = _mm256_set1_epi64x(i64::MIN);
    let key = _mm256_set1_epi64x(anew(key ^ 1 << 63) as i64);
    fours(keys, |keys| {
        let greater = _mm256_cmpgt_epi64(_mm256_xor_si256(four_words(keys), sign), key);
        _mm256_movemask_pd(_mm256_castsi256_pd(greater)) as u32
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn avx2_equal<const N: usize>(keys: &[AtomicU64; N], key: u64) -> u32 {
    use core::arch::x86_64::*;
    let key = _mm256_set1_epi64x(anew(key) as i64);
    fours(keys, |keys| {
        let equal = _mm256_cmpeq_epi64(four_words(keys), key);
        _mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u32
    })
}

/// The lanes of all keys from those of each four.
///
/// Half vectors: groups begin at odd multiples of 32 bytes, so these never lie in two lines. Where
/// there are longer ones, the compiler joins two loads of a group.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fours<const N: usize>(keys: &[AtomicU64; N], lanes: impl Fn(&[AtomicU64; 4]) -> u32) -> u32 {
    const { assert!(N.is_multiple_of(4) && N <= 32) };
    let mut all = 0;
    for (part, keys) in keys.as_chunks().0.iter().enumerate() {
        all |= lanes(keys) << (4 * part);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct CountTo<'a>(&'a [AtomicU64], usize, u64);

    impl Work for CountTo<'_> {
        type Output = usize;

        #[inline(always)]
        fn run(self, lanes: impl Lanes) -> usize {
            lanes.count_to(self.0, self.1, self.2)
        }
    }

    /// Of 16 keys: those greater, and those equal.
    #[derive(Clone, Copy)]
    struct Compare<'a>(&'a [AtomicU64; WINDOW], u64);

    impl Work for Compare<'_> {
        type Output = (u32, u32);

        #[inline(always)]
        fn run(self, lanes: impl Lanes) -> (u32, u32) {
            (lanes.greater(self.0, self.1), lanes.equal(self.0, self.1))
        }
    }

    /// Keys on both sides of the sign bit.
    fn key(at: usize, count: usize) -> u64 {
        if at > count / 2 {
            u64::MAX - 2 - 3 * (count - at) as u64
        } else {
            5 + 3 * at as u64
        }
    }

    #[test]
    fn every_way_counts_like_one_by_one() {
        for slots in [8, 16, 32, 64, 128, 256] {
            for count in 0..=slots - 2 {
                let sorted: Vec<u64> = (0..count).map(|at| key(at, count)).collect();
                let keys = sorted.iter().copied();
                // Then the empty ones, and two that are not keys.
                let words: Vec<AtomicU64> = keys
                    .chain(std::iter::repeat(u64::MAX))
                    .take(slots - 2)
                    .chain([7, 1 << 63])
                    .map(AtomicU64::new)
                    .collect();
                for key in sorted
                    .iter()
                    .flat_map(|&key| [key - 1, key, key + 1])
                    .chain([0, u64::MAX - 1])
                {
                    let expected = sorted.iter().filter(|&&other| other <= key).count();
                    for search in Search::all() {
                        let count_to = CountTo(&words, slots, key);
                        let found = [search.run(count_to), search.count_to(&words, slots, key)]
                            .map(|found| found.min(slots - 2));
                        assert_eq!(
                            found, [expected; 2],
                            "{search:?} slots {slots} count {count} key {key}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn every_way_compares_like_one_by_one() {
        let keys: [AtomicU64; WINDOW] =
            std::array::from_fn(|at| AtomicU64::new(key(at * 5 % WINDOW, WINDOW)));
        for at in 0..WINDOW {
            let key = keys[at].load(Relaxed);
            for key in [key - 1, key, key + 1] {
                let expected = Search::NAIVE.run(Compare(&keys, key));
                assert_eq!(expected.1 != 0, key == keys[at].load(Relaxed));
                for search in Search::all() {
                    assert_eq!(
                        search.run(Compare(&keys, key)),
                        expected,
                        "{search:?} {key}"
                    );
                    let chosen = (search.greater(&keys, key), search.equal(&keys, key));
                    assert_eq!(chosen, expected, "{search:?} {key}");
                }
            }
        }
    }

    #[test]
    fn any_content_gives_a_count_in_range() {
        let torn: Vec<AtomicU64> = (0..256)
            .map(|i: u64| AtomicU64::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        for search in Search::all() {
            for slots in [8, 16, 32, 64, 128, 256] {
                for key in [0, 1 << 62, 1 << 63, u64::MAX] {
                    assert!(search.run(CountTo(&torn, slots, key)) <= slots);
                }
            }
        }
    }
}

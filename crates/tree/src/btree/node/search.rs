//! Search in a node: how many of its sorted keys are less than a key.
//!
//! The CPU's widest compare is chosen once, when a tree is made; a [`Search`] that names it cannot be
//! made on a CPU without it. The keys are narrowed (from more than 64 by halving, from 64 by looking at three at once,
//! without a branch to guess wrong) to a window that a few vectors cover. The naive twin counts one by one: it is the oracle in tests, and
//! what other CPUs, Miri and tiny nodes use.
//!
//! Code for a CPU that has more is not inlined into code for any CPU. So whoever searches several nodes in a row
//! does all of it as one [`Work`], which [`Search::run`] compiles for each way and calls once.
//!
//! The vector loads here are the one place where words that a writer may be changing are read by
//! something else than an atomic load. On the CPUs in question an aligned 8-byte lane of a
//! vector load is not torn, and were it torn, the version check discards what came of it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Keys that the last step compares at once.
pub const WINDOW: usize = 16;

/// Windows that are told apart at once.
const BLOCKS: usize = 4;

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

/// Something that searches nodes. Its `run` is to be `#[inline(always)]`, and all that is hot in it.
pub trait Work {
    /// What it comes to.
    type Output;
    /// Does it.
    fn run(self, lanes: impl Lanes) -> Self::Output;
}

/// A compare of many keys at once.
pub trait Lanes: Copy {
    /// How many of the first `count` of these ascending keys are less than `key`.
    fn count_less_in(self, window: &[AtomicU64; WINDOW], count: usize, key: u64) -> usize;

    /// How many of the first `count` of these ascending keys are less than `key`; at most `count`,
    /// whatever they are. What lies behind them may be anything.
    #[inline(always)]
    fn count_less(self, keys: &[AtomicU64], count: usize, key: u64) -> usize {
        let count = count.min(keys.len());
        if keys.len() < BLOCKS * WINDOW {
            let (start, rest) = narrow(keys, count, key, WINDOW);
            let first = start.min(keys.len().saturating_sub(WINDOW));
            return match keys[first..].first_chunk() {
                // Lanes before `start` hold smaller keys and count.
                Some(window) => first + self.count_less_in(window, count - first, key),
                None => start + naive(&keys[start..start + rest], key),
            };
        }
        let (start, _) = narrow(keys, count, key, BLOCKS * WINDOW);
        // The last keys of all blocks but the last tell the block, without a branch to guess wrong.
        let start = start.min(keys.len() - BLOCKS * WINDOW);
        let mut first = start;
        for block in 1..BLOCKS {
            let last = start + block * WINDOW - 1;
            // SAFETY: last < start + BLOCKS * WINDOW <= keys.len().
            let smaller = unsafe { keys.get_unchecked(last) }.load(Relaxed) < key;
            first += usize::from(smaller & (last < count)) * WINDOW;
        }
        // SAFETY: first + WINDOW <= start + BLOCKS * WINDOW <= keys.len().
        let window = unsafe { keys.get_unchecked(first..first + WINDOW) };
        let window = window.first_chunk().expect("as long as that");
        first + self.count_less_in(window, count - first, key)
    }
}

/// Halves the first `count` of ascending keys until at most `width` are left that may be the first not less than
/// `key`. Returns where they start and how many there are.
#[inline(always)]
fn narrow(keys: &[AtomicU64], count: usize, key: u64, width: usize) -> (usize, usize) {
    debug_assert!(count <= keys.len());
    let (mut start, mut rest) = (0, count);
    while rest > width {
        let half = rest / 2;
        // SAFETY: start + half <= start + rest <= count <= keys.len().
        let middle = unsafe { keys.get_unchecked(start + half - 1) };
        let smaller = middle.load(Relaxed) < key;
        start += if smaller { half } else { 0 };
        rest -= half;
    }
    (start, rest)
}

#[derive(Clone, Copy)]
struct Naive;

impl Lanes for Naive {
    #[inline(always)]
    fn count_less_in(self, window: &[AtomicU64; WINDOW], count: usize, key: u64) -> usize {
        naive(&window[..count.min(WINDOW)], key)
    }
}

/// Chosen anew at each search: for what is not worth being compiled for each way.
impl Lanes for Search {
    #[inline(always)]
    fn count_less_in(self, window: &[AtomicU64; WINDOW], count: usize, key: u64) -> usize {
        match self.0 {
            Kind::Naive => Naive.count_less_in(window, count, key),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => Avx2(()).count_less_in(window, count, key),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => Avx512(()).count_less_in(window, count, key),
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
    fn count_less_in(self, window: &[AtomicU64; WINDOW], count: usize, key: u64) -> usize {
        // SAFETY: `self` is the proof.
        let less = unsafe { avx2(window, key) };
        // Lanes from `count` on hold leftovers.
        (less & ((1 << count.min(WINDOW)) - 1)).count_ones() as usize
    }
}

/// Made only where `detect` saw AVX-512.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512 {
    #[inline(always)]
    fn count_less_in(self, window: &[AtomicU64; WINDOW], count: usize, key: u64) -> usize {
        // SAFETY: `self` is the proof.
        let less = unsafe { avx512(window, key) };
        (less & ((1 << count.min(WINDOW)) - 1)).count_ones() as usize
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

fn naive(keys: &[AtomicU64], key: u64) -> usize {
    keys.iter()
        .take_while(|other| other.load(Relaxed) < key)
        .count()
}

/// The key, but the compiler does not know that. It would otherwise make the vector once for all nodes and keep it
/// on the stack, where it lies in two lines as often as not: 12 ns a lookup. Making it again takes one instruction.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn anew(mut key: u64) -> u64 {
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) key, options(nomem, nostack, preserves_flags));
    }
    key
}

/// The lanes with a key less than `key`.
// Half vectors: windows begin at multiples of 32 bytes, so these never lie in two lines.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl")]
#[inline]
fn avx512(window: &[AtomicU64; WINDOW], key: u64) -> u32 {
    use core::arch::x86_64::*;
    let wanted = _mm256_set1_epi64x(anew(key) as i64);
    let keys = window.as_ptr().cast::<__m256i>();
    let mut lanes = 0;
    for part in 0..WINDOW / 4 {
        // SAFETY: a quarter of the window; see the module's text about racing with a writer.
        let loaded = unsafe { _mm256_loadu_si256(keys.add(part)) };
        lanes |= u32::from(_mm256_cmplt_epu64_mask(loaded, wanted)) << (4 * part);
    }
    lanes
}

/// The lanes with a key less than `key`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn avx2(window: &[AtomicU64; WINDOW], key: u64) -> u32 {
    use core::arch::x86_64::*;
    // AVX2 compares signed; flipping the sign bits makes that the unsigned order.
    let sign = _mm256_set1_epi64x(i64::MIN);
    let wanted = _mm256_xor_si256(_mm256_set1_epi64x(anew(key) as i64), sign);
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

    #[derive(Clone, Copy)]
    struct CountLess<'a>(&'a [AtomicU64], usize, u64);

    impl Work for CountLess<'_> {
        type Output = usize;

        #[inline(always)]
        fn run(self, lanes: impl Lanes) -> usize {
            lanes.count_less(self.0, self.1, self.2)
        }
    }

    #[test]
    fn every_way_counts_like_the_naive_one() {
        for len in [4, 16, 17, 30, 62, 64, 65, 126, 254] {
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
                        let count_less = CountLess(&slots, count, key);
                        let found = [
                            search.run(count_less),
                            search.count_less(&slots, count, key),
                        ];
                        assert_eq!(
                            found, [expected; 2],
                            "{search:?} len {len} count {count} key {key}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn any_content_gives_an_index_in_range() {
        let torn: Vec<AtomicU64> = (0..124)
            .map(|i: u64| AtomicU64::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        for search in Search::all() {
            for count in 0..=70 {
                assert!(search.run(CountLess(&torn, count, 1 << 63)) <= count);
            }
        }
    }
}

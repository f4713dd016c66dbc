//! How many samples a slow leaf has by chance, and so how many tell that it is hot.
//!
//! Where leaves are records there are millions, and thousands of the cold ones have two or three
//! samples. How many do follows from how many have one: nearly all of those are cold. The counts of
//! all slow leaves come from the samples themselves, so no slow leaf is visited.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::heat::SAMPLE;

/// Samples up to this many are told apart: twice the most that may be asked for, because cooling
/// halves them.
const TOLD_APART: usize = 2 * MOST;
/// The most samples that may be asked for. (More than these are asked for by the margin only.)
const MOST: usize = 8;
/// Of the leaves with enough samples, at most one part in this many has them by chance…
const BY_CHANCE: f64 = 4.0;
/// …or so few that they do not matter: one for this many fast leaves.
const NEGLIGIBLE: f64 = 1000.0;

/// Slow leaves that came to have so many samples since the worker's last round, as seen by the
/// threads of one stripe.
#[derive(Default)]
pub struct Reached([AtomicU64; TOLD_APART]);

impl Reached {
    /// A slow leaf has this heat now, by `more`.
    pub fn add(&self, heat: u16, more: u16) {
        let samples = usize::from(heat / SAMPLE);
        if samples > usize::from((heat - more) / SAMPLE) && samples <= TOLD_APART {
            let count = &self.0[samples - 1];
            count.store(count.load(Relaxed) + 1, Relaxed);
        }
    }
}

/// Slow leaves by their samples.
#[derive(Default, Debug)]
pub struct Chance {
    /// How many have at least so many samples, from one on.
    with: [u64; TOLD_APART],
}

impl Chance {
    /// Takes what the threads saw.
    pub fn take(&mut self, reached: &Reached) {
        for (with, count) in self.with.iter_mut().zip(&reached.0) {
            *with += count.swap(0, Relaxed);
        }
    }

    /// A leaf with this heat is slow no more.
    pub fn promoted(&mut self, heat: u16) {
        for with in self.up_to(heat) {
            *with = with.saturating_sub(1);
        }
    }

    /// A leaf with this heat became slow.
    pub fn demoted(&mut self, heat: u16) {
        for with in self.up_to(heat) {
            *with += 1;
        }
    }

    fn up_to(&mut self, heat: u16) -> &mut [u64] {
        let samples = usize::from(heat / SAMPLE);
        &mut self.with[..samples.min(TOLD_APART)]
    }

    /// All heat was halved.
    pub fn cooled(&mut self) {
        self.with = std::array::from_fn(|at| match self.with.get(2 * at + 1) {
            Some(&with) => with,
            None => 0,
        });
    }

    /// The samples that tell that a leaf is hot, 2 to 8, where so many leaves are slow and so many
    /// fast: of the leaves that have them, few do by chance.
    pub fn least(&self, slow: usize, fast: usize) -> u16 {
        let (slow, few) = (slow as f64, fast as f64 / NEGLIGIBLE);
        let [with_one, with_two] = [self.with[0], self.with[1]].map(|it| it as f64);
        // Samples of a cold leaf, on average: Poisson's law for none and one.
        let with_none = (slow - with_one).max(slow / 100.0).max(1.0);
        let each = (with_one - with_two).max(0.0) / with_none;
        let mut exactly = (-each).exp();
        let mut fewer = exactly;
        for samples in 1..MOST {
            exactly *= each / samples as f64;
            fewer += exactly;
            let by_chance = slow * (1.0 - fewer).max(0.0);
            let least = samples + 1;
            if by_chance <= (self.with[least - 1] as f64 / BY_CHANCE).max(few) {
                return least as u16;
            }
        }
        MOST as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves with so many samples each on average, by Poisson's law, as threads report them.
    fn sampled(chance: &mut Chance, leaves: f64, each: f64) {
        let mut exactly = (-each).exp();
        let mut fewer = exactly;
        for samples in 1..=TOLD_APART {
            chance.with[samples - 1] += (leaves * (1.0 - fewer)) as u64;
            exactly *= each / samples as f64;
            fewer += exactly;
        }
    }

    const SLOW: f64 = 2e6;
    const FAST: usize = 100_000;

    /// What tells a hot leaf among cold ones with so many samples each, and so many hot ones with
    /// eight.
    fn least(cold: f64, hot: f64) -> u16 {
        let mut chance = Chance::default();
        sampled(&mut chance, SLOW, cold);
        sampled(&mut chance, hot, 8.0);
        chance.least((SLOW + hot) as usize, FAST)
    }

    #[test]
    fn the_more_samples_cold_leaves_have_the_more_tell_a_hot_one() {
        let alone = [0.001, 0.01, 0.05, 0.2, 0.5, 1.0].map(|each| least(each, 0.0));
        assert_eq!(alone, [2, 2, 3, 5, 6, 8]);
        let beside_hot = [0.001, 0.01, 0.05, 0.2, 0.5, 1.0].map(|each| least(each, 100_000.0));
        assert_eq!(beside_hot, [2, 2, 2, 3, 3, 5]);
        assert_eq!(Chance::default().least(0, 0), 2, "nothing is known");
    }

    #[test]
    fn a_leaf_is_counted_with_its_samples_wherever_it_goes() {
        let (reached, mut chance) = (Reached::default(), Chance::default());
        // Three samples; a fourth of half the weight; one of a leaf as hot as can be told apart.
        for heat in [8, 16, 24] {
            reached.add(heat, SAMPLE);
        }
        reached.add(28, 4);
        reached.add(SAMPLE * (TOLD_APART as u16 + 1), SAMPLE);
        chance.take(&reached);
        chance.take(&reached);
        assert_eq!(chance.with[..4], [1, 1, 1, 0]);
        chance.demoted(u16::MAX);
        assert_eq!(chance.with[3..], [1; TOLD_APART - 3]);
        chance.cooled();
        assert_eq!(chance.with[..9], [2, 1, 1, 1, 1, 1, 1, 1, 0]);
        chance.promoted(12);
        chance.promoted(12);
        chance.promoted(12);
        assert_eq!(chance.with[..2], [0, 1], "none but the leaf that stays");
    }
}

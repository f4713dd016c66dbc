//! Which keys go where.
//!
//! Every member decides for itself, by the same rule, and only the one that is asked for most acts.
//! It cuts one of its ranges at either end, where the samples say that both members have as much to
//! do afterwards. The neighbour that already has the keys beside the cut is preferred: else there
//! is a partition more.
//!
//! **It comes to an end.** A move is made only from a member above `imbalance` times the mean, and
//! only if it lowers the higher load of the two by `gain` times the mean. So under a stable load
//! each move lowers the sum of the loads' squares by a fixed amount at least. What is balanced is
//! left alone: of few requests chance alone would give one member too many, so the fewer they are,
//! the further above the mean it has to be.

use std::ops::RangeInclusive;

use super::{Balancing, Sample};
use crate::address::ComputeId;

/// Fewer samples say nothing about where to cut.
pub(crate) const LEAST_SAMPLES: usize = 50;
/// A number of requests is as uncertain as chance makes it. A member has to be above the limit by
/// so many standard deviations.
const CERTAIN: f64 = 3.0;
/// A cut beside another member's keys is worth so much of one beside the receiver's.
const APART: f64 = 0.75;
/// With more partitions a member than this, keys only go to neighbours.
const MOST_A_MEMBER: usize = 16;

/// What a member knows.
pub(crate) struct View<'a> {
    /// The member that decides.
    pub me: ComputeId,
    /// Requests of each member in the same time, this one's among them.
    pub loads: &'a [(ComputeId, f64)],
    /// All partitions, in the order of their keys.
    pub partitions: &'a [(RangeInclusive<u64>, Option<ComputeId>)],
    /// Of this member's requests, in the order of their keys.
    pub samples: &'a [Sample],
}

/// Keys that this member is to give away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    pub keys: RangeInclusive<u64>,
    pub to: ComputeId,
}

/// Keys at an end of a partition, and what they are asked for.
struct Piece {
    keys: RangeInclusive<u64>,
    load: f64,
    /// Who has the keys beyond that end.
    beside: Option<ComputeId>,
}

/// What this member gives away now, if anything.
pub(crate) fn decide(view: &View<'_>, balancing: &Balancing) -> Option<Move> {
    let load_of = |it: ComputeId| view.loads.iter().find(|load| load.0 == it).map(|it| it.1);
    let mine = load_of(view.me)?;
    let mean = view.loads.iter().map(|it| it.1).sum::<f64>() / view.loads.len() as f64;
    let is_most = view.loads.iter().all(|it| it.1 <= mine);
    let certain = mine - CERTAIN * mine.sqrt();
    if !is_most || certain <= balancing.imbalance.max(1.0) * mean {
        return None;
    }
    if view.samples.len() < LEAST_SAMPLES {
        return None;
    }
    let may_be_apart = view.partitions.len() < MOST_A_MEMBER * view.loads.len();
    let pieces = pieces(view, balancing.aligned_bits);
    let receivers = view.loads.iter().filter(|it| it.1 < mean);
    let mut best: Option<(f64, Move)> = None;
    for &(to, load) in receivers {
        for piece in &pieces {
            let gain = mine - (mine - piece.load).max(load + piece.load);
            let is_beside = piece.beside == Some(to);
            if gain < balancing.gain * mean || !(is_beside || may_be_apart) {
                continue;
            }
            let worth = if is_beside { gain } else { APART * gain };
            if best.as_ref().is_none_or(|best| best.0 < worth) {
                let keys = piece.keys.clone();
                best = Some((worth, Move { keys, to }));
            }
        }
    }
    best.map(|best| best.1)
}

/// All pieces that can be cut off this member's partitions at multiples of two to the power of
/// `bits`, as far as the samples tell them apart.
fn pieces(view: &View<'_>, bits: u32) -> Vec<Piece> {
    let within_one = (1 << bits) - 1;
    let mut pieces = Vec::new();
    let owner = |at: Option<usize>| view.partitions.get(at?).and_then(|it| it.1);
    for (at, (keys, _)) in view.partitions.iter().enumerate() {
        if owner(Some(at)) != Some(view.me) {
            continue;
        }
        let (before, after) = (owner(at.checked_sub(1)), owner(Some(at + 1)));
        let (first, last) = (*keys.start(), *keys.end());
        let from = view.samples.partition_point(|it| it.key < first);
        let to = view.samples.partition_point(|it| it.key <= last);
        let within = &view.samples[from..to];
        let all: f64 = within.iter().map(|it| it.requests).sum();
        for beside in [before, after] {
            let keys = keys.clone();
            pieces.push(Piece {
                keys,
                load: all,
                beside,
            });
        }
        let mut load = 0.0;
        for pair in within.windows(2) {
            load += pair[0].requests;
            let [end, next] = [pair[0].key, pair[1].key];
            // The multiples nearest to the two samples, if there are any in between.
            let (nearer_end, nearer_next) =
                ((end | within_one).wrapping_add(1), next & !within_one);
            if nearer_next <= end {
                continue;
            }
            let (lower, upper) = (first..=nearer_next - 1, nearer_end..=last);
            let rest = all - load;
            pieces.push(Piece {
                keys: lower,
                load,
                beside: before,
            });
            pieces.push(Piece {
                keys: upper,
                load: rest,
                beside: after,
            });
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(number: u64) -> ComputeId {
        ComputeId::new(number).unwrap()
    }

    /// Requests of a key of weight 1: so many that chance plays no part where it is not added.
    const REQUESTS: f64 = 1e6;

    /// Keys of members, and what each key is asked for.
    struct Cluster {
        owners: Vec<u64>,
        weights: Vec<f64>,
        members: u64,
    }

    impl Cluster {
        /// As many keys for each member, one after the other.
        fn new(members: u64, weights: Vec<f64>) -> Cluster {
            let keys = weights.len() as u64;
            Cluster {
                owners: (0..keys).map(|key| 1 + key * members / keys).collect(),
                weights,
                members,
            }
        }

        fn load(&self, member: u64) -> f64 {
            let owned = self.owners.iter().zip(&self.weights);
            owned.filter(|it| *it.0 == member).map(|it| it.1).sum()
        }

        fn loads(&self) -> Vec<f64> {
            (1..=self.members).map(|member| self.load(member)).collect()
        }

        /// The highest load, to the mean.
        fn imbalance(&self) -> f64 {
            let loads = self.loads();
            let most = loads.iter().copied().fold(0.0, f64::max);
            most * loads.len() as f64 / loads.iter().sum::<f64>()
        }

        fn partitions(&self) -> Vec<(RangeInclusive<u64>, Option<ComputeId>)> {
            let mut all: Vec<(RangeInclusive<u64>, Option<ComputeId>)> = Vec::new();
            for (key, &owner) in self.owners.iter().enumerate() {
                let key = key as u64;
                match all.last_mut() {
                    Some((keys, last)) if *last == Some(compute(owner)) => {
                        *keys = *keys.start()..=key;
                    }
                    _ => all.push((key..=key, Some(compute(owner)))),
                }
            }
            all
        }

        /// What a member decides that has seen so many samples, or knows all weights.
        fn decide(&self, member: u64, draws: Option<(&mut fastrand::Rng, usize)>) -> Option<Move> {
            let mine = (0..self.owners.len()).filter(|&key| self.owners[key] == member);
            let exact = mine.map(|key| Sample {
                key: key as u64,
                requests: REQUESTS * self.weights[key],
            });
            let exact: Vec<Sample> = exact.filter(|it| it.requests > 0.0).collect();
            let loads = self.loads().into_iter().map(|load| REQUESTS * load);
            let mut loads: Vec<_> = (1..).map(compute).zip(loads).collect();
            let samples = match draws {
                None => exact,
                Some((draws, count)) => {
                    for load in &mut loads {
                        // The noise of so many requests.
                        load.1 *= 1.0 + (draws.f64() - 0.5) * 4.0 / (count as f64).sqrt();
                    }
                    sampled(&exact, draws, count)
                }
            };
            let view = View {
                me: compute(member),
                loads: &loads,
                partitions: &self.partitions(),
                samples: &samples,
            };
            decide(&view, &Balancing::default())
        }

        fn apply(&mut self, it: &Move) {
            for key in it.keys.clone() {
                self.owners[key as usize] = it.to.number();
            }
        }

        /// Moves until nobody wants to. Returns how often.
        fn settle(&mut self, draws: &mut fastrand::Rng, count: Option<usize>) -> usize {
            for moves in 0..1_000 {
                let mut decide =
                    |member| self.decide(member, count.map(|count| (&mut *draws, count)));
                let Some(it) = (1..=self.members).find_map(&mut decide) else {
                    return moves;
                };
                let of_one = self.owners[*it.keys.start() as usize];
                assert!(
                    it.keys
                        .clone()
                        .all(|key| self.owners[key as usize] == of_one)
                );
                assert_ne!(it.to.number(), of_one);
                self.apply(&it);
            }
            panic!("it never ends");
        }
    }

    fn sampled(exact: &[Sample], draws: &mut fastrand::Rng, count: usize) -> Vec<Sample> {
        let mut all = 0.0;
        let ends = exact.iter().map(|it| {
            all += it.requests;
            all
        });
        let ends: Vec<f64> = ends.collect();
        let draw = |_| {
            let at = draws.f64() * all;
            let key = exact.get(ends.partition_point(|&end| end <= at))?.key;
            let requests = all / count as f64;
            Some(Sample { key, requests })
        };
        let mut samples: Vec<_> = (0..count).filter_map(draw).collect();
        samples.sort_by_key(|it| it.key);
        samples
    }

    #[test]
    fn a_hot_spot_is_spread() {
        for members in 2..9 {
            for hot in [0, 1_200, 3_111, 3_600] {
                let heat = |key| {
                    if (hot..hot + 400).contains(&key) {
                        100.0
                    } else {
                        1.0
                    }
                };
                let mut cluster = Cluster::new(members, (0..4_000).map(heat).collect());
                let before = cluster.imbalance();
                assert!(before > 1.3);
                let moves = cluster.settle(&mut fastrand::Rng::new(), None);
                assert!(moves as u64 <= 2 * members, "{moves} moves of {members}");
                assert!(cluster.imbalance() <= 1.3, "{:?}", cluster.loads());
                assert_eq!(cluster.settle(&mut fastrand::Rng::new(), None), 0);
            }
        }
    }

    #[test]
    fn what_is_balanced_stays() {
        let mut draws = fastrand::Rng::with_seed(1);
        for _ in 0..100 {
            let weights = (0..1_000).map(|_| 1.0 + draws.f64() * 0.2).collect();
            let mut cluster = Cluster::new(1 + draws.u64(0..8), weights);
            assert_eq!(cluster.settle(&mut draws, Some(5_000)), 0);
        }
    }

    /// Chance gives one of three members this many requests of a few hundred now and then.
    #[test]
    fn few_requests_move_nothing() {
        let decide = |all: f64| {
            let loads = [0.48, 0.30, 0.22].map(|part| part * all);
            let samples = (0..60).map(|key| Sample {
                key,
                requests: loads[0] / 60.0,
            });
            let keys = [0..=99, 100..=199, 200..=u64::MAX];
            let partitions = keys.into_iter().zip((1..).map(compute).map(Some));
            let view = View {
                me: compute(1),
                loads: &[1, 2, 3].map(|it| (compute(it), loads[it as usize - 1])),
                partitions: &partitions.collect::<Vec<_>>(),
                samples: &samples.collect::<Vec<_>>(),
            };
            decide(&view, &Balancing::default()).is_some()
        };
        assert_eq!(
            [100.0, 1e3, 1e4, 1e6].map(decide),
            [false, false, true, true]
        );
    }

    /// With the noise of samples it ends, too, and what it ends at is not disturbed again.
    #[test]
    fn noise_makes_no_oscillation() {
        for seed in 0..200 {
            let mut draws = fastrand::Rng::with_seed(seed);
            let skew = draws.f64() * 1.2;
            let mut weights: Vec<f64> = (1..=400).map(|rank| f64::from(rank).powf(-skew)).collect();
            match draws.bool() {
                true => draws.shuffle(&mut weights),
                false => weights.rotate_right(draws.usize(0..400)),
            }
            let mut cluster = Cluster::new(2 + draws.u64(0..5), weights);
            let before = cluster.imbalance();
            let mut settle = || cluster.settle(&mut draws, Some(2_000));
            let moves: usize = (0..20).map(|_| settle()).sum();
            let later: usize = (0..20).map(|_| settle()).sum();
            assert!(moves < 20, "seed {seed}: {moves} moves");
            assert!(later <= 1, "seed {seed}: {later} moves after {moves}");
            assert!(cluster.imbalance() <= before.max(1.3), "seed {seed}");
        }
    }

    /// A single key cannot be cut, so it stays where it is.
    #[test]
    fn one_hot_key_does_not_wander() {
        for hot in [0, 37, 99] {
            let heat = |key| if key == hot { 1_000.0 } else { 1.0 };
            let mut cluster = Cluster::new(4, (0..100).map(heat).collect());
            let owner = cluster.owners[hot];
            let moves = cluster.settle(&mut fastrand::Rng::new(), None);
            assert!(moves <= 4);
            assert_eq!(cluster.owners[hot], owner);
        }
    }

    #[test]
    fn neighbours_are_preferred_and_partitions_stay_few() {
        let mut draws = fastrand::Rng::with_seed(3);
        let mut cluster = Cluster::new(4, vec![1.0; 1_000]);
        for _ in 0..200 {
            let hot = draws.usize(0..900);
            let heat = |key| {
                if (hot..hot + 100).contains(&key) {
                    100.0
                } else {
                    1.0
                }
            };
            cluster.weights = (0..1_000).map(heat).collect();
            cluster.settle(&mut draws, None);
            assert!(cluster.partitions().len() <= MOST_A_MEMBER * 4 + 2);
        }
        // The first takes the keys beside its own.
        let heat = |key| {
            if (250..300).contains(&key) {
                100.0
            } else {
                1.0
            }
        };
        let cluster = Cluster::new(2, (0..500).map(heat).collect());
        let it = cluster.decide(2, None).unwrap();
        assert_eq!((*it.keys.start(), it.to), (250, compute(1)));
        assert!((270..280).contains(it.keys.end()), "{it:?}");
    }

    /// Slots, for example: a boundary never lies within one.
    #[test]
    fn cuts_are_where_they_may_be() {
        const BITS: u32 = 58;
        let mut draws = fastrand::Rng::with_seed(5);
        let mut moves = 0;
        for _ in 0..2_000 {
            let slots = draws.u64(1..64);
            let last = slots << BITS;
            let mut samples: Vec<_> = (0..60).map(|_| draws.u64(0..last)).collect();
            samples.sort_unstable();
            let samples = samples.into_iter().map(|key| Sample { key, requests: 1.0 });
            let partitions = [
                (0..=last - 1, Some(compute(1))),
                (last..=u64::MAX, Some(compute(2))),
            ];
            let view = View {
                me: compute(1),
                loads: &[(compute(1), 60.0), (compute(2), 0.0), (compute(3), 1.0)],
                partitions: &partitions,
                samples: &samples.collect::<Vec<_>>(),
            };
            let balancing = Balancing {
                aligned_bits: BITS,
                ..Balancing::default()
            };
            let Some(Move { keys, .. }) = decide(&view, &balancing) else {
                // There is nothing to cut, or nearly all is asked for in one place.
                assert!(slots < 3, "{slots}");
                continue;
            };
            moves += 1;
            let is_aligned = |key: u64| key & ((1 << BITS) - 1) == 0;
            assert!(
                is_aligned(*keys.start()) && is_aligned(keys.end() + 1),
                "{keys:?}"
            );
            assert!(*keys.end() < last);
        }
        assert!(moves > 1_000, "{moves}");
    }

    #[test]
    fn who_knows_little_does_nothing() {
        let weights = (0..40).map(|key| if key < 20 { 10.0 } else { 1.0 });
        let cluster = Cluster::new(2, weights.collect());
        assert_eq!(cluster.decide(1, None), None, "20 samples");
        let mut draws = fastrand::Rng::with_seed(1);
        assert!(cluster.decide(1, Some((&mut draws, 1_000))).is_some());
        assert_eq!(cluster.decide(2, None), None, "it is asked for less");
        assert_eq!(cluster.decide(3, None), None, "nobody has heard of it");
    }
}

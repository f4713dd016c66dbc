//! The figures of a run: those of `timberline bench`, under the same names, and a few of its own.

use serde::{Deserialize, Serialize};
use timberline_bench::report::{Meta, Outcome, median};

use crate::contenders::{Side, row};

/// The contents of the `--json` file.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where, when and how the run was made.
    pub meta: Meta,
    /// One entry for each contender in each case.
    pub results: Vec<Figures>,
}

/// One contender in one case.
///
/// `placement` is `all-fast` for ours and `none` for peers. `fast_bytes` is all memory of the map:
/// its allocations, and the bytes that its arenas have committed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// The figures common to all benchmarks.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// `random`, `dense`, `urls` or `words`.
    pub keys: String,
    /// `uniform` or `zipf`; empty for loading.
    pub distribution: String,
    /// Its batch; rounds are comparable only within one batch.
    pub batch: usize,
    /// Resident bytes of the process for the loaded map, including its own mappings and the headers
    /// and holes of its allocator.
    pub resident_bytes: u64,
    /// For ours: the peer with the lowest ratio to it.
    pub best_peer: Option<String>,
    /// Throughput over that peer's: the median of the rounds' ratios.
    pub ratio_to_best_peer: Option<f64>,
    /// The lowest ratio of a round.
    pub ratio_to_best_peer_min: Option<f64>,
    /// The highest ratio of a round.
    pub ratio_to_best_peer_max: Option<f64>,
}

impl Figures {
    /// Where the contender comes from.
    pub fn side(&self) -> Side {
        row(&self.outcome.index).map_or(Side::Peer, |row| row.side)
    }

    /// Whether the other entry is of the same case.
    pub fn same_case(&self, other: &Figures) -> bool {
        let case = |figures: &'_ Figures| {
            let Figures {
                outcome,
                keys,
                distribution,
                ..
            } = figures;
            let Outcome {
                workload,
                records,
                threads,
                ..
            } = outcome;
            (
                workload.clone(),
                keys.clone(),
                distribution.clone(),
                *threads,
                *records,
            )
        };
        case(self) == case(other)
    }
}

/// Throughput over another's, round by round: median, lowest, highest; `None` if no rounds pair up.
pub fn ratio(own: &[f64], other: &[f64]) -> Option<[f64; 3]> {
    let pairs = own.iter().zip(other).filter(|(_, other)| **other > 0.0);
    let ratios: Vec<f64> = pairs.map(|(own, other)| own / other).collect();
    let least = ratios.iter().copied().reduce(f64::min)?;
    let most = ratios.iter().copied().reduce(f64::max)?;
    Some([median(&ratios)?, least, most])
}

/// Finds the best peer of each of ours: the one with the lowest ratio, among those of the entry's
/// batch, over all batches of a case.
pub fn fill_ratios(results: &mut [Figures]) {
    for at in 0..results.len() {
        let own = &results[at];
        if own.side() != Side::Ours {
            continue;
        }
        let entries = |index: &'_ str| {
            let index = index.to_string();
            let own = own.clone();
            results
                .iter()
                .filter(move |figures| figures.outcome.index == index && figures.same_case(&own))
        };
        let peers = results
            .iter()
            .filter(|peer| peer.side() == Side::Peer && peer.same_case(own));
        let ratios = peers.filter_map(|peer| {
            let mut beside = entries(&own.outcome.index);
            let beside = beside.find(|entry| entry.batch == peer.batch)?;
            let ratio = ratio(&beside.outcome.rounds, &peer.outcome.rounds)?;
            Some((peer.outcome.index.clone(), ratio))
        });
        let worst = ratios.min_by(|a, b| a.1[0].total_cmp(&b.1[0]));
        let figures = &mut results[at];
        figures.best_peer = worst.as_ref().map(|(name, _)| name.clone());
        figures.ratio_to_best_peer = worst.as_ref().map(|(_, ratio)| ratio[0]);
        figures.ratio_to_best_peer_min = worst.as_ref().map(|(_, ratio)| ratio[1]);
        figures.ratio_to_best_peer_max = worst.as_ref().map(|(_, ratio)| ratio[2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(index: &str, batch: usize, rounds: &[f64]) -> Figures {
        let mut figures = Figures {
            batch,
            keys: "random".into(),
            ..Figures::default()
        };
        figures.outcome.index = index.into();
        figures.outcome.workload = "ycsb-c".into();
        figures.outcome.set_rounds(rounds.to_vec());
        figures
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ratio = ratio(&[2.0, 9.0, 8.0], &[1.0, 3.0, 2.0]).unwrap();
        assert_eq!(ratio, [3.0, 2.0, 4.0]);
        assert_eq!(super::ratio(&[1.0], &[]), None);
        assert_eq!(super::ratio(&[1.0], &[0.0]), None);
    }

    #[test]
    fn the_best_peer_is_the_one_with_the_smallest_ratio() {
        let mut results = vec![
            figures("empty", 0, &[99.0, 99.0]),
            figures("btree", 0, &[4.0, 6.0]),
            figures("congee", 0, &[8.0, 8.0]),
            figures("scc", 0, &[1.0, 2.0]),
        ];
        fill_ratios(&mut results);
        assert_eq!(results[1].best_peer.as_deref(), Some("congee"));
        assert_eq!(results[1].ratio_to_best_peer, Some(0.625));
        assert_eq!(results[1].ratio_to_best_peer_min, Some(0.5));
        assert_eq!(results[1].ratio_to_best_peer_max, Some(0.75));
        assert_eq!(results[2].best_peer, None);
    }

    /// The machine ran at half speed during the second batch: its peer is compared with our results
    /// of that batch.
    #[test]
    fn batches_are_not_mixed() {
        let mut results = vec![
            figures("btree", 0, &[8.0]),
            figures("scc", 0, &[4.0]),
            figures("btree", 1, &[4.0]),
            figures("congee", 1, &[3.0]),
        ];
        fill_ratios(&mut results);
        for at in [0, 2] {
            assert_eq!(results[at].best_peer.as_deref(), Some("congee"));
            assert_eq!(results[at].ratio_to_best_peer, Some(4.0 / 3.0));
        }
    }

    #[test]
    fn cases_are_not_mixed() {
        let mut results = vec![figures("btree", 0, &[8.0]), figures("scc", 0, &[4.0])];
        results[1].distribution = "zipf".into();
        fill_ratios(&mut results);
        assert_eq!(results[0].ratio_to_best_peer, None);
    }

    #[test]
    fn the_names_of_all_benchmarks_are_on_the_top_level() {
        let json = serde_json::to_value(figures("btree", 0, &[1.0])).unwrap();
        for name in ["index", "workload", "ops_per_s", "keys", "best_peer"] {
            assert!(json.get(name).is_some(), "{name}");
        }
        assert!(json.get("outcome").is_none());
    }
}

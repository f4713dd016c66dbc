//! The figures of a run: those of `timberline bench`, under the same names, and a few of its own.

use serde::{Deserialize, Serialize};
use timberline_bench::report::{Meta, Outcome, median};

use crate::subjects::{Side, named};

/// The contents of the `--json` file.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where, when and how the run was made.
    pub meta: Meta,
    /// One entry for each subject in each row.
    pub results: Vec<Figures>,
}

/// One subject in one row.
///
/// `placement` is `all-fast` for ours and `none` for peers. `fast_bytes` is what of the loaded map
/// is resident in the process: the median of the rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// The figures common to all benchmarks.
    #[serde(flatten)]
    pub outcome: Outcome,
    pub keys: String,
    /// The size of pages: `4k` or `2m`.
    pub pages: String,
    /// What of `fast_bytes` lies in 2 MiB pages.
    pub huge_page_bytes: u64,
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
    pub fn side(&self) -> Side {
        named(&self.outcome.index).map_or(Side::Peer, |row| row.side)
    }

    /// Whether the other entry is of the same map: keys and pages.
    pub fn same_map(&self, other: &Figures) -> bool {
        (&self.keys, &self.pages) == (&other.keys, &other.pages)
    }

    /// Whether the other entry is of the same map and workload.
    pub fn same_row(&self, other: &Figures) -> bool {
        self.same_map(other) && self.outcome.workload == other.outcome.workload
    }
}

/// Throughput over another's, round by round: median, lowest, highest; `None` if no rounds pair up.
fn ratio(own: &[f64], other: &[f64]) -> Option<[f64; 3]> {
    let pairs = own.iter().zip(other).filter(|(_, other)| **other > 0.0);
    let ratios: Vec<f64> = pairs.map(|(own, other)| own / other).collect();
    let least = ratios.iter().copied().reduce(f64::min)?;
    let most = ratios.iter().copied().reduce(f64::max)?;
    Some([median(&ratios)?, least, most])
}

/// Finds the best peer of each of ours: the one with the lowest ratio.
pub fn fill_ratios(results: &mut [Figures]) {
    for at in 0..results.len() {
        let own = &results[at];
        if own.side() != Side::Ours {
            continue;
        }
        let is_peer = |peer: &&Figures| peer.side() == Side::Peer && peer.same_row(own);
        let ratios = results.iter().filter(is_peer).filter_map(|peer| {
            let ratio = ratio(&own.outcome.rounds, &peer.outcome.rounds)?;
            Some((peer.outcome.index.clone(), ratio))
        });
        let Some((name, ratio)) = ratios.min_by(|a, b| a.1[0].total_cmp(&b.1[0])) else {
            continue;
        };
        let figures = &mut results[at];
        figures.best_peer = Some(name);
        figures.ratio_to_best_peer = Some(ratio[0]);
        figures.ratio_to_best_peer_min = Some(ratio[1]);
        figures.ratio_to_best_peer_max = Some(ratio[2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(index: &str, rounds: &[f64]) -> Figures {
        let mut figures = Figures {
            keys: "random".into(),
            ..Figures::default()
        };
        figures.outcome.index = index.into();
        figures.outcome.workload = "zipf".into();
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
            figures("empty", &[99.0, 99.0]),
            figures("btree", &[4.0, 6.0]),
            figures("congee", &[8.0, 8.0]),
            figures("scc", &[1.0, 2.0]),
        ];
        fill_ratios(&mut results);
        assert_eq!(results[1].best_peer.as_deref(), Some("congee"));
        assert_eq!(results[1].ratio_to_best_peer, Some(0.625));
        assert_eq!(results[1].ratio_to_best_peer_min, Some(0.5));
        assert_eq!(results[1].ratio_to_best_peer_max, Some(0.75));
        assert_eq!(results[2].best_peer, None);
    }

    #[test]
    fn rows_are_not_mixed() {
        let mut results = vec![
            figures("btree", &[8.0]),
            figures("scc", &[4.0]),
            figures("congee", &[4.0]),
        ];
        results[1].pages = "2m".into();
        results[2].outcome.workload = "scans".into();
        fill_ratios(&mut results);
        assert_eq!(results[0].ratio_to_best_peer, None);
    }

    #[test]
    fn the_names_of_all_benchmarks_are_on_the_top_level() {
        let json = serde_json::to_value(figures("btree", &[1.0])).unwrap();
        for name in ["index", "workload", "ops_per_s", "keys", "best_peer"] {
            assert!(json.get(name).is_some(), "{name}");
        }
        assert!(json.get("outcome").is_none());
    }
}

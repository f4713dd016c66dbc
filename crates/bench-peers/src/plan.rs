//! The plan of a run, checked before anything starts.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::case::{Case, Spread};
use crate::contenders::{ROWS, Row, Side};
use crate::protocol::KeyKind;

/// The pseudo-workload that measures loading.
pub const LOAD: &str = "load";

/// The workloads, in execution order: those with inserts come last, so that the others run on maps
/// of the same size.
pub const WORKLOADS: [&str; 7] = [
    LOAD, "ycsb-c", "ycsb-b", "ycsb-a", "ycsb-f", "ycsb-e", "ycsb-d",
];

/// Estimated bytes of memory for each record of each contender.
const BYTES_PER_RECORD: u64 = 110;

/// The plan of a run.
pub struct Plan {
    /// The contenders, in the order of a round.
    pub rows: Vec<&'static Row>,
    /// Peers in a batch; our maps run in each batch.
    pub batch: usize,
    /// Kinds of keys, measured one after the other.
    pub keys: Vec<KeyKind>,
    /// Numbers of threads, measured one after the other.
    pub threads: Vec<usize>,
    /// Whether loading is reported.
    pub load: bool,
    /// The cases that run after loading.
    pub cases: Vec<Case>,
    /// Records to load.
    pub records: u64,
    /// Rounds.
    pub rounds: usize,
    /// Measured time of a turn.
    pub slice: Duration,
    /// Seed of the requests.
    pub seed: u64,
    /// The file of URLs.
    pub urls: PathBuf,
    /// The file of words.
    pub words: PathBuf,
    /// Which allocators ask for 2 MiB pages.
    pub pages: Pages,
}

/// Which allocators ask the kernel for 2 MiB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pages {
    /// The defaults: our arenas ask, malloc does not.
    AsIs,
    /// Our arenas and malloc.
    Huge,
    /// None.
    Small,
}

/// The names that `--index` accepts.
pub fn names() -> impl Iterator<Item = &'static str> {
    let rows = ROWS.iter().map(|row| row.name);
    ["all", "ours", "peers"].into_iter().chain(rows)
}

/// Each of `given` once, in the order of their type.
pub fn in_order<T: Copy + Ord>(given: &[T]) -> Vec<T> {
    let all: BTreeSet<T> = given.iter().copied().collect();
    all.into_iter().collect()
}

/// The contenders of a list of names: `all`, `ours`, `peers`, or single ones. `empty` is always
/// included.
///
/// # Errors
/// The list contains no map.
pub fn rows(names: &[String]) -> Result<Vec<&'static Row>, String> {
    let has = |name: &str| names.iter().any(|given| given == name);
    let chosen = ROWS.iter().filter(|row| {
        let group = match row.side {
            Side::Ours => has("ours"),
            Side::Peer => has("peers"),
            Side::Floor => true,
        };
        group || has("all") || has(row.name)
    });
    let chosen: Vec<_> = chosen.collect();
    if chosen.iter().all(|row| row.side == Side::Floor) && !has("empty") {
        return Err("no index given; possible: all, ours, peers, or names".into());
    }
    Ok(chosen)
}

/// Whether loading is reported, and the cases: each workload with each distribution.
pub fn cases(workloads: &[String], spreads: &[Spread]) -> (bool, Vec<Case>) {
    let has = |name: &str| {
        workloads
            .iter()
            .any(|given| given == "all" || given == name)
    };
    let spreads = in_order(spreads);
    let cases = |workload: &'static str| {
        let case = move |spread: &Spread| Case {
            workload: workload.into(),
            spread: *spread,
        };
        spreads.iter().map(case).collect::<Vec<_>>()
    };
    let chosen = WORKLOADS
        .into_iter()
        .filter(|name| *name != LOAD && has(name));
    (has(LOAD), chosen.flat_map(cases).collect())
}

impl Plan {
    /// The batches of contenders that support keys of this kind.
    pub fn batches(&self, keys: KeyKind) -> Vec<Vec<&'static Row>> {
        let takes = |row: &&&'static Row| row.scans(keys).is_some();
        let all: Vec<_> = self.rows.iter().filter(takes).copied().collect();
        let (peers, own): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|row| row.side == Side::Peer);
        if peers.is_empty() {
            return vec![own];
        }
        let batch = |peers: &[&'static Row]| [&own[..], peers].concat();
        peers.chunks(self.batch).map(batch).collect()
    }

    /// The file of a kind of keys.
    pub fn file(&self, keys: KeyKind) -> Option<PathBuf> {
        match keys {
            KeyKind::Urls => Some(self.urls.clone()),
            KeyKind::Words => Some(self.words.clone()),
            KeyKind::Random | KeyKind::Dense => None,
        }
    }

    /// Checks that the maps of a batch fit into `available` bytes.
    ///
    /// # Errors
    /// One line that names limits that fit.
    pub fn check_memory(&self, available: u64) -> Result<(), String> {
        let batches = self.keys.iter().flat_map(|&keys| self.batches(keys));
        let most = batches.map(|batch| batch.len() as u64).max().unwrap_or(0);
        let needed = most * self.records * BYTES_PER_RECORD;
        if needed <= available {
            return Ok(());
        }
        Err(format!(
            "{most} maps of {} records need about {} MiB and {} MiB are free: give fewer --records, fewer \
             --index, or a smaller --batch (peers at a time)",
            self.records,
            needed >> 20,
            available >> 20
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn plan(index: &[&str], batch: usize) -> Plan {
        Plan {
            rows: rows(&strings(index)).unwrap(),
            batch,
            keys: vec![KeyKind::Random],
            threads: vec![1],
            load: true,
            cases: Vec::new(),
            records: 1_000_000,
            rounds: 3,
            slice: Duration::from_millis(100),
            seed: 1,
            urls: PathBuf::new(),
            words: PathBuf::new(),
            pages: Pages::AsIs,
        }
    }

    fn shown(batches: Vec<Vec<&'static Row>>) -> Vec<String> {
        let names = |batch: &Vec<&Row>| batch.iter().map(|row| row.name).collect::<Vec<_>>();
        batches.iter().map(|batch| names(batch).join(" ")).collect()
    }

    #[test]
    fn ours_are_beside_every_batch_of_peers() {
        let plan = plan(&["btree", "scc", "congee", "masstree"], 2);
        assert_eq!(
            shown(plan.batches(KeyKind::Random)),
            ["empty btree congee scc", "empty btree masstree"]
        );
        assert_eq!(
            shown(plan.batches(KeyKind::Urls)),
            ["empty scc masstree"],
            "what takes no byte strings stays out"
        );
    }

    #[test]
    fn without_peers_there_is_one_batch() {
        assert_eq!(
            shown(plan(&["ours"], 1).batches(KeyKind::Dense))[0],
            format!("empty {}", ours())
        );
    }

    fn ours() -> String {
        let ours = ROWS
            .iter()
            .filter(|row| row.side == Side::Ours && row.words.is_some());
        ours.map(|row| row.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn workloads_that_insert_come_last() {
        let workloads = strings(&["ycsb-d", "load", "ycsb-a"]);
        let (load, cases) = cases(&workloads, &[Spread::Zipf, Spread::Uniform]);
        assert!(load && rows(&[]).is_err());
        let shown = cases
            .iter()
            .map(|case| (case.workload.as_str(), case.spread));
        assert!(shown.eq([
            ("ycsb-a", Spread::Uniform),
            ("ycsb-a", Spread::Zipf),
            ("ycsb-d", Spread::Uniform),
            ("ycsb-d", Spread::Zipf),
        ]));
    }

    #[test]
    fn maps_that_do_not_fit_are_refused_with_what_would() {
        let plan = plan(&["all"], 100);
        assert!(plan.check_memory(1 << 40).is_ok());
        let error = plan.check_memory(1 << 28).unwrap_err();
        assert!(error.contains("256 MiB are free") && error.contains("--batch"));
        assert!(!error.contains('\n'));
    }
}

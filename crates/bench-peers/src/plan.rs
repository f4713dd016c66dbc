//! What a run is to do, checked before anything is started.

use std::path::PathBuf;
use std::time::Duration;

use crate::case::{Case, Spread};
use crate::contenders::{ROWS, Row, Side, row};
use crate::protocol::KeyKind;

/// The workload that is loading itself.
pub const LOAD: &str = "load";

/// The workloads, in the order in which they run: those that insert come last, so that the others run on
/// maps of the same size.
pub const WORKLOADS: [&str; 7] = [
    LOAD, "ycsb-c", "ycsb-b", "ycsb-a", "ycsb-f", "ycsb-e", "ycsb-d",
];

/// Bytes of memory to reckon with for each record of each contender.
const BYTES_PER_RECORD: u64 = 110;

/// A run.
pub struct Plan {
    /// The contenders, in the order of a round.
    pub rows: Vec<&'static Row>,
    /// Peers side by side at a time; ours are beside each of them.
    pub batch: usize,
    /// Kinds of keys, one after the other.
    pub keys: Vec<KeyKind>,
    /// Numbers of threads, one after the other.
    pub threads: Vec<usize>,
    /// Whether loading is reported.
    pub load: bool,
    /// What is asked after loading.
    pub cases: Vec<Case>,
    /// Records to load.
    pub records: u64,
    /// Rounds.
    pub rounds: usize,
    /// Measured time of a turn.
    pub slice: Duration,
    /// Makes the requests repeatable.
    pub seed: u64,
    /// Files of keys.
    pub urls: PathBuf,
    /// Likewise.
    pub words: PathBuf,
    /// Who asks for 2 MiB pages.
    pub pages: Pages,
}

/// Who asks the kernel for 2 MiB pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Everybody as they come: our arenas do, malloc does not.
    AsIs,
    /// Our arenas, and malloc for everybody.
    Huge,
    /// Nobody.
    Small,
}

impl Pages {
    /// Reads `as-is`, `huge` or `small`.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(text: &str) -> Result<Pages, String> {
        match text {
            "as-is" => Ok(Pages::AsIs),
            "huge" => Ok(Pages::Huge),
            "small" => Ok(Pages::Small),
            _ => Err(format!(
                "unknown --pages `{text}`; possible: as-is, huge, small"
            )),
        }
    }
}

/// The contenders of a list of names: `all`, `ours`, `peers`, or single ones. `empty` is always among them.
///
/// # Errors
/// A name that is unknown, or no map at all.
pub fn rows(names: &[String]) -> Result<Vec<&'static Row>, String> {
    for name in names {
        if row(name).is_none() && !["all", "ours", "peers"].contains(&name.as_str()) {
            let known: Vec<_> = ROWS.iter().map(|row| row.name).collect();
            return Err(format!(
                "unknown index `{name}`; possible: all, ours, peers, {}",
                known.join(", ")
            ));
        }
    }
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

/// The kinds of keys of a list of names.
///
/// # Errors
/// A name that is unknown, or none.
pub fn keys(names: &[String]) -> Result<Vec<KeyKind>, String> {
    const ALL: [KeyKind; 4] = [
        KeyKind::Random,
        KeyKind::Dense,
        KeyKind::Urls,
        KeyKind::Words,
    ];
    choose("keys", names, &ALL, |kind| kind.name())
}

/// Whether loading is reported, and the cases: each workload with each spread.
///
/// # Errors
/// A name that is unknown, or none.
pub fn cases(workloads: &[String], spreads: &[String]) -> Result<(bool, Vec<Case>), String> {
    let spreads = choose(
        "dist",
        spreads,
        &[Spread::Uniform, Spread::Zipf],
        |spread| match spread {
            Spread::Uniform => "uniform",
            Spread::Zipf => "zipf",
        },
    )?;
    let all;
    let workloads = if workloads == ["all"] {
        all = WORKLOADS.map(String::from);
        &all[..]
    } else {
        workloads
    };
    let chosen = choose("workload", workloads, &WORKLOADS, |name| name)?;
    let cases = chosen
        .iter()
        .filter(|name| **name != LOAD)
        .flat_map(|name| {
            spreads.iter().map(|&spread| Case {
                workload: name.to_string(),
                spread,
            })
        });
    Ok((chosen.contains(&LOAD), cases.collect()))
}

/// Those of `all` that are named, in the order of `all`.
fn choose<T: Copy>(
    flag: &str,
    names: &[String],
    all: &[T],
    name_of: fn(T) -> &'static str,
) -> Result<Vec<T>, String> {
    let possible = || {
        let names: Vec<_> = all.iter().map(|item| name_of(*item)).collect();
        names.join(", ")
    };
    if let Some(unknown) = names
        .iter()
        .find(|name| all.iter().all(|item| name_of(*item) != **name))
    {
        return Err(format!(
            "unknown --{flag} `{unknown}`; possible: {}",
            possible()
        ));
    }
    let is_named = |item: &&T| names.iter().any(|name| name == name_of(**item));
    let chosen: Vec<T> = all.iter().filter(is_named).copied().collect();
    if chosen.is_empty() {
        return Err(format!("no --{flag} given; possible: {}", possible()));
    }
    Ok(chosen)
}

impl Plan {
    /// The groups of contenders that run side by side with keys of a kind.
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

    /// Whether the maps that are side by side fit into `available` bytes.
    ///
    /// # Errors
    /// One line that says what would.
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

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn plan(index: &[&str], batch: usize) -> Plan {
        Plan {
            rows: rows(&names(index)).unwrap(),
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
    fn what_is_not_known_is_named_with_what_is() {
        let error = rows(&names(&["sled"])).err().unwrap();
        assert!(
            error.starts_with("unknown index `sled`; possible: all, ours, peers, empty, btree")
        );
        assert!(rows(&[]).is_err());
        let error = keys(&names(&["ints"])).unwrap_err();
        assert_eq!(
            error,
            "unknown --keys `ints`; possible: random, dense, urls, words"
        );
        let error = cases(&names(&["ycsb-c"]), &names(&["normal"])).unwrap_err();
        assert_eq!(error, "unknown --dist `normal`; possible: uniform, zipf");
        let error = cases(&names(&["hs-c"]), &names(&["zipf"])).unwrap_err();
        assert!(error.starts_with("unknown --workload `hs-c`; possible: load, ycsb-c"));
        assert!(Pages::parse("large").is_err());
    }

    #[test]
    fn workloads_that_insert_come_last() {
        let spreads = names(&["zipf", "uniform"]);
        let (load, cases) = cases(&names(&["ycsb-d", "load", "ycsb-a"]), &spreads).unwrap();
        assert!(load);
        let shown: Vec<_> = cases
            .iter()
            .map(|case| format!("{} {:?}", case.workload, case.spread))
            .collect();
        assert_eq!(
            shown,
            [
                "ycsb-a Uniform",
                "ycsb-a Zipf",
                "ycsb-d Uniform",
                "ycsb-d Zipf"
            ]
        );
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

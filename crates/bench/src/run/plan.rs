//! The plan of a run, checked before anything is built.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timberline_research::pages::PageCosts;
use timberline_research::table::{self, Grain, Kind, Parameter, TABLE};
use timberline_tier::emulator::{CacheSize, Profile};

use super::record_format::{Keys, RecordFormat};
use super::source::Requests;
use crate::BadInput;
use crate::names::{suggestion, unknown};
use crate::workload::{KeySpace, Tpcc, Workload};

/// The available maps.
pub const INDEXES: [&str; 3] = ["btree", "art", "masstree"];

/// The fast-memory budget of a placement.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// A fraction of the tree's bytes.
    Ratio(f64),
    /// A number of bytes.
    Bytes(usize),
}

impl Budget {
    /// Parses `20%`, `64M`, `1.5G`, `4096` (bytes).
    ///
    /// # Errors
    /// The text has none of these forms.
    pub fn parse(text: &str) -> Result<Budget, BadInput> {
        let bad = || {
            BadInput(format!(
                "bad budget `{text}`: give a fraction of the tree such as `20%` (above 0, up to 100%), or bytes such \
                 as `64M` or `1.5G`"
            ))
        };
        let number = |digits: &str| {
            let number = digits.parse::<f64>().map_err(|_| bad())?;
            if number.is_finite() && number > 0.0 {
                Ok(number)
            } else {
                Err(bad())
            }
        };
        if let Some(percent) = text.strip_suffix('%') {
            let ratio = number(percent)? / 100.0;
            return if ratio <= 1.0 {
                Ok(Budget::Ratio(ratio))
            } else {
                Err(bad())
            };
        }
        let scale = |suffix| match suffix {
            'K' | 'k' => Some(1u64 << 10),
            'M' | 'm' => Some(1 << 20),
            'G' | 'g' => Some(1 << 30),
            'T' | 't' => Some(1 << 40),
            _ => None,
        };
        let (digits, unit) = match text.chars().last().and_then(scale) {
            Some(unit) => (&text[..text.len() - 1], unit),
            None => (text, 1),
        };
        let bytes = number(digits)? * unit as f64;
        if bytes < 1.0 || bytes > (1u64 << 60) as f64 {
            Err(bad())
        } else {
            Ok(Budget::Bytes(bytes as usize))
        }
    }

    /// The budget in bytes for a tree of `tree` bytes.
    pub fn bytes(self, tree: usize) -> usize {
        match self {
            Budget::Ratio(ratio) => (tree as f64 * ratio) as usize,
            Budget::Bytes(bytes) => bytes,
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Budget::Ratio(ratio) => write!(f, "{:.0} %", 100.0 * ratio),
            Budget::Bytes(bytes) => write!(f, "{bytes} bytes"),
        }
    }
}

/// A load: the same requests and records for every map.
#[derive(Clone)]
pub struct Load {
    pub requests: Requests,
    pub format: RecordFormat,
}

impl Load {
    /// A workload's requests, over a key space.
    pub fn stream(workload: Workload, space: KeySpace, format: RecordFormat) -> Load {
        Load {
            requests: Requests::Stream { workload, space },
            format,
        }
    }

    /// TPC-C's accesses, which have their own keys.
    pub fn tpcc(tpcc: Tpcc, format: RecordFormat) -> Load {
        Load {
            requests: Requests::Tpcc(tpcc),
            format,
        }
    }
}

/// Parses a count: `2M`, `200k`, `1000`.
///
/// # Errors
/// One line: it is no count.
pub fn count(text: &str) -> Result<u64, String> {
    let bad =
        || format!("`{text}` is not a count: give a number from 1 on, such as 2M, 200k or 5000");
    let (digits, unit) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1_000),
        Some('m' | 'M') => (&text[..text.len() - 1], 1_000_000),
        Some('g' | 'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(unit).filter(|&n| n > 0).ok_or_else(bad)
}

/// The emulator's profiles of one slow tier. `free` is the control: its slow memory costs nothing,
/// so whatever differs there is not placement.
pub const PROFILES: [&str; 14] = [
    "cxl", "cxl-fpga", "rdma", "us1", "us2", "us3", "us4", "us5", "us6", "us7", "us8", "us9",
    "us10", "free",
];

/// The emulator's profile of this name.
///
/// # Errors
/// The name is unknown.
pub fn profile(name: &str) -> Result<Profile, BadInput> {
    Profile::parse(name).map_err(|unknown| {
        let line = format!("{unknown};{}", suggestion(name, &PROFILES));
        BadInput(line.trim_end_matches(';').into())
    })
}

/// Parses SIDLE's watermarks, such as `85:95`: percentages of fast memory, the low one first.
///
/// # Errors
/// They are not two percentages in order.
pub fn watermarks(text: &str) -> Result<(f64, f64), BadInput> {
    let percent = |text: &str| text.parse::<f64>().ok().map(|it| it / 100.0);
    let both = text.split_once(':');
    let both = both.and_then(|(low, high)| percent(low).zip(percent(high)));
    let in_order = both.filter(|(low, high)| 0.0 < *low && low < high && *high <= 1.0);
    in_order.ok_or_else(|| {
        BadInput(format!(
            "bad watermarks `{text}`: give two percents of fast memory, the low one first, such as 85:95"
        ))
    })
}

/// Parses the size of the modelled CPU cache: a power of two bytes, such as `1M` or `128K`.
///
/// # Errors
/// It is no such size, or outside the emulator's range.
pub fn cpu_cache(text: &str) -> Result<CacheSize, BadInput> {
    let bytes = match Budget::parse(text) {
        Ok(Budget::Bytes(bytes)) => bytes,
        _ => 0,
    };
    CacheSize::new(bytes).map_err(|_| {
        BadInput(format!(
            "bad CPU cache `{text}`: give a power of two from 1K to 64M bytes, such as 1M"
        ))
    })
}

#[derive(Clone)]
pub struct Plan {
    /// The loads, one after the other.
    pub loads: Vec<Load>,
    /// The maps, one after the other: names of [`INDEXES`].
    pub indexes: Vec<&'static str>,
    /// The placements, side by side: names of [`TABLE`].
    pub placements: Vec<&'static str>,
    pub threads: usize,
    /// Measured time of a placement in a round.
    pub slice: Duration,
    /// The same of a placement that does not adapt, where nothing else changes its map
    /// ([`Plan::slice_of`]).
    pub static_slice: Option<Duration>,
    pub rounds: usize,
    /// Unmeasured time of a placement that adapts, before the first round.
    pub warmup: Duration,
    pub budget: Budget,
    /// The tiers between the fast one and the slowest, fastest first.
    pub middle: Vec<Budget>,
    /// Interval at which the hot region moves, in a placement's own measured time; makes one long
    /// round.
    pub shift_every: Option<Duration>,
    /// Interval between scans of SIDLE's trigger; its cooler waits four times as long, as
    /// published. The published interval if `None`.
    pub interval: Option<Duration>,
    /// SIDLE's low and high watermarks, as fractions of fast memory. The published ones if `None`.
    pub watermarks: Option<(f64, f64)>,
    pub seed: u64,
    /// The NUMA nodes of each tier, the fast one first; empty for any node.
    pub nodes: Vec<Vec<u32>>,
    /// Size of the emulator's CPU cache, for each thread.
    pub cpu_cache: CacheSize,
    /// Requests of a thread that overlap in emulated memory; 0 if each waits for the one before.
    pub overlap: usize,
    /// Cores set aside for workers; shared with request threads if `None`.
    pub worker_cores: Option<usize>,
    pub page_costs: PageCosts,
}

/// The placements of a list of names, in the order of [`TABLE`], without duplicates.
///
/// # Errors
/// A name is unknown, or the list is empty.
pub fn placements(names: &[String]) -> Result<Vec<&'static str>, BadInput> {
    choose("placement", &TABLE.map(|row| row.name), names)
}

/// The maps of a list of names, in the order of [`INDEXES`], without duplicates.
///
/// # Errors
/// A name is unknown, or the list is empty.
pub fn indexes(names: &[String]) -> Result<Vec<&'static str>, BadInput> {
    choose("index", &INDEXES, names)
}

fn choose(
    what: &str,
    known: &[&'static str],
    names: &[String],
) -> Result<Vec<&'static str>, BadInput> {
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(BadInput(unknown(what, name, known.iter().copied())));
    }
    let is_named = |known: &&'static str| names.iter().any(|name| name == known);
    let chosen: Vec<_> = known.iter().copied().filter(is_named).collect();
    if chosen.is_empty() {
        let possible = known.join(", ");
        Err(BadInput(format!("no {what} given; possible: {possible}")))
    } else {
        Ok(chosen)
    }
}

/// Whether a parameter affects the placement of this name.
fn heeds(placement: &str, parameter: Parameter) -> bool {
    table::row(placement).is_some_and(|row| row.heeds.contains(&parameter))
}

impl Plan {
    /// The given parameters that do not affect all placements, with their options.
    fn parameters(&self) -> impl Iterator<Item = (&'static str, Parameter)> {
        let interval = self.interval.map(|_| ("--interval", Parameter::Interval));
        let watermarks = self.watermarks;
        let watermarks = watermarks.map(|_| ("--watermarks", Parameter::Watermarks));
        interval.into_iter().chain(watermarks)
    }

    /// One sentence for each parameter that affects only some placements.
    pub fn notes(&self) -> Vec<String> {
        let note = |(option, parameter)| {
            let placements = self.placements.iter().copied();
            let heeding = placements.filter(|name| heeds(name, parameter));
            let heeding = heeding.collect::<Vec<_>>().join(", ");
            format!("{option} affects {heeding} only.")
        };
        self.parameters().map(note).collect()
    }

    /// The NUMA nodes of a tier; empty for any node.
    pub fn nodes_of(&self, tier: usize) -> &[u32] {
        self.nodes.get(tier).map_or(&[], Vec::as_slice)
    }

    /// Checks that every placement can use all tiers.
    fn check_tiers(&self) -> Result<(), BadInput> {
        let takes_all = |name: &str| table::row(name).is_some_and(|row| row.more_tiers);
        let by_two = self.placements.iter().find(|name| !takes_all(name));
        match by_two {
            Some(name) if !self.middle.is_empty() => {
                let able = TABLE.iter().filter(|row| row.more_tiers);
                let able: Vec<_> = able.map(|row| row.name).collect();
                Err(BadInput(format!(
                    "the placement {name} uses two tiers, and --tiers gives {}: leave it out, or give --placements of {}",
                    self.middle.len() + 2,
                    able.join(", ")
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks that each given parameter affects at least one placement.
    fn check_heeded(&self) -> Result<(), BadInput> {
        for (option, parameter) in self.parameters() {
            if !self.placements.iter().any(|name| heeds(name, parameter)) {
                let heeding = TABLE.iter().filter(|row| row.heeds.contains(&parameter));
                let heeding = heeding.map(|row| row.name).collect::<Vec<_>>();
                return Err(BadInput(format!(
                    "{option} has no effect on {}: leave it out, or give --placements with one that \
                     heeds it: {}",
                    self.placements.join(", "),
                    heeding.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// The replay speed of a trace; `None` in a closed loop.
    pub fn speed(&self) -> Option<f64> {
        match &self.loads.first()?.requests {
            Requests::Trace { speed, .. } => *speed,
            Requests::Stream { .. } | Requests::Tpcc(_) => None,
        }
    }

    /// Measured time in a round of a placement that adapts or does not. One that does not is as
    /// fast in a short slice as in a long one, unless the map or the requests change meanwhile.
    pub fn slice_of(&self, load: &Load, kind: Kind) -> Duration {
        let changes = kind.adapts() || self.shift_every.is_some() || load.requests.go_on();
        self.static_slice.filter(|_| !changes).unwrap_or(self.slice)
    }

    /// Upper bound of the bytes that a workload's inserts add to a map during the run.
    pub fn growth(&self, load: &Load) -> usize {
        // Per thread.
        const REQUESTS_A_SECOND: f64 = 3e6;
        let seconds = self.warmup.as_secs_f64() + self.slice.as_secs_f64() * self.rounds as f64;
        let requests = seconds * self.threads as f64 * REQUESTS_A_SECOND;
        (requests * load.requests.inserts() * self.record_bytes(load) as f64) as usize
    }

    /// Bytes of a chunk of the arenas. Small compared with the budget: each size class leaves part
    /// of a chunk unused, and tables cover the reserved addresses, which are whole chunks.
    pub fn chunk_bytes(&self, load: &Load) -> usize {
        (self.tree_bytes(load) as usize / 512)
            .next_power_of_two()
            .max(64 << 10)
    }

    /// Upper bound of the loaded bytes of the largest map.
    fn tree_bytes(&self, load: &Load) -> u64 {
        load.requests.records() * self.record_bytes(load)
    }

    /// Upper bound of the average bytes of a record, in the largest map.
    fn record_bytes(&self, load: &Load) -> u64 {
        match (&load.format.keys, self.indexes.as_slice()) {
            // A tree of random 16-byte records is at least three quarters full.
            (Keys::Words, ["btree"]) => 24 + load.format.block_bytes() as u64,
            _ => 40 + load.format.bytes() as u64,
        }
    }

    /// Checks before loading that every setting has an effect, and that the machine's memory can
    /// hold the maps.
    ///
    /// # Errors
    /// One line with the needed and the available amount.
    pub fn check(&self, available: u64) -> Result<(), BadInput> {
        self.check_heeded()?;
        self.check_tiers()?;
        let record = |load: &Load| self.record_bytes(load);
        let map = |load: &Load| self.tree_bytes(load) + self.growth(load) as u64;
        let largest = self.loads.iter().map(map).max().unwrap_or(0);
        let needed = largest * self.placements.len() as u64;
        if self.indexes.contains(&"btree")
            && let Some(load) = self.loads.iter().find(|load| !load.format.has_word_keys())
        {
            return Err(BadInput(format!(
                "btree takes keys of eight bytes: for {} give --index art or masstree",
                load.format.keys.name()
            )));
        }
        let mut kernel = self
            .placements
            .iter()
            .filter(|name| table::row(name).is_some_and(|row| row.grain() == Grain::Kernel));
        if let Some(kernel) = kernel.next()
            && (0..2).any(|tier| self.nodes_of(tier).is_empty())
        {
            return Err(BadInput(format!(
                "the placement {kernel} needs two real memory tiers: give --native"
            )));
        }
        let sizes = std::iter::once(&self.budget).chain(&self.middle);
        let bytes = sizes.map(|size| match size {
            Budget::Bytes(bytes) => *bytes,
            Budget::Ratio(_) => 0,
        });
        let bytes: usize = bytes.sum();
        if bytes as u64 > available {
            return Err(BadInput(format!(
                "a budget of {bytes} bytes is more than the {available} bytes of free memory"
            )));
        }
        if needed > available {
            return Err(BadInput(format!(
                "{} maps need about {} MiB, and {} MiB are free: lower --records (to {}), or compare fewer \
                 --placements",
                self.placements.len(),
                needed >> 20,
                available >> 20,
                available
                    / self.loads.iter().map(record).max().unwrap_or(1)
                    / self.placements.len() as u64,
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_shares_or_bytes() {
        assert_eq!(Budget::parse("20%"), Ok(Budget::Ratio(0.2)));
        assert_eq!(Budget::parse("100%"), Ok(Budget::Ratio(1.0)));
        assert_eq!(Budget::parse("4096"), Ok(Budget::Bytes(4096)));
        assert_eq!(Budget::parse("1.5G"), Ok(Budget::Bytes(3 << 29)));
        assert_eq!(Budget::Ratio(0.25).bytes(1000), 250);
        for bad in [
            "", "%", "0%", "101%", "-5%", "nan%", "1X", "M", "0", "9999999T", "½G",
        ] {
            let error = Budget::parse(bad).unwrap_err().to_string();
            assert!(
                error.contains(bad) && error.contains("20%") && !error.contains('\n'),
                "{error}"
            );
        }
    }

    #[test]
    fn counts_have_units() {
        assert_eq!(count("2M"), Ok(2_000_000));
        assert_eq!(count("200k"), Ok(200_000));
        assert_eq!(count("7"), Ok(7));
        for bad in ["", "0", "-1", "2X", "99999999999999G", "M"] {
            assert!(count(bad).unwrap_err().contains("2M"), "{bad}");
        }
    }

    #[test]
    fn watermarks_are_two_percents_in_order() {
        assert_eq!(watermarks("85:95"), Ok((0.85, 0.95)));
        for bad in [
            "", "85", "95:85", "0:50", "50:50", "90:101", "a:b", "nan:90",
        ] {
            let error = watermarks(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")) && error.contains("85:95"));
        }
    }

    #[test]
    fn caches_are_powers_of_two() {
        assert_eq!(cpu_cache("128K").unwrap().bytes(), 128 << 10);
        for bad in ["", "0", "100K", "128M", "20%", "x"] {
            let error = cpu_cache(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}`")) && error.contains("64M"));
        }
    }

    #[test]
    fn unknown_placements_are_named_with_the_known() {
        let error = placements(&["tpp2".into()]).unwrap_err().to_string();
        assert!(
            error.contains("`tpp2`") && error.contains("timberline"),
            "{error}"
        );
        assert!(placements(&[]).is_err());
        let chosen = placements(&["timberline".into(), "all-fast".into(), "timberline".into()]);
        assert_eq!(chosen.unwrap(), ["all-fast", "timberline"]);
    }
}

//! What is to be run, and how the store is set up for it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timberline_io::Kind;
use timberline_store::{Durability, IndexMap, IndexMemory, Options};

use super::as_text;
use super::record::KEY_BYTES;

/// Live bytes ÷ the space that segments may take.
const FILLED: f64 = 0.8;
/// Bytes of the program that are not the store's: its code, stacks, and what the bench keeps.
const PROGRAM: u64 = 24 << 20;
/// Bytes of a record beside key and value.
const RECORD: u64 = 24;

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Where the store is made; removed at the end. Nothing may be there.
    pub folder: PathBuf,
    /// Records.
    pub records: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of memory for all of the process.
    pub memory_bytes: u64,
    /// Which map the index is.
    #[serde(with = "as_text")]
    pub index_map: IndexMap,
    /// Requests in flight.
    pub in_flight: usize,
    /// Threads that share the gets where there is nothing else; the first does all others.
    pub threads: usize,
    /// Gets of Zipf 0.99 before the first that is measured. A cache takes long to have what it
    /// will: of 5 million records that of rank 500,000 is wanted once in 8 million gets.
    pub warm: u64,
    /// Length of each measurement.
    pub slice: Duration,
    /// Turns of the measurements that take turns.
    pub rounds: usize,
    /// Of all requests.
    pub seed: u64,
    /// How files are read and written; `None` is io_uring where it is allowed, otherwise threads.
    #[serde(skip)]
    pub files: Option<Kind>,
}

impl Setting {
    /// Bytes of a record on the disk.
    pub(super) fn record_bytes(&self) -> u64 {
        (RECORD + (KEY_BYTES + self.value_bytes) as u64).next_multiple_of(8)
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.records * self.record_bytes()
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// One line: too little memory, a folder that has something in it, or more threads than
    /// requests in flight.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=self.in_flight).contains(&self.threads) {
            return Err(format!(
                "{} threads for {} requests in flight: give from 1 to {}",
                self.threads, self.in_flight, self.in_flight
            ));
        }
        let least = PROGRAM + Options::LEAST_MEMORY;
        if self.memory_bytes < least {
            return Err(format!(
                "{} bytes of memory: a store and this program take at least {least}",
                self.memory_bytes
            ));
        }
        match std::fs::read_dir(&self.folder).map(|mut it| it.next().is_none()) {
            Ok(false) => Err(format!(
                "{}: something is there; name a folder that is new or empty",
                self.folder.display()
            )),
            _ => Ok(()),
        }
    }

    /// Whether requests that go on for so long are enough.
    pub(super) fn for_a_slice(&self) -> impl FnMut(u64, Duration) -> bool + use<> {
        let slice = self.slice;
        move |_, elapsed| elapsed >= slice
    }

    /// Bytes of the disk of which the records fill as much as they are to.
    fn space(&self) -> u64 {
        (self.live_bytes() as f64 / FILLED) as u64
    }

    /// Overwrites from which on cleaning is in its steady state: they fill the free space once, and
    /// replace all records once more.
    pub(super) fn steady_after(&self) -> u64 {
        (self.records as f64 * (1.0 / FILLED)) as u64
    }

    /// How the store is set up for it.
    pub fn options(&self) -> Options {
        // Those that are written, cleaned and in reserve are to be a small part of all; a record
        // takes an eighth of one at most.
        let small = (self.space() / 256).max(8 * self.record_bytes());
        self.options_with(small.next_power_of_two().clamp(1 << 20, 16 << 20))
    }

    /// The same with segments of so many bytes.
    pub(super) fn options_with(&self, segment_bytes: u64) -> Options {
        let options = Options {
            segment_bytes,
            ..Options::default()
        };
        let segments = self.space().div_ceil(options.segment_bytes).max(10);
        Options {
            durability: Durability::Interval(Duration::from_secs(1)),
            capacity: segments * options.segment_bytes,
            memory_bytes: self.memory_bytes - PROGRAM,
            cache_bytes: u64::MAX,
            index: IndexMemory::plain(self.index_map),
            ..options
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn setting(name: &str, records: u64, value_bytes: usize) -> Setting {
        let name = format!("timberline-store-{}-{name}", std::process::id());
        Setting {
            folder: std::env::temp_dir().join(name),
            records,
            value_bytes,
            memory_bytes: 1 << 30,
            index_map: IndexMap::default(),
            in_flight: 8,
            threads: 2,
            warm: 1_000,
            slice: Duration::from_millis(20),
            rounds: 1,
            seed: 1,
            files: None,
        }
    }

    #[test]
    fn segments_are_a_small_part_of_the_space() {
        for (records, value_bytes, segment) in [
            (3_000_000, 8, 1 << 20),
            (3_000_000, 300, 8 << 20),
            (5_000_000, 1_000, 16 << 20),
            (1_000, 1 << 20, 16 << 20),
        ] {
            let setting = setting("options", records, value_bytes);
            let options = setting.options();
            assert_eq!(options.segment_bytes, segment);
            let filled = setting.live_bytes() as f64 / options.capacity as f64;
            assert!((0.79..=FILLED).contains(&filled), "{filled}");
        }
    }
}

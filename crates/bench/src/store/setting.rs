//! What is to be run, and how the store is set up for it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timberline_io::Kind;
use timberline_store::{CacheMemory, Caching, Durability, IndexMap, IndexMemory, Options};

use super::as_text;
use super::record::Sizes;

/// Live bytes ÷ the space that segments may take.
const FILLED: f64 = 0.8;
/// Bytes of the program that are not the store's: its code, stacks, and what the bench keeps.
const PROGRAM: u64 = 24 << 20;
/// Bytes of a record beside key and value.
const RECORD: u64 = 24;

/// The fewest segments that are measured: with fewer, those that are written and cleaned would be
/// most of the space.
const LEAST_SEGMENTS: u64 = 10;
/// Segments beside those of the records: two that are written, two in reserve, and one to clean.
const MORE_SEGMENTS: u64 = 5;

/// What a store caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cached {
    /// Values.
    Values,
    /// Blocks of 4 KiB of its files.
    Blocks,
}

impl Cached {
    /// The same for a store that has it in this memory.
    pub(super) fn in_memory(self, memory: CacheMemory) -> Caching {
        match self {
            Cached::Values => Caching::ValuesIn(memory),
            Cached::Blocks => Caching::BlocksIn(memory),
        }
    }
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Where the store is made; removed at the end. Nothing may be there.
    pub folder: PathBuf,
    /// Records.
    pub records: u64,
    /// Bytes of a key, 8 to 128.
    pub key_bytes: usize,
    /// Bytes of a value, up to a mebibyte.
    pub value_bytes: usize,
    /// The most bytes of the store's segments; `None` is as much as the records fill to four
    /// fifths.
    pub capacity: Option<u64>,
    /// Whether the store is a cache, whose oldest records go when that is used up.
    pub evict: bool,
    /// What is cached.
    pub cached: Cached,
    /// Bytes of the cache at most; `None` is as much as the index leaves, and, of one in slow
    /// memory, a third of the records'.
    pub cache_bytes: Option<u64>,
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
    /// Bytes of a key, where none are given.
    pub const KEY_BYTES: usize = 16;

    /// The sizes of its records.
    pub(super) fn sizes(&self) -> Sizes {
        Sizes {
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
        }
    }

    /// Bytes of a record on the disk.
    pub(super) fn record_bytes(&self) -> u64 {
        (RECORD + (self.key_bytes + self.value_bytes) as u64).next_multiple_of(8)
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.records * self.record_bytes()
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// One line: keys that are too short or too long, too little memory or space, a folder that has
    /// something in it, or more threads than requests in flight.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=self.in_flight).contains(&self.threads) {
            return Err(format!(
                "{} threads for {} requests in flight: give from 1 to {}",
                self.threads, self.in_flight, self.in_flight
            ));
        }
        let keys = Sizes::KEYS;
        if !keys.contains(&self.key_bytes) {
            return Err(format!(
                "keys of {} bytes: give from {} to {}",
                self.key_bytes,
                keys.start(),
                keys.end()
            ));
        }
        let least = PROGRAM + Options::LEAST_MEMORY;
        if self.memory_bytes < least {
            return Err(format!(
                "{} bytes of memory: a store and this program take at least {least}",
                self.memory_bytes
            ));
        }
        self.check_space()?;
        match std::fs::read_dir(&self.folder).map(|mut it| it.next().is_none()) {
            Ok(false) => Err(format!(
                "{}: something is there; name a folder that is new or empty",
                self.folder.display()
            )),
            _ => Ok(()),
        }
    }

    fn check_space(&self) -> Result<(), String> {
        let (given, least) = match self.capacity {
            Some(capacity) => {
                let segment = self.segment_bytes().max(self.segment_bytes_in_turns());
                (capacity, self.least_space(segment))
            }
            None => return Ok(()),
        };
        if given >= least {
            return Ok(());
        }
        let or = match self.evict {
            true => "",
            false => ", or have the oldest go (--evict)",
        };
        Err(format!(
            "a capacity of {given} bytes: these records are measured with at least {least}{or}"
        ))
    }

    /// The least space for a run, in segments of so many bytes. A cache needs none for all records.
    fn least_space(&self, segment_bytes: u64) -> u64 {
        let live = self.live_bytes().div_ceil(segment_bytes) + MORE_SEGMENTS;
        let segments = match self.evict {
            true => LEAST_SEGMENTS,
            false => live.max(LEAST_SEGMENTS),
        };
        segments * segment_bytes
    }

    /// Whether requests that go on for so long are enough.
    pub(super) fn for_a_slice(&self) -> impl FnMut(u64, Duration) -> bool + use<> {
        let slice = self.slice;
        move |_, elapsed| elapsed >= slice
    }

    /// Bytes of the disk that segments may take.
    fn space(&self) -> u64 {
        let usual = (self.live_bytes() as f64 / FILLED) as u64;
        self.capacity.unwrap_or(usual)
    }

    /// Overwrites from which on cleaning is in its steady state: they fill the free space once, and
    /// replace all records once more.
    pub(super) fn steady_after(&self) -> u64 {
        self.space() / self.record_bytes()
    }

    /// Bytes of a segment.
    fn segment_bytes(&self) -> u64 {
        // Those that are written, cleaned and in reserve are to be a small part of all; a record
        // takes an eighth of one at most.
        let small = (self.space() / 256).max(8 * self.record_bytes());
        small.next_power_of_two().clamp(1 << 20, 16 << 20)
    }

    /// The same where several stores take turns.
    pub(super) fn segment_bytes_in_turns(&self) -> u64 {
        (8 * self.record_bytes()).next_multiple_of(2 << 20)
    }

    /// How the store is set up for it.
    pub fn options(&self) -> Options {
        self.options_with(self.segment_bytes())
    }

    /// The same with segments of so many bytes.
    pub(super) fn options_with(&self, segment_bytes: u64) -> Options {
        let options = Options {
            segment_bytes,
            ..Options::default()
        };
        let space = self.space().max(self.least_space(segment_bytes));
        let segments = match self.capacity {
            Some(_) => space / segment_bytes,
            None => space.div_ceil(segment_bytes),
        };
        Options {
            durability: Durability::Interval(Duration::from_secs(1)),
            capacity: segments * segment_bytes,
            memory_bytes: self.memory_bytes - PROGRAM,
            evict: self.evict,
            cache_bytes: self.cache_bytes.unwrap_or(u64::MAX),
            caching: match self.cached {
                Cached::Values => Caching::Values,
                Cached::Blocks => Caching::BlocksIn(CacheMemory::default()),
            },
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
            key_bytes: Setting::KEY_BYTES,
            value_bytes,
            capacity: None,
            evict: false,
            cached: Cached::Values,
            cache_bytes: None,
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
    #[test]
    fn what_can_not_be_run_is_named() {
        let usual = setting("check", 20_000, 100);
        let refused = |setting: Setting| setting.check().unwrap_err();
        for key_bytes in [7, 129] {
            let line = refused(Setting {
                key_bytes,
                ..usual.clone()
            });
            assert!(line.contains("give from 8 to 128"), "{line}");
        }
        let with = |capacity: u64, evict| Setting {
            capacity: Some(capacity),
            evict,
            ..usual.clone()
        };
        let line = refused(with(1 << 20, true));
        assert!(line.contains("at least 20971520"), "{line}");
        let large = setting("check", 200_000, 100);
        let capacity = Some(large.live_bytes());
        let line = refused(Setting {
            capacity,
            ..large.clone()
        });
        assert!(line.contains("or have the oldest go"), "{line}");
        let evict = Setting {
            capacity,
            evict: true,
            ..large
        };
        assert_eq!(evict.check(), Ok(()));
        assert!(evict.options().capacity <= evict.live_bytes());
    }
}

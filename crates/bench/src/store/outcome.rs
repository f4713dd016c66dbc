//! What was measured of a store.

use serde::{Deserialize, Serialize};
use timberline_tier::emulator::LineCounts;

use super::Rounds;
use super::process::Usage;

/// All that was measured, in the order of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// How the disk is read and written.
    pub disk: String,
    /// Each kind of request.
    pub rows: Vec<Row>,
    /// What else was measured.
    pub figures: Vec<Figure>,
}

/// Requests of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// What they are.
    pub name: String,
    /// Requests a second.
    pub per_s: Rounds,
    /// Processor time of one, of all threads, in microseconds.
    pub core_us: Rounds,
    /// Time that 99 % of them took at most, in microseconds.
    pub p99_us: Rounds,
    /// Bytes read from the disk for one.
    pub read_bytes: Rounds,
    /// Bytes written to the disk for one.
    pub written_bytes: Rounds,
}

impl Row {
    pub(super) fn new<'a>(name: &str, all: impl IntoIterator<Item = &'a Measured>) -> Row {
        let all: Vec<_> = all.into_iter().collect();
        let of = |figure: fn(&Measured) -> f64| {
            let values: Vec<_> = all.iter().map(|it| figure(it)).collect();
            Rounds::new(&values)
        };
        Row {
            name: name.into(),
            per_s: of(|it| it.per_s),
            core_us: of(|it| it.of_each(it.usage.cpu.as_secs_f64() * 1e6)),
            p99_us: of(|it| it.p99_us),
            read_bytes: of(|it| it.of_each(it.usage.read_bytes as f64)),
            written_bytes: of(|it| it.of_each(it.usage.written_bytes as f64)),
        }
    }
}

/// Anything else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// What it is, and its unit.
    pub name: String,
    /// Its values.
    pub values: Rounds,
}

/// What one slice had.
pub(super) struct Measured {
    pub done: u64,
    pub per_s: f64,
    pub usage: Usage,
    pub p50_us: f64,
    pub p99_us: f64,
    /// The part of the gets that found a record: less than 1 in a cache.
    pub found_part: f64,
    /// What the emulator charged for them.
    pub lines: LineCounts,
}

impl Measured {
    pub fn of_each(&self, all: f64) -> f64 {
        all / self.done as f64
    }
}

//! What is known of a run now, and what a snapshot says of it.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::row::Row;
use crate::report::Sample;
use crate::report::progress::{Levels, Turn};

/// Everything the page shows, under the names its script reads.
#[derive(Default, Serialize)]
pub struct State {
    /// Rises with every change.
    version: u64,
    /// What the run is doing.
    phase: String,
    /// How much of it is done, of `total` where that is known.
    done: u64,
    total: Option<u64>,
    /// Whether the run is over.
    over: bool,
    /// The map and workload that the rows are of, and whether slow memory is emulated.
    index: String,
    workload: String,
    emulated: bool,
    /// The row that has its turn, or had the last one.
    turn: Option<usize>,
    /// Whether that turn goes on.
    running: bool,
    /// The maps, in the order of their first turns.
    rows: Vec<Row>,
}

impl State {
    /// All of it, as JSON.
    pub fn snapshot(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts")
    }

    pub fn phase(&mut self, name: &str, total: Option<u64>) {
        self.version += 1;
        self.phase = name.into();
        self.done = 0;
        self.total = total;
        self.over = false;
    }

    pub fn advance(&mut self, done: u64) {
        self.version += 1;
        self.done = done;
    }

    pub fn finish(&mut self) {
        self.version += 1;
        self.running = false;
        self.over = true;
    }

    pub fn turn_begins(&mut self, turn: &Turn<'_>) {
        self.version += 1;
        let (index, placement) = (turn.map.index(), turn.map.placement());
        if (self.index.as_str(), self.workload.as_str()) != (index, turn.workload) {
            self.index = index.into();
            self.workload = turn.workload.into();
            self.rows.clear();
        }
        self.emulated = turn.map.is_emulated();
        let known = self.rows.iter().position(|row| row.is_of(placement));
        let at = known.unwrap_or_else(|| {
            self.rows.push(Row::new(placement));
            self.rows.len() - 1
        });
        self.turn = Some(at);
        self.running = true;
        self.rows[at].turn_begins(turn);
    }

    pub fn turn_goes(&mut self, turn: &Turn<'_>, sample: &Sample) {
        self.version += 1;
        if let Some(row) = self.row() {
            row.turn_goes(turn, sample);
        }
    }

    pub fn turn_ends(&mut self, turn: &Turn<'_>, latencies: &Histogram<u64>) {
        self.version += 1;
        if let Some(row) = self.row() {
            row.turn_ends(turn, latencies);
        }
        self.running = false;
    }

    /// Whether it is worth its time to count the nodes of the map that has, or had the last turn.
    pub fn wants_levels(&mut self, is_running: bool) -> bool {
        self.row().is_some_and(|row| row.wants_levels(is_running))
    }

    /// The nodes by level, counted in so much time.
    pub fn set_levels(&mut self, levels: Option<Levels>, took: Duration) {
        self.version += 1;
        if let Some(row) = self.row() {
            row.set_levels(levels, took);
        }
    }

    fn row(&mut self) -> Option<&mut Row> {
        self.rows.get_mut(self.turn?)
    }
}

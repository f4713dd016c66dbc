//! The current state of a run, and its snapshot.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::row::Row;
use crate::report::Sample;
use crate::report::progress::{Levels, Turn};

/// Everything that the page shows, under the names that its script reads.
#[derive(Default, Serialize)]
pub struct State {
    /// Grows with each change.
    version: u64,
    /// The current phase.
    phase: String,
    /// Progress of the phase, and its total if known.
    done: u64,
    total: Option<u64>,
    /// Whether the run has ended.
    over: bool,
    /// Map and workload of the rows, and whether slow memory is emulated.
    index: String,
    workload: String,
    emulated: bool,
    /// The row of the current or last turn.
    turn: Option<usize>,
    /// Whether that turn is running.
    running: bool,
    /// The maps, in the order of their first turns.
    rows: Vec<Row>,
}

impl State {
    /// The state as JSON.
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

    /// Whether to count the nodes of the map of the current or last turn.
    pub fn wants_levels(&mut self, is_running: bool) -> bool {
        self.row().is_some_and(|row| row.wants_levels(is_running))
    }

    /// The nodes by level, and the time the count took.
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

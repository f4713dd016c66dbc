//! One map in the live state: its latest figures, the samples of the last half minute, its levels
//! and its heat.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Value, json};

use crate::report::progress::{Levels, MemoryUse, Turn};
use crate::report::{LevelFill, Sample, percentiles};

/// Retained samples: at ten a second, half a minute of turns.
const SAMPLES: usize = 300;

/// Tree walks take at most one part in this many of the time.
const WALK_SHARE: u32 = 20;
/// While requests run, only walks shorter than this are made, and…
const MAX_WALK: Duration = Duration::from_millis(1);
/// …no more often than this.
const MIN_WALK_INTERVAL: Duration = Duration::from_secs(1);

/// A map in the live state; see the [module](self).
#[derive(Serialize)]
pub struct Row {
    placement: &'static str,
    /// Whether its current or last turn is measured.
    measured: bool,
    /// Turns begun.
    turns: u32,
    /// Total length of its earlier turns, s.
    #[serde(skip)]
    before: f64,
    /// Start of the current turn.
    #[serde(skip)]
    began: Instant,
    /// The latest samples; their time counts only this map's turns.
    samples: VecDeque<Sample>,
    memory: MemoryUse,
    /// The [`percentiles`] of its last finished turn.
    latencies_ns: Option<[u64; 4]>,
    /// `None` if pages are placed, or before the first count.
    levels: Option<Vec<LevelFill>>,
    above_boundary: u64,
    /// Bytes in the fast tier for copies of records.
    copies_bytes: u64,
    /// The state of its placement ([`View`](timberline_placement::View)).
    heat: Option<Value>,
    /// Time of the last walk, and the longest duration of one.
    #[serde(skip)]
    walked: Option<(Instant, Duration)>,
}

impl Row {
    pub fn new(placement: &'static str) -> Self {
        Row {
            placement,
            measured: false,
            turns: 0,
            before: 0.0,
            began: Instant::now(),
            samples: VecDeque::new(),
            memory: MemoryUse::default(),
            latencies_ns: None,
            levels: None,
            above_boundary: 0,
            copies_bytes: 0,
            heat: None,
            walked: None,
        }
    }

    pub fn is_of(&self, placement: &str) -> bool {
        self.placement == placement
    }

    pub fn turn_begins(&mut self, turn: &Turn<'_>) {
        self.measured = turn.measured;
        self.turns += 1;
        self.began = Instant::now();
        self.look(turn);
    }

    pub fn turn_goes(&mut self, turn: &Turn<'_>, sample: &Sample) {
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample {
            at_s: self.before + self.began.elapsed().as_secs_f64(),
            ..*sample
        });
        self.look(turn);
    }

    pub fn turn_ends(&mut self, turn: &Turn<'_>, latencies: &Histogram<u64>) {
        self.before += self.began.elapsed().as_secs_f64();
        self.latencies_ns = (!latencies.is_empty()).then(|| percentiles(latencies));
        self.look(turn);
    }

    /// Whether a tree walk is due and cheap enough.
    pub fn wants_levels(&self, is_running: bool) -> bool {
        let Some((when, took)) = self.walked else {
            return !is_running;
        };
        let rested = when.elapsed();
        match is_running {
            true => took < MAX_WALK && rested >= MIN_WALK_INTERVAL,
            false => rested >= took * WALK_SHARE,
        }
    }

    pub fn set_levels(&mut self, levels: Option<Levels>, took: Duration) {
        let longest = self.walked.map_or(took, |(_, longest)| longest.max(took));
        self.walked = Some((Instant::now(), longest));
        self.above_boundary = levels.as_ref().map_or(0, |it| it.above_boundary);
        self.copies_bytes = levels.as_ref().map_or(0, |it| it.copies_bytes);
        self.levels = levels.map(|it| it.fills);
    }

    /// Updates the figures that are cheap to read.
    fn look(&mut self, turn: &Turn<'_>) {
        self.memory = turn.map.memory();
        self.heat = turn.map.view().map(|view| {
            json!({
                "unit": view.unit,
                "bins": view.bins,
                "counts": view.counts,
                "thresholds": view.thresholds,
                "watermarks": view.watermarks,
                "figures": view.figures,
            })
        });
    }
}

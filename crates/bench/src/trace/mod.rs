//! Recorded requests, replayed: what a real disk, cache or crawler was asked for.
//!
//! A [`Trace`] is read whole before a run: the keys to load, and the requests in the order of the
//! file. Where the trace says when its requests were made, they can be made again at these times
//! ([`Timed`]); else they follow one another as fast as the map answers.
//!
//! Invariants: every request's key is among the trace's keys, so a replay finds everything it asks
//! for; the keys are sorted and distinct; what is malformed is one [`TraceError`] of one line,
//! never a panic, and never a guess about what was meant.

mod csv;
mod error;
mod format;
mod lines;
mod raw;
mod replay;
mod requests;
#[cfg(test)]
mod sample;
mod source;
mod timed;

use std::path::Path;

pub use csv::CsvColumns;
pub use error::TraceError;
pub use format::TraceFormat;
pub use replay::{Replay, Split};

pub use timed::Timed;

use requests::Requests;
use source::Source;

/// A trace in memory: about 8 bytes a request, and 8 a distinct key.
#[derive(Clone, Debug)]
pub struct Trace {
    keys: Vec<u64>,
    requests: Requests,
}

impl Trace {
    /// Reads the trace at `path`, written as `format` says in words; where nothing is given, the
    /// file's name tells.
    ///
    /// # Errors
    ///
    /// The format is unknown, or as for [`Trace::open`].
    pub fn open_as(path: &Path, format: Option<&str>) -> Result<Trace, TraceError> {
        let format = match format {
            Some(text) => TraceFormat::parse(text),
            None => TraceFormat::guess(path),
        };
        Trace::open(path, &format?)
    }

    /// Reads the trace at `path`, plain or compressed with xz.
    ///
    /// # Errors
    ///
    /// The file cannot be read or decompressed, is not in this format, or holds no request.
    pub fn open(path: &Path, format: &TraceFormat) -> Result<Trace, TraceError> {
        let mut source = Source::open(path)?;
        let requests = match format {
            TraceFormat::Csv { columns, writes } => csv::read(&mut source, columns, *writes),
            TraceFormat::U32 { writes } => raw::read(&mut source, u32::from_le_bytes, *writes),
            TraceFormat::U64 { writes } => raw::read(&mut source, u64::from_le_bytes, *writes),
            TraceFormat::Lines { writes } => lines::read(&mut source, *writes),
        }?;
        if requests.len() == 0 {
            return Err(source.error("holds no request"));
        }
        let mut keys = requests.keys().to_vec();
        keys.sort_unstable();
        keys.dedup();
        Ok(Trace { keys, requests })
    }

    /// The distinct keys, in order: what has to be in the map before a replay.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// How many requests there are; at least one.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a trace without requests is an error"
    )]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// How many of the requests write.
    pub fn writes(&self) -> usize {
        self.requests.writes()
    }

    /// From the first request to the last, ns, if the trace says when they were made.
    pub fn span_ns(&self) -> Option<u64> {
        self.requests.time(self.len() - 1)
    }

    /// How many requests there are for each of [`Trace::keys`].
    pub fn frequencies(&self) -> Vec<f32> {
        let mut counts = vec![0u32; self.keys.len()];
        for key in self.requests.keys() {
            // Each is there.
            counts[self.keys.partition_point(|it| it < key)] += 1;
        }
        counts.into_iter().map(|count| count as f32).collect()
    }

    /// The requests of `thread`, one of `threads`, over and over, at the times at which the trace
    /// made them, `speed` times as fast. `None` where the trace does not say.
    ///
    /// # Panics
    ///
    /// If `thread` is not below `threads`.
    pub fn timed(&self, thread: usize, threads: usize, speed: f64) -> Option<Timed<'_>> {
        let span = self.span_ns()?;
        let replay = self.replay(thread, threads, Split::RoundRobin);
        Some(Timed::new(replay, span, self.len(), speed))
    }

    /// The requests of `thread`, one of `threads`; the threads together make each request once.
    ///
    /// # Panics
    ///
    /// If `thread` is not below `threads`.
    pub fn replay(&self, thread: usize, threads: usize, split: Split) -> Replay<'_> {
        Replay::new(&self.requests, thread, threads, split)
    }
}

#[cfg(test)]
mod real_inputs;

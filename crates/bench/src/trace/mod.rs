//! Traces: recorded requests to a real disk, cache or crawler, for replay.
//!
//! A [`Trace`] is read completely before a run: the keys to load, and the requests in file order.
//! Timestamped traces can be replayed on schedule ([`Timed`]); others are replayed as fast as the
//! map answers.
//!
//! Invariants: every request's key is among the trace's keys, so a replay finds all records; the
//! keys are sorted and distinct; malformed input gives one [`TraceError`] of one line, never a
//! panic and never a guess.

mod csv;
mod error;
mod format;
mod lines;
mod raw;
mod replay;
mod requests;
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
    /// Reads the trace at `path` in the format that `format` names; without one, the file's name
    /// tells it.
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

    /// The distinct keys, in order: load them before a replay.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// The number of requests; at least one.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a trace without requests is an error"
    )]
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn writes(&self) -> usize {
        self.requests.writes()
    }

    /// Time from the first request to the last, ns, if the trace has timestamps.
    pub fn span_ns(&self) -> Option<u64> {
        self.requests.time(self.len() - 1)
    }

    /// The number of requests for each of [`Trace::keys`].
    pub fn frequencies(&self) -> Vec<f32> {
        let mut counts = vec![0u32; self.keys.len()];
        for key in self.requests.keys() {
            // All requests' keys are in the list.
            counts[self.keys.partition_point(|it| it < key)] += 1;
        }
        counts.into_iter().map(|count| count as f32).collect()
    }

    /// The requests of `thread`, one of `threads`, repeated on the trace's schedule at `speed`
    /// times its speed. `None` if the trace has no timestamps.
    ///
    /// # Panics
    ///
    /// If `thread` is not below `threads`.
    pub fn timed(&self, thread: usize, threads: usize, speed: f64) -> Option<Timed<'_>> {
        let span = self.span_ns()?;
        let replay = self.replay(thread, threads, Split::RoundRobin);
        Some(Timed::new(replay, span, self.len(), speed))
    }

    /// The requests of `thread`, one of `threads`; together the threads make each request once.
    ///
    /// # Panics
    ///
    /// If `thread` is not below `threads`.
    pub fn replay(&self, thread: usize, threads: usize, split: Split) -> Replay<'_> {
        Replay::new(&self.requests, thread, threads, split)
    }
}

#[cfg(test)]
mod tests {
    mod real_inputs;
    pub mod sample;
}
